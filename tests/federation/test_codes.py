"""Every code of a report is explained, in the code and on the page for operators."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import fedcof
from fedcof.federation import faults
from fedcof.federation.codes import CODES, in_words
from fedcof.federation.report import CollectionReport

SOURCES = sorted(Path(fedcof.__file__).parent.rglob("*.py"))
PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
OUTSIDE = {"advice.py", "comparison.py", "site_heads.py", "withdrawal.py", "scatter.py", "scale"}
"""Files, and a folder, that raise what no report has."""


def codes_in(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "SummaryError":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant):
                yield first.value


def test_every_code_that_a_summary_is_refused_with_is_explained():
    raised = {code for path in SOURCES if OUTSIDE.isdisjoint(path.parts) for code in codes_in(path)}
    assert raised | {"raised", "unclear", "too-large"} <= CODES.keys(), (
        "say in federation/codes.py what a new code means, and in docs/operating.md"
    )


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_page_for_operators_has_every_code(code):
    meaning, to_do = CODES[code]
    assert f"| `{code}` | {meaning} | {to_do} |" in PAGE


def test_the_page_for_operators_has_every_key_of_the_report():
    keys = {item.name for item in fields(CollectionReport)}
    assert {key for key in keys if f"`{key}`" not in PAGE} == set()


def test_the_page_for_operators_has_the_reasons():
    reasons = {*faults._FAULTS.values(), "has not named its clients in time", "malformed answer"}
    collecting = Path(fedcof.__file__).parent / "federation" / "collecting.py"
    reasons |= set(re.findall(r'reason = "([^"]+)"', collecting.read_text(encoding="utf-8")))
    assert {reason for reason in reasons if reason not in PAGE} == set()


def test_a_reason_without_a_code_has_no_words():
    assert in_words("shape: the array has two axes").startswith("arrays whose lengths")
    assert in_words("raised:ValueError (at the client)").startswith("an error in the site's own")
    assert in_words("it went offline") == ""
