"""Where programs run: the network prepared, the tape that they write, and the run under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.ops import op_network
from abw.core.ir.cell import Shape
from abw.core.ir.library import Library
from abw.core.ir.network import Network
from abw.core.policy.schedule import Policy
from abw.core.program.engines.eager import EagerTape
from abw.core.program.engines.engine import Engine
from abw.core.program.engines.expanded import OpEngine
from abw.core.program.engines.structures import GraphEngine
from abw.core.program.network import library_network, width_of
from abw.core.program.recording.asks import Ask
from abw.core.program.recording.given import Given
from abw.core.program.recording.machine import new_recorder
from abw.core.program.recording.recorder import Recorder
from abw.core.program.running.eager_runner import EagerRunner
from abw.core.program.running.fibers import Asked, Done, Failed, Fibers, Program, require_program
from abw.core.program.running.results import in_arrays
from abw.core.program.running.runner import BatchRunner
from abw.core.program.running.task import RUNNING, Log, Runner, Task

# What a node of a program is: an operation; a cell as it is called; that, and instances of equal structure
# share one schedule.
ProgramGranularity = Literal["op", "cell", "graph"]
DEFAULT_GRANULARITY: ProgramGranularity = "cell"


# The place of an instance among those given, and how its program ended.
Ended = tuple[int, Done | Failed]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A network with its parameters, and what executes it, at this granularity."""

    network: Network
    params: Params
    engine: Engine
    granularity: ProgramGranularity


@dataclass(frozen=True, slots=True)
class How:
    """By which policy's name, with how many threads (None: one a core), from which seed programs run."""

    policy: str
    threads: int | None
    seed: int


