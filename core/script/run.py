"""A program on its data from end to end: what `abw run program.py:function` does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.files import spare
from abw.core.base.memory import peak_resident
from abw.core.base.progress import Clock, Progress, Quiet
from abw.core.data.feed import STDIN, Feed, open_feed
from abw.core.data.plain import Plain
from abw.core.data.stream import Bad
from abw.core.exec.interface import Executor
from abw.core.exec.precision import allowed
from abw.core.exec.registry import get_executor, settings
from abw.core.exec.trained import load_weights
from abw.core.graph.bounds import lower_bound
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.policy.trace import ready_counts
from abw.core.program.engines.finite import not_finite
from abw.core.program.minibatch import Ran, how, network_of, prepare, run_minibatch, verify_minibatch
from abw.core.program.running.fibers import Failed
from abw.core.program.running.verify import arrays_of
from abw.core.program.session import DEFAULT_GRANULARITY, ProgramGranularity
from abw.core.program.told import Told
from abw.core.run.finite import refuse_weights
from abw.core.run.pipeline import versions, weights_document
from abw.core.run.shards import Cut, Shard, Share, require_shards
from abw.core.run.streaming import TOLD
from abw.core.run.sums import COMPARED, KEPT, Executed, Kept
from abw.core.script.find import Program, opened
from abw.core.script.items import batches_of, format_of, items_of
from abw.core.script.raised import placed_exit, told
from abw.core.script.returned import Row, Rows, open_rows
from abw.core.store.folders import new_folder, passing_folder, require_writable
from abw.core.store.outputs import require_suffix, writes_lines
from abw.core.store.parts import writing_part
from abw.core.store.runs import RETURNED, SCHEMA_VERSION, runs_folder, save_batch, save_report, write_note

TOLERANCE = 1e-4
"""The largest error, relative to the root mean square of all that is returned, that `verify` accepts."""
WORKING = ("read", "record", "schedule", "plan", "execute")
"""The phases whose time counts in instances a second."""


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """How to run a program: what `abw run`'s flags say, None where the program's file says it.

    `output` and the rest as of `RunOptions`. `stdout`: whether standard output is for results alone: then
    what programs print goes to standard error.
    """

    data: Path
    format: str | None = None
    limit: int | None = None
    batch: int = 64
    policy: str | None = None
    executor: str | None = None
    granularity: ProgramGranularity = DEFAULT_GRANULARITY
    told: Mapping[str, object] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    weights: Path | None = None
    seed: int | None = None
    threads: int | None = None
    verify: bool = False
    check_finite: bool = False
    output: Path | None = None
    skip_bad: bool = False
    stdout: bool = False
    keep: bool = True
    allow_outside: bool = False
    note: str = ""
    tags: tuple[str, ...] = ()
    shard: Shard | None = None

    @property
    def said(self) -> Told:
        """What the program's nets go by. Errors: AbwError for an executor that there is not."""
        executor = None
        if self.executor or self.told:
            executor = get_executor(self.executor or "cpu", **self.told)
        return Told(
            self.dims, self.weights, self.policy, executor, self.threads, self.seed, self.allow_outside
        )


@dataclass(slots=True)
class Sums:
    """What a run counts over its mini-batches; as `abw.core.run.sums.Sums`."""

    instances: int = 0
    skipped: int = 0
    complaints: list[str] = field(default_factory=list)
    mini_batches: int = 0
    rounds: int = 0
    nodes: int = 0
    batches: int = 0
    lower_bound: int = 0
    executed: Executed = field(default_factory=Executed)
    of_kept: Kept = field(default_factory=Kept)
    not_finite: int = 0
    decisions: int = 0
    close: int = 0
    max_error: float = 0.0


