"""``fedcof demo``: the main job on real images."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

import fedcof
from fedcof.commands.options import (
    Given,
    Seed,
    TransformText,
    dealing_settings,
    out_folder,
    sending_settings,
    with_settings,
)
from fedcof.commands.shared import Json, deal_samples, errors_for_people, print_table, say

DEMO_METHODS = ("fedncm", "fed3r", "fedcof", "fedcof-oracle")


@with_settings(dealing=dealing_settings, sending=sending_settings)
def demo(
    *,
    seed: Seed = 0,
    transform: TransformText = "none",
    images: Annotated[int, typer.Option(help="How many of the 10,000 images to take.")] = 6000,
    out: Annotated[Path, out_folder("head, results and figure")] = Path("fedcof-demo"),
    as_json: Json = False,
    dealing: Given,
    sending: Given,
) -> None:
    """Run the main job on real images: Fashion-MNIST at many clients, one round, one head."""
    from fedcof.backbones import transform_for
    from fedcof.client import Sender
    from fedcof.data import Dirichlet, fashion_mnist
    from fedcof.experiments import evaluate
    from fedcof.methods import get_method
    from fedcof.progress import progress_bar
    from fedcof.report import MB, METHOD_TITLES, Point, accuracy_vs_communication

    with errors_for_people():
        scheme = Dirichlet(**dealing)
        train, test = fashion_mnist(images, seed=seed)
        backbone = "squeezenet1.1"
        chosen = transform_for(transform, backbone)
        senders = [Sender(get_method(m), seed, **sending, transform=chosen) for m in DEMO_METHODS]
        dealt = deal_samples(train, test, backbone, scheme, seed=seed)
        # The wire size is that of the summaries alone: one backbone made all features.
        origin, dealt = dealt.origin, replace(dealt, origin={})
        results, heads = [], {}
        for sender in senders:
            name = sender.method.name
            with progress_bar(f"Summarizing: {name}", scheme.clients, unit="clients") as advance:
                result, heads[name] = evaluate(sender, dealt, advance=advance)
            results.append(result)

        assert heads["fedcof"].provenance is not None
        made_by = heads["fedcof"].provenance.origin
        title = f"Fashion-MNIST, {scheme.clients} clients, {scheme.title}, seed {seed}"
        rows = [
            {
                "method": result.method,
                "accuracy %": f"{100 * result.accuracy:.1f}",
                "MB sent (formula)": f"{result.formula_bytes / 1e6:.2f}",
                "MB on the wire": f"{result.wire_bytes / 1e6:.2f}",
                "server s": f"{result.server_seconds:.3f}",
            }
            for result in results
        ]
        out.mkdir(parents=True, exist_ok=True)
        head_path, results_path = out / "head.safetensors", out / "results.json"
        figure_path = out / "accuracy-vs-communication.png"
        heads["fedcof"].with_provenance(origin={**origin, **made_by}).save(head_path)
        document = {
            "fedcof": fedcof.__version__,
            "dataset": "fashion-mnist",
            "backbone": backbone,
            "transform": str(chosen),
            **sending,
            **asdict(scheme),
            "seed": seed,
            "images": images,
            "rows": [asdict(result) for result in results],
        }
        results_path.write_text(json.dumps(document, indent=2) + "\n")
        points = [
            Point(
                METHOD_TITLES[result.method],
                result.wire_bytes / MB,
                100 * result.accuracy,
                method=result.method,
            )
            for result in results
        ]
        figure = accuracy_vs_communication(points, title)
        figure.savefig(figure_path, dpi=150, facecolor="white")
        print_table(rows, title=title, document=document, as_json=as_json)
        for path in (head_path, results_path, figure_path):
            say(f"saved: {path}", as_json=as_json)
