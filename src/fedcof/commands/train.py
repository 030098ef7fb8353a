"""``fedcof train``: what may follow a head."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedcof.commands.options import (
    COMPLETIONS,
    Data,
    Given,
    PartitionName,
    Seed,
    TransformText,
    Weights,
    dealing_settings,
    hyperparameters,
    method_with,
    out_folder,
    reading_settings,
    sending_settings,
    with_settings,
)
from fedcof.commands.shared import (
    Json,
    check_device,
    deal_samples,
    errors_for_people,
    note,
    print_table,
    say,
)
from fedcof.errors import SettingError
from fedcof.settings import settings_of
from fedcof.training.settings import Precision, TrainingGoal, TrainingSettings
from fedcof.transforms import NO_TRANSFORM, Transform

if TYPE_CHECKING:
    from fedcof.client import Sender
    from fedcof.data import FeatureTable, ImageSet
    from fedcof.experiments import Dealt
    from fedcof.experiments.training import Federation
    from fedcof.heads import LinearHead
    from fedcof.training import Round
    from fedcof.training.exchange import State

    Samples = ImageSet | FeatureTable

_HEAD = "head.safetensors"


@with_settings(
    dealing=dealing_settings,
    reading=reading_settings,
    goal=partial(settings_of, TrainingGoal),
    training=partial(settings_of, TrainingSettings),
    hyperparameters=hyperparameters,
    sending=sending_settings,
)
def train(
    *,
    start: Annotated[
        str, typer.Option(help="A method, whose head is solved first; 'random'; or a head's file.")
    ] = "fedcof",
    dataset: Annotated[
        str, typer.Option(help="Name of a data set.", autocompletion=COMPLETIONS["datasets"])
    ] = "fashion-mnist",
    data: Data = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="Take the first so many classes only.")
    ] = None,
    per_class: Annotated[
        int | None, typer.Option(min=1, help="Take so many images a class to train on.")
    ] = None,
    backbone: Annotated[
        str,
        typer.Option(
            help="Name of the backbone; or a folder or model id of transformers.",
            autocompletion=COMPLETIONS["backbones"],
        ),
    ] = "squeezenet1.1",
    weights: Weights = "",
    transform: TransformText = "none",
    image_size: Annotated[
        int | None,
        typer.Option(min=32, help="Pixels of the images. Default: what the weights were made for."),
    ] = None,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Random weights for SqueezeNet.")
    ] = False,
    partition: PartitionName = "dirichlet",
    temperature: Annotated[
        bool, typer.Option("--temperature", help="Scale the head to fit the clients' means.")
    ] = False,
    seed: Seed = 0,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option(help="Where features and steps are computed.")
    ] = "cpu",
    precision: Annotated[
        Precision, typer.Option(help="Of the products in a step of finetune and prompt.")
    ] = "float32",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Rounds between checkpoints.")] = 10,
    log_dir: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
    out: Annotated[
        Path, out_folder("head, history and checkpoint; a run into the same one goes on")
    ] = Path("fedcof-train"),
    as_json: Json = False,
    dealing: Given,
    reading: Given,
    goal: Given,
    training: Given,
    hyperparameters: Given,
    sending: Given,
) -> None:
    """Train a head, a network or prompts with clients, from a training-free head or another."""
    with errors_for_people():
        check_device(device)
        from fedcof.backbones import transform_for, with_weights
        from fedcof.backbones.torch_backbone import network
        from fedcof.data import Reading, datasets, get_dealing
        from fedcof.experiments.training import deal_features, on_images, probing
        from fedcof.progress import progress_bar
        from fedcof.training import check_mode, chosen_server_lr
        from fedcof.training.prompts import PromptedViT
        from fedcof.training.trained import save_training

        target = TrainingGoal(**goal)
        mode = target.mode
        strategy = training.get("strategy", TrainingSettings.strategy)
        training["server_lr"] = chosen_server_lr(training.get("server_lr"), strategy)
        settings = TrainingSettings(**training, seed=seed)
        check_mode(mode, strategy)
        _check_network(mode, weights, precision, from_scratch=from_scratch)
        backbone = with_weights(backbone, weights)
        preprocessing = datasets.preprocessing_of(dataset, image_size)
        origin = _origin(
            start,
            hyperparameters,
            sending,
            transform=transform_for(transform, backbone),
            seed=seed,
            temperature=temperature,
        )
        names = Reading(**reading)
        samples, test_samples = datasets.load(dataset, data, names)
        if classes is not None or per_class is not None:
            samples, test_samples = _part(samples, test_samples, classes, per_class, seed)
        scheme = get_dealing(names.client or partition, samples.columns, **dealing)
        network_options: dict[str, Any] | None = None
        fingerprint = ""
        if mode == "probe":
            dealt = deal_samples(
                samples,
                test_samples,
                backbone,
                scheme,
                seed=seed,
                preprocessing=preprocessing,
                device=device,
            )
            head, history = _start(origin, dealt, settings, temperature=temperature)
            federation = probing(dealt, head)
        else:
            images, test_images = datasets.only_images(samples, test_samples)
            network_options = {
                "name": backbone,
                "preprocessing": preprocessing,
                "pretrained": not from_scratch,
                "seed": seed,
            }
            net = network(**network_options)
            fingerprint = net.fingerprint
            if mode == "prompt":
                PromptedViT(net)  # another network is refused before anything is computed
            dealt_images = scheme.deal(images.labels, images.columns, seed)
            total = len(images) + len(test_images)
            with progress_bar("Extracting features", total, unit="images") as advance:
                dealt = deal_features(
                    images, test_images, dealt_images, net, device=device, advance=advance
                )
            head, history = _start(origin, dealt, settings, temperature=temperature)
            with progress_bar("Decoding images", total, unit="images") as advance:
                federation = on_images(
                    images,
                    test_images,
                    dealt_images,
                    net,
                    head,
                    pool_size=target.pool_size if mode == "prompt" else None,
                    seed=seed,
                    device=device,
                    precision=precision,
                    advance=advance,
                )
        state, history = _train(
            federation,
            settings,
            history,
            out,
            log_dir,
            target=target.target,
            keep=target.keep,
            evaluate_every=target.evaluate_every,
            checkpoint_every=checkpoint_every,
            depends_on={
                "dataset": dataset,
                "classes": classes,
                "per_class": per_class,
                "backbone": backbone,
                "image_size": image_size,
                "start": start,
                "hyperparameters": hyperparameters,
                "temperature": temperature,
                "transform": transform,
                "precision": precision,
                **sending,
                **scheme.columns(),
            },
        )
        save_training(
            out,
            state,
            history,
            head,
            head=_HEAD,
            network=network_options,
            fingerprint=fingerprint,
        )
        _show(f"{dataset}: {mode} from {start}, {strategy}", history, target, out, as_json)


def _show(title: str, history: list[Round], target: TrainingGoal, out: Path, as_json: bool) -> None:
    """Print the history, and which round's model was kept."""
    from fedcof.training import best

    trained = [done for done in history if done.stage == "training"]
    kept = best(trained) if target.keep == "best" else history[-1]
    document = {"rounds": history, "kept": kept.number, "saved": out}
    print_table(_table(history), title=title, document=document, as_json=as_json)
    if target.keep == "best":
        say(f"kept: round {kept.number}, accuracy {kept.accuracy:.1%}", as_json=as_json)
    say(f"saved in: {out}", as_json=as_json)