class Session:
    """Runs programs over a library, a mini-batch at a time or at once, and answers what they ask."""

    def __init__(self, library: Library, executor: Executor, policy: Policy, how: How) -> None:
        self.library = library
        self.executor = executor
        self._policy, self._how = policy, how
        self._fibers = Fibers()
        self._given = Given()
        self._runner: Runner | None = None
        self._outer: Runner | None = None
        self._last: BatchRunner | None = None
        self._recorder = new_recorder(width_of(library))
        self._recorder.divert(self._refuse_idle)
        self._shapes: tuple[Shape, ...] = ()
        self._prepared: Prepared | None = None

    def ask(self, asked: Asked) -> Any:  # noqa: ANN401 (an answer, or in a generator what it is to yield)
        """What a program gets for a question to values; `Value`'s methods and `abw.each` call this."""
        if self._runner is not None:
            return self._runner.ask(asked)
        if self._last is not None and isinstance(asked, Ask) and asked.how == "value":
            return self._last.ask(asked)
        raise AbwError("values are asked by programs that run", hint="net.run(function, instances)")

    def shown(self, handle: int) -> str:
        """Its numbers, where they are known without waiting."""
        if not isinstance(self._runner, EagerRunner):
            return ""
        return f": {np.array2string(self._runner.values([handle])[0], threshold=20)}"

    def _ready(self, granularity: ProgramGranularity | None = None) -> Prepared:
        """The network as it is, with its parameters, prepared for a granularity (None: whatever was last);
        made when it is first needed, or another one was before.

        Errors: SpecError for weights that do not fit, AbwError.
        """
        held = self._prepared
        if held is None:
            network = library_network(self.library)
            params = make_params(network, load_weights(self.library), self._how.seed)
        elif granularity in (None, held.granularity):
            return held
        else:
            network, params = held.network, held.params
        engine = self._engine(network, params, granularity or DEFAULT_GRANULARITY)
        self._prepared = Prepared(network, params, engine, granularity or DEFAULT_GRANULARITY)
        return self._prepared

    def _engine(self, network: Network, params: Params, granularity: ProgramGranularity) -> Engine:
        """What executes a network's nodes at a granularity; the executor is prepared for it."""
        given = (params, self.executor, self._policy, self._given)
        if granularity == "op":
            ops = op_network(network)
            self.executor.prepare(ops.network, params, self._how.threads)
            return OpEngine(network, ops, *given)
        self.executor.prepare(network, params, self._how.threads)
        return (
            GraphEngine(network, *given) if granularity == "graph" else Engine(network, *given, compiled=True)
        )

    def _begin(
        self, log: Log | None = None, granularity: ProgramGranularity = DEFAULT_GRANULARITY
    ) -> BatchRunner:
        """A mini-batch begins. Errors: AbwError while another one runs."""
        if self._runner is not None:
            raise AbwError("the net runs already: a program cannot run it, nor a scope be inside another")
        ready = self._ready(granularity)
        self._recorder.restore()
        self._given.begin()
        runner = BatchRunner(ready.network, self._recorder, ready.engine, self._fibers, self._how.seed, log)
        self._enter(runner)
        return runner

    def _enter(self, runner: Runner) -> None:
        self._runner, self._outer, RUNNING.runner = runner, RUNNING.runner, runner

    def _end(self, runner: BatchRunner | None) -> None:
        """It has ended; where it was broken off there is no runner, and what was recorded is dropped."""
        self._runner, self._last, RUNNING.runner = None, runner, self._outer
        self._recorder.take()
        self._recorder.divert(self._refuse_idle)

    def _batch(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        log: Log | None = None,
        granularity: ProgramGranularity = DEFAULT_GRANULARITY,
    ) -> list[Done | Failed]:
        """How the programs of some instances, which have these numbers, end as one mini-batch."""
        require_program(function)
        runner = self._begin(log, granularity)
        done = None
        try:
            tasks = [runner.begin(function, *each) for each in zip(items, numbers, strict=True)]
            runner.finish()
            ends = in_arrays([task.ended for task in tasks], runner.values)
            done = runner
        finally:
            self._end(done)
        return ends

    def _as_they_end(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        granularity: ProgramGranularity,
        room: int,
        over: Callable[[], str],
    ) -> Iterator[list[Ended]]:
        """How the programs of some instances end, each as soon as its values are computed.

        What all have recorded when they first wait are so many nodes (`room`) at most, or those of one
        instance: the others begin when these have ended. After each round `over` says why those that still
        run are stopped, '' where they are not.
        """
        require_program(function)
        at, recorder = 0, self._recorder
        while at < len(items):
            runner, done = self._begin(None, granularity), None
            tasks: dict[int, Task] = {}
            ended: dict[int, int] = {}
            end = recorder.next + room * recorder.step
            try:
                while at < len(items) and (not tasks or recorder.next < end):
                    tasks[at] = runner.begin(function, items[at], numbers[at])
                    at += 1
                for _ in runner.steps():
                    yield _computed(tasks, ended, runner, recorder)
                    if why := over():
                        runner.stop(why)
                yield _computed(tasks, ended, runner, recorder)
                done = runner
            finally:
                self._end(done)

    @contextmanager
    def _at_once(self, forced: Log | None = None) -> Iterator[EagerRunner]:
        """Cells are computed where they are called."""
        if self._runner is not None:
            raise AbwError("the net runs already: a program cannot run it")
        ready, recorder = self._ready(), self._recorder
        self._given.begin()
        tape = EagerTape(ready.network, ready.params, self._given, recorder.next // recorder.step)
        runner = EagerRunner(tape, self._how.seed, forced)
        self._enter(runner)
        recorder.divert(tape.write)
        try:
            yield runner
        finally:
            self._end(None)

    def _eager(
        self,
        function: Program,
        items: Sequence[object],
        numbers: Sequence[int],
        forced: Log | None = None,
        runners: list[EagerRunner] | None = None,
    ) -> list[Done | Failed]:
        require_program(function)
        ends: list[Done | Failed] = []
        for item, number in zip(items, numbers, strict=True):
            with self._at_once(forced) as runner:
                ends += in_arrays([runner.run(function, item, number)], runner.values)
            if runners is not None:
                runners.append(runner)
        return ends

    def _refuse_idle(self, words: Iterable[int]) -> NoReturn:
        raise AbwError(
            "cells are called by programs that run",
            hint="net.run(function, instances), or inside `with net.batching() as batch:`",
        )


def _computed(
    tasks: dict[int, Task], ended: dict[int, int], runner: BatchRunner, recorder: Recorder
) -> list[Ended]:
    """Those of the tasks that have ended and whose values are computed, which are taken out; `ended` has how
    far had been recorded when it was seen that they had ended.
    """
    for at, task in tasks.items():
        if task.ended is not None:
            ended.setdefault(at, recorder.next)
    some = [at for at, until in ended.items() if until <= recorder.begun]
    for at in some:
        del ended[at]
    ends = in_arrays([tasks.pop(at).ended for at in some], runner.values)
    return list(zip(some, ends, strict=True))
