"""A server as a process of its own, and a client that does what it is told, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.core.serve import stub


@dataclass
class Reply:
    """What a server said; status 0 where it closed the connection."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class Server:
    """A server that runs, and what it wrote on standard error."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def engine(self) -> int:
        """The process of its engine, of several the last that was started."""
        return self.engines[-1]

    @property
    def engines(self) -> list[int]:
        """The processes of its engines that have not ended."""
        pid = self.process.pid
        found = []
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(int(child))
        return found

    async def ask(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """A request on a connection of its own."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionError:
            return Reply(0)
        try:
            given = {"host": "x", "connection": "close", **(headers or {})}
            if body is not None:
                given["content-length"] = str(len(body))
            head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
            method = "GET" if body is None else "POST"
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))
            return parsed(await reader.read())
        except ConnectionError:
            return Reply(0)
        finally:
            writer.close()

    async def predict(self, text: str) -> Reply:
        return await self.ask("/v1/predict", text.encode())

    async def metric(self, name: str) -> float:
        """A metric's value; of one with labels that are not given, the sum."""
        text = (await self.ask("/metrics")).body.decode()
        exact = re.escape(name) + ("" if name.endswith("}") else r"(?:\{.*\})?")
        return sum(float(value) for value in re.findall(rf"^{exact} (\S+)$", text, re.M))

    async def until(self, name: str, least: float) -> None:
        """Until a metric has reached a value."""
        for _ in range(1000):
            if await self.metric(name) >= least:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{name} is {await self.metric(name)}, not {least}")

    def resident(self) -> int:
        """Bytes that the server and its engine hold."""
        pages = sum(
            int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in (self.process.pid, self.engine)
        )
        return pages * os.sysconf("SC_PAGE_SIZE")


def parsed(answer: bytes) -> Reply:
    if not answer:
        return Reply(0)
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return Reply(int(first.split()[1]), headers, body)


@asynccontextmanager
async def stopped(server: Server, text: str) -> AsyncIterator[None]:
    """The engine stands still, with one request that it has and does not answer; the queue is empty."""
    os.kill(server.engine, signal.SIGSTOP)
    before = await server.metric("abw_batch_instances_count")
    blocked = asyncio.create_task(server.predict(text))
    await server.until("abw_batch_instances_count", before + 1)
    yield
    os.kill(server.engine, signal.SIGCONT)
    assert (await blocked).status in (200, 422, 504)


@contextmanager
def serving(home: Path, spec: str, *options: str, path: str = "") -> Iterator[Server]:
    """A server of a model that is ready; `path` goes before all that Python imports."""
    command = [sys.executable, "-m", "abw", "serve", spec, "--port", "0", "--policy", "depth", *options]
    with _begun(home, command, {}, path) as server:
        yield server


@contextmanager
def repeating(home: Path, *, seconds: float = 0.0, start: float = 0.0, **options: object) -> Iterator[Server]:
    """A server whose engines repeat what they are told (`stub`), taking `seconds` an instance."""
    command = [sys.executable, "-m", "tests.core.serve.stub", json.dumps(options)]
    environment = {stub.SECONDS: str(seconds), stub.START: str(start)}
    with _begun(home, command, environment) as server:
        yield server


@contextmanager
def _begun(
    home: Path, command: list[str], environment: Mapping[str, str], path: str = ""
) -> Iterator[Server]:
    log = home / "serve.log"
    paths = os.pathsep.join(filter(None, [path, *sys.path]))
    environment = {**os.environ, "ABW_HOME": str(home), "PYTHONPATH": paths, **environment}
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file, env=environment)
    try:
        end = time.monotonic() + 120
        while "ready: " not in (said := log.read_text()):
            assert process.poll() is None and time.monotonic() < end, said
            time.sleep(0.02)
        found = re.search(r"listening on (?:http://127\.0\.0\.1:(\d+)|unix:)", said)
        assert found
        yield Server(process, int(found[1] or 0), log)
    finally:
        process.kill()
        process.wait()
