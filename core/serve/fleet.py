"""Engines with the same weights: kept running, some of them in reserve."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from abw.core.base.errors import AbwError, printable
from abw.core.serve.link import Link
from abw.core.serve.settings import Limits, Loading

# Seconds until an engine that died before it was ready is started again, doubled each time, and the most.
RESTART = 0.1
LONGEST = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start: `engines` that get requests and `spares` that replace them.

    `module`: what they run, if not the loading's.
    """

    loading: Loading
    limits: Limits
    module: str = ""
    engines: int = 1
    spares: int = 0


class Owner(Protocol):
    """The sender of requests to engines."""

    def hear(self, link: Link, said: Any, bodies: bytes) -> None:  # noqa: ANN401 (what JSON holds)
        """Take a message of an engine."""

    def runs(self, fleet: Fleet) -> bool:
        """Whether a fleet is the one that gets requests."""

    def opened(self, link: Link) -> None:
        """Note that an engine gets requests from now on."""

    def lost(self, link: Link) -> None:
        """Note that an engine that got requests has ended."""

    def died(self) -> None:
        """Note that an engine has ended unexpectedly."""

    async def load(self) -> None:
        """Replace all engines by ones that read the files as they are now. Raises AbwError."""


class Fleet:
    """Keeps engines running: starts them, and replaces those that die.

    `about`: what the first engine that was ready reported. `serving`: those that get requests, `idle`: those
    of them that have none. `failed`: why there are none any more.
    """

    def __init__(self, plan: Plan, owner: Owner) -> None:
        self.about: dict[str, Any] | None = None
        self.serving: set[Link] = set()
        self.idle: list[Link] = []
        self.failed: AbwError | None = None
        self._plan, self._owner = plan, owner
        self._links: dict[int, Link] = {}
        self._ended: list[Link] = []
        self._retired = False
        self._files = plan.loading.files()
        self._renewal = asyncio.Lock()
        self._permits = asyncio.Semaphore(plan.engines)
        self._changed = asyncio.Event()  # set whenever an engine is ready, or all have failed
        self._first = asyncio.Event()  # set once an engine was ready: what it has compiled is on disk
        self._tasks = [asyncio.create_task(self._keep(n)) for n in range(plan.engines + plan.spares)]

    async def started(self) -> None:
        """Wait until all engines that get requests are ready. Errors: AbwError if that cannot be."""
        while len(self.serving) < self._plan.engines:
            self._changed.clear()
            await self._changed.wait()
            if self.failed is not None:
                raise self.failed

    @property
    def changed(self) -> bool:
        """Whether an engine that starts now would read other files than the first one did."""
        return self._plan.loading.files() != self._files

    @property
    def gone(self) -> bool:
        """Whether all engines have ended."""
        return all(task.done() for task in self._tasks) and not self._ended

    async def over(self) -> None:
        """Wait until no engine is kept any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def retire(self) -> None:
        """End each engine once it has answered its requests."""
        self._retired = True
        for link in self._links.values():
            if not link.batches:
                link.end()

    def end(self) -> None:
        """End all engines at once."""
        for task in self._tasks:
            task.cancel()
        for link in (*self._links.values(), *self._ended):
            link.end()
            link.collect(wait=True)

    def collect(self) -> None:
        """Forget the processes that have ended."""
        self._ended = [link for link in self._ended if not link.collect()]

    @property
    def ready(self) -> int:
        """How many engines could run requests, with those in reserve."""
        return sum(link.ready for link in self._links.values())

    def processes(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the name of each process."""
        for n, link in self._links.items():
            if link.process is not None:
                yield link.process.pid, f"engine {n + 1}"

    async def _keep(self, n: int) -> None:
        """Run an engine, and another one whenever it dies, until the fleet is retired."""
        pause = RESTART
        if n:
            await self._first.wait()
        while not self._retired:
            link = self._links[n] = Link(self._owner.hear)
            try:
                if self._owner.runs(self) and self.changed:  # engines that answer one request have one model
                    async with self._renewal:
                        if not self._retired:
                            await self._owner.load()
                    continue
                about = await link.start(
                    self._plan.loading, self._plan.limits, self._plan.module or self._plan.loading.module
                )
                self.about = self.about or about
                self._first.set()
                pause = RESTART
                await self._serve(link)
            except OSError:
                pause = min(2 * pause, LONGEST)
                if self.about is None and pause > 8 * RESTART:
                    said = "the engine died again and again before it was ready"
                    self._fail(AbwError(said, hint="see above"))
            except AbwError as error:
                if self.serving:
                    print(printable(f"an engine could not be replaced: {error}"), file=sys.stderr, flush=True)
                    pause = LONGEST
                else:
                    self._fail(error)
            finally:
                link.end()
                self._ended.append(link)
            if self.failed is not None:
                return
            if not self._retired:
                self._owner.died()
                await asyncio.sleep(pause)

    async def _serve(self, link: Link) -> None:
        """Let an engine get requests as soon as fewer than wanted do, until it dies."""
        permit = asyncio.ensure_future(self._permits.acquire())
        try:
            await asyncio.wait((permit, link.lost), return_when=asyncio.FIRST_COMPLETED)
            if link.lost.done():
                return
            self.serving.add(link)
            self._changed.set()
            self._owner.opened(link)
            await link.lost
        finally:
            if link in self.serving:
                self.serving.discard(link)
                if link in self.idle:
                    self.idle.remove(link)
                self._owner.lost(link)
            if not permit.cancel() and not permit.cancelled():
                self._permits.release()

    def _fail(self, error: AbwError) -> None:
        self.failed = self.failed or error
        self._retired = True
        self._changed.set()
        self._first.set()
        for link in self._links.values():
            link.end()
