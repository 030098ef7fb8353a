"""The Python in the README and the guides is typed as a strict reader would have it."""

import pytest

from pages import DOCS, PAGES, ROOT, blocks

GUIDES = [page for page in PAGES if page.parent != DOCS / "tutorials"]  # those are scripts


@pytest.mark.slow
def test_examples_are_typed(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    pytest.importorskip("torch")
    for page in GUIDES:
        code = "\n".join(block.code for block in blocks(page) if block.language == "python")
        if code:
            (tmp_path / f"{page.stem.replace('-', '_')}_page.py").write_text(code)
    assert (tmp_path / "README_page.py").exists()
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MYPYPATH", "src")
    # Strict by pyproject.toml: with options of its own mypy would check all of fedcof once more.
    out, err, _ = api.run([str(path) for path in tmp_path.glob("*.py")])
    assert out.startswith("Success"), out + err
