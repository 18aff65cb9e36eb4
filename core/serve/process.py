"""The engine's process: opens an engine, and passes on the server's requests.

It ends when the server does. Signals that a terminal sends to both are the server's business.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from abw.core.base.errors import AbwError, from_system
from abw.core.base.memory import keep_freed_memory
from abw.core.serve.answers import Reply
from abw.core.serve.requests import Request
from abw.core.serve.settings import Limits, Loading
from abw.core.serve.wire import messages, packed

# Seconds after which finished answers are sent, so that they do not wait for a large instance.
PATIENCE = 0.005


class Answering(Protocol):
    """An object that answers requests, such as an `Engine`."""

    def about(self) -> dict[str, Any]:
        """What the server needs to know about the model."""

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        """Yield replies by the requests' numbers as they are ready, with how many of the instances are wrong.

        Yields None before replies that may take longer.
        """


def serve(connection: socket.socket, open: Callable[..., Answering]) -> None:
    """Open the engine that the first message asks for, report it, and answer the messages that follow."""
    coming = messages(connection)
    first = next(coming, None)
    if first is None:
        return
    try:
        engine = open(Loading(**first[0]["loading"]), Limits(**first[0]["limits"]))
    except (AbwError, MemoryError, OSError) as error:
        failed = error if isinstance(error, AbwError) else from_system(error)
        connection.sendall(packed({"failed": [failed.message, failed.hint, failed.exit_code]}))
        return
    connection.sendall(packed({"ready": engine.about()}))
    for asked, _ in coming:
        _answer(connection, engine, {number: Request(*given) for number, given in asked})


def _answer(connection: socket.socket, engine: Answering, requests: Mapping[int, Request]) -> None:
    """Send the answers to requests, in as few messages as `PATIENCE` allows; the last one is marked."""
    begun = sent = time.perf_counter()
    heads: list[tuple[int, int, int, int, int]] = []
    bodies: list[bytes] = []
    for found in engine.run(requests):
        if heads and time.perf_counter() - sent > PATIENCE:
            connection.sendall(packed({"answers": heads, "done": False}, b"".join(bodies)))
            heads, bodies, sent = [], [], time.perf_counter()
        if found is not None:
            number, reply, wrong = found
            heads.append((number, reply.status, len(reply.body), reply.json_bytes, wrong))
            bodies.append(reply.body)
    ended = {"done": True, "seconds": time.perf_counter() - begun, "at": time.monotonic()}
    connection.sendall(packed({"answers": heads, **ended}, b"".join(bodies)))


def main(open: Callable[..., Answering]) -> None:
    """Run the process, whose one argument is the number of the socket to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    # the server may be gone
    with (
        socket.socket(fileno=int(sys.argv[1])) as connection,
        suppress(BrokenPipeError, ConnectionResetError),
    ):
        serve(connection, open)
