"""The code uses Flower by its public modules only, so that its next versions are welcome."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = {"app", "clientapp", "serverapp", "simulation"}
FILES = [p for folder in ("src", "tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
ONLY_IMPORTER = ROOT / "src" / "fedcof" / "federation"


def modules_of_flower(text):
    """The modules of flwr that a file imports anywhere, also within strings of code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] == "flwr")
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
            yield node.module
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            try:
                yield from modules_of_flower(node.value)
            except SyntaxError:
                continue


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_module_of_flower_is_imported(path):
    for module in modules_of_flower(path.read_text()):
        assert set(module.split(".")[1:2]) & PUBLIC, f"{path}: {module}"


def test_federation_alone_imports_flower():
    importers = {p for p in (ROOT / "src").rglob("*.py") if list(modules_of_flower(p.read_text()))}
    assert importers
    assert all(ONLY_IMPORTER in path.parents for path in importers)


def test_an_import_is_found_wherever_it_stands():
    code = "import sys\nfrom flwr.app import Message\n"
    text = f"def f():\n    import flwr.supercore.x\n\nCODE = {code!r}"
    assert set(modules_of_flower(text)) == {"flwr.supercore.x", "flwr.app"}
    assert list(modules_of_flower("import flwrx\nfrom . import flwr\n")) == []
