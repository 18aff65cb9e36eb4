"""The server's side of the engine: starts it, sends it requests, distributes its replies, replaces it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.serve.answers import Reply
from abw.core.serve.metrics import Metrics
from abw.core.serve.queue import RequestQueue, Waiting
from abw.core.serve.requests import BodyError, Request
from abw.core.serve.settings import Limits, Loading
from abw.core.serve.wire import packed, receive_async

DIED = "the engine died while it ran this request, and it alone"

# Seconds until an engine that died before it was ready is started again, doubled each time, and the most.
RESTART = 0.1
LONGEST = 10.0

# Seconds after which an engine is replaced that runs only requests nobody waits for.
STUCK = 10.0


@dataclass(slots=True, eq=False)
class Asked:
    """A request and the future of its reply."""

    request: Request
    reply: asyncio.Future[Reply]


class Dispatcher:
    """Runs an engine until it is cancelled.

    `about`: what the engine reported about its model; None until the first one is ready.
    """

    def __init__(self, loading: Loading, limits: Limits, module: str = "") -> None:
        """`module`: what an engine runs instead of the loading's."""
        self.limits = limits
        self._module = module or loading.module
        self.queue: RequestQueue[Asked] = RequestQueue(limits.queue)
        self.about: dict[str, Any] | None = None
        self.ready = False
        self.engine: subprocess.Popen[bytes] | None = None
        self.metrics = Metrics(lambda: self.queue.instances, lambda: float(self.ready))
        self._loading = loading
        self._running: dict[int, Waiting[Asked]] = {}
        self._wake = asyncio.Event()
        self._clock: Callable[[], float] = asyncio.get_running_loop().time

    def put(self, waiting: Waiting[Asked]) -> None:
        """Queue a request for the engine. Raises FullError."""
        self.queue.put(waiting)
        self._wake.set()

    @property
    def busy(self) -> bool:
        """Whether a request waits for an answer."""
        return bool(self._running) or len(self.queue) > 0

    async def run(self) -> None:
        """Run an engine, and another one whenever it dies, until cancelled.

        Errors: AbwError if the first one reports that it cannot serve the model.
        """
        pause = RESTART
        while True:
            try:
                await self._serve()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass  # it died
            finally:
                pause = RESTART if self.ready else min(2 * pause, LONGEST)
                self.ready = False
                self._end()
            self.metrics.restarts.inc()
            self._give_back()
            if self.about is None and pause > 8 * RESTART:
                raise AbwError("the engine died again and again before it was ready", hint="see above")
            await asyncio.sleep(pause)

    async def _serve(self) -> None:
        """Run one engine. Raises IncompleteReadError or ConnectionError when it ends."""
        ours, its = socket.socketpair()
        with its:
            # -P and this process's path: no file of the user's is imported instead of a module of ours
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self.engine = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=(its.fileno(),),
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        watch = asyncio.create_task(self._watch())
        try:
            writer.write(packed({"loading": asdict(self._loading), "limits": asdict(self.limits)}))
            said, _ = await receive_async(reader)
            if "failed" in said:
                message, hint, code = said["failed"]
                raise AbwError(message, hint=hint, exit_code=code)
            self.about, self.ready = said["ready"], True
            while True:
                taken = await self._next()
                self._running = dict(enumerate(taken))
                writer.write(packed([(n, w.asked.request.document()) for n, w in self._running.items()]))
                while not await self._answered(reader):
                    pass
        finally:
            watch.cancel()
            writer.close()

    async def _watch(self) -> None:
        """Kill an engine that has run the same requests for `STUCK` seconds if nobody waits for them."""
        before: dict[int, Waiting[Asked]] = {}
        while True:
            await asyncio.sleep(STUCK)
            same = bool(before) and self._running is before
            if same and self.engine and all(w.asked.reply.done() for w in before.values()):
                print("the engine does not end what nobody waits for: it is replaced", file=sys.stderr)
                self.engine.kill()
            before = self._running

    async def _next(self) -> Sequence[Waiting[Asked]]:
        """Take the requests that run next; waits until there are some."""
        while True:
            if self.limits.wait and 0 < self.queue.instances < self.limits.batch:
                await asyncio.sleep(self.limits.wait)
            now = self._clock()
            if taken := self.queue.take(self.limits.batch, now):
                self.metrics.batch.observe(sum(w.instances for w in taken))
                for waiting in taken:
                    self.metrics.waited.observe(now - waiting.since)
                return taken
            self._wake.clear()
            await self._wake.wait()

    async def _answered(self, reader: asyncio.StreamReader) -> bool:
        """Distribute the replies of a message; returns whether it was the last one of the batch."""
        said, bodies = await receive_async(reader)
        at = 0
        for number, status, size, json_bytes, wrong in said["answers"]:
            waiting = self._running.pop(number)
            self.metrics.instances.inc(waiting.instances)
            self.metrics.wrong.inc(wrong)
            if not waiting.asked.reply.done():
                waiting.asked.reply.set_result(Reply(status, bodies[at : at + size], json_bytes))
            at += size
        if said["done"]:
            self.metrics.run.observe(said["seconds"])
        return bool(said["done"])

    def _give_back(self) -> None:
        """Queue the requests of a dead engine to run alone; one that did is the cause, and fails."""
        running = [w for w in self._running.values() if not w.asked.reply.done()]
        self._running = {}
        for waiting in running:
            if len(running) == 1 and waiting.suspect:
                waiting.asked.reply.set_exception(BodyError(500, DIED))
            else:
                self.queue.put_back(waiting)

    def _end(self) -> None:
        if self.engine is not None:
            self.engine.kill()
            self.engine.wait()
