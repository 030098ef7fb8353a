"""What folders of runs hold, experiment by experiment: the content of a report in any form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcof.errors import NoResultsError
from fedcof.experiments import EXPERIMENTS, Experiment, Results, Row, Skipped, partition_name
from fedcof.experiments.results import Histogram
from fedcof.report.drawings import Drawing, draw, draw_clients
from fedcof.report.names import dataset_title, is_own, place
from fedcof.report.sheets import Sheet, sheets
from fedcof.report.tables import Table, by_place, tabulate


@dataclass(frozen=True)
class Block:
    """The sheets of one experiment on one data set under one backbone."""

    command: str
    """What makes them."""
    sheets: list[Sheet]
    findings: Sequence[str]
    """What they say."""
    own: bool
    """Whether the data set is the user's own."""


@dataclass(frozen=True)
class Section:
    """One experiment: its tables, its figures, and what was not run."""

    experiment: Experiment
    blocks: list[Block]
    drawings: list[Drawing]
    skipped: list[Skipped]

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    @property
    def anchor(self) -> str:
        """Its place on a page."""
        short = self.experiment.short_rounds
        return self.name if short is None else f"{self.name}-rounds-{short}"

    @property
    def title(self) -> str:
        """What the experiment shows."""
        return self.experiment.title

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the paper has to know; nothing of it is of one's own data."""
        own = [block.own for block in self.blocks]
        return () if own and all(own) else self.experiment.notes


@dataclass(frozen=True)
class Report:
    """Everything that some folders of runs hold.

    Parameters
    ----------
    sections : list of Section
        In the order of the paper, the short runs last.
    rows : list of Row
        All of them.
    """

    sections: list[Section]
    rows: list[Row]

    @property
    def title(self) -> str:
        """What the report is of: the paper, or the user's own data."""
        datasets = dict.fromkeys(row.setting["dataset"] for row in self.rows)
        own = [dataset_title(name) for name in datasets if is_own(name)]
        if not own or len(own) < len(datasets):
            return "FedCOF, reproduced"
        return f"FedCOF on {', '.join(dict.fromkeys(own))}"

    @property
    def introduction(self) -> str:
        """How to read the numbers."""
        said = []
        if any(sheet.with_paper for sheet in self._sheets):
            said.append(
                "Our numbers beside those of “Covariances for Free” (FedCOF); a dash stands where "
                "the paper has no number for a row."
            )
        if len({row.seed for row in self.rows}) > 1:
            said.append("Ours are means over seeds ± one sample standard deviation.")
        return " ".join([*said, "Sent is what all clients send together. γ is the shrinkage."])

    @property
    def versions(self) -> list[str]:
        """The versions of the packages that the runs were made with."""
        return sorted(
            {
                ", ".join(f"{name} {version}" for name, version in row.measured["versions"].items())
                for row in self.rows
            }
        )

    @property
    def _sheets(self) -> list[Sheet]:
        blocks = [block for section in self.sections for block in section.blocks]
        return [sheet for block in blocks for sheet in block.sheets]


def gather(folders: Sequence[Path]) -> Report:
    """Return the report of some folders of runs.

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
        which = experiment.name, experiment.short_rounds
        rows_shown = [row for row in rows.values() if (row.experiment, row.short_rounds) == which]
        not_run = [entry for entry in skipped if (entry.experiment, entry.short_rounds) == which]
        drawings = draw(experiment, tabulate(experiment, rows_shown)) if rows_shown else []
        drawings += _client_drawings(rows_shown, histograms)
        blocks = [_block(experiment, table) for table in by_place(experiment, rows_shown)]
        found.append(Section(experiment, blocks, drawings, list(dict.fromkeys(not_run))))
    return Report(found, list(rows.values()))


def _experiments(entries: Sequence[Row | Skipped]) -> list[Experiment]:
    """Return the experiments that rows or skipped settings are of, the short runs last."""
    present = {(entry.experiment, entry.short_rounds) for entry in entries}
    whole = [experiment for name, experiment in EXPERIMENTS.items() if (name, None) in present]
    short = sorted((name, rounds) for name, rounds in present if rounds and name in EXPERIMENTS)
    return whole + [EXPERIMENTS[name].shortened(rounds) for name, rounds in short]


def _block(experiment: Experiment, table: Table) -> Block:
    setting = table.lines[0].setting
    dataset, backbone = setting["dataset"], setting["backbone"]
    words = [f"fedcof reproduce {experiment.name} --dataset {dataset}"]
    if backbone:
        words.append(f"--backbone {backbone}")
    if not is_own(dataset):
        words.append("--data DATA")
    if experiment.short_rounds is not None:
        words.append(f"--rounds {experiment.short_rounds}")
    findings = experiment.findings.get((dataset, backbone), ())
    return Block(" ".join(words), list(sheets(experiment, table)), findings, is_own(dataset))


def _client_drawings(rows: Sequence[Row], histograms: dict[str, Histogram]) -> list[Drawing]:
    """Draw who holds what in an experiment's first partition that was not drawn before."""
    for row in rows:
        counts = histograms.pop(partition_name(row.setting), None)
        clients = row.measured["clients_seen"]
        if counts and clients > 1:
            shown = f"the first {len(counts)} clients" if len(counts) < clients else "the clients"
            where = place(("dataset", "clients", "alpha"), row.setting)
            return [draw_clients(counts, f"{shown} of {where}")]
    return []
