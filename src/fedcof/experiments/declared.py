"""All experiments by their names: the paper's, and those past it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from fedcof.experiments import audit, beyond, hostile, paper, private
from fedcof.experiments.experiment import Experiment


def by_name(declared: Iterable[Experiment]) -> dict[str, Experiment]:
    """Return experiments by their names.

    Raises
    ------
    ValueError
        If two have one name, be it written with ``-`` or ``_``.
    """
    found: dict[str, Experiment] = {}
    for experiment in declared:
        name = _plain(experiment.name)
        if name in found:
            raise ValueError(
                f"two experiments are called {experiment.name!r}: {found[name].title!r} and "
                f"{experiment.title!r}; declare them as one, or rename one"
            )
        found[name] = experiment
    return {experiment.name: experiment for experiment in found.values()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


EXPERIMENTS = by_name(
    (
        *paper.DECLARED,
        *beyond.EXPERIMENTS,
        *hostile.EXPERIMENTS,
        *private.EXPERIMENTS,
        *audit.EXPERIMENTS,
    )
)
"""Every experiment by its name."""


def get_experiment(name: str) -> Experiment:
    """Return the experiment of that name, written with ``-`` or ``_``.

    Raises
    ------
    ValueError
        If there is none; the message lists the near ones.
    """
    by_plain_name = {_plain(known): experiment for known, experiment in EXPERIMENTS.items()}
    plain = _plain(name)
    if plain not in by_plain_name:
        near = get_close_matches(plain, by_plain_name, cutoff=0.5) or list(by_plain_name)
        names = ", ".join(by_plain_name[known].name for known in near)
        raise ValueError(f"no experiment is called {name!r}; near or known: {names}")
    return by_plain_name[plain]
