"""What the between-class scatter does to the head (sections 4.3 and appendix)."""

from fedcof.data import Central
from fedcof.experiments.experiment import Experiment, Paper
from fedcof.experiments.one_round import one_round
from fedcof.experiments.paper.common import FOUR_SETS, SHRINKAGES, SQUEEZENET, cells, grid
from fedcof.methods import Fed3R, FedCOF, FedCOFOracle

_CENTRAL = grid(
    FOUR_SETS,
    SQUEEZENET,
    one_round(Fed3R(), FedCOFOracle(0.0), *(FedCOFOracle(shrinkage) for shrinkage in SHRINKAGES)),
    Central(),
)
_TEST_ACCURACY = cells(
    "accuracy",
    {"fed3r": (57.1, 37.6, 50.4, 41.4), "fedcof-oracle": (57.3, 38.6, 53.7, 44.8)},
    FOUR_SETS,
)
_NOTE = (
    "Fed3R of one client has both scatters, the oracle of one client G_with alone; with shrinkage "
    "0 they differ in G_btw only, but for a ridge of 0.01."
)

central = Experiment(
    name="tab-scatter",
    title="Removing the between-class scatter, all data in one place",
    grids=(_CENTRAL,),
    metrics=("accuracy", "condition_within", "condition_between"),
    paper=(
        _TEST_ACCURACY,
        Paper(
            "condition_within",
            ("dataset", "backbone"),
            {
                ("cub200", SQUEEZENET): 4.5e3,
                ("cars", SQUEEZENET): 2.5e4,
                ("imagenet-r", SQUEEZENET): 8.2e2,
                ("cifar100", SQUEEZENET): 6.3e3,
            },
        ),
        Paper(
            "condition_between",
            ("dataset", "backbone"),
            {
                ("cub200", SQUEEZENET): 3.0e7,
                ("cars", SQUEEZENET): 2.5e7,
                ("imagenet-r", SQUEEZENET): 2.2e7,
                ("cifar100", SQUEEZENET): 1.3e7,
            },
        ),
    ),
    seeds=1,
    notes=(_NOTE, "The condition numbers are of the scatters without shrinkage."),
)

overfitting = Experiment(
    name="g_btw",
    title="Training and test accuracy with and without the between-class scatter",
    grids=(_CENTRAL,),
    metrics=("train_accuracy", "accuracy"),
    paper=(
        cells(
            "train_accuracy",
            {"fed3r": (60.0, 52.8, 92.0, 85.9), "fedcof-oracle": (60.4, 53.4, 91.3, 86.2)},
            FOUR_SETS,
        ),
        _TEST_ACCURACY,
    ),
    seeds=1,
    notes=(_NOTE,),
)

federated = Experiment(
    name="fl_g_btw",
    title="Within-class, between-class and both scatters in the federation",
    grids=(
        grid(
            FOUR_SETS,
            SQUEEZENET,
            one_round(
                *(
                    FedCOF(shrinkage, scatter=scatter)
                    for scatter in ("between", "both", "within")
                    for shrinkage in SHRINKAGES
                )
            ),
        ),
    ),
    paper=(
        cells(
            "accuracy",
            {
                "between": (52.8, 34.8, 49.7, 33.7),
                "both": (56.3, 36.8, 51.6, 42.4),
                "within": (56.3, 37.2, 53.5, 44.6),
            },
            FOUR_SETS,
            lines="scatter",
        ),
    ),
)

EXPERIMENTS = (central, overfitting, federated)
