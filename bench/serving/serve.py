"""A server under load: requests batched, and one at a time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated

from abw.bench.options import SPECS, DataDir, Hidden, Runs, SpecsDir, numeric, option
from abw.bench.process import Apart
from abw.bench.rows import Row, Rows
from abw.bench.serving.load import Client
from abw.core.base.errors import AbwError, install

START = """
import sys
from abw.core.serve.server import serve
from abw.core.serve.settings import Limits, Loading, Serving
spec, data, hidden, batch, timeout = sys.argv[1:]
loading = Loading(spec, data=data, dims={"hidden": int(hidden)}, threads=1)
serve(Serving((loading,)), Limits(batch=int(batch), timeout=float(timeout)))
"""
# How many requests an engine gets at once.
ENGINES = {"batched across requests": 64, "one at a time": 1}
OVERLOAD = "Offer one, two and four times what the server can answer."
# With it: multiples of what the server can answer, and how many connections the requests have.
FACTORS = (1, 2, 4)
CONNECTIONS = 2500
# With --beside: how many clients have single instances; the instances of the others' requests, and how many
# seconds these begin before.
SINGLES = (1, 8, 64)
LARGE, LEAD = 500, 0.3


def serve(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    connections: Annotated[int, numeric("Concurrent clients.")] = 64,
    seconds: Annotated[float, numeric("Duration of the load.", min=0.1)] = 4.0,
    requests: Annotated[int, numeric("Further requests, to measure memory.", "", "N", min=0)] = 0,
    runs: Runs = 3,
    overload: Annotated[bool, option(OVERLOAD, "--overload")] = False,
    beside: Annotated[bool, option("Measure single instances beside requests of 500.", "--beside")] = False,
) -> Rows:
    """Serve a tree LSTM over HTTP: batched across requests, and one at a time.

    Each request is a tree of the data, sent when the last one on its connection is answered; medians of
    interleaved runs. With --overload, requests come at a fixed rate instead, with the default timeout of a
    second; with --beside, single instances come beside two clients with requests of 500. Needs the extra
    `serve` and Linux's /proc.
    """
    for package in ("httptools", "uvloop"):
        if find_spec(package) is None:
            raise AbwError(f"a server needs {package}", hint=install("serve"))
    trees, spec = data / "trees" / "train.txt", specs / "treelstm.yaml"
    if overload:
        yield from _overloaded(spec, trees, hidden, connections, seconds)
        return
    if beside:
        yield from _beside(spec, trees, hidden, seconds, runs)
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ENGINES}
    with _client(trees) as client:
        for turn in range(runs):
            for name, batch in ENGINES.items():
                with _serving(spec, trees, hidden, batch) as server:
                    client.call("load", server.port, connections, min(1.0, seconds))
                    before = server.cpu()
                    full = client.call("load", server.port, connections, seconds)
                    cpu = [(b - a) / full["requests"] for a, b in zip(before, server.cpu(), strict=True)]
                    found[name].append(
                        {
                            "requests_per_second": full["per_second"],
                            "p50_seconds": full["p50"],
                            "p99_seconds": full["p99"],
                            "http_cpu_seconds": cpu[0],
                            "engine_cpu_seconds": cpu[1],
                            "failed": full["failed"],
                        }
                    )
                    if turn == 0 and batch > 1 and requests:
                        resident, done = server.resident(), 0
                        while done < requests:
                            done += client.call("load", server.port, connections, 5.0)["requests"]
                        now = server.resident()
                        yield Row("memory", requests=done, before_bytes=resident, after_bytes=now)
    for name, several in found.items():
        figures = {key: median(run[key] for run in several) for key in several[0]}
        yield Row("", engine=name, **{**figures, "failed": sum(run["failed"] for run in several)})


def _beside(spec: Path, trees: Path, hidden: int, seconds: float, runs: int) -> Rows:
    """Clients with single instances, without two others with large requests and beside them."""
    with (
        _client(trees) as client,
        _client(trees) as large,
        _serving(spec, trees, hidden) as server,
    ):
        for singles in SINGLES:
            alone, together = [], []
            for _ in range(runs):
                alone.append(client.call("load", server.port, singles, seconds)["p50"])
                large.start("load", server.port, 2, 2 * LEAD + seconds, LARGE)
                time.sleep(LEAD)
                together.append(client.call("load", server.port, singles, seconds)["p50"])
                large.wait()
            ratio = median(b / a for a, b in zip(alone, together, strict=True))
            p50 = {"alone_seconds": median(alone), "beside_seconds": median(together)}
            yield Row("beside", singles=singles, **p50, times=ratio)


def _overloaded(spec: Path, trees: Path, hidden: int, connections: int, seconds: float) -> Rows:
    """Requests at multiples of the rate that the server answered before, each from the time it was due."""
    with (
        _client(trees) as client,
        _serving(spec, trees, hidden, timeout=1.0) as server,
    ):
        client.call("load", server.port, connections, min(1.0, seconds))
        capacity = client.call("load", server.port, connections, seconds)["per_second"]
        for factor in FACTORS:
            before = server.cpu()
            found = client.call("offer", server.port, CONNECTIONS, seconds, factor * capacity)
            cpu = [b - a for a, b in zip(before, server.cpu(), strict=True)]
            none = {"per_second": 0.0, "p50": 0.0, "p99": 0.0}
            good, refused, late = (found["statuses"].get(status, none) for status in (200, 429, 504))
            yield Row(
                "overload",
                times=factor,
                offered_per_second=factor * capacity,
                answered_per_second=good["per_second"],
                part_of_capacity=good["per_second"] / capacity,
                p50_seconds=good["p50"],
                p99_seconds=good["p99"],
                refused_per_second=refused["per_second"],
                refused_p50_seconds=refused["p50"],
                late_per_second=late["per_second"],
                late_p99_seconds=late["p99"],
                unsent=found["unsent"],
                http_cpu_seconds=cpu[0],
                engine_cpu_seconds=cpu[1],
            )


def _client(trees: Path) -> closing[Apart]:
    return closing(Apart(Client, trees, seconds=600.0))


@dataclass(frozen=True, slots=True)
class Running:
    """A server under measurement."""

    process: subprocess.Popen[bytes]
    port: int

    def _read(self, file: str) -> Iterator[str]:
        """A file of /proc of the server's process, and of its engine's."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, children[-1]):
            yield Path(f"/proc/{each}/{file}").read_text()

    def cpu(self) -> list[float]:
        """Seconds of CPU that the two took so far."""
        ticks = [text.rpartition(")")[2].split() for text in self._read("stat")]
        return [(int(t[11]) + int(t[12])) / os.sysconf("SC_CLK_TCK") for t in ticks]

    def resident(self) -> int:
        """Bytes that the two hold."""
        return sum(int(text.split()[1]) for text in self._read("statm")) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _serving(
    spec: Path, data: Path, hidden: int, batch: int = 64, timeout: float = 60.0
) -> Iterator[Running]:
    with tempfile.TemporaryFile() as log:
        given = [str(spec), str(data), str(hidden), str(batch), str(timeout)]
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", START, *given]
        process = subprocess.Popen(command, stderr=log, env={**os.environ, **path})

        def said() -> str:
            return os.pread(log.fileno(), 1 << 16, 0).decode()

        try:
            while "ready: " not in said():
                if process.poll() is not None:
                    raise AbwError(f"the server ended: {said().strip()[-300:]}")
                time.sleep(0.05)
            port = re.search(r"127\.0\.0\.1:(\d+)", said())
            assert port
            yield Running(process, int(port[1]))
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        finally:
            process.kill()
            process.wait()
