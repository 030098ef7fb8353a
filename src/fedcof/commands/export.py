"""``fedcof export``: a head for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.predict import BackboneName, HeadFile, check_not_its_input
from fedcof.commands.shared import errors_for_people, say
from fedcof.errors import SettingError


def export(
    head: HeadFile,
    *,
    onnx: Annotated[
        Path,
        typer.Option("--onnx", metavar="FILE", help="The ONNX model to write.", dir_okay=False),
    ],
    backbone: BackboneName = "",
    features: Annotated[
        bool, typer.Option("--features", help="Without the backbone: a model that takes features.")
    ] = False,
) -> None:
    """Write one ONNX model from an image to scores and label: backbone and head.

    A head of plain features takes features. The image is RGB of any size, uint8 (n, height, width,
    3); its resize and normalisation are in the model.
    """
    from fedcof.export import to_onnx
    from fedcof.files import write_atomically
    from fedcof.heads import LinearHead
    from fedcof.prediction import backbone_of

    with errors_for_people():
        if features and backbone:
            raise SettingError("features", "is for a model without a backbone; leave one of them")
        check_not_its_input("onnx", onnx, head)
        classifier = LinearHead.load(head)
        origin = classifier.provenance.origin if classifier.provenance else {}
        alone = features or not (backbone or origin.get("backbone"))
        network = None if alone else backbone_of(classifier, backbone)
        model = to_onnx(classifier, network)
        write_atomically(onnx, model.SerializeToString())
        source = "features" if network is None else f"an image, by {network.name}"
        say(f"{onnx}: from {source} to {len(classifier.classes):,} classes")
