"""Runs a program on its data from end to end (`abw run program.py:function`), or one mini-batch of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock, Progress, Quiet, working
from abw.core.data.feed import Feed, Section, open_feed
from abw.core.data.plain import Plain
from abw.core.data.read import Bad, Chunk
from abw.core.exec.interface import Executor
from abw.core.exec.precision import allowed
from abw.core.exec.registry import get_executor, settings
from abw.core.exec.trained import load_weights
from abw.core.graph.dag import Dag
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.graph import Graph
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.schedule import Schedule
from abw.core.program.engines.engine import not_finite
from abw.core.program.load import NetOverrides, prepare
from abw.core.program.net import session_of
from abw.core.program.running.fibers import Failed
from abw.core.program.session import DEFAULT_GRANULARITY, ProgramGranularity
from abw.core.program.session import Ran as Executed
from abw.core.program.verify import arrays_of, verify
from abw.core.run.checks import refuse_weights
from abw.core.run.observing.observers import usual_observers
from abw.core.run.options import CommonOptions, Cut, require_shards
from abw.core.run.run import (
    Given,
    Ran,
    Run,
    require_targets,
    shown_data,
    spare_read,
    weights_document,
)
from abw.core.script.find import Program, opened
from abw.core.script.items import batches_of, format_of, items_of
from abw.core.script.returned import Row, open_rows
from abw.core.script.tracebacks import exit_refused, user_error
from abw.core.store.outputs import Writer, writes_lines
from abw.core.store.runs import RETURNED, in_range

# The largest error, relative to the root mean square of all that is returned, that `verify` accepts.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class ProgramOptions(CommonOptions):
    """How to run a program: what `abw run`'s flags say, None where the program's file says it.

    `stdout`: whether standard output is for results alone: then what programs print goes to standard error.
    """

    data: Path
    format: str | None = None
    limit: int | None = None
    batch: int = 64
    policy: str | None = None
    executor: str | None = None
    granularity: ProgramGranularity = DEFAULT_GRANULARITY
    dims: Mapping[str, int] = field(default_factory=dict)
    weights: Path | None = None
    seed: int | None = None
    dedup: DedupMode | None = None
    stdout: bool = False
    allow_outside: bool = False

    @property
    def overrides(self) -> NetOverrides:
        """What the program's nets follow. Errors: AbwError for an unknown executor."""
        executor = None
        if self.executor or self.told:
            executor = get_executor(self.executor or "cpu", **self.told)
        same = ("dims", "weights", "policy", "threads", "seed", "dedup", "allow_outside")
        return NetOverrides(executor=executor, **{name: getattr(self, name) for name in same})


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
    overrides = options.overrides
    format = format_of(options.data, options.format)
    require_targets(options)
    progress.phase("compile")
    out = sys.stderr if options.stdout else sys.stdout
    with redirect_stdout(out), opened(target, overrides) as program, exit_refused(program.name):
        spare_read(options.output, options.data, *program.files)
        share = _cut(program, options, format).share(options.shard) if options.shard else None
        run = ProgramRun(program, options, format, progress)
        run.prepare(prepared)
        return run.run(usual_observers(options, session_of(program.net).how.policy), share, command)


