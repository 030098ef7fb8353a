"""Every test file collects where only the core is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COLLECT = """
import sys
import pytest

EXTRAS = {"datasets", "flwr", "onnxscript", "pyarrow", "pydicom", "ray", "skimage", "tensorboard",
          "torch", "transformers"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]))
"""


@pytest.mark.slow
def test_test_files_collect_without_the_extras():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-c", COLLECT],
        cwd=Path(__file__).parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
