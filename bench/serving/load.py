"""A client that asks a server for predictions: as fast as it is answered, or at a fixed rate."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Called with the status (0: the connection broke) and the bytes of the answer.
Done = Callable[[int, bytes], None]


def request_of(body: bytes) -> bytes:
    """Write a request for predictions."""
    head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


class Asker(asyncio.Protocol):
    """A connection that asks one thing at a time."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._size = 0  # of the answer that is coming; 0: its head is not there
        self._status = 0
        self._done: Done | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = transport

    def ask(self, request: bytes, done: Done) -> None:
        """Send a request."""
        self._done = done
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        said = self._said
        said += data
        if not self._size:
            end = said.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            head = bytes(said[:end]).lower()
            at = head.index(b"content-length: ") + 16
            self._size = end + int(head[at : head.index(b"\r", at)])
            self._status = int(head[9:12])
        if len(said) >= self._size:
            answer = bytes(said[: self._size])
            said.clear()
            self._size = 0
            self._end(self._status, answer)

    def connection_lost(self, _: Exception | None) -> None:
        """Tell whoever waits."""
        self._end(0, b"")

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _end(self, status: int, answer: bytes) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(status, answer)


class Client:
    """Asks a server for predictions, in a process of its own; each line of a file is a request."""

    def __init__(self, file: Path) -> None:
        self.bodies = file.read_bytes().splitlines()

    def load(self, port: int, connections: int, seconds: float) -> dict[str, float]:
        """Each connection asks again as soon as it is answered.

        Requests, failed ones, requests a second, seconds of the median and of the slowest hundredth.
        """
        found = asyncio.run(closed_loop(port, self.bodies, connections, seconds))
        took = sorted(seconds for several in found.values() for seconds in several)
        count = len(took)
        failed = count - len(found[200])
        return {"requests": count, "failed": failed, "per_second": count / seconds, **_tails(took)}

    def offer(self, port: int, connections: int, seconds: float, rate: float) -> dict[str, Any]:
        """Ask at a fixed rate, whatever the server answers.

        By status: answers a second, and seconds from when a request was due to its answer. `unsent`: requests
        for which no connection was free.
        """
        found, unsent = asyncio.run(open_loop(port, self.bodies, connections, seconds, rate))
        by_status = {
            status: {"per_second": len(took) / seconds, **_tails(sorted(took))}
            for status, took in sorted(found.items())
        }
        return {"statuses": by_status, "unsent": unsent}


async def closed_loop(
    port: int, bodies: Sequence[bytes], connections: int, seconds: float
) -> dict[int, list[float]]:
    """Seconds of each answer by status, of connections that ask again when they are answered."""
    found: dict[int, list[float]] = defaultdict(list)
    end = time.perf_counter() + seconds

    async def connection(number: int) -> None:
        loop = asyncio.get_running_loop()
        _, asker = await loop.create_connection(Asker, "127.0.0.1", port)
        while (asked := time.perf_counter()) < end:
            answered: asyncio.Future[int] = loop.create_future()

            def done(status: int, _: bytes, answered: asyncio.Future[int] = answered) -> None:
                answered.set_result(status)

            asker.ask(request_of(bodies[number % len(bodies)]), done)
            found[await answered].append(time.perf_counter() - asked)
            number += connections
        asker.close()

    await asyncio.gather(*map(connection, range(connections)))
    return found


async def open_loop(
    port: int, bodies: Sequence[bytes], connections: int, seconds: float, rate: float
) -> tuple[dict[int, list[float]], int]:
    """Seconds of each answer by status, of requests at a fixed rate, and how many had no connection."""
    loop = asyncio.get_running_loop()
    free = [(await loop.create_connection(Asker, "127.0.0.1", port))[1] for _ in range(connections)]
    found: dict[int, list[float]] = defaultdict(list)
    unsent = asked = 0

    def ask(due: float, body: bytes) -> None:
        asker = free.pop()

        def done(status: int, _: bytes) -> None:
            found[status].append(time.perf_counter() - due)
            if status:
                free.append(asker)

        asker.ask(request_of(body), done)

    begun, total = time.perf_counter(), int(rate * seconds)
    while asked < total:
        while asked < total and (due := begun + asked / rate) <= time.perf_counter():
            if free:
                ask(due, bodies[asked % len(bodies)])
            else:
                unsent += 1
            asked += 1
        await asyncio.sleep(0.001)
    last = time.perf_counter() + 5.0
    while sum(map(len, found.values())) < total - unsent and time.perf_counter() < last:
        await asyncio.sleep(0.01)
    for asker in free:
        asker.close()
    return found, unsent


def _tails(took: Sequence[float]) -> dict[str, float]:
    """The median and the slowest hundredth of sorted seconds."""
    if not took:
        return {"p50": 0.0, "p99": 0.0}
    return {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}
