"""What the between-class scatter does to the head (sections 4.3 and appendix)."""

from fedcof.data import Central
from fedcof.experiments.experiment import Experiment, SettingGrid
from fedcof.experiments.one_round import one_round
from fedcof.experiments.paper.common import (
    FOUR_SETS,
    MOBILENET,
    PAPERS_CLIENTS,
    SHRINKAGES,
    SQUEEZENET,
    grid,
)
from fedcof.experiments.paper.published import published
from fedcof.experiments.solver import Solved
from fedcof.methods import Fed3R, FedCOF, FedCOFOracle

_CENTRAL = grid(
    FOUR_SETS,
    SQUEEZENET,
    one_round(Fed3R(), FedCOFOracle(0.0), *(FedCOFOracle(shrinkage) for shrinkage in SHRINKAGES)),
    Central(),
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
    paper=published("tab-scatter"),
    seeds=1,
    notes=(
        _NOTE,
        "The paper does not say which shrinkage it takes here.",
        "The condition numbers are of the scatters without shrinkage. An eigenvalue counts as zero "
        "below d ε of the largest, in float64. The paper does not say where it draws that line; "
        "its condition numbers of G_btw are near 1 / ε of float32.",
    ),
)

overfitting = Experiment(
    name="g_btw",
    title="Training and test accuracy with and without the between-class scatter",
    grids=(_CENTRAL,),
    metrics=("train_accuracy", "accuracy"),
    paper=published("g_btw"),
    seeds=1,
    notes=(_NOTE, "The paper does not say which shrinkage it takes here."),
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
    paper=published("fl_g_btw"),
    notes=("The shrinkage stays whatever the scatter is.",),
)

_SOLVED = (
    Fed3R(),
    *(method(shrinkage) for method in (FedCOFOracle, FedCOF) for shrinkage in (0.0, *SHRINKAGES)),
)

solver = Experiment(
    name="solver",
    title="What the solver moves: exact, and the float32 pseudo-inverse of the authors' code",
    grids=(
        SettingGrid(
            ("cifar100", "pacs"),
            (SQUEEZENET, MOBILENET),
            (PAPERS_CLIENTS,),
            tuple(Solved(method, solver) for method in _SOLVED for solver in ("exact", "pinv32")),
        ),
    ),
    metrics=("accuracy", "directions_cut"),
    paper=published("table1"),
    notes=(
        "pinv32 is what the authors' code does: a pseudo-inverse in float32 that drops every "
        "eigenvalue up to d · 1.19e-7 of the largest, the default of torch.linalg.pinv. By the "
        "paper's equations the exact solution is the right one, and the one that fedcof takes; it "
        "drops what is zero in float64.",
        "So the paper's Fed3R behind FedCOF with MobileNetV2, and what it gains by removing G_btw "
        "with SqueezeNet, are of that solver: compare Fed3R with the oracle without shrinkage, row "
        "by row.",
    ),
)

EXPERIMENTS = (central, overfitting, federated, solver)
