"""A connection to Ray: a cluster that is there, or one started for as long as it is needed."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from abw.core.base.cores import usable_cores
from abw.core.base.errors import AbwError, install
from abw.core.base.progress import Progress
from abw.core.scale.worker import version_here

# Bytes of the object store of a cluster that is started here: no data lie in it.
STORE = 100_000_000
# Seconds without an answer after which it is said who is waited for.
SILENT = 60.0
# Seconds after which it is said that no worker has begun.
PATIENCE = 8.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Processes of Ray's, of which each has so many `threads`.

    `address`: that of a cluster; '' for one started here, on this machine, of so many `workers` (None: as
    many as there are processors).
    """

    address: str = ""
    workers: int | None = None
    threads: int = 1

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[Any]:
        """Ray, connected as long as the block lasts. Errors: AbwError where it is not there, or cannot be."""
        ray = require_ray()
        progress.phase("start ray" if not self.address else f"connect to ray at {self.address}")
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
        with redirect_stdout(sys.stderr):  # where it tells of processes that died, to its very end
            try:
                yield ray
            finally:
                ray.shutdown()

    def greet(self, ray: Any, hellos: list[Any], progress: Progress) -> None:  # noqa: ANN401 (a module)
        """Wait for processes that say their version of abw, and say so where they do not begin.

        Errors: AbwError for another version, or none; Ray's own where a process ends.
        """
        if len(ray.wait(hellos, num_returns=len(hellos), timeout=PATIENCE)[0]) < len(hellos):
            free, there = (r.get("CPU", 0) for r in (ray.available_resources(), ray.cluster_resources()))
            said = f"{free:g} of the cluster's {there:g} CPUs are free, and each takes {self.threads}"
            progress.phase(f"wait for workers: {said}")
            while len(ray.wait(hellos, num_returns=len(hellos), timeout=1.0)[0]) < len(hellos):
                pass
        try:
            versions = {*ray.get(hellos)} - {version_here()}
        except ray.exceptions.RayTaskError as error:
            raise no_abw(error) from None
        if versions:
            hint = "install the same version everywhere"
            raise AbwError(f"the cluster has abw {min(versions)}, and this is {version_here()}", hint=hint)


class Silence:
    """Says who has not answered for `SILENT` seconds, for twice as many, and so on; then the work's `phase`
    again when an answer has come.
    """

    def __init__(self, progress: Progress, phase: str, steps: int | None = None) -> None:
        self._progress, self._phase = progress, (phase, steps)
        self._since, self._next = time.monotonic(), SILENT

    def heard(self) -> None:
        """Somebody has answered."""
        if self._next > SILENT:
            self._progress.phase(*self._phase)
        self._since, self._next = time.monotonic(), SILENT

    def look(self, whom: Callable[[], str]) -> None:
        """Nobody has."""
        waited = time.monotonic() - self._since
        if waited >= self._next:
            self._next = 2 * waited
            self._progress.phase(f"no answer for {waited:.0f} s, and still waiting: {whom()}")


def no_abw(error: Exception) -> AbwError:
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
        raise AbwError("--engine ray needs ray", hint=install("ray")) from None
    return ray
