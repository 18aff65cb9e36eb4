"""A client that asks a server for predictions: as fast as it is answered, or at a fixed rate."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")

# The header of an answer that says how long its body is, as the server writes it.
LENGTH = b"content-length: "
# Called with the status (0: the connection broke) and the bytes of the answer.
Done = Callable[[int, bytes], None]


def request_of(body: bytes) -> bytes:
    """Write a request for predictions."""
    head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


class Asker(asyncio.Protocol):
    """A connection that asks one thing at a time."""

    def __init__(self) -> None:
        self._said = b""  # of the answer that is coming
        self._size = 0  # of the whole answer; 0: its head is not there
        self._done: Done | None = None
        self._transport: Any = None
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = transport

    def ask(self, request: bytes, done: Done) -> None:
        """Send a request."""
        self._done = done
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        self._said = said = self._said + data if self._said else data
        if not self._size:
            end = said.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            at = said.index(LENGTH, 0, end) + len(LENGTH)
            self._size = end + int(said[at : said.index(b"\r", at)])
        if len(said) >= self._size:
            self._said, self._size = b"", 0
            self._end(int(said[9:12]), said)

    def connection_lost(self, _: Exception | None) -> None:
        """Tell whoever waits."""
        self.open = False
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

    def load(self, port: int, connections: int, seconds: float, size: int = 1) -> dict[str, float]:
        """Each connection asks again, for `size` instances, as soon as it is answered.

        Requests, failed ones, requests a second, seconds of the median and of the slowest hundredth.
        """
        lines = cycle(self.bodies)
        bodies = [b"\n".join(islice(lines, size)) for _ in self.bodies[: len(self.bodies) // size + 1]]
        found = _run(closed_loop(port, bodies, connections, seconds))
        took = sorted(seconds for several in found.values() for seconds in several)
        count = len(took)
        failed = count - len(found[200])
        return {"requests": count, "failed": failed, "per_second": count / seconds, **_tails(took)}

    def offer(self, port: int, connections: int, seconds: float, rate: float) -> dict[str, Any]:
        """Ask at a fixed rate, whatever the server answers.

        By status: answers a second, and seconds from when a request was due to its answer. `unsent`: requests
        for which no connection was free.
        """
        found, unsent = _run(open_loop(port, self.bodies, connections, seconds, rate))
        by_status = {
            status: {"per_second": len(took) / seconds, **_tails(sorted(took))}
            for status, took in sorted(found.items())
        }
        return {"statuses": by_status, "unsent": unsent}


def _run(work: Coroutine[Any, Any, R]) -> R:
    """Run work in a loop that takes as little of the processor as there is."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def closed_loop(
    port: int, bodies: Sequence[bytes], connections: int, seconds: float
) -> dict[int, list[float]]:
    """Seconds of each answer by status, of connections that ask again when they are answered."""
    loop = asyncio.get_running_loop()
    found: dict[int, list[float]] = defaultdict(list)
    ended = loop.create_future()
    requests = [request_of(body) for body in bodies]
    askers = [(await loop.create_connection(Asker, "127.0.0.1", port))[1] for _ in range(connections)]
    numbers, busy = count(), connections
    end = time.perf_counter() + seconds

    def ask(asker: Asker) -> None:
        asked = time.perf_counter()

        def done(status: int, _: bytes) -> None:
            nonlocal busy
            found[status].append(time.perf_counter() - asked)
            if status and time.perf_counter() < end:
                ask(asker)
                return
            busy -= 1
            if not busy:
                ended.set_result(None)

        asker.ask(requests[next(numbers) % len(requests)], done)

    for asker in askers:
        ask(asker)
    await ended
    for asker in askers:
        asker.close()
    return found


async def open_loop(
    port: int, bodies: Sequence[bytes], connections: int, seconds: float, rate: float
) -> tuple[dict[int, list[float]], int]:
    """Seconds of each answer by status, of requests at a fixed rate, and how many had no connection."""
    loop = asyncio.get_running_loop()
    requests = [request_of(body) for body in bodies]
    opened = [(await loop.create_connection(Asker, "127.0.0.1", port))[1] for _ in range(connections)]
    free = deque(opened)
    found: dict[int, list[float]] = defaultdict(list)
    unsent = asked = 0

    def ask(due: float, request: bytes) -> bool:
        while free and not free[0].open:
            free.popleft()
        if not free:
            return False
        asker = free.popleft()

        def done(status: int, _: bytes) -> None:
            found[status].append(time.perf_counter() - due)
            if status:
                free.append(asker)

        asker.ask(request, done)
        return True

    begun, total = time.perf_counter(), int(rate * seconds)
    while asked < total:
        while asked < total and (due := begun + asked / rate) <= time.perf_counter():
            unsent += not ask(due, requests[asked % len(requests)])
            asked += 1
        await asyncio.sleep(0.001)
    last = time.perf_counter() + 5.0
    while sum(map(len, found.values())) < total - unsent and time.perf_counter() < last:
        await asyncio.sleep(0.01)
    for asker in opened:
        asker.close()
    return found, unsent


def _tails(took: Sequence[float]) -> dict[str, float]:
    """The median and the slowest hundredth of sorted seconds."""
    if not took:
        return {"p50": 0.0, "p99": 0.0}
    return {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}
