"""What the paper's experiments have in common."""

from fedcof.data import ByColumn, Dirichlet
from fedcof.experiments.experiment import Grid
from fedcof.methods import FedCOF, FedCOFOracle

SQUEEZENET, MOBILENET, VIT = "squeezenet1.1", "mobilenetv2", "vit-b-16"
BACKBONES = (SQUEEZENET, MOBILENET, VIT)

FOUR_SETS = ("cifar100", "imagenet-r", "cub200", "cars")
"""The sets that are dealt to 100 clients."""
INAT = "inat-users-120k"

SHRINKAGES = (0.1, 1.0)
"""The paper takes 1 for SqueezeNet and ViT, 0.1 for MobileNetV2. What fits hangs on the scale of
the features, and so on the weights; both are run, and the paper's number stands beside both."""

FEDCOF = tuple(FedCOF(shrinkage) for shrinkage in SHRINKAGES)
ORACLE = tuple(FedCOFOracle(shrinkage) for shrinkage in SHRINKAGES)


def heterogeneous(
    backbones: tuple[str, ...], methods: tuple[object, ...], *, inat: bool = True
) -> tuple[Grid, ...]:
    """Return the paper's main setting: 100 Dirichlet clients, and the users of iNaturalist."""
    grid = Grid(FOUR_SETS, backbones, (Dirichlet(100, 0.1),), methods)  # type: ignore[arg-type]
    users = Grid((INAT,), backbones, (ByColumn("user"),), methods)  # type: ignore[arg-type]
    return (grid, users) if inat else (grid,)
