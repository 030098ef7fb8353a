"""An engine over Ray: the partial results of fragments are computed by its workers.

The one module that imports Ray. Results come back in the order of the fragments, and are added
here, in the same tree as in one process: the head is the same to the last bit, whatever the number
of workers. A worker that dies changes nothing: Ray computes its fragment again on another one.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fedcof.installation import install_line

T = TypeVar("T")
R = TypeVar("R")

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Ray reports who uses it, unless it is told not to before it is imported."""

_AHEAD = 2
"""Tasks a worker that are given out: one is computed while the other waits."""

_TRIES = 5
"""How often a task is given to another worker after its worker has died."""

_PATIENCE = 10.0
"""Seconds to wait for an address to answer; Ray itself would wait for many minutes."""

Engine = Callable[[Callable[[T], R], Iterable[T]], Iterator[R]]


@contextmanager
def ray_engine(address: str = "", *, workers: int | None = None) -> Iterator[Engine[Any, Any]]:
    """Start Ray, or join a cluster, and give an engine for `fedcof.scale.solve`.

    Parameters
    ----------
    address : str, default ""
        Of a cluster that is running, such as ``head:6379`` or ``auto``. Empty: Ray is
        started on this machine, and stopped afterwards.
    workers : int, optional
        How many tasks are computed at a time. Default: one a CPU.

    Raises
    ------
    ImportError
        If Ray is not installed.
    ConnectionError
        If there is no cluster at this address.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise ImportError(f"Ray is not installed: {install_line('flower')}") from None
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address:
        _check_answers(address)
        options["address"] = address
    else:
        options |= {
            "address": "local",  # without it Ray joins one that runs on this machine
            "num_cpus": workers or os.cpu_count(),
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    ray.init(**options)
    try:
        number = workers or int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]

        def result(reference: Any) -> Any:
            try:
                return ray.get(reference)
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", error)
                if not isinstance(cause, ray.exceptions.RayError):
                    raise cause from None
                first_line = str(cause).partition("\n")[0] or type(cause).__name__
                raise ConnectionError(
                    f"Ray cannot compute a task: {first_line}. Has every machine the same fedcof, "
                    "the same files and enough memory?"
                ) from None

        def compute(task: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
            remote: Any = ray.remote(_call).options(num_cpus=1, max_retries=_TRIES)
            shared = ray.put(task)
            waiting: deque[Any] = deque()
            for item in items:
                waiting.append(remote.remote(shared, item))
                if len(waiting) > _AHEAD * number:
                    yield result(waiting.popleft())
            while waiting:
                yield result(waiting.popleft())

        yield compute
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Check that somebody listens at ``HOST:PORT``; any other address is left to Ray.

    Raises
    ------
    ConnectionError
        If nobody does.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(
            f"no Ray answers at {address} ({error}): give the address that `ray start --head` "
            "has printed, or auto on a machine of the cluster"
        ) from None


def _call(task: Callable[[T], R], item: T) -> R:
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # a task has one CPU: ONNX Runtime asks joblib for it
    return task(item)