def run_program(
    target: str,
    options: ProgramOptions,
    *,
    progress: Progress | None = None,
    command: str = "",
    prepared: Callable[[Executor], None] = lambda _: None,
) -> dict[str, Any]:
    """Run a program on a file of instances; returns the report (the document of `abw run --json`).

    `prepared` is called with the executor before anything runs. Errors: AbwError and its kinds: those of the
    file (`opened`), of its data, and what a program raises, with the lines of its own code and the place of
    the instance. Nothing of a run that fails or is interrupted stays on disk.
    """
    progress = progress or Quiet()
    said = options.said
    format = format_of(options.data, options.format)
    if options.output:
        require_suffix(options.output)
    if options.keep:
        require_writable(runs_folder())
    clock = Clock(*WORKING, "wait", "write", "compile", "verify")
    progress.phase("compile")
    out = sys.stderr if options.stdout else sys.stdout
    with redirect_stdout(out), opened(target, said) as program, placed_exit(program.name):
        return _run(program, options, format, clock, progress, command, prepared)


def _run(
    program: Program,
    options: ProgramOptions,
    format: str,
    clock: Clock,
    progress: Progress,
    command: str,
    prepared: Callable[[Executor], None],
) -> dict[str, Any]:
    if options.output:
        spare(_opened(options.output, 1), _opened(options.data, 0), *program.files)
    share = _cut(program, options, format).share(options.shard) if options.shard else None
    with clock("compile"):
        if options.check_finite:
            refuse_weights(*network_of(program.net))
        engine = prepare(program.net, options.granularity)
        prepared(program.net.executor)
        if options.data.is_file():
            with open_feed(options.data) as feed:  # what reads is loaded before time counts
                next(items_of(feed, format, 1, limit=1, skip_bad=True), None)
    name = program.net.library.name
    folder = new_folder(runs_folder(), name) if options.keep else passing_folder()
    with ExitStack() as stack:
        draft = stack.enter_context(folder)
        feed = stack.enter_context(open_feed(options.data, share.section if share else None))
        part = stack.enter_context(writing_part(share.part, share.whose, share.section)) if share else None
        target = part.path if part else options.output or draft.path / RETURNED
        with open_rows(target, format == "json") as rows:
            job = _Job(program, options, feed, rows, draft.path, clock, engine, progress)
            sums = job.run(format)
        if part:
            part.instances, part.skipped = sums.instances, sums.skipped
        report = _report(program, options, format, sums, clock, command, share)
        if options.keep:
            save_report(draft.path, report, program.files)
            if options.note or options.tags:
                write_note(draft.path, options.note, options.tags)
    return {**report, "path": str(draft.final)} if draft.final else report


def _opened(path: Path, standard: int) -> Path:
    """The path; of `-` that of standard input (0) or output (1)."""
    return Path(f"/dev/fd/{standard}") if str(path) == STDIN else path


