import inspect
import subprocess
import sys

import pytest

import fedcof


def test_every_public_name_is_there():
    assert all(hasattr(fedcof, name) for name in fedcof.__all__)


@pytest.mark.parametrize("name", fedcof.__all__)
def test_every_public_name_is_documented(name):
    value = getattr(fedcof, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value)


def test_importing_the_core_imports_no_heavy_package():
    heavy = ["torch", "flwr", "transformers", "datasets", "sklearn", "matplotlib", "onnx"]
    code = f"import sys, fedcof; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'FedAvg'"):
        fedcof.FedAvg  # noqa: B018
