"""What the paper's experiments have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedcof.data import ByColumn, Dirichlet
from fedcof.experiments.experiment import Paper, SettingGrid
from fedcof.experiments.one_round import one_round
from fedcof.methods import FedCOF, FedCOFOracle, Method

SQUEEZENET, MOBILENET, VIT = "squeezenet1.1", "mobilenetv2", "vit-b-16"
BACKBONES = (SQUEEZENET, MOBILENET, VIT)

FOUR_SETS = ("cifar100", "imagenet-r", "cub200", "cars")
"""The sets that are dealt to 100 clients."""
INAT = "inat-users-120k"

SHRINKAGES = (0.1, 1.0)
"""The paper takes 1 for SqueezeNet and ViT, 0.1 for MobileNetV2. The best shrinkage depends on the
scale of the features, and so on the weights: both are run, with the paper's number beside both."""

FEDCOF = tuple(FedCOF(shrinkage) for shrinkage in SHRINKAGES)
ORACLE = tuple(FedCOFOracle(shrinkage) for shrinkage in SHRINKAGES)


def heterogeneous(
    backbones: tuple[str, ...], methods: Sequence[Method[Any]], *, inat: bool = True
) -> tuple[SettingGrid, ...]:
    """Return the paper's main setting: 100 Dirichlet clients, and the users of iNaturalist."""
    procedures = one_round(*methods)
    grid = SettingGrid(FOUR_SETS, backbones, (Dirichlet(100, 0.1),), procedures)
    users = SettingGrid((INAT,), backbones, (ByColumn("user"),), procedures)
    return (grid, users) if inat else (grid,)


def cells(
    metric: str,
    table: Mapping[Any, tuple[Any, ...]],
    datasets: Sequence[str],
    backbone: str = SQUEEZENET,
    *,
    lines: str = "method",
) -> Paper:
    """Return a table of the paper: a column a data set, a line a value of one of our columns."""
    return Paper(
        metric,
        ("dataset", "backbone", lines),
        {
            (dataset, backbone, line): cell
            for line, row in table.items()
            for dataset, cell in zip(datasets, row, strict=True)
        },
    )
