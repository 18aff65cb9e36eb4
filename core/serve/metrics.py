"""The metrics of a server, in Prometheus's text format."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# Upper bounds of the histograms' buckets: seconds from 50 us, and instances.
SECONDS = tuple(50e-6 * 2**i for i in range(18))
SIZES = tuple(2**i for i in range(10))


class Histogram:
    """Counts of values by the bucket that they fall into, with their sum."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Write it as Prometheus does: buckets that include those before them, sum and count."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            shown = "+Inf" if bound == float("inf") else f"{bound:.6g}"
            yield f'{name}_bucket{{{labels},le="{shown}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self.sum!r}"
        yield f"{name}_count{{{labels}}} {total}"


class ModelMetrics:
    """What is counted of one model.

    Requests that an engine answered, were refused, and came too late are apart (`took`); so are instances
    that were run and those whose answers somebody got.
    """

    def __init__(self) -> None:
        self.took = {"answered": Histogram(), "refused": Histogram(), "late": Histogram()}
        self.waited, self.run = Histogram(), Histogram()
        self.batch = Histogram(SIZES)
        self.ran = self.answered = self.wrong = self.restarts = self.loads = 0
        # kept up to date by the dispatcher
        self.engines: dict[int, str] = {}
        self.waiting = self.ready_engines = 0
        self.ready = False


# Name, type and help of each metric; docs/serving.md lists them. Of those of a model also its attribute.
METRICS = {
    "abw_requests_total": ("counter", "Requests by HTTP status; 499: the client has gone"),
    "abw_request_seconds": ("histogram", "Seconds from a whole request to its answer, by result"),
    "abw_queue_seconds": (
        "histogram",
        "Seconds from a whole request to the run of its first instance",
        "waited",
    ),
    "abw_batch_seconds": ("histogram", "Seconds that an engine took for a mini-batch", "run"),
    "abw_batch_instances": ("histogram", "Instances sent to an engine together", "batch"),
    "abw_instances_run_total": ("counter", "Instances that an engine ran", "ran"),
    "abw_instances_total": ("counter", "Instances whose answers a client got", "answered"),
    "abw_instance_errors_total": ("counter", "Instances answered by an error", "wrong"),
    "abw_engine_restarts_total": ("counter", "Engines that died", "restarts"),
    "abw_loads_total": ("counter", "Times that weights were loaded anew", "loads"),
    "abw_queue_instances": ("gauge", "Instances that wait", "waiting"),
    "abw_ready": ("gauge", "Whether requests are run", "ready"),
    "abw_engines": ("gauge", "Engines that are ready, with the spare one", "ready_engines"),
    "abw_connections": ("gauge", "Open connections"),
    "abw_process_cpu_seconds_total": ("counter", "CPU seconds of a process"),
    "abw_process_resident_bytes": ("gauge", "Memory that a process holds"),
}


class Metrics:
    """The metrics of a server and its models."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.connections = 0

    def count(self, status: int) -> None:
        """Count a request by its status."""
        self.requests[status] = self.requests.get(status, 0) + 1

    def text(self, models: Mapping[str, ModelMetrics]) -> str:
        """Write all metrics; `models`: by name."""
        found: dict[str, list[str]] = {name: [] for name in METRICS}

        def add(name: str, value: float, **labels: str) -> None:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            found[name].append(f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}")

        for status, count in sorted(self.requests.items()):
            add("abw_requests_total", count, status=str(status))
        add("abw_connections", self.connections)
        processes = [("http", os.getpid())]
        for model_name, model in models.items():
            label = f'model="{_escaped(model_name)}"'
            for result, histogram in model.took.items():
                lines = histogram.lines("abw_request_seconds", f'{label},result="{result}"')
                found["abw_request_seconds"] += lines
            for name, (_, _, *attribute) in METRICS.items():
                for value in (getattr(model, one) for one in attribute):
                    if isinstance(value, Histogram):
                        found[name] += value.lines(name, label)
                    else:
                        add(name, int(value), model=model_name)
            processes += [(f"{model_name} {place}", pid) for pid, place in model.engines.items()]
        for process, pid in processes:
            for metric, value in _usage(pid):
                add(metric, value, process=process, pid=str(pid))
        text = []
        for name, (kind, about, *_) in METRICS.items():
            text += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *found[name]]
        return "\n".join(text) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _usage(pid: int) -> Iterator[tuple[str, float]]:
    """CPU seconds and memory of a process, where the system has /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return
    yield "abw_process_cpu_seconds_total", (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    yield "abw_process_resident_bytes", pages * os.sysconf("SC_PAGE_SIZE")
