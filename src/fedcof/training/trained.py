"""What is trained on images, and what comes out of training: files that are used again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.fingerprint import origin_of
from fedcof.backbones.resolver import absolute
from fedcof.backbones.torch_backbone import TorchBackbone, network
from fedcof.backbones.torch_engine import fast_on
from fedcof.data import ImageSource
from fedcof.errors import CorruptBytesError, TrainingError
from fedcof.files import write_atomically
from fedcof.heads import LinearHead
from fedcof.training.batches import Images
from fedcof.training.classifier import Classifier
from fedcof.training.exchange import PROMPTS, State
from fedcof.training.heads import head_of, trained_head
from fedcof.training.history import Round, save_history
from fedcof.training.local import outputs, set_state
from fedcof.training.prompts import PromptedViT
from fedcof.training.settings import Precision
from fedcof.transforms import NO_TRANSFORM, Transform, parse
from fedcof.wire import decode, encode

CHECKPOINT = "checkpoint.safetensors"
HISTORY = "history.json"
MODEL = "model.safetensors"

_KIND = "model"


def classifier(
    backbone: TorchBackbone,
    head: LinearHead,
    *,
    pool_size: int | None = None,
    seed: int = 0,
    precision: Precision = "float32",
) -> Classifier:
    """Return what is trained on images: a network and its head, or prompts and head.

    Parameters
    ----------
    backbone : TorchBackbone
    head : LinearHead
        The start.
    pool_size : int, optional
        Number of prompts of a ViT, which is frozen then. Default: none, and all is trained.
    seed : int, default 0
        Draws the prompts.
    precision : {"float32", "bf16"}
        Of the products.

    Raises
    ------
    ValueError
        If prompts are to stand before the patches of a network that has none.
    """
    module = backbone.module
    if pool_size is not None:
        module = PromptedViT(backbone, pool_size=pool_size, seed=seed)
    return Classifier(module, head, backbone.preprocessing, precision=precision)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A network that was fine-tuned, or prompts of a ViT, with the head.

    Parameters
    ----------
    state : dict of str to ndarray of float32
        What was trained.
    classes : ndarray of int or str, shape (classes,)
        The labels in the order of the head's rows.
    network : mapping of str to str, int, bool or mapping
        What it was trained from: the arguments of `fedcof.backbones.torch_backbone.network`. Of a
        fine-tuned network the architecture and the statistics of normalisation layers are taken
        from it, of a ViT with prompts all weights.
    fingerprint : str
        That of the backbone it was trained from.
    transform : Transform, default NO_TRANSFORM
        What stands between the network and the head.
    """

    state: State
    classes: NDArray[Any]
    network: Mapping[str, Any]
    fingerprint: str
    transform: Transform = NO_TRANSFORM

    def predict(
        self, images: Sequence[ImageSource] | NDArray[np.uint8], *, device: str = "cpu"
    ) -> NDArray[Any]:
        """Return the labels of images.

        Parameters
        ----------
        images : sequence of n paths, encoded images (bytes) or pixel arrays
        device : str, default "cpu"
            Where torch computes.

        Raises
        ------
        NoWeightsError
            If what it was trained from is not found here.
        TrainingError
            If other weights are found under its name.
        """
        inputs = Images(images, self._backbone.preprocessing)
        scores = outputs(fast_on(self._classifier, device), inputs)
        return np.asarray(self.classes[np.concatenate([batch.argmax(axis=1) for batch in scores])])

    @cached_property
    def _backbone(self) -> TorchBackbone:
        found = network(**self.network)
        if found.fingerprint != self.fingerprint:
            raise TrainingError(
                f"the model was trained from weights of {self.network['name']} with the "
                f"fingerprint {self.fingerprint[:16]}; those found here have "
                f"{found.fingerprint[:16]}: put the same weights where they were, see "
                "`fedcof backbones list`"
            )
        return found

    @cached_property
    def _classifier(self) -> Classifier:
        pool_size = len(self.state[PROMPTS]) if PROMPTS in self.state else None
        head = head_of(self.state, self.classes, self.transform)
        model = classifier(self._backbone, head, pool_size=pool_size)
        set_state(model, self.state)
        return model

    def save(self, path: str | Path) -> None:
        """Write the model to a safetensors file that `load` reads."""
        metadata = {
            "kind": _KIND,
            "classes": self.classes.tolist(),
            "network": dict(self.network),
            "fingerprint": self.fingerprint,
            "transform": str(self.transform),
        }
        write_atomically(Path(path), encode(self.state, metadata))

    @classmethod
    def load(cls, path: str | Path) -> TrainedModel:
        """Read a model that `save` wrote.

        Raises
        ------
        TrainingError
            If the file is truncated, corrupt or not a model.
        FileNotFoundError
            If there is no such file.
        """
        try:
            state, metadata = decode(Path(path).read_bytes())
        except CorruptBytesError as error:
            raise TrainingError(f"{path} is not a whole model: {error}; train it again") from None
        if metadata.get("kind") != _KIND:
            raise TrainingError(f"{path} is not a model of fedcof but {metadata.get('kind')!r}")
        return cls(
            state,
            np.asarray(metadata["classes"]),
            metadata["network"],
            metadata["fingerprint"],
            parse(metadata.get("transform", str(NO_TRANSFORM))),
        )


def save_training(
    folder: Path,
    state: State,
    rounds: Sequence[Round],
    start: LinearHead,
    *,
    head: str,
    network: Mapping[str, Any] | None = None,
    fingerprint: str = "",
) -> LinearHead:
    """Write head, history and, where there is one, the network or the prompts; return the head.

    Parameters
    ----------
    folder : path
    state : dict of str to ndarray of float32
    rounds : sequence of Round
    start : LinearHead
        What was trained; its provenance says what made its features.
    head : str
        The name of the head's file.
    network : mapping, optional
        As `TrainedModel` has it. Default: the head alone was trained.
    fingerprint : str, default ""
        That of the network before it was trained.
    """
    origin = start.provenance.origin if start.provenance else {}
    if network is not None:
        # The network that makes the features after training is another one than before.
        origin = {**origin, **origin_of(hashlib.sha256(encode(state, {})).hexdigest())}
    trained = trained_head(state, start, rounds, origin)
    trained.save(folder / head)
    if network is not None:
        found_from_anywhere = {**network, "name": absolute(str(network["name"]))}
        model = TrainedModel(
            state, start.classes, found_from_anywhere, fingerprint, start.transform
        )
        model.save(folder / MODEL)
    save_history(rounds, folder / HISTORY)
    return trained
