"""The paper's numbers, each typed once: ``published.csv`` has a line for every one.

A number stands under the paper's label and belongs to a data set, a backbone, a method and a
setting; what a line leaves empty, the number does not depend on. It is in its metric's unit.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from fedcof.experiments.experiment import Paper


class Number(NamedTuple):
    """One number of the paper, and the columns of a run that it belongs to."""

    label: str
    metric: str
    run: dict[str, Any]
    value: float | tuple[float, float]


@cache
def numbers() -> tuple[Number, ...]:
    """Return all of them."""
    return tuple(_read())


def _read() -> Iterator[Number]:
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        run = {name: line[name] for name in ("dataset", "backbone", "method") if line[name]}
        for setting in line["setting"].split():
            name, _, value = setting.partition("=")
            run[name] = json.loads(value) if value[0].isdigit() else value
        value = float(line["value"])
        deviation = line["deviation"]
        yield Number(
            line["label"], line["metric"], run, (value, float(deviation)) if deviation else value
        )


def published(label: str) -> tuple[Paper, ...]:
    """Return the numbers under one of the paper's labels.

    Raises
    ------
    ValueError
        If there is none.
    """
    tables: defaultdict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], Any]]
    tables = defaultdict(dict)
    for number in numbers():
        if number.label == label:
            tables[number.metric, tuple(number.run)][tuple(number.run.values())] = number.value
    if not tables:
        raise ValueError(f"published.csv has no number under {label!r}")
    return tuple(Paper(metric, columns, cells) for (metric, columns), cells in tables.items())
