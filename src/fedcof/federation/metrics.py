"""The status of a run as metrics for Prometheus, which `prometheus-client` serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedcof.errors import SettingError
from fedcof.federation.status import ENDED, Status
from fedcof.installation import install_line

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_STATES = ("starting", "waiting", "collecting", "training", *ENDED)
_OUTCOMES = ("known", "asked", "answered", "resumed", "waiting", "misfit", "odd")


@contextmanager
def served(status: Callable[[], Status], host: str, port: int) -> Iterator[None]:
    """Serve the metrics of a run at an address while the block runs.

    Raises
    ------
    SettingError
        If prometheus-client is not installed, or the address cannot be listened on.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.registry import Collector
    except ImportError:
        raise SettingError(
            "metrics-port", f"needs prometheus-client: {install_line('metrics')}"
        ) from None

    class _Run(Collector):
        def collect(self) -> Iterable[Metric]:
            return families(status())

    registry = CollectorRegistry()
    registry.register(_Run())
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise SettingError("metrics-port", f"{host}:{port}: {error.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def families(status: Status) -> Iterator[Metric]:
    """Yield the metrics of a status."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    state = GaugeMetricFamily("fedcof_run_state", "1 for its state.", labels=["state"])
    for name in _STATES:
        state.add_metric([name], float(name == status.state))
    yield state
    clients = GaugeMetricFamily("fedcof_clients", "What became of clients.", labels=["outcome"])
    for name in _OUTCOMES:
        clients.add_metric([name], getattr(status, name))
    yield clients
    for name, counted, label in (
        ("fedcof_clients_refused", status.refused, "code"),
        ("fedcof_clients_missing", status.missing, "reason"),
        ("fedcof_class_clients", status.classes, "class"),
    ):
        family = GaugeMetricFamily(name, f"Clients by {label}.", labels=[label])
        for key, number in counted.items():
            family.add_metric([key], number)
        yield family
    gauges = {
        "fedcof_supernodes": status.nodes,
        "fedcof_supernodes_online": status.online,
        "fedcof_rounds": status.rounds,
        "fedcof_seconds_left": status.seconds_left,
        "fedcof_head_accuracy": status.accuracy,
        "fedcof_training_round": status.training.get("number"),
        "fedcof_training_loss": status.training.get("loss"),
        "fedcof_training_accuracy": status.training.get("accuracy"),
        "fedcof_started_timestamp_seconds": status.started,
    }
    for name, value in gauges.items():
        if value is not None:
            yield GaugeMetricFamily(name, f"{name.replace('_', ' ')}.", value=value)
    yield CounterMetricFamily(
        "fedcof_received_bytes", "Bytes of summaries on the wire.", value=status.wire_bytes
    )
