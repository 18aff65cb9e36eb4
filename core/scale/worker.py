"""A process that runs shards for another one: opens the model once, and writes parts."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import abw
from abw.core.base.errors import AbwError, from_system
from abw.core.base.memory import keep_freed_memory
from abw.core.base.progress import Clock
from abw.core.data.feed import Section, open_feed
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params
from abw.core.ir.model import Model
from abw.core.policy.schedule import Policy
from abw.core.run.options import RunOptions
from abw.core.run.streaming import ModelRun
from abw.core.store.shard_files import Part, RunKey, writing_part


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run as it is sent to workers: the model and the policy themselves; data and weights by their paths.

    `stamp` is the data's size and time of change.
    """

    model: Model
    options: RunOptions
    policy: Policy
    run_key: RunKey
    stamp: tuple[int, int]
    home: Path


# A bundle by its digest, and pickled, with the version of abw that can read it: that comes first.
Parcel = tuple[str, str, bytes]


def stamp_of(data: Path) -> tuple[int, int]:
    """The size and modification time of a file."""
    about = data.stat()
    return about.st_size, about.st_mtime_ns


class Worker:
    """A model, ready to run shards."""

    def __init__(self, bundle: Bundle) -> None:
        """Open the model and compile. Errors: AbwError if the weights differ from the driver's."""
        self.bundle = bundle
        model, options = bundle.model, bundle.options
        trained = load_weights(model)
        if trained and trained.file.sha256 != bundle.run_key["weights"]:
            raise AbwError(f"{trained.file.path} holds other weights here than where the run was begun")
        self.networks = options.networks(model)
        self.executor = get_executor(options.executor, **options.told)
        params = make_params(self.networks.cells, trained, options.seed)
        self.executor.prepare(self.networks.network, params, options.threads)

    def run(self, part: Part, section: Section) -> dict[str, Any]:
        """Run a shard into its part; returns its counts. Errors: AbwError."""
        bundle, model = self.bundle, self.bundle.model
        self._require_data()
        clock = Clock(*ModelRun.phases, "wait", "write")
        run = ModelRun(model, self.executor, bundle.options, clock)
        run.networks, run.policy = self.networks, bundle.policy
        with (
            open_feed(model.data.path, section) as feed,
            writing_part(part, bundle.run_key, section) as draft,
        ):
            with run.writing(draft.path) as writer:
                sums = run.stream(feed, writer)
            draft.instances, draft.skipped = sums.instances, sums.skipped
            self._require_data()
        return {"instances": sums.instances, "skipped": sums.skipped, "nodes": sums.nodes}

    def _require_data(self) -> None:
        path = self.bundle.model.data.path
        try:
            same = stamp_of(path) == self.bundle.stamp
        except OSError as error:
            hint = "data, weights and --output lie where every machine of the cluster has them by that path"
            raise AbwError(f"{path}: {error.strerror} on {platform.node()}", hint=hint) from None
        if not same:
            raise AbwError(
                f"{path} has changed since the run was begun", hint="run it again without --resume"
            )


def parcel(bundle: Bundle) -> Parcel:
    """Pickle a bundle."""
    content = pickle.dumps(bundle)
    return abw.__version__, hashlib.sha256(content).hexdigest(), content


# The last worker of this process.
_workers: dict[str, Worker] = {}


def version_here() -> str:
    """The version of abw where this is called."""
    return abw.__version__


def run_shard(sent: Parcel, part: Part, section: Section) -> Mapping[str, Any]:
    """Run a shard in this process; returns its counts and CPU seconds, or its `error`.

    Mistakes of the user are returned, not raised: retrying would not help.
    """
    version, key, content = sent
    begun, cpu = time.perf_counter(), time.process_time()
    if version != abw.__version__:
        here = f"abw {abw.__version__} is installed on {platform.node()}"
        error = AbwError(f"{here}, and {version} began the run", hint="install the same version everywhere")
        return told(error, ends=True)
    try:
        if key not in _workers:
            keep_freed_memory()
            bundle: Bundle = pickle.loads(content)
            share_home(bundle.home)
            _workers.clear()
            try:
                _workers[key] = Worker(bundle)
            except (AbwError, OSError) as wrong:
                return told(wrong, ends=True)
        found = _workers[key].run(part, section)
    except (AbwError, MemoryError, OSError, RecursionError, UnicodeError) as error:
        return told(error)
    return {**found, "seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}


def share_home(driver: Path) -> None:
    """Use the driver's folder for policies and machine code, if it exists here and no other is set."""
    if driver.is_dir():
        os.environ.setdefault("ABW_HOME", str(driver))


def told(
    error: AbwError | MemoryError | OSError | RecursionError | UnicodeError, *, ends: bool = False
) -> dict[str, Any]:
    """The document of an error; `ends`: every other shard would fail, too."""
    one = error if isinstance(error, AbwError) else from_system(error)
    return {"error": (one.message, one.hint, one.exit_code), "ends": ends}
