"""A connection to Ray: to an existing cluster, or to one started for the job."""

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

from abw.core.base.errors import AbwError, install
from abw.core.base.parallel import usable_cores
from abw.core.base.progress import Progress
from abw.core.scale.worker import version_here

# Bytes of the object store of a local cluster, which holds no data.
STORE = 100_000_000
# Seconds without an answer after which a message names who is waited for.
SILENT = 60.0
# Seconds after which a message says that no worker has started.
PATIENCE = 8.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Processes of Ray, with `threads` each.

    `address`: of a cluster; '' starts one on this machine, with `workers` processes (None: one a processor).
    """

    address: str = ""
    workers: int | None = None
    threads: int = 1

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[Any]:
        """Connect to Ray during the block. Errors: AbwError if it is missing or cannot be reached."""
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
            raise AbwError(f"ray cannot {where}: {said}", hint="`ray status` shows what runs") from None
        finally:
            for number, handler in before.items():  # Ray takes SIGTERM
                signal.signal(number, handler)
        with redirect_stdout(sys.stderr):  # Ray reports dead processes there, until the end
            try:
                yield ray
            finally:
                ray.shutdown()

    def greet(self, ray: Any, hellos: list[Any], progress: Progress) -> None:  # noqa: ANN401 (a module)
        """Wait until processes report their version of abw; print a message if they do not start.

        Errors: AbwError for another version, or none; errors of Ray if a process ends.
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
    """Reports who has not answered for `SILENT` seconds, then for twice as many, and so on.

    When an answer comes, it reports the work's `phase` again.
    """

    def __init__(self, progress: Progress, phase: str, steps: int | None = None) -> None:
        self._progress, self._phase = progress, (phase, steps)
        self._since, self._next = time.monotonic(), SILENT

    def heard(self) -> None:
        """Note that an answer has come."""
        if self._next > SILENT:
            self._progress.phase(*self._phase)
        self._since, self._next = time.monotonic(), SILENT

    def look(self, whom: Callable[[], str]) -> None:
        """Report a long silence."""
        waited = time.monotonic() - self._since
        if waited >= self._next:
            self._next = 2 * waited
            self._progress.phase(f"no answer for {waited:.0f} s, and still waiting: {whom()}")


def no_abw(error: Exception) -> AbwError:
    """The error of a worker that cannot even start."""
    said = str(error).strip().splitlines()[-1]
    return AbwError(
        f"the cluster's workers cannot run abw: {said}", hint="install the same version everywhere"
    )


def require_ray() -> Any:  # noqa: ANN401 (a module)
    """Import Ray. Errors: AbwError if it is not installed."""
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError:
        raise AbwError("--engine ray needs ray", hint=install("ray")) from None
    return ray