def _check_network(mode: str, weights: str, precision: str, *, from_scratch: bool) -> None:
    if mode == "probe" and precision != "float32":
        raise SettingError("precision", "is float32 with --mode probe, which trains a head")
    if from_scratch and mode != "finetune":
        raise ValueError("--from-scratch makes a random network: it needs --mode finetune")
    if from_scratch and weights:
        raise SettingError("weights", "are random with --from-scratch")


def _part(
    train: Samples, test: Samples, classes: int | None, per_class: int | None, seed: int
) -> tuple[Samples, Samples]:
    """Return the first classes of both sets, and some images of each to train on."""
    from fedcof.experiments.training import subset

    kept = min(classes or len(train.classes), len(train.classes))
    return (
        subset(train, kept, per_class or len(train), seed=seed),
        subset(test, kept, len(test), seed=seed),
    )


def _origin(
    start: str,
    hyperparameters: Given,
    sending: Given,
    *,
    transform: Transform,
    seed: int,
    temperature: bool,
) -> Sender | LinearHead | Transform:
    """Return what ``--start`` names: how clients send, a file's head, a random head's transform."""
    from fedcof.client import Sender
    from fedcof.heads import LinearHead
    from fedcof.methods import METHODS

    if start in METHODS:
        method = method_with(start, hyperparameters).seeded(seed)
        return Sender(method, seed, **sending, transform=transform)
    for option in (*hyperparameters, *sending, *["temperature"] * temperature):
        raise SettingError(option, f"is for a --start that is a method, not for {start}")
    if start == "random":
        return transform
    if transform != NO_TRANSFORM:
        raise SettingError("transform", f"is that of the head; {start} has its own")
    if not Path(start).is_file():
        known = ", ".join(sorted(METHODS))
        raise ValueError(f"--start {start}: no such file; or give 'random' or one of {known}")
    return LinearHead.load(start)


