"""The wheel holds what the package needs besides its modules."""

import subprocess
import sys
import zipfile

import pytest

from pages import ROOT

pytestmark = pytest.mark.slow

DATA = {
    "fedcof/data/fashion_mnist/LICENSE",
    "fedcof/data/fashion_mnist/t10k-images-idx3-ubyte.gz",
    "fedcof/data/fashion_mnist/t10k-labels-idx1-ubyte.gz",
    "fedcof/federation/app/README.md",
    "fedcof/federation/app/deploy_loopback.py",
    "fedcof/federation/app/pyproject.toml",
    "fedcof/py.typed",
    "fedcof/report/page.html.j2",
}


def test_the_wheel_has_the_app_the_template_the_images_and_the_types(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", tmp_path]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("fedcof-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= DATA
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert names >= sources
    assert any(name.endswith("licenses/THIRD_PARTY.md") for name in names)
    assert not [name for name in names if "__pycache__" in name]