class ProgramRun(Run[Plain, Sequence[Row]]):
    """A run of instances by a program."""

    keys = (
        "instances skipped complaints batch mini_batches in_pieces nodes equal_nodes batches lower_bound "
        "compared kept kept_lower_bound unseen_states launches memory_kernels bytes_moved "
        "memory_kernels_avoided bytes_avoided seconds instances_per_second not_finite growth max_error "
        "training output shard grown trace peak_memory_bytes memory auto_batch profile date versions command"
    )
    usual = RETURNED
    phases = ("read", "record", "schedule", "plan", "execute")
    options: ProgramOptions

    def __init__(self, program: Program, options: ProgramOptions, format: str, progress: Progress) -> None:
        super().__init__(options, Clock(*self.phases, "wait", "write", "compile", "verify"), progress)
        self.program, self.format = program, format
        self.session = session_of(program.net)
        self.name, self.files = program.net.library.name, program.files

    def prepare(self, prepared: Callable[[Executor], None]) -> None:
        """Compile and load all that running takes, before time counts."""
        net, options = self.program.net, self.options
        with self.clock("compile"):
            if options.check_finite:
                engine = self.session.engine()
                refuse_weights(engine.cells, engine.params)
            self.engine = prepare(net, options.granularity)
            prepared(net.executor)
            if options.data.is_file():
                with open_feed(options.data) as feed:
                    next(items_of(feed, self.format, 1, limit=1, skip_bad=True), None)

    def opened(self, section: Section | None) -> AbstractContextManager[Feed]:
        """The data, or a section."""
        return open_feed(self.options.data, section)

    def writing(self, target: Path) -> AbstractContextManager[Writer[Sequence[Row]]]:
        """See `open_rows`."""
        return open_rows(target, self.format == "json")

    def chunks(self) -> Iterator[Chunk[Plain]]:
        """Instances as they come. Errors: AbwError for a file without any."""
        options, none = self.options, True
        skip_bad = options.skip_bad
        for chunk in items_of(self.feed, self.format, options.batch, limit=options.limit, skip_bad=skip_bad):
            none = False
            yield chunk
        if none and self.feed.size is not None and not options.shard:
            raise AbwError(f"no instances in {self.feed.path}", hint="a file has one at least")

    def stretches(self, given: Iterator[Given[Plain]]) -> Iterator[Iterator[RanProgram]]:
        """Mini-batches, one by one."""
        for items, before, share in given:
            yield self._run(items, before, share)

    def _run(self, instances: Plain, taken: float, share: float) -> Iterator[RanProgram]:
        for items in batches_of(instances, self.options.batch):
            ran = self._timed(items)
            taken += share * len(items)
            yield RanProgram(
                last=int(items.lines[-1]),
                taken=taken,
                counted={
                    **asdict(ran.engine.tape.counts),
                    "nodes": ran.engine.nodes - ran.engine.equal_nodes,
                    "equal_nodes": ran.engine.equal_nodes,
                    "batches": ran.engine.tape.batches,
                    "rounds": ran.rounds,
                },
                run=self,
                items=items,
                ran=ran,
            )

    def _timed(self, items: Plain) -> Executed:
        """Run a mini-batch; the time that its engine does not count is recording."""
        seconds, earlier, start = self.clock.seconds, dict(self.engine.seconds), working()
        numbers, function = items.numbers.tolist(), self.program.function
        ran = self.session.run(function, items.objects, numbers, self.options.granularity)
        took = working() - start
        for phase, now in self.engine.seconds.items():
            seconds[phase] += now - earlier[phase]
            took -= now - earlier[phase]
        seconds["record"] += took
        if self.options.check_finite:
            with self.clock("verify"):
                self._require_finite(items, ran)
        return ran

    def _require_finite(self, items: Plain, ran: Executed) -> None:
        found = not_finite(ran.engine)
        if found:
            first, *others = found.instances
            place = f"{self.feed.path}:{items.lines[first]} (instance {items.numbers[first]})"
            if others:
                place += f" and {len(others)} more"
            message = (
                f"{place}: output '{found.output}' of {found.type} is {found.value}; what it reads is finite"
            )
            raise AbwError(message, hint="print and pdb show values with net.run(…, eager=True)")

    def merged(self, rows: Sequence[Row] | None, bad: Sequence[Bad], first: int) -> list[Row]:
        """Merge rows and what was left out by line; instances without an id get their number."""
        missing = [Row(b.name, b.line, f"{self.feed.path}:{b.line}", None, b.message) for b in bad]
        found = sorted([*(rows or ()), *missing], key=lambda row: row.line)
        return [replace(row, name=n) if row.name == "" else row for n, row in enumerate(found, first)]

    def not_finite(self, rows: Sequence[Row]) -> int:
        """Count the numbers of arrays that are NaN or infinite."""
        arrays = (array for row in rows for array in arrays_of(row.result))
        return sum(int((~np.isfinite(array)).sum()) for array in arrays if array.dtype.kind == "f")

    def about(self) -> dict[str, Any]:
        """The program and its options; keys that only specs have say that it has none."""
        net, options, library = self.program.net, self.options, self.program.net.library
        settled, trained = self.session.how, load_weights(library)
        return {
            "program": {
                "name": self.program.name,
                "format": self.format,
                "rounds": self.sums.rounds,
                **dict.fromkeys(("decisions", "close")),
            },
            "data": shown_data(options.data),
            "dims": dict(library.dims),
            "policy": settled.policy,
            **dict.fromkeys(("encoding", "picked")),
            "executor": net.executor.name,
            **settings(net.executor.name, **options.told),
            "granularity": options.granularity,
            "dedup": settled.dedup,
            "layout": "planned",
            "passes": [],
            "hoist": False,
            "hoisted": [],
            "seed": settled.seed,
            **weights_document(library, trained),
            "threads": settled.threads,
        }

    def more(self) -> dict[str, Any]:
        """Describe the mini-batch."""
        return {"batch": self.options.batch, "auto_batch": []}


