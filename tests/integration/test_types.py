"""All Python is typed as a strict reader would have it, that in the README and the guides, too."""

import os
import subprocess
import sys
import tomllib

import pytest

from pages import DOCS, PAGES, ROOT, blocks

pytestmark = pytest.mark.slow

GUIDES = [page for page in PAGES if page.parent != DOCS / "tutorials"]  # those are scripts


def test_code_and_examples_are_typed(tmp_path):
    """What `make lint` checks and the examples, by one process of its own: it takes 2 GB."""
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    for page in GUIDES:
        code = "\n".join(block.code for block in blocks(page) if block.language == "python")
        if code:
            (tmp_path / f"{page.stem.replace('-', '_')}_page.py").write_text(code)
    assert (tmp_path / "README_page.py").exists()
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *mypy["files"], *tmp_path.glob("*.py")],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
