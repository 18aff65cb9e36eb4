"""Shards as tasks of Ray's, which starts them, and tries them again where a process or a node dies."""

from __future__ import annotations

import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from abw.core.base.cores import usable_cores
from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress
from abw.core.scale.job import Done, Task
from abw.core.scale.worker import Parcel, run_shard, version_here

RETRIES = 3
"""So often a shard is tried again where the process or node that ran it dies."""
STORE = 100_000_000
"""Bytes of the object store of a cluster that is started here: only the model lies in it."""
PATIENCE = 8.0
"""Seconds after which it is said that no worker has begun."""
AHEAD = 2
"""Tasks for each processor that Ray is given at once, where it may use all."""


@dataclass(frozen=True, slots=True)
class OnRay:
    """An engine (`abw.core.scale.job.Engine`).

    `address`: that of a cluster; '' for one started here, on this machine. `workers`: how many shards run at
    once (None: as many as there are processors), with so many `threads` each.
    """

    address: str = ""
    workers: int | None = None
    threads: int = 1

    def __call__(self, sent: Parcel, tasks: list[Task], done: Done, progress: Progress) -> None:
        """Run tasks. Errors: AbwError where Ray is not there, or has no abw of this version."""
        ray = require_ray()
        progress.phase("start ray" if not self.address else f"connect to ray at {self.address}")
        with self._cluster(ray):
            task = ray.remote(num_cpus=self.threads, max_retries=RETRIES, scheduling_strategy="SPREAD")
            self._greet(ray, task, sent, progress)
            progress.phase("run", len(tasks))
            self._run(ray, task(run_shard), sent, tasks, done)

    @contextmanager
    def _cluster(self, ray: Any) -> Iterator[None]:  # noqa: ANN401 (a module)
        """A connection to the cluster, or one that lasts as long as the block. Errors: AbwError."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address:
            options = {"address": self.address, **quiet}
        else:
            cpus = (self.workers or max(1, usable_cores() // self.threads)) * self.threads
            options = {"address": "local", "num_cpus": cpus, "object_store_memory": STORE, **quiet}
            options["include_dashboard"] = False
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with warnings.catch_warnings(action="ignore"):
                ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            where = f"reach a cluster at {self.address}" if self.address else "start"
            raise AbwError(f"ray cannot {where}: {said}", hint="`ray status` says what runs") from None
        finally:
            for number, handler in before.items():  # Ray takes SIGTERM
                signal.signal(number, handler)
        try:
            yield
        finally:
            ray.shutdown()

    def _greet(self, ray: Any, task: Any, sent: Parcel, progress: Progress) -> None:  # noqa: ANN401
        """Wait for a first worker; say so where none begins. Errors: AbwError for another version of abw."""
        hello = task(version_here).remote()
        if not ray.wait([hello], timeout=PATIENCE)[0]:
            free, there = (r.get("CPU", 0) for r in (ray.available_resources(), ray.cluster_resources()))
            said = f"{free:g} of the cluster's {there:g} CPUs are free, and a shard takes {self.threads}"
            progress.phase(f"wait for workers: {said}")
            while not ray.wait([hello], timeout=1.0)[0]:
                pass
        try:
            version = ray.get(hello)
        except ray.exceptions.RayError as error:
            raise _no_abw(error) from None
        if version != sent[0]:
            hint = "install the same version everywhere"
            raise AbwError(f"the cluster has abw {version}, and this is {sent[0]}", hint=hint)

    def _run(self, ray: Any, task: Any, sent: Parcel, tasks: list[Task], done: Done) -> None:  # noqa: ANN401
        """Run tasks, a bounded number at once."""
        parcel, left = ray.put(sent), list(reversed(tasks))
        pending: dict[Any, Task] = {}
        looked, window = 0.0, 1
        while left or pending:
            if time.monotonic() > looked + 1:  # a cluster may grow
                cpus = ray.cluster_resources().get("CPU", 1) / self.threads
                looked, window = time.monotonic(), self.workers or max(1, int(AHEAD * cpus))
            while left and len(pending) < window:
                next_one = left.pop()
                pending[task.remote(parcel, *next_one)] = next_one
            for reference in ray.wait(list(pending), timeout=1.0)[0]:
                one = pending.pop(reference)
                try:
                    found = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise _no_abw(error) from None
                except ray.exceptions.RayError:
                    found = {"lost": True}
                done(one, found)


def _no_abw(error: Exception) -> AbwError:
    """What is wrong where a worker cannot even begin."""
    said = str(error).strip().splitlines()[-1]
    return AbwError(
        f"the cluster's workers cannot run abw: {said}", hint="install the same version everywhere"
    )


def require_ray() -> Any:  # noqa: ANN401 (a module)
    """Ray. Errors: AbwError where it is not installed."""
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError:
        raise AbwError("--engine ray needs ray", hint='pip install "abw[ray]"') from None
    return ray
