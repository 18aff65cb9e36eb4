"""A run in shards over many processes, started by any engine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.files import home, refuse_overwrite
from abw.core.base.interrupts import Terminated, stopped
from abw.core.base.progress import Progress
from abw.core.data.feed import Section
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params
from abw.core.ir.model import Model
from abw.core.policy.schedule import Policy
from abw.core.run.learning import policy_of
from abw.core.run.observing.footprint import require_weights
from abw.core.run.options import RunOptions
from abw.core.run.workload import Workload, open_model, open_sample
from abw.core.scale.worker import Bundle, Parcel, parcel, stamp_of
from abw.core.spec.load import Overrides
from abw.core.store.shard_files import Part, discard, folder_of, is_done, join, leave, refuse_others

# Bytes of data in a shard, by default; more where there would be more shards than this, each of which costs
# the driver a millisecond.
SHARD_BYTES = 4 << 20
SHARDS = 1 << 14

# Of what `--json` prints.
SCHEMA_VERSION = 1

# Give up when this many shards have failed and none has succeeded.
ENOUGH = 3

Task = tuple[Part, Section]
Done = Callable[[Task, Mapping[str, Any]], None]
# Runs tasks, so many of them at most, by the worker's `run_shard` in other processes, in any order, and tells
# of each what came of it: `lost` in place of what it counted where every process that tried it ended. Tasks
# are made as they are taken. Errors: AbwError.
Engine = Callable[[Parcel, Iterator[Task], int, Done, Progress], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How a run is distributed.

    `shard_bytes`: of data in a shard; None for a size that suits the data. `resume`: existing parts are
    reused; `leave_parts`: they are not joined.
    """

    shard_bytes: int | None = None
    resume: bool = False
    leave_parts: bool = False

    def shards(self, size: int) -> int:
        """The number of shards of data with `size` bytes."""
        return max(1, math.ceil(size / (self.shard_bytes or max(SHARD_BYTES, size // SHARDS))))


def run_scaled(
    spec: Path, overrides: Overrides, options: RunOptions, scale: Scale, engine: Engine, progress: Progress
) -> dict[str, Any]:
    """Run a spec in shards by an engine, and join their outputs; returns the document of `abw run --json`.

    The policy is learned once, here. If shards fail, the error names them, and the parts of the others are
    kept. Errors: AbwError and its kinds.
    """
    begun = time.perf_counter()
    model = open_model(spec, overrides, skip_bad=options.skip_bad)
    cut = options.cut(model, overrides, "--engine")
    output = cut.output.absolute()
    if not output.parent.is_dir():
        raise AbwError(f"cannot write {output}: there is no folder {output.parent}")
    refuse_overwrite(output, *model.reads)
    require_weights(model)
    stamp = stamp_of(model.data.path)
    index = cut.index
    run_key = cut.run_key(index)
    count = scale.shards(index.size)
    refuse_others(output, run_key, count)
    tally = _Tally(count, output, progress)

    def tasks() -> Iterator[Task]:
        """Cut the data while tasks run."""
        for number, section in enumerate(index.sections(count, cut.batch, cut.limit), 1):
            part = Part(output, number, count)
            if scale.resume and is_done(part, run_key):
                tally.resume()
            else:
                yield part, section

    left = tasks()
    with tally.told_when_interrupted():
        if first := next(left, None):
            policy = _policy(model, options, progress)
            sent = replace(options, threads=options.threads or 1)
            bundle = Bundle(_placed(model), sent, policy, run_key, stamp, home().absolute())
            engine(parcel(bundle), chain([first], left), count - tally.done, tally.add, progress)
            tally.require_all()
    if scale.leave_parts:
        joined = leave(output, run_key)
    else:
        progress.phase("join the parts")
        joined = join(output, run_key)
        discard(output)
    seconds = time.perf_counter() - begun
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model.name,
        "data": str(model.data.path),
        "output": str(cut.output),
        "shards": count,
        "resumed": tally.resumed,
        "instances": joined["instances"],
        "skipped": joined["skipped"],
        "seconds": seconds,
        "worker_cpu_seconds": tally.cpu,
        "instances_per_second": tally.instances / seconds,
    }


def _policy(model: Model, options: RunOptions, progress: Progress) -> Policy:
    """The requested policy, learned here if it is not on disk. Errors: AbwError."""
    networks = options.networks(model)
    asked = options.asked(model, networks)

    def sample() -> tuple[Workload, int]:
        executor = None
        if model.growth:  # what grows is grown first
            executor = get_executor(options.executor, **options.told)
            executor.prepare(networks.network, make_params(networks.cells, load_weights(model), options.seed))
        return open_sample(model, networks, asked.instances, skip_bad=options.skip_bad, executor=executor)

    return policy_of(networks, asked, sample, progress)


def _placed(model: Model) -> Model:
    """The model with absolute paths."""
    file = model.weights.file
    return replace(
        model,
        data=replace(model.data, path=model.data.path.absolute()),
        weights=replace(model.weights, file=file and file.absolute()),
    )


class _Tally:
    """Counts the shards that have ended."""

    def __init__(self, shards: int, output: Path, progress: Progress) -> None:
        self.shards, self.output, self.progress = shards, output, progress
        self.done = self.resumed = self.instances = 0
        self.cpu = 0.0
        self.lost: list[Task] = []
        self.failed: list[tuple[Task, AbwError]] = []
        self.succeeded = False
        self.begun = time.perf_counter()

    def resume(self) -> None:
        """Count a shard of an earlier run."""
        self.done += 1
        self.resumed += 1

    def add(self, task: Task, found: Mapping[str, Any]) -> None:
        """Count a shard. Errors: AbwError if it is useless to continue."""
        if "error" in found:
            message, hint, code = found["error"]
            error = AbwError(message, hint=hint, exit_code=code)
            if found["ends"]:
                raise error
            self.failed.append((task, error))
        elif "lost" in found:
            self.lost.append(task)
        else:
            self.succeeded = True
            self.done += 1
            self.instances += found["instances"] + found["skipped"]
            self.cpu += found["cpu"]
        if len(self.failed) + len(self.lost) >= ENOUGH and not self.succeeded:
            self.require_all()
        rate = self.instances / (time.perf_counter() - self.begun)
        note = f"{self.done} of {self.shards} shards, {self.instances} instances, {rate:.0f}/s"
        self.progress.reached(self.done, note)

    def require_all(self) -> None:
        """Raise AbwError that names failed shards, the first of them with its reason."""
        if not self.failed and not self.lost:
            return
        hint = f"{self._kept()}; --resume takes them"
        if self.failed:
            (part, _), error = min(self.failed, key=lambda one: one[0][0].number)
            others = len(self.failed) + len(self.lost) - 1
            more = f" ({others} more failed)" if others else ""
            raise AbwError(f"{part}{more}: {error.message}", hint="; ".join(filter(None, (error.hint, hint))))
        part, section = min(self.lost, key=lambda one: one[0].number)
        lines = f"from line {section.line} on, {section.count} instances"
        names = ", ".join(str(p.number) for p, _ in sorted(self.lost, key=lambda one: one[0].number)[:10])
        which = f"parts {names} of {part.parts} end" if len(self.lost) > 1 else f"{part} ({lines}) ends"
        raise AbwError(f"{which} each process that runs it: too little memory, or a crash", hint=hint)

    @contextmanager
    def told_when_interrupted(self) -> Iterator[None]:
        """Report how to continue a run that is interrupted in the block."""
        try:
            yield
        except (KeyboardInterrupt, Terminated) as end:
            raise stopped(end, f"{self._kept()}; --resume goes on") from None

    def _kept(self) -> str:
        return f"{self.done} of {self.shards} parts are kept in {folder_of(self.output)}"
