"""``fedcof federate``: the demo's job over Flower."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer

from fedcof.commands.options import (
    COMPLETIONS,
    Data,
    Given,
    MethodName,
    PartitionName,
    Seed,
    StepsText,
    TransformText,
    Weights,
    dealing_settings,
    hyperparameters,
    method_with,
    out_folder,
    reading_settings,
    sending_settings,
    site_settings,
    steps_with,
    with_settings,
)
from fedcof.commands.shared import (
    EXIT_LEFT_OUT,
    Json,
    check_address,
    deal_samples,
    errors_for_people,
    note,
    print_table,
    say,
)
from fedcof.errors import SettingError
from fedcof.federation.plan import Plan
from fedcof.federation.secure.plan import SAMPLES, SecurePlan
from fedcof.installation import install_line
from fedcof.settings import settings_of

if TYPE_CHECKING:
    from fedcof.client import Sender
    from fedcof.experiments.evaluate import Dealt, Result
    from fedcof.heads import Head


_OF_ONE_PROCESS = ("epsilon", "delta", "neighbours", "radius")
"""Of the settings of secure rounds, those of noise on the sum, which one process may add."""


def _check_engine(engine: str, plan: Given, secure: Given, address: str) -> None:
    """Refuse what an engine lacks, before features are extracted."""
    if engine == "simulation" and importlib.util.find_spec("flwr") is None:
        raise ValueError(f"Flower is not installed: {install_line('flower')}")
    noise = secure.keys() & set(_OF_ONE_PROCESS)
    if engine == "simulation" and noise and not secure.get("secure"):
        raise SettingError(
            min(noise),
            "needs --secure, where clients share the noise; with --engine in-process the sum has "
            "it of one who is trusted with all",
        )
    if engine != "simulation":
        alone = {*_OF_ONE_PROCESS, "max_samples"} if secure.get("epsilon") else set()
        for name in (*plan, *secure):
            if name not in alone:
                raise SettingError(name, "needs --engine simulation: one process asks all")
    check_address(address, engine)


def _check_secure(noise: SecurePlan, limits: Plan, sender: Sender) -> None:
    """Refuse what a sum over the clients lacks; its classes are those of the data set, later."""
    if noise.epsilon:
        noise.check_noised(sender, limits.max_samples)
    if noise.secure:
        from fedcof.federation.records import Job
        from fedcof.federation.secure.serving import check_secure
        from fedcof.federation.serving import Settings

        check_secure(Settings(Job(sender), Path(), limits, classes=(0, 1), secure=noise))


def _in_process(
    noise: SecurePlan, limits: Plan, sender: Sender, dealt: Dealt, advance: Callable[[int], None]
) -> tuple[Result, Head]:
    """Return the head; with epsilon it has noise of one who is trusted with all.

    The classes of the data set are public.
    """
    from fedcof.experiments.evaluate import evaluate, evaluate_noised
    from fedcof.privacy.differential import CentralPrivacy, private_sums

    if not noise.epsilon:
        return evaluate(sender, dealt, advance=advance)
    dim = sender.transform.output_dim(dealt.features.shape[1])
    privacy = CentralPrivacy(
        private_sums(sender.method, np.unique(dealt.labels), dim),
        epsilon=noise.epsilon,
        delta=noise.delta,
        radius=noise.radius,
        neighbours=noise.neighbours,
        samples=limits.max_samples or SAMPLES,
        clients=len(np.unique(dealt.partition.assignment)),
    )
    return evaluate_noised(sender, dealt, privacy, advance=advance)


@with_settings(
    dealing=dealing_settings,
    reading=reading_settings,
    hyperparameters=hyperparameters,
    sending=sending_settings,
    site=site_settings,
    plan=partial(settings_of, Plan),
    secure=partial(settings_of, SecurePlan),
)
def federate(
    *,
    engine: Annotated[
        Literal["simulation", "in-process", "ray"],
        typer.Option(
            help="SuperNodes in processes of this machine, or this process; ray is this process, "
            "but Ray's workers extract the features."
        ),
    ] = "simulation",
    address: Annotated[
        str, typer.Option(help="Of a cluster of Ray, such as auto. Default: start Ray here.")
    ] = "",
    method: MethodName = "fedcof",
    dataset: Annotated[
        str, typer.Option(help="Name of the data set.", autocompletion=COMPLETIONS["datasets"])
    ] = "fashion-mnist",
    data: Data = None,
    backbone: Annotated[
        str, typer.Option(help="Name of the backbone.", autocompletion=COMPLETIONS["backbones"])
    ] = "squeezenet1.1",
    weights: Weights = "",
    transform: TransformText = "none",
    steps: StepsText = "none",
    partition: PartitionName = "dirichlet",
    seed: Seed = 0,
    images: Annotated[int, typer.Option(help="How many of Fashion-MNIST's images to take.")] = 6000,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="SuperNodes for the clients. Default: one each.")
    ] = None,
    min_clients: Annotated[
        int | None, typer.Option(min=1, help="With fewer summaries there is no head. Default: all.")
    ] = None,
    out: Annotated[Path, out_folder("head and report; a run into the same one goes on")] = Path(
        "fedcof-federation"
    ),
    as_json: Json = False,
    dealing: Given,
    reading: Given,
    hyperparameters: Given,
    sending: Given,
    site: Given,
    plan: Given,
    secure: Given,
) -> None:
    """Run the demo's job over Flower: the same head, bit for bit, as in one process."""
    from fedcof.backbones import transform_for, with_weights
    from fedcof.client import Sender
    from fedcof.data import Reading, fashion_mnist, get_dealing
    from fedcof.data.datasets import load, preprocessing_of
    from fedcof.progress import progress_bar
    from fedcof.scale.ray_engine import ray_engine

    with errors_for_people():
        chosen = method_with(method, hyperparameters).seeded(seed)
        backbone = with_weights(backbone, weights)
        sender = Sender(
            chosen,
            seed,
            **sending,
            transform=transform_for(transform, backbone),
            steps=steps_with(steps, site),
        )
        if min_clients is not None:
            plan["min_clients"] = min_clients
        _check_engine(engine, plan, secure, address)
        # What cannot be is refused before features are extracted.
        limits, noise = Plan(**plan), SecurePlan(**secure)
        _check_secure(noise, limits, sender)
        names = Reading(**reading)
        demo = dataset == "fashion-mnist"
        train, test = fashion_mnist(images, seed=seed) if demo else load(dataset, data, names)
        scheme = get_dealing(names.client or partition, train.columns, **dealing)
        preprocessing = preprocessing_of(dataset)
        with ray_engine(address) if engine == "ray" else nullcontext() as workers:
            dealt = deal_samples(
                train,
                test,
                backbone,
                scheme,
                seed=seed,
                preprocessing=preprocessing,
                engine=workers,
            )
        sender = dealt.planned(sender)
        path = out / "head.safetensors"
        holders = len(np.unique(dealt.partition.assignment))
        set_aside: dict[str, str] = {}
        start = time.perf_counter()
        with progress_bar("Summarizing", holders, unit="clients") as advance:
            if engine == "simulation":
                from fedcof.federation.simulation import simulate

                head, report = simulate(
                    sender,
                    dealt.features,
                    dealt.labels,
                    dealt.partition,
                    out,
                    nodes=nodes,
                    plan=plan,
                    secure=secure,
                    depends_on={
                        "dataset": dataset,
                        "images": len(dealt.labels),
                        "features": backbone,
                        "clients": holders,
                        "partition": scheme.title,
                    },
                    origin=dealt.origin,
                    advance=advance,
                )
                rounds, wire_bytes = report.rounds, report.wire_bytes
                set_aside = {**report.missing, **report.refused, **report.misfit}
            else:
                result, head = _in_process(noise, limits, sender, dealt, advance)
                rounds, wire_bytes = 1, result.wire_bytes
                out.mkdir(parents=True, exist_ok=True)
                head.save(path)
        seconds = time.perf_counter() - start

        assert head.provenance is not None
        accuracy = head.score(dealt.test_features, dealt.test_labels)
        formula = head.provenance.formula_bytes  # 0 of sums, which do not say who holds what
        shown = {
            "method": method,
            "engine": engine,
            "accuracy": f"{100 * accuracy:.1f} %",
            "clients in the head": f"{head.provenance.clients:,}",
            "rounds": str(rounds),
            **({"sent (formula)": f"{formula / 1e6:.2f} MB"} if formula else {}),
            "sent in this run": f"{wire_bytes / 1e6:.2f} MB",
            "time": f"{seconds:.1f} s",
        }
        print_table(
            [{"": name, "value": value} for name, value in shown.items()],
            title=f"{dataset}, {holders} clients, {scheme.title}, seed {seed}",
            document={
                "head": path,
                "engine": engine,
                "accuracy": accuracy,
                "clients": holders,
                "rounds": rounds,
                "wire_bytes": wire_bytes,
                "seconds": seconds,
                "provenance": head.provenance,
                "set_aside": set_aside,
            },
            as_json=as_json,
        )
        say(f"saved in: {out}", as_json=as_json)
        for client_id, reason in sorted(set_aside.items()):
            note(f"set aside {client_id}: {reason}")
        if set_aside:
            raise typer.Exit(EXIT_LEFT_OUT)
