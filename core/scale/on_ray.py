"""Shards as tasks of Ray, which starts them, and retries them if a process or a node dies."""

from __future__ import annotations

import time
from dataclasses import dataclass
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
# Tasks for each processor that Ray gets at once, if it may use all of them.
AHEAD = 2


@dataclass(frozen=True, slots=True)
class OnRay:
    """An engine (`abw.core.scale.job.Engine`) whose workers on a cluster each run one shard at a time."""

    cluster: Cluster

    def __call__(self, sent: Parcel, tasks: list[Task], done: Done, progress: Progress) -> None:
        """Run tasks. Errors: AbwError if Ray is missing, or its workers have no abw of this version."""
        with self.cluster.connected(progress) as ray:
            task = ray.remote(
                num_cpus=self.cluster.threads, max_retries=RETRIES, scheduling_strategy="SPREAD"
            )
            try:
                self.cluster.greet(ray, [task(version_here).remote()], progress)
            except ray.exceptions.RayError as error:
                raise no_abw(error) from None
            progress.phase("run", len(tasks))
            silence = Silence(progress, "run", len(tasks))
            self._run(ray, task(run_shard), sent, tasks, done, silence)

    def _run(
        self,
        ray: Any,  # noqa: ANN401 (a module)
        task: Any,  # noqa: ANN401 (Ray's)
        sent: Parcel,
        tasks: list[Task],
        done: Done,
        silence: Silence,
    ) -> None:
        """Run tasks, a bounded number at once."""
        parcel, left = ray.put(sent), list(reversed(tasks))
        pending: dict[Any, Task] = {}
        looked, window = -LOOK, 1
        while left or pending:
            if time.monotonic() > looked + LOOK:  # a cluster may grow
                cpus = ray.cluster_resources().get("CPU", 1) / self.cluster.threads
                looked, window = time.monotonic(), self.cluster.workers or max(1, int(AHEAD * cpus))
            while left and len(pending) < window:
                next_one = left.pop()
                pending[task.remote(parcel, *next_one)] = next_one
            ready = ray.wait(list(pending), timeout=1.0)[0]
            if not ready:
                silence.look(lambda: _waited_for(list(pending.values())))
            for reference in ready:
                silence.heard()
                one = pending.pop(reference)
                try:
                    found = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise no_abw(error) from None
                except ray.exceptions.RayError:
                    found = {"lost": True}
                done(one, found)


def _waited_for(tasks: list[Task]) -> str:
    """Describe tasks, and where they run, as far as that is known."""
    said = []
    for part, section in tasks[:SHOWN]:
        where = " and ".join(writers(part)) or "no process has begun it"
        said.append(f"{part} (from line {section.line} on; {where})")
    return ", ".join(said) + (f", and {len(tasks) - SHOWN} more" if len(tasks) > SHOWN else "")
