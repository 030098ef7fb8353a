"""Every command of the README and the tutorials runs, in order, in a folder of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.slow

GUIDES = [
    DOCS / f"{name}.md" for name in ("after-the-head", "backbones", "how-it-works", "own-data")
]
RUN = [
    page
    for page in (ROOT / "README.md", *GUIDES, *sorted((DOCS / "tutorials").glob("*.md")))
    if blocks(page)
]
NEEDS = {"federation": "flwr", "after-the-head": "pandas"}
"""Of a page, the package of an extra."""


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_every_command_of_the_page_runs(page, tmp_path, monkeypatch):
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    for table in page.parent.glob("*.csv"):
        shutil.copy(table, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if block.reason is None:
            run(block, names)


def run(block, names):
    """Run a block; those of Python see the names of the ones before."""
    where = f"{block.page.name}, line {block.line}"
    if block.language == "python":
        exec(compile("\n" * block.line + block.code, block.page, "exec"), names)
    else:
        shell = ["bash", "-eu", "-o", "pipefail", "-c", block.code]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{where}:\n{block.code}\n{done.stdout}{done.stderr}"
