"""From a backbone's name to its architecture, weights and preprocessing, whatever runs it then."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fedcof.backbones.architecture import Architecture
from fedcof.backbones.registry import BACKBONES
from fedcof.backbones.sources import (
    NAMED_SOURCES,
    ResolvedBackbone,
    Source,
    checkpoint,
    onnx_file,
    packaged,
    transformers_folder,
    transformers_hub,
    zoo,
)
from fedcof.errors import BackboneError, NoWeightsError, SettingError
from fedcof.files import cache_folder


def weights_folder() -> Path:
    """Return the folder for weights that the user has as files.

    It is ``$FEDCOF_WEIGHTS`` where that is set, else ``weights`` in the cache folder.
    """
    override = os.environ.get("FEDCOF_WEIGHTS")
    return Path(override).expanduser() if override else cache_folder() / "weights"


def with_weights(backbone: str, weights: str) -> str:
    """Return the name that stands for a backbone with the weights of one source.

    Parameters
    ----------
    backbone : str
        A key of `BACKBONES`.
    weights : str
        One of `NAMED_SOURCES`, a file, or a folder of transformers; "paper" for the source that the
        paper took. Empty: the first that are found.

    Raises
    ------
    SettingError
        If the backbone has no weights from there, or is not one that goes by a name.

    Examples
    --------
    >>> with_weights("mobilenetv2", "torchvision")
    'mobilenetv2@torchvision'
    >>> with_weights("vit-b-16", "paper")
    'vit-b-16@timm'
    """
    if not weights:
        return backbone
    if backbone not in BACKBONES:
        raise SettingError(
            "weights",
            f"are chosen for a backbone that goes by a name, {_or(BACKBONES)}, not for "
            f"{backbone or 'none'}",
        )
    known = BACKBONES[backbone]
    if weights == "paper":
        if not known.paper:
            raise SettingError("weights", f"of the paper are not known for {backbone}")
        weights = known.paper
    _named(known, weights)
    return f"{backbone}@{weights}"


def split_name(name: str) -> tuple[str, str]:
    """Return the backbone that a name stands for, and the source of its weights or ``""``."""
    backbone, _, weights = name.partition("@")
    return (backbone, weights) if backbone in BACKBONES else (name, "")


def absolute(name: str) -> str:
    """Return a name that stands for the same weights from any folder: its paths made absolute."""
    backbone, weights = split_name(name)
    if weights:
        return name if weights in NAMED_SOURCES else f"{backbone}@{absolute(weights)}"
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def sources(name: str) -> list[Source]:
    """List the places where weights of a backbone may be, in the order in which they are tried.

    Parameters
    ----------
    name : str
        As `resolve` takes it.

    Raises
    ------
    ValueError
        If the name is unknown, or the backbone has no weights from what it names; the text lists
        the near ones, or all of them.
    """
    backbone, weights = split_name(name)
    if weights:
        return _named(BACKBONES[backbone], weights)
    path = Path(name).expanduser()
    if name in BACKBONES:
        return _registered(BACKBONES[name])
    if name.endswith(".onnx"):
        return [onnx_file(path)]
    if path.is_dir():
        return [transformers_folder(path.name, path)]
    if "/" in name:
        return [transformers_hub(path.name, name)]
    raise _unknown(name)


def _unknown(name: str) -> ValueError:
    near = get_close_matches(name, BACKBONES, cutoff=0.4) or sorted(BACKBONES)
    return ValueError(f"unknown backbone {name!r}; did you mean {' or '.join(near)}?")


def _registered(known: Architecture) -> list[Source]:
    name, folder = known.name, weights_folder()
    places: list[Source] = [onnx_file(folder / f"{name}.onnx")]
    if known.layout:
        places.append(checkpoint(known, folder / f"{name}.pth"))
    if known.package:
        places.append(packaged(known, known.package))
    places.append(transformers_folder(name, folder / name))
    if known.transformers:
        places.append(transformers_hub(name, known.transformers))
    if known.torchvision:
        places.append(zoo(name, "torchvision", known.torchvision))
    if known.timm:
        places.append(zoo(name, "timm", known.timm))
    return places


def _named(known: Architecture, weights: str) -> list[Source]:
    """Return the places of one source, or a file or folder of the user."""
    places = [place for place in _registered(known) if place.name == weights]
    if places:
        return places
    path = Path(weights).expanduser()
    if path.is_dir():
        return [transformers_folder(known.name, path)]
    if path.suffix == ".onnx":
        return [onnx_file(path)]
    if path.suffix in _CHECKPOINTS or path.is_file():
        if known.layout is None:
            raise SettingError(
                "weights",
                f"of {known.name} are read from an ONNX file or a folder of transformers, not from "
                f"a checkpoint as {weights}",
            )
        return [checkpoint(known, path)]
    others = dict.fromkeys(
        place.name for place in _registered(known) if place.name in NAMED_SOURCES
    )
    near = get_close_matches(weights, others) if weights not in NAMED_SOURCES else []
    hint = f"; did you mean {_or(near)}?" if near else ""
    raise SettingError(
        "weights",
        f"of {known.name} are a file or from {_or(others)}, not from {weights}: no such file{hint}",
    )


_CHECKPOINTS = (".pth", ".pt", ".bin", ".safetensors")


def _or(words: Iterable[str]) -> str:
    return " or ".join(words)


def resolve(name: str, preprocessing: Mapping[str, Any] | None = None) -> ResolvedBackbone:
    """Return the first weights of a backbone that are there, or can be fetched.

    Parameters
    ----------
    name : str
        A key of `BACKBONES`, alone or as ``NAME@SOURCE`` with where its weights are to be from: one
        of `NAMED_SOURCES`, a file, or a folder of transformers. Or the path of an ONNX file; or a
        folder or model id of Hugging Face ``transformers`` (a ViT, ResNet or MobileNetV2).
    preprocessing : mapping, optional
        Fields of `Preprocessing` that are to be others than those of the weights.

    Raises
    ------
    ValueError
        If the name is unknown; the text lists the near ones, or all of them.
    NoWeightsError
        If no weights are found; the text lists all that was looked for.
    BackboneError
        If those that are found cannot be used.
    """
    reasons = []
    for source in sources(name):
        try:
            return source.resolve().prepared(preprocessing or {})
        except NoWeightsError as error:
            reasons.append(str(error))
    wanted = "".join(f"\n- {reason}" for reason in reasons)
    raise NoWeightsError(f"no weights of {name} are found. One of these is needed:{wanted}")


def by_origin(origin: Mapping[str, str]) -> ResolvedBackbone | None:
    """Return the backbone that made the features of a summary or a head, if it is here.

    Parameters
    ----------
    origin : mapping of str to str
        As they say it. It is compared with all weights on this machine of the backbones that go by
        a name; nothing is fetched.
    """
    for name in BACKBONES:
        for source in sources(name):
            if source.here() is not None:
                with suppress(BackboneError):
                    resolved = source.resolve()
                    if resolved.origin["backbone"] == origin.get("backbone"):
                        return resolved
    return None
