"""A model's queue and engines: sends them the requests that wait, and distributes their replies."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from dataclasses import dataclass
from typing import Any

from abw.core.serve.answers import Reply, joined
from abw.core.serve.fleet import Fleet, Plan
from abw.core.serve.link import Asked, Link
from abw.core.serve.metrics import ModelMetrics
from abw.core.serve.queue import Piece, RequestQueue, Waiting
from abw.core.serve.requests import BodyError

DIED = "the engine died while it ran this request, and it alone"

# Seconds after which an engine is replaced that runs only requests nobody waits for.
STUCK = 10.0

# Instances may wait if the engines, by their own seconds an instance, run them in this part of a request's
# time; the rest is for a machine that is busy. Answers a second would be no measure: they fall with what is
# let in.
ADMITTED = 0.4
# What an engine has ahead takes this part of a request's time at most.
AHEAD = 0.2
# What is left of a server's lag, in hearing an engine, after a mini-batch that it heard in time.
LASTING = 0.9


# How much the last mini-batch counts.
NEWEST = 0.2
# Between two mini-batches of small requests, large ones run for a third of the seconds of one, so that they
# get a quarter of an engine; or for twice as many, but no more than these.
THIRD, TWICE, SHORT = 1 / 3, 2.0, 0.5e-3


@dataclass(slots=True)
class Pace:
    """Seconds of mini-batches, of which the last ones count most.

    `each`: for an instance; `large`: for an instance of a large request; `small`: for a mini-batch of small
    requests. 0 until there was one.
    """

    each: float = 0.0
    large: float = 0.0
    small: float = 0.0

    def add(self, seconds: float, instances: int, *, large: bool) -> None:
        """Note a mini-batch; `large`: of large requests."""
        self.each = _newer(self.each, seconds / instances)
        if large:
            self.large = _newer(self.large, seconds / instances)
        else:
            self.small = _newer(self.small, seconds)

    @property
    def piece(self) -> int:
        """How many instances of large requests run between two mini-batches of small ones.

        Small requests that wait for them take at most three times as long as without.
        """
        seconds = max(self.small * THIRD, min(self.small * TWICE, SHORT))
        each = self.large or self.each
        return max(1, int(seconds / each)) if each else 1


def _newer(before: float, now: float) -> float:
    return before + NEWEST * (now - before) if before else now


class Dispatcher:
    """Runs a model's engines until it is cancelled.

    `about`: what an engine reported about its model; None until the first one is ready.
    """

    def __init__(self, plan: Plan) -> None:
        self.limits = plan.limits
        self.queue: RequestQueue[Asked] = RequestQueue(plan.limits.queue, plan.limits.batch)
        self.about: dict[str, Any] | None = None
        self._plan = plan
        self._fleet = Fleet(plan, self)
        self._retired: list[Fleet] = []
        self.metrics = ModelMetrics()
        self._pace = Pace()
        self._lag = 0.0  # seconds from an engine's answer to when it is heard
        self._fed = False  # whether idle engines will be fed soon
        self._loader: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether an engine runs requests."""
        return bool(self._fleet.serving)

    @property
    def busy(self) -> bool:
        """Whether a request waits for an answer."""
        links = [link for fleet in self._fleets() for link in fleet.serving]
        return len(self.queue) > 0 or any(link.running for link in links)

    @property
    def soon(self) -> int:
        """Return after how many seconds a refused request may be sent again."""
        wait = self.queue.instances * self._pace.each / max(1, len(self._fleet.serving))
        return max(1, math.ceil(wait))

    async def run(self) -> None:
        """Keep engines running until cancelled.

        Errors: AbwError if they report that they cannot serve the model, and none is left.
        """
        try:
            while True:
                fleet = self._fleet
                await fleet.over()
                if fleet is self._fleet:
                    assert fleet.failed is not None
                    raise fleet.failed
        finally:
            if self._loader is not None:
                self._loader.cancel()
            for fleet in self._fleets():
                fleet.end()

    async def load(self) -> None:
        """Start engines with the files as they are now; they take over when all are ready.

        Errors: AbwError if they cannot be loaded; those before them go on.
        """
        while self._loader is not None and not self._loader.done():  # it may have read the files already
            await asyncio.wait((self._loader,))
        self._loader = asyncio.create_task(self._load())
        await asyncio.shield(self._loader)

    async def _load(self) -> None:
        while True:
            new = Fleet(self._plan, self)
            try:
                await new.started()
            except BaseException:
                new.end()
                raise
            if not new.changed:
                break
            new.end()  # its engines may have read different files
        before, self._fleet = self._fleet, new
        self.about = new.about
        self._retired.append(before)
        before.retire()
        self.queue.start_over()  # no answer has parts by different weights
        self.metrics.loads += 1
        for link in new.serving:
            self.opened(link)

    def put(self, waiting: Waiting[Asked]) -> None:
        """Queue a request for the engines. Raises FullError."""
        self.queue.put(waiting)
        if not self._fed and self._fleet.idle:
            self._fed = True
            loop = asyncio.get_running_loop()
            if self.limits.wait and self.queue.instances < self.limits.batch:
                loop.call_later(self.limits.wait, self._feed_idle)
            else:
                loop.call_soon(self._feed_idle)  # with all requests that have arrived

    def tick(self) -> None:
        """Run periodic tasks: replace stuck engines, collect those that have ended."""
        now = time.monotonic()
        for fleet in self._fleets():
            fleet.collect()
            for link in fleet.serving:
                if link.batches and now - link.begun > STUCK and not link.running:
                    print("the engine does not end what nobody waits for: it is replaced", file=sys.stderr)
                    link.end()
        for fleet in [fleet for fleet in self._retired if fleet.gone]:
            self._retired.remove(fleet)

    def measured(self) -> ModelMetrics:
        """Return the metrics, with what is true now."""
        metrics = self.metrics
        metrics.waiting, metrics.ready = self.queue.instances, self.ready
        metrics.ready_engines = self._fleet.ready
        metrics.engines = dict(process for fleet in self._fleets() for process in fleet.processes())
        return metrics

    def hear(self, link: Link, said: Any, bodies: bytes) -> None:  # noqa: ANN401 (what JSON holds)
        """Distribute the replies of a message; after a mini-batch's last one the engine gets the next."""
        batch = link.batches[0]
        replied = [(batch.pieces.pop(head[0]), head) for head in said["answers"]]
        if said["done"]:
            self.metrics.run.add(said["seconds"])
            link.batches.popleft()
            link.begun = time.monotonic()
            self._lag = max(link.begun - said["at"], LASTING * self._lag)
            self._pace.add(said["seconds"], batch.instances, large=batch.large)
            self._admit()
            self.opened(link)
        at = 0  # in the bodies
        for piece, (_, status, size, json_bytes, wrong) in replied:
            self.metrics.ran += piece.last - piece.first
            if not piece.stale:
                self.metrics.wrong += wrong
                self._settle(piece, Reply(status, bodies[at : at + size], json_bytes))
            at += size

    def runs(self, fleet: Fleet) -> bool:
        """Whether a fleet is the one that gets requests."""
        return fleet is self._fleet

    def opened(self, link: Link) -> None:
        """Give an engine that is free its next mini-batch; one whose weights are old ends."""
        if link in self._fleet.serving:
            self.about = self.about or self._fleet.about
            if not self._feed(link):
                self._fleet.idle.append(link)
        elif not link.batches and any(link in fleet.serving for fleet in self._retired):
            link.end()

    def died(self) -> None:
        """Count an engine that died."""
        self.metrics.restarts += 1

    def lost(self, link: Link) -> None:
        """Queue the requests of a dead engine to run alone; one that ran alone is the cause, and fails."""
        running = list(dict.fromkeys(piece.waiting for piece in link.running))
        link.batches.clear()
        for waiting in running:
            if len(running) == 1 and waiting.suspect:
                waiting.asked.refuse(BodyError(500, DIED))
            else:
                self.queue.put_back(waiting)
        self._feed_idle()

    def _fleets(self) -> tuple[Fleet, ...]:
        return (self._fleet, *self._retired)

    def _feed_idle(self) -> None:
        self._fed = False
        idle = self._fleet.idle
        while idle and self._feed(idle[-1]):
            idle.pop()

    def _feed(self, link: Link) -> bool:
        """Send an engine what runs next; returns whether it has something to do.

        A server that is late in hearing that an engine is done, because thousands of clients ask, sends more
        mini-batches ahead, so that the engine does not wait for it; no pieces of large requests, for which
        small ones would wait.
        """
        now = time.monotonic()
        ahead = min(self._lag, AHEAD * self.limits.timeout)
        while not link.batches or (
            sum(batch.instances for batch in link.batches) * self._pace.each < ahead
            and not self.queue.suspicious
        ):
            pieces = self.queue.take(now, 0 if link.batches else self._pace.piece)
            if not pieces:
                break
            batch = link.send(pieces, now, large=self.queue.large(pieces[0].waiting))
            self.metrics.batch.add(batch.instances)
            for piece in pieces:
                if not piece.first:
                    self.metrics.waited.add(now - piece.waiting.since)
            if pieces[0].waiting.suspect:
                break
        return bool(link.batches)

    def _admit(self) -> None:
        """Set how many instances may wait."""
        engines = max(1, len(self._fleet.serving))
        many = ADMITTED * self.limits.timeout * engines / max(self._pace.each, 1e-9)
        self.queue.room = int(min(max(many, self.limits.batch), self.limits.queue))

    def _settle(self, piece: Piece[Asked], reply: Reply) -> None:
        """Note the reply to a piece, and answer the request if that was its last one."""
        waiting = piece.waiting
        if piece.last - piece.first < waiting.instances:
            waiting.parts[piece.first] = piece.last - piece.first, reply
            if sum(size for size, _ in waiting.parts.values()) < waiting.instances:
                return
            parts = {first: waiting.parts[first][1] for first in sorted(waiting.parts)}
            reply = joined(parts, waiting.asked.request)
        self.metrics.answered += waiting.instances
        waiting.asked.answer(reply)
