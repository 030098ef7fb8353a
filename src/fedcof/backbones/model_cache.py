"""ONNX models that are made from weights: once, and then kept in the user's cache."""

from collections.abc import Callable

from fedcof.files import cache_folder, fetch, store


def cached_model(name: str, fingerprint: str, make: Callable[[], bytes]) -> bytes:
    """Return a backbone's model, made if it was not made before.

    Parameters
    ----------
    name, fingerprint : str
        The backbone's.
    make : callable
        Makes the serialised ONNX model.
    """
    path = cache_folder() / "models" / f"{name}-{fingerprint}.onnx"
    model = fetch(path)
    if model is None:
        model = make()
        store(path, model)
    return model
