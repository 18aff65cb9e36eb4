"""A run in shards over many processes, started by any engine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from abw.core.run.footprint import require_weights
from abw.core.run.learning import policy_of
from abw.core.run.options import RunOptions
from abw.core.run.workload import Workload, open_model, open_sample
from abw.core.scale.worker import Bundle, Parcel, parcel, stamp_of
from abw.core.spec.load import Overrides
from abw.core.store.shard_files import Part, discard, folder_of, is_done, join, refuse_others

# Bytes of data in a shard, by default.
SHARD_BYTES = 4 << 20

# Of what `--json` prints.
SCHEMA_VERSION = 1

# Give up when this many shards have failed and none has succeeded.
ENOUGH = 3

Task = tuple[Part, Section]
Done = Callable[[Task, Mapping[str, Any]], None]
# Runs tasks by the worker's `run_shard` in other processes, in any order, and tells of each what came of it:
# `lost` in place of what it counted where every process that tried it ended. Errors: AbwError.
Engine = Callable[[Parcel, list[Task], Done, Progress], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How a run is distributed: bytes of data in a shard, and whether existing parts are reused."""

    shard_bytes: int = SHARD_BYTES
    resume: bool = False


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
    count = max(1, math.ceil(model.data.path.stat().st_size / scale.shard_bytes))
    refuse_others(output, run_key, count)
    sections = index.sections(count, cut.batch, cut.limit)
    tasks = [(Part(output, n, count), section) for n, section in enumerate(sections, 1)]
    left = [task for task in tasks if not (scale.resume and is_done(task[0], run_key))]
    tally = _Tally(len(tasks), len(tasks) - len(left), output, progress)
    if left:
        policy = _policy(model, options, progress)
        placed = _placed(model)
        sent = replace(options, threads=options.threads or 1)
        bundle = Bundle(placed, sent, policy, run_key, stamp, home().absolute())
        with tally.told_when_interrupted():
            engine(parcel(bundle), left, tally.add, progress)
        tally.require_all()
    progress.phase("join the parts")
    joined = join(output, run_key)
    discard(output)
    seconds = time.perf_counter() - begun
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model.name,
        "data": str(model.data.path),
        "output": str(cut.output),
        "shards": len(tasks),
        "resumed": len(tasks) - len(left),
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

    def __init__(self, shards: int, resumed: int, output: Path, progress: Progress) -> None:
        self.shards, self.done, self.output, self.progress = shards, resumed, output, progress
        self.instances, self.cpu = 0, 0.0
        self.lost: list[Task] = []
        self.failed: list[tuple[Task, AbwError]] = []
        self.succeeded = False
        self.begun = time.perf_counter()

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