@dataclass(kw_only=True)
class RanProgram(Ran[Sequence[Row]]):
    """A mini-batch of instances that a program was run on."""

    run: ProgramRun
    items: Plain
    ran: Executed

    def read(self) -> list[Row]:
        """Return each instance's result. Errors: AbwError with what a program raised, if not left out."""
        rows, ends, items, feed = [], self.ran.ends, self.items, self.run.feed
        instances = zip(items.names, items.lines.tolist(), items.numbers.tolist(), ends, strict=True)
        for name, line, number, end in instances:
            location = f"{feed.path}:{line}"
            if not isinstance(end, Failed):
                rows.append(Row(name, line, location, end.result))
            elif self.run.options.skip_bad:
                message = user_error(end.error, location).message.split("\n")[0]
                self.run.told.append(Bad(line, message, name))
            else:
                others = sum(isinstance(each, Failed) for each in ends) - 1
                more = f"\n  {others} more of its mini-batch failed, too" if others else ""
                raise user_error(end.error, f"{location} (instance {number})", more) from end.error
        return rows

    def whole(self) -> tuple[Graph, Dag, Schedule]:
        """All that was recorded, and the batches in the order in which they were executed."""
        graph = self.ran.graph
        schedule = self.ran.schedule(graph)
        check_schedule(graph.dag, schedule)
        return graph, graph.dag, schedule

    def verify(self) -> tuple[float, int, int]:
        """Check schedules and plans; run the instances that did not fail alone and in double precision."""
        program, items, ran = self.run.program, self.items, self.ran
        with self.run.clock("verify"):
            for graph, schedule in ran.engine.pieces:
                check_schedule(graph.dag, schedule)
            for plan in ran.engine.tape.plans:
                check_plan(plan.graph, plan)
            good = [i for i, end in enumerate(ran.ends) if not isinstance(end, Failed)]
            found = verify(
                self.run.session,
                program.function,
                [items.objects[i] for i in good],
                items.numbers[good].tolist(),
                self.run.options.granularity,
                max(1, len(good)),
                allowed(program.net.executor.precision, TOLERANCE),
            )
        if not found.ok:
            raise AbwError(
                f"{program.name} gives different results alone, or in double precision:\n{found}",
                hint="does it draw numbers of its own, or keep things from one instance to the next? "
                "Else it is a defect of abw: please report it with the program and the data",
            )
        return found.difference, found.decisions, found.close


@dataclass(frozen=True, slots=True)
class Inspected:
    """Mini-batch `number` of `mini_batches`: its graph, and the schedule by which it was executed; `first` is
    its first instance's number in the data, `pieces` are those in which the graph came.
    """

    program: Program
    policy: str
    number: int
    mini_batches: int
    first: int
    graph: Graph
    schedule: Schedule
    pieces: int


def inspect_batch(target: str, options: ProgramOptions, number: int = 0) -> Inspected:
    """Run mini-batch `number` of a program's data. Errors: see `run_program`."""
    format = format_of(options.data, options.format)
    with redirect_stdout(sys.stderr), opened(target, options.overrides) as program:
        wanted: Plain | None = None
        total = 0
        with open_feed(options.data) as feed:
            parts = items_of(feed, format, options.batch, limit=options.limit)
            batches = (items for part in parts for items in batches_of(part.instances, options.batch))
            for total, items in enumerate(batches, 1):
                wanted = items if total == number + 1 else wanted
        in_range(number, total)
        assert wanted is not None
        session, numbers = session_of(program.net), wanted.numbers.tolist()
        ran = session.run(program.function, wanted.objects, numbers, options.granularity)
        for end, line, instance in zip(ran.ends, wanted.lines.tolist(), numbers, strict=True):
            if isinstance(end, Failed):
                raise user_error(end.error, f"{options.data}:{line} (instance {instance})") from end.error
        graph = ran.graph
        if not len(graph):
            raise AbwError(f"{program.name} called no cell in mini-batch {number}")
        schedule = ran.schedule(graph)
        first, pieces = int(wanted.numbers[0]), len(ran.engine.segments)
        return Inspected(program, session.how.policy, number, total, first, graph, schedule, pieces)


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
    settled, trained = session_of(net).how, load_weights(net.library)
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
