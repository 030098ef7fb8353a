"""``fedcof evaluate``: what a head gets right on labelled data."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from fedcof.commands.options import Given, out_folder, reading_settings, with_settings
from fedcof.commands.predict import BackboneName, HeadFile, scores_of
from fedcof.commands.shared import (
    EXIT_LEFT_OUT,
    Json,
    Row,
    errors_for_people,
    print_result,
    say,
    table_of,
)
from fedcof.errors import first_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedcof.evaluation import Evaluation, RejectionCurve

FigureFormat = Annotated[
    Literal["png", "svg", "pdf"], typer.Option("--figures", help="Format of the figures.")
]

_LARGEST_MATRIX = 12
"""Classes up to which the whole confusion matrix is printed."""
_SHOWN = 20
"""Lines of a longer table that are printed."""


@with_settings(reading=reading_settings)
def evaluate(
    head: HeadFile,
    source: Annotated[str, typer.Argument(help="A folder of images or a table, with labels.")],
    *,
    out: Annotated[Path | None, out_folder("all numbers as JSON and CSV, and the figures")] = None,
    figures: FigureFormat = "png",
    backbone: BackboneName = "",
    as_json: Json = False,
    reading: Given,
) -> None:
    """Show accuracy, the numbers of every class, and what is taken for what."""
    from fedcof.data import Reading, read
    from fedcof.evaluation import evaluate as evaluation_of
    from fedcof.heads import Head
    from fedcof.prediction import reading_for

    with errors_for_people():
        classifier = Head.load(head)
        data = read(source, reading_for(classifier, Reading(**reading)), part="test")
        parts = list(scores_of(classifier, data, backbone))
        rows = np.concatenate([part.rows for part in parts])
        assert data.labels is not None
        found = evaluation_of(
            classifier.classes,
            np.concatenate([part.scores for part in parts]),
            data.labels[rows],
            probabilistic=classifier.probabilistic,
            rejection=classifier.rejection,
        )
        unreadable = [fault for part in parts for fault in part.unreadable.values()]
        notes = [*_notes(found), *data.left_out.lines()]
        if unreadable:
            notes.append(f"{len(unreadable):,} images cannot be read, first {unreadable[0]}")
        shown = table_of(_numbers(found)), *_tables(found), *notes
        print_result({**vars(found), "notes": notes}, *shown, as_json=as_json)
        if out is not None:
            title = f"{head.name} on {Path(source).name}"
            for path in _write(out, found, title, figures):
                say(f"saved: {path}", as_json=as_json)
        if unreadable or data.left_out.count:
            raise typer.Exit(EXIT_LEFT_OUT)


def _numbers(found: Evaluation) -> list[Row]:
    """Return the numbers of the whole."""
    numbers = {
        "samples": f"{found.samples:,}",
        "accuracy": _percent(found.accuracy),
        "balanced accuracy": _percent(found.balanced_accuracy),
    }
    if found.top_5 is not None:
        numbers["among the 5 highest scores"] = _percent(found.top_5)
    if found.calibration is not None:
        numbers["log loss"] = f"{found.calibration.log_loss:.3f}"
        error = found.calibration.expected_calibration_error
        numbers["expected calibration error"] = _percent(error)
        fitted = f"{found.calibration.temperature:.3g}"
        numbers["temperature of the smallest log loss"] = fitted
        numbers["log loss at that temperature"] = f"{found.calibration.fitted_log_loss:.3f}"
    if found.rejection is not None and found.rejection.auroc is not None:
        numbers["AUROC of unknown classes"] = _percent(found.rejection.auroc)
    return [{"": name, "value": number} for name, number in numbers.items()]


def _tables(found: Evaluation) -> Iterator[Any]:
    """Yield the numbers by class and the confusions, cut to what a screen holds."""
    by_class = _by_class(found)
    tested = [row for row in by_class if row["samples"]]
    title = "By class"
    if len(tested) > _SHOWN:
        tested = sorted(tested, key=lambda row: row["recall"])[:_SHOWN]
        title = f"The {_SHOWN} of {len(by_class):,} classes with the lowest recall"
    yield table_of(
        [row | {name: _percent(row[name]) for name in ("precision", "recall")} for row in tested],
        title,
    )
    if found.rejection is not None:
        rows = _rejections(found.rejection)
        title = "Without the least familiar samples of known classes"
        yield table_of([{name: _percent(row[name]) for name in row} for row in rows], title)
    if len(found.classes) <= _LARGEST_MATRIX:
        yield table_of(_matrix(found), "True by line, predicted by column")
    elif confusions := found.confusions():
        yield table_of(
            [
                {"true": str(true), "taken for": str(taken), "samples": number}
                for true, taken, number in confusions[:_SHOWN]
            ],
            "What is taken for what most often",
        )


def _rejections(curve: RejectionCurve) -> list[dict[str, Any]]:
    return [
        {"rejected": rejected, "accuracy": accuracy, "unknown rejected": unknown}
        for rejected, accuracy, unknown in zip(
            *map(list, (curve.rejected, curve.accuracy, curve.unknown_rejected)), strict=True
        )
    ]


def _by_class(found: Evaluation) -> list[dict[str, Any]]:
    columns = (found.classes, found.support, found.precision, found.recall)
    return [
        {"class": str(name), "samples": samples, "precision": precision, "recall": recall}
        for name, samples, precision, recall in zip(*map(list, columns), strict=True)
    ]


def _matrix(found: Evaluation) -> list[dict[str, Any]]:
    names = list(map(str, found.classes.tolist()))
    return [
        {"true": name, **dict(zip(names, row, strict=True))}
        for name, row in zip(names, found.confusion.tolist(), strict=True)
    ]


def _notes(found: Evaluation) -> Iterator[str]:
    """Yield what the numbers do not say of themselves."""
    if len(found.unknown):
        number = int(found.support[np.isin(found.classes, found.unknown)].sum())
        yield (
            f"{number:,} samples are of classes that the head does not know, and count as wrong: "
            + _some(found.unknown)
        )
    if len(found.untested):
        yield f"classes of the head without a sample here: {_some(found.untested)}"
    if found.calibration is None:
        yield "the scores of this head are no probabilities, so there is no calibration"


def _some(labels: Any) -> str:
    return first_of([repr(label) for label in labels.tolist()], limit=10)


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.1f} %"


def _write(folder: Path, found: Evaluation, title: str, suffix: str) -> Iterator[Path]:
    """Write the numbers and the figures, and yield the files."""
    from fedcof.report.confusion import confusion_matrix_figure, reliability_diagram

    folder.mkdir(parents=True, exist_ok=True)
    tables = {"classes": _by_class(found), "confusion": _matrix(found)}
    if found.rejection is not None:
        tables["rejection"] = _rejections(found.rejection)
    for name, rows in tables.items():
        yield write_csv(folder / f"{name}.csv", rows)
    classes = found.classes.tolist()
    title = f"{title}: {_percent(found.accuracy)} of {found.samples:,} are right"
    figure = confusion_matrix_figure(found.confusion, classes, title=title)
    yield save_figure(figure, folder / f"confusion.{suffix}")
    if found.calibration is not None:
        figure = reliability_diagram(found.calibration, title="Reliability of the probabilities")
        yield save_figure(figure, folder / f"reliability.{suffix}")


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows, of which each has the columns of the first, and return the path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's ending, and return the path."""
    import matplotlib as mpl

    # Type 42 is TrueType: venues refuse matplotlib's default.
    with mpl.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, bbox_inches="tight", facecolor="white")
    return path
