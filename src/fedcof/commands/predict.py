"""``fedcof predict``: the labels of own images or rows, by a head."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fedcof.commands.options import Given, reading_settings, with_settings
from fedcof.commands.shared import EXIT_LEFT_OUT, errors_for_people, note, say
from fedcof.errors import SettingError

if TYPE_CHECKING:
    from fedcof.data import OwnData
    from fedcof.heads import Head
    from fedcof.prediction import Scored

HeadFile = Annotated[Path, typer.Argument(help="The head, as `fedcof solve` wrote it.")]
BackboneName = Annotated[
    str,
    typer.Option(
        "--backbone",
        help="The backbone, for images. Default: the one that the head says, if it is here.",
    ),
]


@with_settings(reading=reading_settings)
def predict(
    head: HeadFile,
    source: Annotated[
        str, typer.Argument(help="A folder of images, one image, or a table; labels may be absent.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="CSV", help="File to write. Default: the output."),
    ] = None,
    backbone: BackboneName = "",
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Mark samples of unknown classes in a column, at the cost of about this share of "
            "the known, such as 0.05. For a head of the form lda.",
        ),
    ] = None,
    reading: Given,
) -> None:
    """Write a line for every image or row as CSV: its place, label, score and the runner-up."""
    from fedcof.data import Reading, read
    from fedcof.files import written_whole
    from fedcof.heads import Head
    from fedcof.prediction import reading_for

    with errors_for_people():
        check_not_its_input("out", out, head, source)
        classifier = Head.load(head)
        data = read(source, reading_for(classifier, Reading(**reading)), labelled=False)
        known = _known(data)
        unreadable = 0
        threshold = None if reject is None else classifier.rejecting().threshold(reject)
        with nullcontext(sys.stdout) if out is None else written_whole(out) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*known, *_predicted(classifier, threshold)])
            for scored in scores_of(classifier, data, backbone):
                unreadable += len(scored.unreadable)
                writer.writerows(_lines(classifier, list(known.values()), scored, threshold))
        for line in data.left_out.lines():
            note(line)
        if unreadable:
            note(
                f"{unreadable:,} of {len(data):,} images cannot be read: they have no label, and "
                "the reason in the column error"
            )
        if out is not None:
            say(f"{out}: {len(data) - unreadable:,} predictions")
        if unreadable or data.left_out.count:
            raise typer.Exit(EXIT_LEFT_OUT)


def check_not_its_input(option: str, written: Path | None, *inputs: Path | str) -> None:
    """Check that a file to write is none of those that are read.

    Raises
    ------
    SettingError
        If it is one.
    """
    if written is not None and written.exists():
        for path in map(Path, inputs):
            if path.exists() and path.samefile(written):
                raise SettingError(option, f"is {path}, which is read and would be lost")


def scores_of(head: Head, data: OwnData, backbone: str) -> Iterator[Scored]:
    """Yield the scores of own data under a progress bar."""
    from fedcof.prediction import backbone_of, check_columns, stream_scores
    from fedcof.progress import progress_bar

    check_columns(head, data)
    network = None
    if not data.are_features:
        from fedcof.backbones import Backbone

        network = Backbone.of(backbone_of(head, backbone))
    unit = "rows" if network is None else "images"
    with progress_bar("Predicting", len(data), unit=unit) as advance:
        yield from stream_scores(head, data.data, network, advance=advance)


def _known(data: OwnData) -> Mapping[str, Any]:
    """Return what the source says of every row, by the column of the CSV."""
    columns = {
        name: column
        for name, column in data.columns.items()
        if len(column) and not isinstance(column[0], bytes)
    }
    known = {"place": data.places, **columns}
    if data.clients is not None and not any(
        np.array_equal(column.astype(str), data.clients) for column in columns.values()
    ):
        known["client"] = data.clients
    return known


def _predicted(head: Head, threshold: float | None) -> list[str]:
    """Return the columns that are predicted."""
    probability = ["probability"] if head.probabilistic else []
    unknown = [] if threshold is None else ["unknown"]
    return ["label", "score", "runner-up", "margin", *probability, *unknown, "error"]


def _lines(
    head: Head, known: Sequence[Any], scored: Scored, threshold: float | None
) -> Iterator[list[Any]]:
    """Yield the cells of every row, in the order of the rows."""
    best = np.argsort(-scored.scores, axis=1, kind="stable")[:, :2]
    labels = head.classes.tolist()
    predicted: dict[int, list[Any]] = {
        row: [""] * (len(_predicted(head, threshold)) - 1) + [fault]
        for row, fault in scored.unreadable.items()
    }
    unknown: list[list[str]] = [[] for _ in scored.rows]
    if threshold is not None:
        below = head.rejecting().familiarity(scored.scores) < threshold
        unknown = [["yes" if answer else "no"] for answer in below.tolist()]
    for row, scores, (first, second), answer in zip(
        scored.rows.tolist(), scored.scores, best.tolist(), unknown, strict=True
    ):
        margin = scores[first] - scores[second]
        probability = [1 / np.exp(scores - scores[first]).sum()] if head.probabilistic else []
        numbers = [f"{number:.6g}" for number in (scores[first], margin, *probability)]
        predicted[row] = [labels[first], numbers[0], labels[second], *numbers[1:], *answer, ""]
    for row in sorted(predicted):
        yield [*(column[row] for column in known), *predicted[row]]
