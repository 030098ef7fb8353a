"""From a backbone's name to its architecture, weights and preprocessing, whatever runs it then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from fedcof.backbones.architecture import Architecture
from fedcof.backbones.registry import BACKBONES
from fedcof.backbones.sources import (
    ResolvedBackbone,
    Source,
    checkpoint,
    onnx_file,
    packaged,
    transformers_folder,
    transformers_hub,
    zoo,
)
from fedcof.errors import BackboneError, NoWeightsError
from fedcof.files import cache_folder


def weights_folder() -> Path:
    """Return the folder for weights that the user has as files.

    It is ``$FEDCOF_WEIGHTS`` where that is set, else ``weights`` in the cache folder.
    """
    override = os.environ.get("FEDCOF_WEIGHTS")
    return Path(override).expanduser() if override else cache_folder() / "weights"


def sources(name: str) -> list[Source]:
    """List the places where weights of a backbone may be, in the order in which they are tried.

    Parameters
    ----------
    name : str
        As `resolve` takes it.

    Raises
    ------
    ValueError
        If the name is unknown; the text lists the near ones, or all of them.
    """
    path = Path(name).expanduser()
    if name in BACKBONES:
        return _registered(BACKBONES[name])
    if name.endswith(".onnx"):
        return [onnx_file(path)]
    if path.is_dir():
        return [transformers_folder(path.name, path)]
    if "/" in name:
        return [transformers_hub(path.name, name)]
    near = get_close_matches(name, BACKBONES, cutoff=0.4) or sorted(BACKBONES)
    raise ValueError(f"unknown backbone {name!r}; did you mean {' or '.join(near)}?")


def _registered(known: Architecture) -> list[Source]:
    name, folder = known.name, weights_folder()
    places: list[Source] = [onnx_file(folder / f"{name}.onnx")]
    if known.torch_module:
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


def resolve(name: str) -> ResolvedBackbone:
    """Return the first weights of a backbone that are there, or can be fetched.

    Parameters
    ----------
    name : str
        A key of `BACKBONES`; the path of an ONNX file; or a folder or model id of Hugging Face
        ``transformers`` (a ViT, ResNet or MobileNetV2).

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
            return source.resolve()
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
