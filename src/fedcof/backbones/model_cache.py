"""ONNX models that are made from weights: once, and then kept in the user's cache."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from fedcof.files import cache_folder, fetch, store


def digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the content of files, in hexadecimal digits."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def cached_model(name: str, weights: str, make: Callable[[], bytes]) -> bytes:
    """Return the model of these weights, made if it was not made before.

    Parameters
    ----------
    name : str
        The backbone's.
    weights : str
        A digest of all that the model depends on.
    make : callable
        Makes the serialised ONNX model.
    """
    path = cache_folder() / "models" / f"{name}-{weights}.onnx"
    model = fetch(path)
    if model is None:
        model = make()
        store(path, model)
    return model