class _Job:
    """A run under way."""

    def __init__(
        self,
        program: Program,
        options: ProgramOptions,
        feed: Feed,
        rows: Rows,
        folder: Path,
        clock: Clock,
        engine: Clock,
        progress: Progress,
    ) -> None:
        self.program, self.options, self.feed, self.rows = program, options, feed, rows
        self.folder, self.clock, self.engine, self.progress = folder, clock, engine, progress
        self.sums = Sums()
        self.first = feed.seen
        self.begun = time.perf_counter()

    def run(self, format: str) -> Sums:
        """All mini-batches: run, checked, counted, written."""
        options, clock = self.options, self.clock
        self.progress.phase("run", self.feed.size)
        parts = batches_of(
            items_of(self.feed, format, options.batch, limit=options.limit, skip_bad=options.skip_bad),
            options.batch,
        )
        while True:
            waited = self.feed.waited
            with clock("read"):
                part = next(parts, None)
            clock.seconds["read"] -= self.feed.waited - waited
            clock.seconds["wait"] += self.feed.waited - waited
            if part is None:
                break
            self._minibatch(*part)
            done = self.sums.instances + self.sums.skipped
            rate = done / (time.perf_counter() - self.begun)
            self.progress.reached(self.feed.taken, f"{done} instances, {rate:.0f}/s")
        if not self.sums.instances + self.sums.skipped and self.feed.size is not None and not options.shard:
            raise AbwError(f"no instances in {self.feed.path}", hint="a file has one at least")
        return self.sums

    def _minibatch(self, items: Plain, bad: Sequence[Bad]) -> None:
        sums, clock = self.sums, self.clock
        rows = [Row(b.name, b.line, f"{self.feed.path}:{b.line}", None, b.message) for b in bad]
        if len(items):
            before = dict(self.engine.seconds)
            start = time.perf_counter()
            numbers, net = items.numbers.tolist(), self.program.net
            ran = run_minibatch(net, self.program.function, items.objects, numbers, self.options.granularity)
            took = time.perf_counter() - start
            for phase, seconds in self.engine.seconds.items():
                clock.seconds[phase] += seconds - before[phase]
                took -= seconds - before[phase]
            clock.seconds["record"] += took
            if self.options.check_finite:
                with clock("verify"):
                    self._require_finite(items, ran)
            rows += self._rows_of(items, ran)
            self._count(ran)
            if self.options.verify:
                with clock("verify"):
                    self._verify(items, ran)
        rows.sort(key=lambda row: row.line)
        first = self.first + sums.instances + sums.skipped
        rows = [replace(row, name=n if row.name == "" else row.name) for n, row in enumerate(rows, first)]
        failed = [row for row in rows if row.error]
        sums.instances += len(rows) - len(failed)
        sums.skipped += len(failed)
        sums.complaints += [row.error for row in failed[: TOLD - len(sums.complaints)]]
        sums.not_finite += sum(
            int((~np.isfinite(array)).sum())
            for row in rows
            for array in arrays_of(row.result)
            if array.dtype.kind == "f"
        )
        with clock("write"):
            self.rows.write(rows)

    def _require_finite(self, items: Plain, ran: Ran) -> None:
        found = not_finite(ran.engine)
        if found:
            number, line = (int(of[found.instance]) for of in (items.numbers, items.lines))
            place = f"{self.feed.path}:{line} (instance {number})"
            message = (
                f"{place}: output '{found.output}' of {found.type} is {found.value}; what it reads is finite"
            )
            raise AbwError(message, hint="net.run(…, eager=True): print and pdb show what is computed there")

    def _rows_of(self, items: Plain, ran: Ran) -> list[Row]:
        """What each instance gave. Errors: AbwError with what a program raised, unless that is left out."""
        rows = []
        whose = zip(items.names, items.lines.tolist(), items.numbers.tolist(), ran.ends, strict=True)
        for name, line, number, end in whose:
            place = f"{self.feed.path}:{line}"
            if not isinstance(end, Failed):
                rows.append(Row(name, line, place, end.result))
                continue
            if not self.options.skip_bad:
                others = sum(isinstance(each, Failed) for each in ran.ends) - 1
                more = f"\n  {others} more of its mini-batch failed, too" if others else ""
                raise told(end.error, f"{place} (instance {number})", more) from end.error
            rows.append(Row(name, line, place, None, told(end.error, place).message.split("\n")[0]))
        return rows

    def _count(self, ran: Ran) -> None:
        sums = self.sums
        sums.mini_batches += 1
        sums.rounds += ran.rounds
        sums.nodes += ran.nodes
        sums.batches += ran.engine.batches
        sums.executed.add(ran.counts)
        if sums.mini_batches > KEPT:
            return
        graph = ran.graph
        schedule = ran.schedule(graph)
        check_schedule(graph.dag, schedule)
        bound = int(lower_bound(graph.dag).sum())
        sums.lower_bound += bound
        ready = ready_counts(graph.dag, schedule)
        save_batch(self.folder, sums.mini_batches - 1, graph, graph.dag, schedule, ready)
        for name in COMPARED:
            sums.of_kept.compared[name] += len(get_policy(name).schedule(graph.dag))
        sums.of_kept.batches += len(schedule)
        sums.of_kept.lower_bound += bound

    def _verify(self, items: Plain, ran: Ran) -> None:
        """Check schedules and plans; run the instances that did not fail alone and in double precision."""
        for graph, schedule in ran.engine.pieces:
            check_schedule(graph.dag, schedule)
        for plan in ran.plans:
            check_plan(plan.graph, plan)
        good = [i for i, end in enumerate(ran.ends) if not isinstance(end, Failed)]
        numbers = items.numbers.tolist()
        found = verify_minibatch(
            self.program.net,
            self.program.function,
            [items.objects[i] for i in good],
            [numbers[i] for i in good],
            self.options.granularity,
            allowed(self.program.net.executor.precision, TOLERANCE),
        )
        if not found.ok:
            raise AbwError(
                f"{self.program.name} gives something else alone, or in double precision:\n{found}",
                hint="does it draw numbers of its own, or keep things from one instance to the next? "
                "Else it is a defect of abw: please report it with the program and the data",
            )
        self.sums.decisions += found.decisions
        self.sums.close += found.close
        self.sums.max_error = max(self.sums.max_error, found.difference)


