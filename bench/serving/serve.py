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
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, each

START = """
import sys
from abw.core.serve.server import serve
from abw.core.serve.settings import Limits, Loading
module, spec, data, hidden, batch = sys.argv[1:]
loading = Loading(spec, data=data, dims={"hidden": int(hidden)}, threads=1)
serve(loading, Limits(batch=int(batch), timeout=60.0), "127.0.0.1", 0, None, module)
"""
ENGINES = {
    "abw": ("abw.core.serve.engine", 64),
    "abw, one at a time": ("abw.core.serve.engine", 1),
    "PyTorch, node by node": ("abw.bench.serving.torch_engine", 1),
}
"""What an engine runs, and how many requests it gets at once."""


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


def bench_serve(
    specs: Path,
    data: Path,
    hidden: int,
    connections: int,
    rate: int,
    seconds: float,
    runs: int,
    requests: int,
    progress: Progress,
) -> dict[str, Any]:
    """Requests a second over `connections`, and times at `rate` a second, medians of `runs` in turns.

    Each request is a tree of the data. `requests`: so many more to the first engine, for the memory that it
    and the server hold before and after. Errors: AbwError without the extra, or without Linux's /proc.
    """
    for package in ("uvicorn", "uvloop", "prometheus_client"):
        if find_spec(package) is None:
            raise AbwError(f"a server needs {package}", hint='pip install "abw[serve]"')
    trees = data / "trees" / "train.txt"
    engines = {n: e for n, e in ENGINES.items() if "torch" not in e[0] or find_spec("torch")}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    memory: dict[str, Any] = {}
    for turn in each(range(runs), progress, "serve"):
        for name, (module, batch) in engines.items():
            with _serving(module, specs / "treelstm.yaml", trees, hidden, batch) as server:
                _ask(server, trees, "closed", connections, min(1.0, seconds))
                before = server.cpu()
                full = _ask(server, trees, "closed", connections, seconds)
                took = [b - a for a, b in zip(before, server.cpu(), strict=True)]
                calm = _ask(server, trees, "fixed", rate, seconds)
                cpu = [t / full["requests"] for t in took]
                rows[name].append({"full": full, "calm": calm, "http_cpu": cpu[0], "engine_cpu": cpu[1]})
                if turn == 0 and name == "abw" and requests:
                    memory = _memory(server, trees, connections, requests)
    found = [{"engine": name, **_medians(several)} for name, several in rows.items()]
    return {
        "schema_version": 1,
        "hidden": hidden,
        "connections": connections,
        "rate": rate,
        "seconds": seconds,
        "runs": runs,
        "rows": found,
        "memory": memory or None,
    }


def _medians(several: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("per_second", "p50", "p99")
    found: dict[str, Any] = {
        load: {n: median(run[load][n] for run in several) for n in names} for load in ("full", "calm")
    }
    found |= {n: median(run[n] for run in several) for n in ("http_cpu", "engine_cpu")}
    found["failed"] = sum(run[load]["failed"] for run in several for load in ("full", "calm"))
    return found


def _memory(server: Running, trees: Path, connections: int, requests: int) -> dict[str, Any]:
    before, done = server.resident(), 0
    while done < requests:
        done += int(_ask(server, trees, "closed", connections, 5.0)["requests"])
    return {"requests": done, "before_bytes": before, "after_bytes": server.resident()}


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
