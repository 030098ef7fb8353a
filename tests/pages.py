"""The pages of the documentation as the tests take them: their blocks of code, in order.

A block of ``bash`` or ``python`` is run as it stands. One that cannot be run here stands below a
comment that says why, ``<!-- not run: REASON -->``.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"```(?P<language>bash|python)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of code: where it is, its language, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    code: str
    reason: str | None


def blocks(page):
    """Return the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("code")),
            found["language"],
            found["code"],
            found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]
