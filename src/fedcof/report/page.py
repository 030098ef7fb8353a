"""Results of experiments as one page that needs nothing else, and as files for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedcof.errors import NoResultsError
from fedcof.experiments import EXPERIMENTS, Experiment, Results, Row, Skipped, partition_name
from fedcof.experiments.results import Histogram
from fedcof.report.drawings import Drawing, draw
from fedcof.report.figures import SERIES, class_histograms
from fedcof.report.latex import as_latex
from fedcof.report.svg import inline_svg
from fedcof.report.tables import Table, tabulate, words

DARK = ("#5fb3e8", "#ff9a4d", "#3ecf9d", "#e08fd8", "#d6b84a", "#a3a6ff", "#8fd0f5", "#ff86b0")
"""The figures' colours on a dark ground, in the order of `SERIES`."""


@dataclass(frozen=True)
class Section:
    """One experiment on the page."""

    experiment: Experiment
    table: Table | None
    drawings: list[Drawing]
    skipped: list[Skipped]
    figures: list[dict[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        short = self.experiment.short_rounds
        return self.name if short is None else f"{self.name}-rounds-{short}"

    @property
    def title(self) -> str:
        """What the experiment shows."""
        return self.experiment.title

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know."""
        return self.experiment.notes

    @property
    def command(self) -> str:
        """What was run, for the data sets and backbones that are there."""
        words = ["fedcof reproduce", self.name]
        for option in ("dataset", "backbone"):
            found = {line.setting[option] for line in self.table.lines} if self.table else set()
            if len(found) == 1:
                words.append(f"--{option} {found.pop()}")
        if self.experiment.short_rounds is not None:
            words.append(f"--rounds {self.experiment.short_rounds}")
        return " ".join(words)

    @property
    def ours(self) -> set[int]:
        """The positions of the columns that hold our numbers."""
        assert self.table is not None
        position, found = len(self.table.columns), set()
        for metric in self.table.metrics:
            found.add(position)
            position += 3 if metric in self.table.with_paper else 1
        return found


def sections(folders: Sequence[Path]) -> tuple[list[Section], list[Row]]:
    """Return the experiments of some runs' folders, in the order of the paper, and all rows.

    Raises
    ------
    NoResultsError
        If a folder holds none.
    """
    rows: dict[str, Row] = {}
    skipped: list[Skipped] = []
    histograms: dict[str, Histogram] = {}
    for folder in folders:
        if not (folder / "results.jsonl").exists():
            raise NoResultsError(
                f"{folder} has no results.jsonl; make one with: fedcof reproduce NAME --out "
                f"{folder}"
            )
        results = Results(folder)
        rows |= {row.key: row for row in results.rows()}
        skipped += results.skipped()
        histograms |= results.histograms()
    found = []
    for experiment in _experiments([*rows.values(), *skipped]):
        place = experiment.name, experiment.short_rounds
        rows_shown = [row for row in rows.values() if (row.experiment, row.short_rounds) == place]
        not_run = [entry for entry in skipped if (entry.experiment, entry.short_rounds) == place]
        table = tabulate(experiment, rows_shown) if rows_shown else None
        drawings = draw(experiment, table) if table else []
        drawings += _client_drawings(rows_shown, histograms)
        found.append(Section(experiment, table, drawings, list(dict.fromkeys(not_run))))
    return found, list(rows.values())


def _experiments(entries: Sequence[Row | Skipped]) -> list[Experiment]:
    """Return the experiments that rows or skipped settings are of, the short runs last."""
    present = {(entry.experiment, entry.short_rounds) for entry in entries}
    whole = [experiment for name, experiment in EXPERIMENTS.items() if (name, None) in present]
    short = sorted((name, rounds) for name, rounds in present if rounds and name in EXPERIMENTS)
    return whole + [EXPERIMENTS[name].shortened(rounds) for name, rounds in short]


def _client_drawings(rows: Sequence[Row], histograms: dict[str, Histogram]) -> list[Drawing]:
    """Draw who holds what in an experiment's first partition that was not drawn before."""
    for row in rows:
        counts = histograms.pop(partition_name(row.setting), None)
        clients = row.measured["clients_seen"]
        if counts and clients > 1:
            classes = 1 + max(int(label) for held in counts.values() for label in held)
            figure = class_histograms(counts, classes)
            shown = f"the first {len(counts)} clients" if len(counts) < clients else "the clients"
            columns = ("dataset", "clients", "alpha")
            place = ", ".join(filter(None, (words(column, row.setting) for column in columns)))
            return [Drawing(figure, f"What {shown} hold: {place}, seed 0.")]
    return []


def render(folders: Sequence[Path], title: str) -> str:
    """Return the page.

    Raises
    ------
    NoResultsError
        If a folder holds no results.
    """
    found, rows = sections(folders)
    for section in found:
        for number, drawing in enumerate(section.drawings):
            svg = inline_svg(drawing.figure, f"{section.anchor}-{number}", drawing.caption)
            section.figures.append({"svg": svg, "caption": drawing.caption})
    versions = {
        ", ".join(f"{name} {v}" for name, v in row.measured["versions"].items()) for row in rows
    }
    environment = Environment(
        loader=PackageLoader("fedcof.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        title=title,
        sections=found,
        rows=len(rows),
        versions=sorted(versions),
        light=SERIES,
        dark=DARK,
    )


def write_for_paper(folders: Sequence[Path], target: Path) -> list[Path]:
    """Write every figure as PDF and every table as LaTeX, and return the files.

    Short runs are left out: nothing in them is for a paper.

    Raises
    ------
    NoResultsError
        If a folder holds no results.
    """
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for section in sections(folders)[0]:
        if section.experiment.short_rounds is not None:
            continue
        if section.table is not None:
            path = target / f"{section.name}.tex"
            path.write_text(as_latex(section.experiment, section.table), encoding="utf-8")
            written.append(path)
        for number, drawing in enumerate(section.drawings):
            path = target / f"{section.name}-{number}.pdf"
            drawing.figure.savefig(path, metadata={"CreationDate": None})
            written.append(path)
    return written
