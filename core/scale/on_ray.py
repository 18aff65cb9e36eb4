"""Shards as tasks of Ray's, which starts them, and tries them again where a process or a node dies."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from abw.core.base.progress import Progress
from abw.core.scale.cluster import Cluster, no_abw
from abw.core.scale.job import Done, Task
from abw.core.scale.worker import Parcel, run_shard, version_here

RETRIES = 3
"""So often a shard is tried again where the process or node that ran it dies."""
AHEAD = 2
"""Tasks for each processor that Ray is given at once, where it may use all."""


@dataclass(frozen=True, slots=True)
class OnRay:
    """An engine (`abw.core.scale.job.Engine`): of a cluster's workers each runs a shard at once."""

    cluster: Cluster

    def __call__(self, sent: Parcel, tasks: list[Task], done: Done, progress: Progress) -> None:
        """Run tasks. Errors: AbwError where Ray is not there, or has no abw of this version."""
        with self.cluster.connected(progress) as ray:
            task = ray.remote(
                num_cpus=self.cluster.threads, max_retries=RETRIES, scheduling_strategy="SPREAD"
            )
            try:
                self.cluster.greet(ray, [task(version_here).remote()], progress)
            except ray.exceptions.RayError as error:
                raise no_abw(error) from None
            progress.phase("run", len(tasks))
            self._run(ray, task(run_shard), sent, tasks, done)

    def _run(self, ray: Any, task: Any, sent: Parcel, tasks: list[Task], done: Done) -> None:  # noqa: ANN401
        """Run tasks, a bounded number at once."""
        parcel, left = ray.put(sent), list(reversed(tasks))
        pending: dict[Any, Task] = {}
        looked, window = 0.0, 1
        while left or pending:
            if time.monotonic() > looked + 1:  # a cluster may grow
                cpus = ray.cluster_resources().get("CPU", 1) / self.cluster.threads
                looked, window = time.monotonic(), self.cluster.workers or max(1, int(AHEAD * cpus))
            while left and len(pending) < window:
                next_one = left.pop()
                pending[task.remote(parcel, *next_one)] = next_one
            for reference in ray.wait(list(pending), timeout=1.0)[0]:
                one = pending.pop(reference)
                try:
                    found = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise no_abw(error) from None
                except ray.exceptions.RayError:
                    found = {"lost": True}
                done(one, found)
