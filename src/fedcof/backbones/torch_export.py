"""From a network in torch to a backbone in ONNX: exported once, checked, kept."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcof.backbones.backbone import Backbone
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError

TOLERANCE = 1e-4
"""How far the exported network may be from torch, relative to the largest feature."""


def export(module: nn.Module, preprocessing: Preprocessing, *, name: str) -> bytes:
    """Export a network to ONNX and compare the two on random images.

    The same network and version of torch give the same bytes.

    Parameters
    ----------
    module : torch.nn.Module
        From float32 images (n, 3, size, size) to features (n, dim).
    preprocessing : Preprocessing
        Its ``size`` is that of the images.
    name : str
        Name of the backbone, for the errors.

    Raises
    ------
    BackboneError
        If torch cannot export the network, or ONNX Runtime gives other features than torch.
    """
    module = module.eval().float()
    size = preprocessing.size
    images = torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), _quiet():
        try:
            program: Any = torch.onnx.export(
                module,
                (images,),
                input_names=["image"],
                output_names=["features"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
        except Exception as error:  # the exporter has no common class for its errors
            raise BackboneError(f"backbone {name}: torch cannot export it: {error}") from error
        expected = module(images).numpy()
    model = _serialize(program.model_proto)
    found = Backbone(model, preprocessing, name=name, device="cpu").infer(images.numpy())
    distance = np.abs(found - expected).max() / max(np.abs(expected).max(), 1.0)
    if not distance <= TOLERANCE:
        raise BackboneError(
            f"backbone {name}: the features of the exported network differ from torch's by "
            f"{distance:.2g} of the largest one, more than {TOLERANCE:g}; another version of torch "
            "may export it better"
        )
    return model


def _serialize(model: Any) -> bytes:
    """Drop the notes of the exporter, which name files of this machine."""
    graph = model.graph
    parts = (graph.node, graph.value_info, graph.input, graph.output, graph.initializer)
    for part in (model, graph, *(item for group in parts for item in group)):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.ClearField("producer_version")
    serialized: bytes = model.SerializeToString(deterministic=True)
    return serialized


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's remarks about its own parts and about absent packages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
