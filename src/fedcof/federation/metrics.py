"""The status of a run as metrics for Prometheus, which `prometheus-client` serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from fedcof.errors import SettingError
from fedcof.federation.status import ENDED, Status
from fedcof.installation import install_line

_STATES = ("starting", "waiting", "collecting", "training", *ENDED)


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
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
        from prometheus_client.registry import Collector
    except ImportError:
        raise SettingError(
            "metrics-port", f"needs prometheus-client: {install_line('metrics')}"
        ) from None

    class _Run(Collector):
        def collect(self) -> Iterable[Metric]:
            now = status()
            state = GaugeMetricFamily("fedcof_run_state", "1 for its state.", labels=["state"])
            for name in _STATES:
                state.add_metric([name], float(name == now.state))
            yield state
            clients = GaugeMetricFamily(
                "fedcof_clients", "Clients by what became of them.", labels=["outcome"]
            )
            for name in ("known", "asked", "answered", "resumed", "waiting", "misfit", "odd"):
                clients.add_metric([name], getattr(now, name))
            yield clients
            for name, counted, label in (
                ("fedcof_clients_refused", now.refused, "code"),
                ("fedcof_clients_missing", now.missing, "reason"),
                ("fedcof_class_clients", now.classes, "class"),
            ):
                family = GaugeMetricFamily(name, f"Clients by {label}.", labels=[label])
                for key, number in counted.items():
                    family.add_metric([key], number)
                yield family
            gauges = {
                "fedcof_supernodes": now.nodes,
                "fedcof_supernodes_online": now.online,
                "fedcof_rounds": now.rounds,
                "fedcof_seconds_left": now.seconds_left,
                "fedcof_head_accuracy": now.accuracy,
                "fedcof_training_round": now.training.get("number"),
                "fedcof_training_loss": now.training.get("loss"),
                "fedcof_training_accuracy": now.training.get("accuracy"),
                "fedcof_started_timestamp_seconds": now.started,
            }
            for name, value in gauges.items():
                if value is not None:
                    yield GaugeMetricFamily(name, name.replace("_", " "), value=value)
            yield CounterMetricFamily(
                "fedcof_received_bytes", "Bytes of summaries on the wire.", value=now.wire_bytes
            )

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
