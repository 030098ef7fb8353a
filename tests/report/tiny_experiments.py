"""An experiment of two data sets and two methods, whose rows are written and not run."""

from fedcof import FedCOF, FedNCM
from fedcof.data import Dirichlet
from fedcof.experiments import Experiment, Paper, Row, SettingGrid, one_round

EXPERIMENT = Experiment(
    "tiny",
    "A title with 5 % & more",
    (
        SettingGrid(
            ("one", "two"), ("net",), (Dirichlet(3, 0.1),), one_round(FedNCM(), FedCOF(0.1))
        ),
    ),
    metrics=("accuracy", "formula_bytes"),
    paper=(Paper("accuracy", ("dataset", "method"), {("one", "fedcof"): (50.0, 0.5)}),),
)


def rows_of(experiment, seeds=1, **measured):
    """Rows whose accuracy goes up by 2 points a seed, from 40 %."""
    return [
        Row(
            experiment.name,
            seed,
            setting.columns(),
            {
                "accuracy": 0.40 + 0.02 * seed,
                "formula_bytes": 2_500_000,
                "clients_seen": 1,
                "versions": {"fedcof": "1"},
            }
            | measured,
        )
        for setting in experiment.settings()
        for seed in range(seeds)
    ]


GRID = Experiment(
    "grid",
    "Clients and means",
    (
        SettingGrid(
            ("one",),
            ("net",),
            (Dirichlet(10, 0.1), Dirichlet(20, 0.1)),
            one_round(*(FedCOF(s, means_per_class=m) for s in (0.1, 1.0) for m in (1, 2))),
        ),
    ),
    metrics=("accuracy", "means_received"),
    figure="curves",
    x="clients",
    lines="means_per_class",
    paper=(Paper("accuracy", ("clients", "means_per_class"), {(10, 2): 41.0}),),
)
"""Clients down, means across."""
