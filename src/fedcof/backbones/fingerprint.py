"""Fingerprints of backbones: a digest of architecture, weights and preprocessing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from fedcof.backbones.preprocessing import Preprocessing


def fingerprint_of(preprocessing: Preprocessing, weights: bytes, architecture: str = "") -> str:
    """Return the SHA-256 of all that decides a backbone's features, in hexadecimal digits.

    It does not depend on the runtime, nor on the version of torch that exported the network.

    Parameters
    ----------
    preprocessing : Preprocessing
    weights : bytes
        As `files_digest` or `model_digest` gives them.
    architecture : str, default ""
        Empty where the weights' file holds the architecture too, as an ONNX model does.
    """
    # What is not set is not said: a new field leaves the fingerprints of before as they are.
    said = ", ".join(
        f"{field.name}={value!r}"
        for field in fields(preprocessing)
        if (value := getattr(preprocessing, field.name)) is not None
    )
    text = f"Preprocessing({said}){architecture}"
    return hashlib.sha256(text.encode() + weights).hexdigest()


def origin_of(fingerprint: str) -> dict[str, str]:
    """Return what summaries and heads say of the features of a backbone with this fingerprint."""
    return {"backbone": fingerprint[:16]}


def files_digest(paths: Iterable[Path]) -> bytes:
    """Return the SHA-256 of the content of each file, one after the other."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return b"".join(digests)


def model_digest(model: bytes | Path) -> bytes:
    """Return the digest of an ONNX model, with the files that hold weights beside it."""
    if isinstance(model, bytes):
        return hashlib.sha256(model).digest()
    return files_digest([model, *_external_files(model)])


def _external_files(model: Path) -> list[Path]:
    """List the files beside a model that hold its weights, as torch exports large models."""
    import onnx  # slow, and needed for the user's own models only

    graph = onnx.load(model, load_external_data=False).graph
    locations = {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [model.parent / location for location in sorted(locations)]
