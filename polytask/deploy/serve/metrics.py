"""What a server counts, in Prometheus's form."""

from typing import final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@final
class Metrics:
    """Counters of one server, apart from any other in the process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._requests = Counter(
            "polytask_requests", "Requests by path and status.", ("path", "status"), registry=registry
        )
        self._seconds = Histogram(
            "polytask_request_seconds", "Time to answer.", ("path",), buckets=SECONDS, registry=registry
        )
        self._texts = Counter(
            "polytask_texts", "Texts or pairs asked of each task.", ("task",), registry=registry
        )
        self._batch_rows = Histogram(
            "polytask_batch_texts", "Texts or pairs in a model call.", buckets=ROWS, registry=registry
        )
        self._batch_seconds = Histogram(
            "polytask_batch_seconds", "Time of a model call.", buckets=SECONDS, registry=registry
        )
        self.waiting = Gauge("polytask_waiting_texts", "Texts or pairs in the queue.", registry=registry)
        self.models = Gauge("polytask_models", "Models loaded.", registry=registry)
        self.reloads = Counter("polytask_reloads", "Looks at the folder.", ("result",), registry=registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered; `path` is one of the server's own, never a client's."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def texts(self, tasks: tuple[str, ...], rows: int) -> None:
        """Count what a request asks."""
        for task in tasks:
            self._texts.labels(task).inc(rows)

    def batch(self, rows: int, seconds: float) -> None:
        """Count a model call."""
        self._batch_rows.observe(rows)
        self._batch_seconds.observe(seconds)

    def page(self) -> bytes:
        """All of them as text."""
        return generate_latest(self._registry)
