"""What stands in several files of the project agrees."""

import re
import tomllib

import fedcof
from pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = {
    path: path.read_text(encoding="utf-8") for path in (ROOT / "src" / "fedcof").rglob("*.py")
}


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == fedcof.__version__


def test_every_extra_that_a_message_names_is_one():
    asked = set()
    for text in SOURCES.values():
        asked |= set(re.findall(r"install_line\([\"']([\w-]+)", text))
    assert {"data", "flower", "torch"} <= asked
    assert asked <= PROJECT["optional-dependencies"].keys()


def test_no_message_sends_to_an_index_what_came_from_elsewhere():
    wrong = [
        path.name
        for path, text in SOURCES.items()
        if path.name != "installation.py" and re.search(r"pip install ['\"]?fedcof", text)
    ]
    assert wrong == []


def test_the_dependencies_are_explained():
    explained = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = explained[explained.index("## Dependencies") :].lower()
    needed = PROJECT["dependencies"] + [
        entry
        for extra in ("data", "dicom", "docs", "flower", "metrics", "privacy", "torch")
        for entry in PROJECT["optional-dependencies"][extra]
    ]
    names = {re.match(r"[\w-]+", entry)[0].lower() for entry in needed} - {"fedcof"}
    assert [name for name in sorted(names) if name not in table] == []
