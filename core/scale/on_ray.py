"""Shards as tasks of Ray, which starts them, and retries them if a process or a node dies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from abw.core.base.progress import Progress
from abw.core.scale.cluster import Cluster, Silence, no_abw
from abw.core.scale.job import Done, Task
from abw.core.scale.worker import Parcel, run_shard, version_here
from abw.core.store.shard_files import writers

# Retries of a shard whose process or node dies.
RETRIES = 3
# The most shards that a message about waiting names.
SHOWN = 3
# Seconds between two queries of the number of processors.
LOOK = 10.0
# A task is late after so many times what the median takes, and seconds.
LATE, SOONEST = 3.0, 2.0
# Tasks for each processor that Ray gets at once, if it may use all of them.
AHEAD = 2


@dataclass(frozen=True, slots=True)
class OnRay:
    """An engine (`abw.core.scale.job.Engine`) whose workers on a cluster each run one shard at a time."""

    cluster: Cluster

    def __call__(
        self, sent: Parcel, tasks: Iterator[Task], count: int, done: Done, progress: Progress
    ) -> None:
        """Run tasks. Errors: AbwError if Ray is missing, or its workers have no abw of this version."""
        with self.cluster.connected(progress) as ray:
            task = ray.remote(
                num_cpus=self.cluster.threads, max_retries=RETRIES, scheduling_strategy="SPREAD"
            )
            try:
                self.cluster.greet(ray, [task(version_here).remote()], progress)
            except ray.exceptions.RayError as error:
                raise no_abw(error) from None
            progress.phase("run", count)
            silence = Silence(progress, "run", count)
            self._run(ray, partial(task(run_shard).remote, ray.put(sent)), tasks, done, silence)

    def _run(
        self,
        ray: Any,  # noqa: ANN401 (a module)
        start: Callable[..., Any],
        tasks: Iterator[Task],
        done: Done,
        silence: Silence,
    ) -> None:
        """Run tasks, a bounded number at once, at the end late ones once more: the first to end counts."""
        pending: dict[Any, Task] = {}
        late = _Late()
        looked, window = -LOOK, 1
        while True:
            now = time.monotonic()
            if now > looked + LOOK:  # a cluster may grow
                cpus = ray.cluster_resources().get("CPU", 1) / self.cluster.threads
                looked, window = now, self.cluster.workers or max(1, int(AHEAD * cpus))
            while len(pending) < window:
                one = next(tasks, None) or late.next(now)
                if one is None:
                    break
                pending[start(*one)] = one
                late.started(one, now)
            if not late.running:
                return
            ready = ray.wait(list(pending), timeout=1.0)[0]
            if not ready:
                silence.look(lambda: _waited_for(list(late.running)))
            for reference in ready:
                silence.heard()
                one = pending.pop(reference)
                others = [other for other, task in pending.items() if task == one]
                try:
                    found = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise no_abw(error) from None
                except ray.exceptions.RayError:
                    found = {"lost": True}
                if "lost" in found and others:  # the other one goes on
                    continue
                for other in others:
                    del pending[other]
                    ray.cancel(other, force=True)
                late.ended(one, time.monotonic())
                done(one, found)


class _Late:
    """Which tasks take so long that they are started once more: a process may be stuck, a machine slow.

    `running`: those that have not ended, by when they were started first.
    """

    def __init__(self) -> None:
        self.running: dict[Task, float] = {}
        self._again: set[Task] = set()
        self._took: list[float] = []

    def started(self, task: Task, now: float) -> None:
        """Note a start."""
        if task in self.running:
            self._again.add(task)
        else:
            self.running[task] = now

    def ended(self, task: Task, now: float) -> None:
        """Note an end."""
        self._took.append(now - self.running.pop(task))

    def next(self, now: float) -> Task | None:
        """The task that has run longest, if it is late and was started only once."""
        usual = max(LATE * median(self._took), SOONEST) if self._took else math.inf
        return next((t for t, at in self.running.items() if now - at > usual and t not in self._again), None)


def _waited_for(tasks: list[Task]) -> str:
    """Describe tasks, and where they run, as far as that is known."""
    said = []
    for part, section in tasks[:SHOWN]:
        where = " and ".join(writers(part)) or "no process has begun it"
        said.append(f"{part} (from line {section.line} on; {where})")
    return ", ".join(said) + (f", and {len(tasks) - SHOWN} more" if len(tasks) > SHOWN else "")