def _cut(program: Program, options: ProgramOptions, format: str) -> Cut:
    """How a run is cut into shards. Errors: AbwError where it cannot be."""
    arrays = options.output is not None and not writes_lines(options.output)
    reason = "what arrays a program gives is known by its first instance; write JSON lines"
    require_shards(
        "--shard",
        options.output,
        options.data,
        skip_bad=options.skip_bad,
        limit=options.limit,
        refused={f"--output {options.output}": reason} if arrays else {},
    )
    assert options.output
    net = program.net
    settled, trained = how(net), load_weights(net.library)
    said = {
        "function": program.name,
        "dims": dict(net.library.dims),
        "seed": settled.seed,
        "executor": net.executor.name,
        "options": dict(options.told),
        "granularity": options.granularity,
        "skip_bad": options.skip_bad,
    }
    weights = trained.file.sha256 if trained else None
    limit, batch = options.limit, options.batch
    return Cut(program.files, options.data, format, batch, limit, options.output, weights, said)


def _report(
    program: Program,
    options: ProgramOptions,
    format: str,
    sums: Sums,
    clock: Clock,
    command: str,
    share: Share | None,
) -> dict[str, Any]:
    """All that is known of a run, as one JSON document; of what a program has not, what is said where a spec
    has not it.
    """
    net, library, seconds = program.net, program.net.library, dict(clock.seconds)
    working = sum(seconds[phase] for phase in WORKING)
    whole = sums.mini_batches <= KEPT
    trained = load_weights(library)
    settled = how(net)
    sums.of_kept.compared[settled.policy] = sums.of_kept.batches
    return {
        "schema_version": SCHEMA_VERSION,
        "model": library.name,
        "spec": str(program.path),
        "program": {
            "name": program.name,
            "format": format,
            "rounds": sums.rounds,
            "decisions": sums.decisions if options.verify else None,
            "close": sums.close if options.verify else None,
        },
        "data": "stdin" if str(options.data) == STDIN else str(options.data),
        "dims": dict(library.dims),
        "policy": settled.policy,
        "encoding": None,
        "picked": None,
        "executor": net.executor.name,
        **settings(net.executor.name, **options.told),
        "granularity": options.granularity,
        "layout": "planned",
        "passes": [],
        "hoist": False,
        "seed": settled.seed,
        "weights": trained and weights_document(trained),
        "threads": settled.threads,
        "instances": sums.instances,
        "skipped": sums.skipped,
        "complaints": sums.complaints,
        "batch": options.batch,
        "mini_batches": sums.mini_batches,
        "in_pieces": 0,
        "nodes": sums.nodes,
        "batches": sums.batches,
        "lower_bound": sums.lower_bound if whole else None,
        "compared": sums.of_kept.compared,
        "kept": min(sums.mini_batches, KEPT),
        "kept_lower_bound": sums.of_kept.lower_bound,
        "unseen_states": 0,
        **asdict(sums.executed) | dict.fromkeys(("memory_kernels_avoided", "bytes_avoided")),
        "seconds": seconds,
        "instances_per_second": sums.instances / (working or 1.0),
        "not_finite": sums.not_finite,
        "growth": None,
        "max_error": sums.max_error if options.verify else None,
        "training": None,
        "output": options.output and str(share.part.path if share else options.output),
        "shard": share and share.document(),
        "grown": None,
        "trace": None,
        "peak_memory_bytes": peak_resident(),
        "memory": None,
        "auto_batch": [],
        "profile": None,
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": versions(),
        "command": command,
    }