def _start(
    origin: Sender | LinearHead | Transform,
    dealt: Dealt,
    settings: TrainingSettings,
    *,
    temperature: bool,
) -> tuple[LinearHead, list[Round]]:
    """Return the head to start from, and the training-free rounds that led to it."""
    from fedcof.experiments.training import training_free_rounds, with_temperature
    from fedcof.heads import LinearHead
    from fedcof.progress import progress_bar
    from fedcof.training.heads import random_head

    if isinstance(origin, Transform):
        head = random_head(
            dealt.features.shape[1], dealt.labels, seed=settings.seed, transform=origin
        )
        return head.with_provenance(origin=dealt.origin), []
    if isinstance(origin, LinearHead):
        made_by = {**(origin.provenance.origin if origin.provenance else {}), **dealt.origin}
        return origin.with_provenance(origin=made_by), []
    title = f"Training-free rounds: {origin.method.name}"
    with progress_bar(title, None, unit="rounds") as advance:
        head, rounds, summaries = training_free_rounds(
            origin,
            dealt,
            settings,
            on_round=lambda done: advance(1, f"{title}, {done.accuracy:.1%}"),
        )
    return (with_temperature(head, summaries) if temperature else head), rounds


def _train(
    federation: Federation,
    settings: TrainingSettings,
    history: list[Round],
    out: Path,
    log_dir: Path | None,
    **options: Any,
) -> tuple[State, list[Round]]:
    from fedcof.progress import progress_bar
    from fedcof.training import tensorboard
    from fedcof.training.trained import CHECKPOINT

    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = stack.enter_context(tensorboard(log_dir)) if log_dir is not None else None
        advance = stack.enter_context(progress_bar("Training", settings.rounds, unit="rounds"))

        def on_round(done: Round) -> None:
            for refused in done.refused:
                note(f"round {done.number}: refused {refused}")
            measured = f"Training, {done.accuracy:.1%}"
            advance(int(done.loss is not None), None if isnan(done.accuracy) else measured)
            if log is not None:
                log(done)

        return federation.train(
            settings, history=history, checkpoint=out / CHECKPOINT, on_round=on_round, **options
        )


def _table(history: list[Round]) -> list[dict[str, Any]]:
    """Return the lines of the history's first and last rounds and of some between."""
    steps = {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
    free = sum(done.stage == "training-free" for done in history)
    shown = {0, free - 1, len(history) - 1} | {free + step for step in steps}
    return [
        {
            "round": done.number,
            "stage": done.stage,
            "accuracy %": None if isnan(done.accuracy) else f"{100 * done.accuracy:.1f}",
            "loss": None if done.loss is None else f"{done.loss:.3f}",
            "MB (formula)": f"{done.formula_bytes / 1e6:,.2f}",
            "MB on the wire": f"{done.wire_bytes / 1e6:,.2f}",
        }
        for index, done in enumerate(history)
        if index in shown
    ]
