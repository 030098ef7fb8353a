"""A table for a paper, in LaTeX with booktabs."""

from __future__ import annotations

from fedcof.experiments import Experiment
from fedcof.report.tables import Table

_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "\N{MINUS SIGN}": "$-$",
    "α": r"$\alpha$",
    "γ": r"$\gamma$",
    "ε": r"$\epsilon$",
}


def as_latex(experiment: Experiment, table: Table) -> str:
    """Return a ``table`` environment with ours, the paper's and the difference."""
    titles = table.titles()
    alignment = "l" * len(table.columns) + "r" * (len(titles) - len(table.columns))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escape(experiment.title)} ({_escape(table.common)}).}}",
            rf"\label{{tab:ours-{experiment.name}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            _row(titles),
            r"\midrule",
            *(_row(table.cells(line)) for line in table.lines),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _row(cells: list[str]) -> str:
    return " & ".join(map(_escape, cells)) + r" \\"


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
