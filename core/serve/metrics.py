"""The metrics of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = tuple(0.0005 * 2**i for i in range(15))
_SIZES = tuple(2**i for i in range(9))


class Metrics:
    """The counters of one server; all names begin with `abw_`."""

    def __init__(self, waiting: Callable[[], float], ready: Callable[[], float]) -> None:
        """`waiting`: the number of waiting instances; `ready`: 1 while requests are run, else 0."""
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("abw_requests", "Requests by status", ["status"], registry=registry)
        self.instances = Counter("abw_instances", "Instances that were answered", registry=registry)
        self.wrong = Counter("abw_instance_errors", "Instances answered by an error", registry=registry)
        self.restarts = Counter("abw_engine_restarts", "Engines that died", registry=registry)
        self.batch = Histogram(
            "abw_batch_instances", "Instances sent to the engine together", buckets=_SIZES, registry=registry
        )
        self.run = Histogram(
            "abw_batch_seconds", "Seconds that the engine took for them", buckets=_SECONDS, registry=registry
        )
        self.waited = Histogram(
            "abw_queue_seconds", "Seconds from a request to its run", buckets=_SECONDS, registry=registry
        )
        self.took = Histogram(
            "abw_request_seconds", "Seconds from a request to its answer", buckets=_SECONDS, registry=registry
        )
        Gauge("abw_queue_instances", "Instances that wait", registry=registry).set_function(waiting)
        Gauge("abw_ready", "Whether requests are run", registry=registry).set_function(ready)

    def text(self) -> bytes:
        """Write all metrics in Prometheus's text format."""
        text: bytes = generate_latest(self._registry)
        return text
