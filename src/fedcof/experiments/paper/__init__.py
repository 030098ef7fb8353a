"""The paper's tables and figures, by the paper's own labels."""

from difflib import get_close_matches

from fedcof.experiments import training_paper
from fedcof.experiments.experiment import Experiment
from fedcof.experiments.paper import ablations, comparisons, scatter

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (comparisons, scatter, ablations, training_paper)
    for experiment in module.EXPERIMENTS
}
"""Every experiment by its name."""


def get_experiment(name: str) -> Experiment:
    """Return the experiment of that name, written with ``-`` or ``_``.

    "NAME --rounds N" is the short run of N rounds of training.

    Raises
    ------
    ValueError
        If there is none; the message lists the near ones.
    """
    name, _, rounds = name.partition(" --rounds ")
    by_plain_name = {known.replace("_", "-"): known for known in EXPERIMENTS}
    plain = name.lower().replace("_", "-")
    if plain not in by_plain_name:
        near = get_close_matches(plain, by_plain_name, cutoff=0.5) or list(by_plain_name)
        names = ", ".join(by_plain_name[one] for one in near)
        raise ValueError(f"no experiment is called {name!r}; near or known: {names}")
    experiment = EXPERIMENTS[by_plain_name[plain]]
    return training_paper.short(experiment, int(rounds)) if rounds else experiment


__all__ = ["EXPERIMENTS", "get_experiment"]
