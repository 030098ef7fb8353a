"""What the paper's experiments have in common."""

from collections.abc import Iterable, Sequence
from typing import Any

from fedcof.data import ByColumn, Dealing, Dirichlet
from fedcof.experiments.experiment import Procedure, SettingGrid
from fedcof.experiments.one_round import one_round
from fedcof.methods import FedCOF, FedCOFOracle, Method

SQUEEZENET, MOBILENET, VIT = "squeezenet1.1", "mobilenetv2", "vit-b-16"
BACKBONES = (SQUEEZENET, MOBILENET, VIT)

PAPERS_CLIENTS = Dirichlet(100, 0.1)
FOUR_SETS = ("cifar100", "imagenet-r", "cub200", "cars")
"""The sets that are dealt to 100 clients."""
INAT = "inat-users-120k"

SHRINKAGES = (0.1, 1.0)
"""The paper takes 1 for SqueezeNet and ViT-B/16, 0.1 for MobileNetV2. The best shrinkage depends on
the scale of the features, and so on the weights: both are run, and the paper's number stands beside
the one that it took."""

FEDCOF = tuple(FedCOF(shrinkage) for shrinkage in SHRINKAGES)
ORACLE = tuple(FedCOFOracle(shrinkage) for shrinkage in SHRINKAGES)


def grid(
    datasets: tuple[str, ...], backbone: str, procedures: Iterable[Procedure], *dealings: Dealing
) -> SettingGrid:
    """Return a grid under one backbone; without dealings, that of the paper's Dirichlet clients."""
    return SettingGrid(datasets, (backbone,), dealings or (PAPERS_CLIENTS,), tuple(procedures))


def heterogeneous(
    backbones: tuple[str, ...], methods: Sequence[Method[Any]], *, inat: bool = True
) -> tuple[SettingGrid, ...]:
    """Return the paper's main setting: 100 Dirichlet clients, and the users of iNaturalist."""
    procedures = one_round(*methods)
    dirichlet = SettingGrid(FOUR_SETS, backbones, (PAPERS_CLIENTS,), procedures)
    users = SettingGrid((INAT,), backbones, (ByColumn("user"),), procedures)
    return (dirichlet, users) if inat else (dirichlet,)
