"""A client that asks a server for predictions: as fast as it is answered, or at a fixed rate."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")

# The header of an answer that says how long its body is, as the server writes it.
LENGTH = b"content-length: "
# Seconds that answers are waited for when nothing more is sent.
LAST = 60.0
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
        found, _ = _run(asked(port, bodies, connections, seconds))
        took = sorted(seconds for several in found.values() for seconds in several)
        count = len(took)
        failed = count - len(found[200])
        return {"requests": count, "failed": failed, "per_second": count / seconds, **_tails(took)}

    def offer(self, port: int, connections: int, seconds: float, rate: float) -> dict[str, Any]:
        """Ask at a fixed rate, whatever the server answers.

        By status: answers a second, and seconds from when a request was due to its answer. `unsent`: requests
        for which no connection was free.
        """
        found, unsent = _run(asked(port, self.bodies, connections, seconds, rate))
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


async def asked(
    port: int, bodies: Sequence[bytes], connections: int, seconds: float, rate: float | None = None
) -> tuple[dict[int, list[float]], int]:
    """Seconds of each answer by status, and how many requests found no connection.

    Connections ask again as soon as they are answered, or requests come at a fixed rate, each at its time.
    """
    loop = asyncio.get_running_loop()
    requests = cycle([request_of(body) for body in bodies])
    opened = [(await loop.create_connection(Asker, "127.0.0.1", port))[1] for _ in range(connections)]
    free, found, sent = deque(opened), defaultdict[int, list[float]](list), 0

    def ask(due: float) -> bool:
        nonlocal sent
        while free and not free[0].open:
            free.popleft()
        if not free:
            return False
        asker, sent = free.popleft(), sent + 1

        def done(status: int, _: bytes) -> None:
            now = time.perf_counter()
            found[status].append(now - due)
            if status:
                free.append(asker)
                if rate is None and now < end:
                    ask(now)

        asker.ask(next(requests), done)
        return True

    begun, unsent = time.perf_counter(), 0
    end = begun + seconds
    if rate is None:
        for _ in opened:
            ask(time.perf_counter())
        await asyncio.sleep(seconds)
    else:
        for number in range(int(rate * seconds)):
            while (due := begun + number / rate) > time.perf_counter():
                await asyncio.sleep(0.001)
            unsent += not ask(due)
    last = time.perf_counter() + LAST
    while sum(map(len, found.values())) < sent and time.perf_counter() < last:
        await asyncio.sleep(0.01)
    for asker in opened:
        asker.close()
    return found, unsent


def _tails(took: Sequence[float]) -> dict[str, float]:
    """The median and the slowest hundredth of sorted seconds."""
    if not took:
        return {"p50": 0.0, "p99": 0.0}
    return {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}
