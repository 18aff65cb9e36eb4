"""An engine's process, as the server sees it: started, sent pieces of requests, heard, ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from abw.core.base.errors import AbwError
from abw.core.serve.answers import Reply
from abw.core.serve.queue import Piece
from abw.core.serve.requests import BodyError, Request
from abw.core.serve.settings import Limits, Loading
from abw.core.serve.wire import Frames, packed


class Asked(Protocol):
    """A request's owner, which gets the reply, or the reason why there is none, once."""

    request: Request

    def answer(self, reply: Reply) -> None:
        """Take the reply."""

    def refuse(self, error: BodyError) -> None:
        """Take the reason why there is no reply."""


# Is called with a link, a message and the bytes behind it.
Hear = Callable[["Link", Any, bytes], None]


@dataclass(slots=True)
class Batch:
    """A mini-batch of an engine: pieces of requests by number, with so many `instances`.

    `large`: of requests that run in pieces.
    """

    pieces: dict[int, Piece[Asked]]
    instances: int
    large: bool


class Link(asyncio.Protocol):
    """The server's end of the connection to an engine.

    `batches`: what the engine has, in the order in which it answers, the first one since `begun`; `lost`: a
    future that is done when the process has ended or the connection is closed.
    """

    def __init__(self, hear: Hear) -> None:
        self.batches: deque[Batch] = deque()
        self.begun = 0.0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.process: subprocess.Popen[bytes] | None = None
        self._about: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._hear = hear
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None

    async def start(self, loading: Loading, limits: Limits, module: str) -> dict[str, Any]:
        """Start the process; returns what the engine reports about its model once that is loaded.

        Errors: AbwError for a model that cannot be served; ConnectionError if the process ends before.
        """
        ours, its = socket.socketpair()
        with its:
            # -P and this process's path: no file of the user's is imported instead of a module of ours
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=(its.fileno(),),
                start_new_session=True,
            )
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        self._transport = transport
        transport.write(packed({"loading": asdict(loading), "limits": asdict(limits)}))
        await asyncio.wait((self._about, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if not self._about.done():
            raise ConnectionError("the engine died before it was ready")
        return self._about.result()

    @property
    def ready(self) -> bool:
        """Whether the engine could run requests."""
        return self._about.done() and not self.lost.done()

    @property
    def running(self) -> list[Piece[Asked]]:
        """The pieces that the engine has and for which somebody is waiting."""
        return [piece for batch in self.batches for piece in batch.pieces.values() if not piece.stale]

    def send(self, pieces: Sequence[Piece[Asked]], now: float, *, large: bool) -> Batch:
        """Send the engine pieces of requests, to run together after its current work."""
        assert self._transport is not None
        batch = Batch(dict(enumerate(pieces)), sum(piece.last - piece.first for piece in pieces), large)
        if not self.batches:
            self.begun = now
        self.batches.append(batch)
        requests = [(n, p.waiting.asked.request.document(p.first, p.last)) for n, p in batch.pieces.items()]
        self._transport.write(packed(requests))
        return batch

    def end(self) -> None:
        """End the process at once."""
        if self._transport is not None:
            self._transport.abort()
        if self.process is not None:
            self.process.kill()

    def collect(self, *, wait: bool = False) -> bool:
        """Whether the process has ended, which it is waited for if `wait`."""
        if self.process is not None and wait:
            self.process.wait()
        return self.process is None or self.process.poll() is not None

    def data_received(self, data: bytes) -> None:
        """Receive bytes of the engine: any number of messages, or a part of one."""
        for said, payload in self._frames.add(data):
            if self._about.done():
                self._hear(self, said, payload)
            elif "failed" in said:
                message, hint, code = said["failed"]
                self._about.set_exception(AbwError(message, hint=hint, exit_code=code))
            else:
                self._about.set_result(said["ready"])

    def connection_lost(self, _: Exception | None) -> None:
        """Note that the engine has ended."""
        if not self.lost.done():
            self.lost.set_result(None)
