"""Runs programs over a library, and keeps what runs share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params, init_params
from abw.core.exec.planned_tape import joined_schedules
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.graph import Graph
from abw.core.ir.model import Library
from abw.core.ir.network import Network
from abw.core.policy.schedule import Policy, Schedule
from abw.core.program.engines.engine import Engine
from abw.core.program.engines.expanded import OpEngine
from abw.core.program.engines.structures import GraphEngine
from abw.core.program.lessons import Recorded, Wanted
from abw.core.program.network import library_network, width_of
from abw.core.program.recording.asks import Ask
from abw.core.program.recording.inputs import InputRows
from abw.core.program.recording.recorder import Recorder
from abw.core.program.running.eager import EagerRunner, Weighed
from abw.core.program.running.fibers import Asked, Done, Failed, Fibers, Program, require_program
from abw.core.program.running.results import in_arrays
from abw.core.program.running.runner import RUNNING, BatchRunner
from abw.core.program.running.task import Log, Task

# What a node of a program is: an operation; a cell as it is called; a cell, where instances of equal
# structure share one schedule.
ProgramGranularity = Literal["op", "cell", "graph"]
DEFAULT_GRANULARITY: ProgramGranularity = "cell"
ENGINES = {"op": OpEngine, "cell": Engine, "graph": GraphEngine}

# The index of an instance among those given, and how its program ended.
Ended = tuple[int, Done | Failed]


@dataclass(frozen=True, slots=True)
class How:
    """How programs run: the policy's name, the number of threads (None: one a core), the seed, and whether
    equal calls are one node.
    """

    policy: str
    threads: int | None
    seed: int
    dedup: DedupMode = "auto"


@dataclass(slots=True)
class Ran:
    """How the programs of a mini-batch ended, after so many `rounds`.

    `engine` has what was computed, and what that took, until the session's next run.
    """

    ends: list[Done | Failed]
    rounds: int
    engine: Engine

    @property
    def graph(self) -> Graph:
        """All that was recorded: see `Engine.whole`."""
        return self.engine.whole

    def schedule(self, graph: Graph) -> Schedule:
        """The batches in the order in which they were executed, of the whole graph."""
        number = np.empty(self.engine.tape.count, np.int32)
        number[graph.vertex] = np.arange(len(graph))
        pieces = self.engine.pieces
        nodes = [number[piece.vertex[schedule.nodes]] for piece, schedule in pieces]
        found = joined_schedules([schedule for _, schedule in pieces], nodes)
        return replace(found, unseen=0, launch_ptr=None)


class Session:
    """Runs programs over a library, as mini-batches or eagerly, and answers the questions they ask.

    `runner` is that of the run under way, `last` that of the last mini-batch, if it ran to its end.
    """

    def __init__(
        self,
        library: Library,
        executor: Executor,
        policy: Policy,
        how: How,
        weigh: Callable[[Network], Params] | None = None,
    ) -> None:
        """`weigh`: gives a network's parameters; None: they come from the library's file, or the seed."""
        self.library, self.executor, self.how = library, executor, how
        self._policy, self.weigh = policy, weigh
        self._fibers, self.inputs = Fibers(), InputRows(how.dedup)
        weakref.finalize(self, self._fibers.close).atexit = False
        # the losses that programs say, while they learn
        self.wanted: list[Wanted] | None = None
        self.runner: BatchRunner | None = None
        self.last: BatchRunner | None = None
        self._outer: BatchRunner | None = None
        self._engine: Engine | None = None
        self.recorder = Recorder(width_of(library))
        self.recorder.divert(self.refuse_idle)

    def ask(self, asked: Asked) -> Any:  # noqa: ANN401 (an answer, or in a generator what it is to yield)
        """Answer a question that a program asks; `Value`'s methods and `abw.each` call this.

        Errors: AbwError where no program runs.
        """
        if self.runner is not None:
            return self.runner.ask(asked)
        if self.last is not None and isinstance(asked, Ask) and asked.how == "value":
            return self.last.ask(asked)
        raise AbwError(
            "values can be asked for only in a running program", hint="net.run(function, instances)"
        )

    def shown(self, handle: int) -> str:
        """The numbers of a value as text, where they are known without waiting; '' elsewhere."""
        if not isinstance(self.runner, EagerRunner):
            return ""
        return f": {np.array2string(self.runner.values([handle])[0], threshold=20)}"

    def refuse_idle(self, words: Iterable[int] = ()) -> NoReturn:
        """Raise AbwError: a cell is called while no program runs."""
        raise AbwError(
            "cells can be called only in a running program",
            hint="net.run(function, instances), or inside `with net.batching() as batch:`",
        )

    def extend(self, library: Library) -> None:
        """Continue with a library that has further types, also while programs run.

        Errors: AbwError during a run for a type of more outputs than there is room for.
        """
        engine, width = self._engine, width_of(library)
        if self.runner is None or engine is None:
            self.library, self._engine, self.last = library, None, None
            return
        if width > engine.cells.width:
            raise AbwError(
                f"a type of {width} outputs is added while programs run, with room for {engine.cells.width}",
                hint="library_of(…, outputs=…) makes room",
            )
        self.library = library
        cells = library_network(library)
        self.runner.engine.catch_up(self.recorder)
        params = self._params(cells, engine.params)
        for each in {engine, self.runner.engine}:
            each.extend(cells, params)

    def _params(self, cells: Network, known: Params | None = None) -> Params:
        """The parameters of a network; of those that are `known` the same arrays.

        Errors: SpecError for weights that do not fit.
        """
        if self.weigh is not None:
            return self.weigh(cells)
        if known is None:
            return make_params(cells, load_weights(self.library), self.how.seed)
        new = init_params(replace(cells, params=cells.params[len(known.values) :], tables=()), self.how.seed)
        return Params((*known.values, *new.values), known.tables)

    def update(self) -> None:
        """Read the changed parameters again, between runs."""
        if self._engine is not None:
            self._engine.update(self._params(self._engine.cells))

    @property
    def recorded(self) -> int:
        """How many nodes are recorded and not yet computed."""
        return int(self.recorder.next - self.recorder.begun) // int(self.recorder.step)

    def engine(self, granularity: ProgramGranularity | None = None) -> Engine:
        """Return the engine for a granularity (None: that of the last run).

        It is made when first needed, and again for another granularity. Errors: SpecError for weights that
        do not fit, AbwError.
        """
        held, kind = self._engine, ENGINES[granularity or DEFAULT_GRANULARITY]
        if held is not None and (granularity is None or type(held) is kind):
            return held
        cells = held.cells if held else library_network(self.library)
        params = held.params if held else self._params(cells)
        self._engine = kind(
            cells, params, self.executor, self.how.threads, self._policy, self.inputs, self.how.dedup
        )
        return self._engine

    def begin(
        self, granularity: ProgramGranularity, log: Log | None = None, engine: Engine | None = None
    ) -> BatchRunner:
        """Begin a mini-batch, to be ended by `end`; `engine`: one to use instead of the session's own.

        Errors: AbwError while another one runs.
        """
        if self.runner is not None:
            raise AbwError("the net is already running: neither a program nor another scope can start it")
        if granularity == "graph" and self.how.dedup == "on":
            raise AbwError(
                "granularity graph cannot leave out equal calls",
                hint="dedup auto or off; or granularity cell or op",
            )
        engine = engine or self.engine(granularity)
        self.recorder.restore()
        self.inputs.begin()
        runner = BatchRunner(self.recorder, engine, self._fibers, self.how.seed, log)
        self._enter(runner)
        return runner

    def _enter(self, runner: BatchRunner) -> None:
        self.runner, self._outer, RUNNING.runner = runner, RUNNING.runner, runner

    def end(self, runner: BatchRunner | None) -> None:
        """End the current run; without `runner` it was interrupted, and what it recorded is dropped."""
        self.runner, self.last, RUNNING.runner = None, runner, self._outer
        self._fibers.end()
        self.recorder.take()
        self.recorder.divert(self.refuse_idle)

    def run(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        granularity: ProgramGranularity = DEFAULT_GRANULARITY,
        log: Log | None = None,
    ) -> Ran:
        """Run the programs of some instances, which have these numbers, as one mini-batch.

        `log` gets all questions and answers. Errors: AbwError.
        """
        require_program(function)
        with self._running(granularity, log) as runner:
            tasks = runner.begin(function, items, numbers)
            runner.finish()
            ends = in_arrays([task.ended for task in tasks], runner.values)
        return Ran(ends, runner.rounds, runner.engine)

    @contextmanager
    def _running(
        self, granularity: ProgramGranularity = DEFAULT_GRANULARITY, log: Log | None = None
    ) -> Iterator[BatchRunner]:
        """Run a mini-batch in the block."""
        runner, done = self.begin(granularity, log), None
        try:
            yield runner
            done = runner
        finally:
            self.end(done)

    def record(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        engine: Engine | None = None,
    ) -> Recorded:
        """Run programs for training: only what they ask for is computed, by this engine or the usual one.

        Errors: AbwError.
        """
        require_program(function)
        runner = self.begin(DEFAULT_GRANULARITY, engine=engine)
        try:
            self.wanted = []
            tasks = runner.begin(function, items, numbers)
            runner.decide()
            graph, local = runner.recorded([each.handle for each in self.wanted])
            ends = [task.ended for task in tasks if task.ended is not None]
            return Recorded(ends, graph, local, runner.base, self.wanted, runner.engine)
        finally:
            self.wanted = None
            self.end(None)

    def run_as_they_end(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        room: int,
        over: Callable[[], str],
    ) -> Iterator[list[Ended]]:
        """Run the programs of some instances; yield how each ends as soon as its values are computed.

        A mini-batch begins with at most `room` nodes, or those of one instance; the other instances begin
        when its programs have ended. After each round `over` says why the programs that still run are to be
        stopped, '' where they are not. Errors: AbwError.
        """
        require_program(function)
        at, recorder = 0, self.recorder
        while at < len(items):
            tasks: dict[int, Task] = {}
            ended: dict[int, int] = {}
            with self._running() as runner:
                end = recorder.next + room * recorder.step
                while at < len(items) and (not tasks or recorder.next < end):
                    tasks[at] = runner.begin(function, [items[at]], [numbers[at]])[0]
                    at += 1
                for _ in runner.steps():
                    yield _computed(tasks, ended, runner, recorder)
                    if why := over():
                        runner.stop(why)
                yield _computed(tasks, ended, runner, recorder)

    def run_eagerly(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        forced: Log | None = None,
    ) -> tuple[list[Done | Failed], list[Weighed]]:
        """Run programs one after the other in double precision, each cell where it is called.

        With `forced`, questions get the answers of that log; then also how these compare with what would be
        right. Errors: AbwError while another run is under way.
        """
        require_program(function)
        ends: list[Done | Failed] = []
        weighed: list[Weighed] = []
        for item, number in zip(items, numbers, strict=True):
            if self.runner is not None:
                raise AbwError("the net is already running: a program cannot run it")
            self.inputs.begin()
            runner = EagerRunner(self.recorder, self.engine(), self._fibers, self.how.seed, forced)
            self._enter(runner)
            self.recorder.divert(runner.write)
            try:
                tasks = runner.begin(function, [item], [number])
                runner.finish()
                ends += in_arrays([tasks[0].ended], runner.values)
            finally:
                self.end(None)
            weighed += runner.weighed
        return ends, weighed


def _computed(
    tasks: dict[int, Task], ended: dict[int, int], runner: BatchRunner, recorder: Recorder
) -> list[Ended]:
    """Take out the tasks that have ended and whose values are computed.

    `ended` keeps how far had been recorded when it was noticed that a task had ended.
    """
    for at, task in tasks.items():
        if task.ended is not None:
            ended.setdefault(at, recorder.next)
    some = [at for at, until in ended.items() if until <= recorder.begun]
    for at in some:
        del ended[at]
    ends = in_arrays([tasks.pop(at).ended for at in some], runner.values)
    return list(zip(some, ends, strict=True))
