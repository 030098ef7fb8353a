"""Inputs and labels of a source: a client trains on them, the server tests on them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedcof.backbones import Preprocessing
from fedcof.data.reading.own_data import Data, are_features
from fedcof.errors import SummaryError
from fedcof.federation.sources import extract
from fedcof.training.batches import Images, Inputs
from fedcof.transforms import NO_TRANSFORM, Transform

_log = logging.getLogger(__name__)


def as_inputs(
    data: Data,
    labels: Any,
    *,
    backbone: str = "",
    transform: Transform = NO_TRANSFORM,
    preprocessing: Preprocessing | None = None,
) -> tuple[Inputs, NDArray[Any]]:
    """Return what a head is trained on, features, or what a network is, images; and the labels.

    Images that cannot be read are left out of both.

    Parameters
    ----------
    data, labels
        As `sources` has them.
    backbone : str, default ""
        Makes features of images.
    transform : Transform, default NO_TRANSFORM
        Of the features.
    preprocessing : Preprocessing, optional
        Of the network that takes images. Default: the inputs are features.

    Raises
    ------
    SummaryError
        If there are features where a network takes images, or images that cannot be used.
    """
    if preprocessing is None:
        features, kept, _ = extract(data, labels, backbone)
        return torch.from_numpy(np.ascontiguousarray(transform(features), np.float32)), kept
    if are_features(data):
        raise SummaryError("no-images", "these are features; networks and prompts take images")
    if len(data) != len(labels):
        raise SummaryError("labels", f"{len(data)} images but {len(labels)} labels")
    images = Images(data, preprocessing)
    for row, fault in images.faults.items():
        _log.warning("image %d is left out: %s", row, fault)
    rows = np.delete(np.arange(len(images)), list(images.faults))
    if not len(rows):
        raise SummaryError("unreadable", f"none of {len(data)} images can be read")
    return images.subset(rows), np.asarray(labels)[rows]
