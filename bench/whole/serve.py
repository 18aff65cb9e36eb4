"""A server under load: requests batched, and one at a time."""

from __future__ import annotations

import asyncio
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

import typer

from abw.bench.options import SPECS, DataDir, Hidden, Runs, SpecsDir
from abw.bench.process import Apart
from abw.bench.rows import Row, Rows
from abw.core.base.errors import AbwError, install

START = """
import sys
from abw.core.serve.server import serve
from abw.core.serve.settings import Limits, Loading, Serving
spec, data, hidden, batch = sys.argv[1:]
loading = Loading(spec, data=data, dims={"hidden": int(hidden)}, threads=1)
serve(Serving((loading,)), Limits(batch=int(batch), timeout=60.0))
"""
# How many requests an engine gets at once.
ENGINES = {"batched across requests": 64, "one at a time": 1}


def serve(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    connections: Annotated[int, typer.Option("--connections", min=1, help="Concurrent clients.")] = 64,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Duration of the load.")] = 4.0,
    requests: Annotated[
        int, typer.Option("--requests", min=0, metavar="N", help="Further requests, to measure memory.")
    ] = 0,
    runs: Runs = 3,
) -> Rows:
    """Serve a tree LSTM over HTTP: batched across requests, and one at a time.

    Each request is a tree of the data, sent when the one before on its connection is answered; medians of
    interleaved runs. Needs the extra `serve` and Linux's /proc.
    """
    for package in ("httptools", "uvloop"):
        if find_spec(package) is None:
            raise AbwError(f"a server needs {package}", hint=install("serve"))
    trees, spec = data / "trees" / "train.txt", specs / "treelstm.yaml"
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ENGINES}
    with closing(Apart(Client, trees, seconds=600.0)) as client:
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


class Client:
    """Asks a server for predictions, in a process of its own; each line of a file is a request."""

    def __init__(self, file: Path) -> None:
        self.bodies = file.read_bytes().splitlines()

    def load(self, port: int, connections: int, seconds: float) -> dict[str, float]:
        """Each connection asks again as soon as it is answered.

        Requests, failed ones, requests a second, seconds of the median and of the slowest hundredth.
        """
        took: list[float] = []
        failed = 0
        begun = time.perf_counter()

        async def connection(number: int) -> None:
            nonlocal failed
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while (asked := time.perf_counter()) < begun + seconds:
                body = self.bodies[number % len(self.bodies)]
                head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(
                    body
                )
                writer.write(head + body)
                said = await reader.readuntil(b"\r\n\r\n")
                at = said.lower().index(b"content-length: ") + 16
                await reader.readexactly(int(said[at : said.index(b"\r", at)]))
                failed += int(said[9:12]) != 200
                took.append(time.perf_counter() - asked)
                number += connections
            writer.close()

        async def every() -> None:
            await asyncio.gather(*map(connection, range(connections)))

        asyncio.run(every())
        count, rate = len(took), len(took) / (time.perf_counter() - begun)
        took.sort()
        tails = {"p50": took[count // 2], "p99": took[count * 99 // 100]}
        return {"requests": count, "failed": failed, "per_second": rate, **tails}


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
def _serving(spec: Path, data: Path, hidden: int, batch: int) -> Iterator[Running]:
    with tempfile.TemporaryFile() as log:
        given = [str(spec), str(data), str(hidden), str(batch)]
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
