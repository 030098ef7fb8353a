"""The Python in the README and in the guides is typed as a strict reader would have it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROLOGUE = """\
from typing import Any

import fedcof
import numpy as np
from fedcof.summaries import ClassMeans
from numpy.typing import NDArray

X: NDArray[np.float32]
X_test: NDArray[np.float32]
y: NDArray[np.int64]
y_test: NDArray[np.int64]
site_of_each_sample: NDArray[np.str_]
summaries: list[ClassMeans]
"""
"""What the text around the examples has given already."""


def examples():
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
            yield f"{page.stem}_{number}", code


@pytest.mark.slow
def test_examples_are_typed(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    pytest.importorskip("torch")
    names = dict(examples())
    assert "README_0" in names
    for name, code in names.items():
        (tmp_path / f"{name}.py").write_text(PROLOGUE + code)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    files = [str(tmp_path / f"{name}.py") for name in names]
    out, err, _ = api.run(["--strict", "--follow-imports=silent", *files])
    assert out.startswith("Success"), out + err
