"""The same server with three engines, side by side, under the same load."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from abw.bench.options import SPECS, DataDir, Hidden, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.core.base.errors import AbwError
from abw.core.base.extras import install

START = """
import sys
from abw.core.serve.server import serve
from abw.core.serve.settings import Limits, Loading
module, spec, data, hidden, batch = sys.argv[1:]
loading = Loading(spec, data=data, dims={"hidden": int(hidden)}, threads=1)
serve(loading, Limits(batch=int(batch), timeout=60.0), "127.0.0.1", 0, None, module)
"""
# What an engine runs, and how many requests it gets at once.
ENGINES = {
    "abw": ("abw.core.serve.engine", 64),
    "abw, one at a time": ("abw.core.serve.engine", 1),
    "PyTorch, node by node": ("abw.bench.serving.torch_engine", 1),
}


@dataclass(frozen=True, slots=True)
class Running:
    """A server under measurement."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def pids(self) -> tuple[int, int]:
        """The server's process and its engine's."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return pid, int(children[-1])

    def cpu(self) -> list[float]:
        """Seconds of CPU that the two took so far."""
        ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids]
        return [(int(t[11]) + int(t[12])) / os.sysconf("SC_CLK_TCK") for t in ticks]

    def resident(self) -> int:
        """Bytes that the two hold."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def serve(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    connections: Annotated[int, typer.Option("--connections", min=1, help="Concurrent clients.")] = 64,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Requests a second.")] = 500,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Duration of each load.")] = 4.0,
    requests: Annotated[
        int, typer.Option("--requests", min=0, metavar="N", help="Further requests, to measure memory.")
    ] = 0,
    runs: Runs = 3,
) -> Rows:
    """Serve a tree LSTM over HTTP: batched across requests, one at a time, and with PyTorch.

    Each request is a tree of the data; medians of interleaved runs. Needs the extra `serve` and Linux's
    /proc.
    """
    for package in ("uvicorn", "uvloop", "prometheus_client"):
        if find_spec(package) is None:
            raise AbwError(f"a server needs {package}", hint=install("serve"))
    trees = data / "trees" / "train.txt"
    engines = {n: e for n, e in ENGINES.items() if "torch" not in e[0] or find_spec("torch")}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    for turn in range(runs):
        for name, (module, batch) in engines.items():
            with _serving(module, specs / "treelstm.yaml", trees, hidden, batch) as server:
                _ask(server, trees, "closed", connections, min(1.0, seconds))
                before = server.cpu()
                full = _ask(server, trees, "closed", connections, seconds)
                took = [b - a for a, b in zip(before, server.cpu(), strict=True)]
                calm = _ask(server, trees, "fixed", rate, seconds)
                cpu = [t / full["requests"] for t in took]
                found[name].append({"full": full, "calm": calm, "http_cpu": cpu[0], "engine_cpu": cpu[1]})
                if turn == 0 and name == "abw" and requests:
                    yield _memory(server, trees, connections, requests)
    for name, several in found.items():
        yield _row(name, several, rate)


def _row(name: str, several: list[dict[str, Any]], rate: int) -> Row:
    def middle(load: str, key: str) -> float:
        return float(median(run[load][key] for run in several))

    return Row(
        "",
        engine=name,
        requests_per_second=middle("full", "per_second"),
        p50_seconds=middle("full", "p50"),
        p99_seconds=middle("full", "p99"),
        asked_per_second=rate,
        p50_then_seconds=middle("calm", "p50"),
        p99_then_seconds=middle("calm", "p99"),
        http_cpu_seconds=median(run["http_cpu"] for run in several),
        engine_cpu_seconds=median(run["engine_cpu"] for run in several),
        failed=sum(run[load]["failed"] for run in several for load in ("full", "calm")),
    )


def _memory(server: Running, trees: Path, connections: int, requests: int) -> Row:
    before, done = server.resident(), 0
    while done < requests:
        done += int(_ask(server, trees, "closed", connections, 5.0)["requests"])
    return Row("memory", requests=done, before_bytes=before, after_bytes=server.resident())


def _ask(server: Running, trees: Path, how: str, number: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "abw.bench.serving.load"]
    given = [str(server.port), str(trees), how, str(number), str(seconds)]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        raise AbwError(f"the client failed: {done.stderr.strip()[-300:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def _serving(module: str, spec: Path, data: Path, hidden: int, batch: int) -> Iterator[Running]:
    with tempfile.TemporaryFile() as log:
        given = [module, str(spec), str(data), str(hidden), str(batch)]
        process = subprocess.Popen([sys.executable, "-c", START, *given], stderr=log, env=_environment())

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
