"""Runs many programs as one mini-batch, each until it waits for an answer; questions to several values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress, repeat
from typing import Any, TypeVar

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Array, Picked
from abw.core.graph.equal.consing import rename
from abw.core.graph.graph import Graph
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.asks import ARGMAX, NOTED, Answer, Ask, answer, unpacked
from abw.core.program.recording.machine_code import CLOSED
from abw.core.program.recording.recorder import ROUNDS, Recorder
from abw.core.program.recording.segments import (
    OWNER,
    Ints,
    MisreadError,
    Piece,
    StaleError,
    joined,
    reaching,
)
from abw.core.program.recording.values import BITS, KINDS, Value, refuse_best
from abw.core.program.running.fibers import (
    Asked,
    Branches,
    Done,
    Failed,
    Fiber,
    Fibers,
    Outcome,
    Program,
    Stopped,
    require_program,
)
from abw.core.program.running.task import GONE, KEEP, Crew, Log, Task, crew_of

Made = TypeVar("Made")
# A program that goes on, with an answer, or an error that is raised where it asked.
Going = tuple[Task, Answer, BaseException | None]
NO_NUMBERS, NO_CREW = np.empty(0, np.int32), crew_of([])


class BatchRunner:
    """A running mini-batch, executed by `engine`.

    Where the executor's tape can answer, and nothing has to be logged, the recorder notes questions: `_asks`
    has constants in their place then.
    """

    def __init__(
        self, recorder: Recorder, engine: Engine, fibers: Fibers, seed: int, log: Log | None = None
    ) -> None:
        """`log` gets all questions and answers."""
        self._recorder, self.engine = recorder, engine
        self._fibers, self._seed, self._log = fibers, seed, log
        self.base = recorder.next // recorder.step
        self._ready: list[Going] = []
        self._waiting: list[Task] = []
        self._asks: list[Ask] = []
        self._current: Task | None = None
        self._going: Sequence[Task] = ()
        self._last: Sequence[Task] = ()
        self._crew = NO_CREW
        self._numbers: list[int] = []
        self._rounds = 0
        fibers.begin()
        engine.begin(self.base)
        self._noting: Recorder | None = None
        if log is None and engine.taped:
            self._noting = recorder
            recorder.wait_by(fibers.hub and fibers.hub.switch)

    def begin(
        self, function: Program, items: Iterable[object], numbers: Iterable[int], asking: bool = True
    ) -> list[Task]:
        """Begin the programs of instances, which have these numbers; each runs until it waits.

        Those of a plain function that does not ask, as `asking` says, need no greenlets. Errors: AbwError
        inside of another program.
        """
        if self._current is not None or self._going:
            raise AbwError("a program cannot start other instances", hint="abw.each(function, items)")
        first = len(self._numbers)
        make = self._fibers.make if asking else lambda function, item, _: Fiber(function, item)
        self._numbers += numbers
        tasks = [
            Task((self._numbers[i],), i << OWNER, fiber=make(function, item, self._noting))
            for i, item in enumerate(items, first)
        ]
        self._go_on(zip(tasks, repeat(None), repeat(None)))
        return tasks

    def finish(self) -> None:
        """Run all programs to their ends, and compute all that was recorded. Errors: AbwError."""
        self.decide()
        self.advance()

    @property
    def rounds(self) -> int:
        """How often all programs waited for what had to be computed."""
        return self._rounds + self.engine.rounds

    def steps(self) -> Iterator[None]:
        """Run all programs to their ends; yield each time that all wait or have ended."""
        yield from self._decided()
        self.advance()

    def _decided(self, more: int = 0) -> Iterator[None]:
        """Run all programs to their ends; what nobody asks for is not computed.

        It yields when all wait or have ended; of rounds that follow on each other, after so many `more`.
        """
        while self._waiting:
            tasks, found = self._answered()
            self._last = tasks
            if not self._resumed(tasks, found, more):
                if found is None:
                    found = [*map(self._recorder.answered, range(len(tasks)))]
                self._go_on(zip(tasks, found, repeat(None)))
            yield

    def decide(self) -> None:
        """Run all programs to their ends; what nobody asks for is not computed."""
        for _ in self._decided(ROUNDS):
            pass

    def recorded(self, wanted: Sequence[int]) -> tuple[Graph, Ints]:
        """The graph of all that these handles' values are made of, whose `vertex` are numbers of the run, and
        the number there of each of the run's nodes, -1 for others.

        Errors: AbwError for values of an earlier run.
        """
        rest = self._parsed(lambda piece: [self.engine.segment(piece)] if piece.nodes else [])
        whole, cells = joined([self.engine.whole_segment, *rest]), self.engine.cells
        node = (np.array(wanted, np.int64) >> BITS) // cells.width - self.base
        segment, kept = reaching(whole, node[(node >= 0) & (node < len(whole))], cells.width)
        graph, _, local = self.engine.graph(segment, network=cells)
        if segment is whole:
            return graph, local
        number = np.full(len(whole), -1, np.int32)
        number[kept] = local
        return replace(graph, vertex=kept[graph.vertex]), number

    def stop(self, why: str) -> None:
        """Raise Stopped in the programs that went on in the last step and wait again; those that wait longer
        were held up by them. Called between `steps`.
        """
        if self._noting is not None:
            self._unpack_noted(self._noting)
        last = set(map(id, self._last))
        waiting = zip(self._waiting, self._asks, strict=True)
        held = [(task, ask) for task, ask in waiting if id(task) not in last]
        self._ready = [(task, None, Stopped(why)) for task in self._waiting if id(task) in last]
        self._waiting, self._asks = [task for task, _ in held], [ask for _, ask in held]
        self._go_on(())

    def _answered(self) -> tuple[list[Task], Sequence[Answer] | None]:
        """Some programs that wait, with their answers; all others wait on, or are ready with errors.

        None: the answers are in the recorder's memory.
        """
        noting, asks = self._noting, self._asks
        if noting is not None and noting.asked == len(asks):
            if self.engine.round(noting):
                return self._take(range(len(asks)))[0], None
        elif noting is not None and noting.asked and not noting.crowded:
            rest = [i for i, ask in enumerate(asks) if id(ask) not in NOTED]
            known = [i for i in rest if max(asks[i].handles) < noting.begun]
            if known and noting.least >= noting.begun:
                return self._settled(*self._take(known))
            if self.engine.round(noting):
                late = {i for i in rest if max(asks[i].handles) >= noting.begun}
                return self._settled(*self._take([i for i in range(len(asks)) if i not in late]))
        if noting is not None:
            self._unpack_noted(noting)
        return self._settled(*self._due())

    def _unpack_noted(self, noting: Recorder) -> None:
        """Replace the constants in `_asks` by the questions that the recorder has noted."""
        asks = iter(unpacked(noting.asks()))
        self._asks = [next(asks) if id(ask) in NOTED else ask for ask in self._asks]
        noting.forget()

    def _due(self) -> tuple[list[Task], list[Ask]]:
        """The programs to be answered next, and their questions; computes what these ask."""
        end = self._recorder.begun
        # these may record more before the rest is computed
        if known := [i for i, ask in enumerate(self._asks) if max(ask.handles) < end]:
            return self._take(known)
        self._rounds += 1
        self.advance()
        return self._take(range(len(self._asks)))

    def _take(self, some: Sequence[int]) -> tuple[list[Task], list[Ask]]:
        """Take some of the programs that wait, and their questions."""
        tasks, asks = self._waiting, self._asks
        rest = [] if len(some) == len(asks) else sorted({*range(len(asks))}.difference(some))
        self._waiting, self._asks = [tasks[i] for i in rest], [asks[i] for i in rest]
        return ([tasks[i] for i in some], [asks[i] for i in some]) if rest else (tasks, asks)

    def _settled(self, tasks: Sequence[Task], asks: Sequence[Ask]) -> tuple[list[Task], Sequence[Answer]]:
        """The programs that get answers, and these, which are logged; the others get errors raised."""
        found = self._answers(asks)
        right = [not isinstance(one, AbwError) for one in found]
        both = zip(tasks, found, strict=True)
        self._ready += [(task, None, one) for task, one in both if isinstance(one, AbwError)]
        if self._log is not None:
            for task, ask, one in compress(zip(tasks, asks, found, strict=True), right):
                self._log.setdefault(task.path, []).append((ask, one))
        return [*compress(tasks, right)], [*compress(found, right)]

    def ask(self, asked: Asked) -> Any:  # noqa: ANN401
        """Suspend the asking program until there is an answer; outside of programs, answer at once."""
        current = self._current
        if self._noting is not None and self._going:
            current = self._going[self._noting.resumed]
        if current is not None and current.fiber is not None:
            return current.fiber.wait(asked)
        if isinstance(asked, Branches):
            raise AbwError(
                "abw.each works only in programs",
                hint="in a scope: [batch(function, item) for item in items]",
            )
        self.advance()
        found = self._answers([asked])[0]
        if isinstance(found, AbwError):
            raise found
        return found

    def values(self, handles: Sequence[int]) -> Array:
        """The values of handles, all of one shape. Errors: AbwError for one of an earlier run."""
        references = np.array(handles, np.int64)
        constants = rename(references, BITS, self.base * self.engine.cells.width, NO_NUMBERS, -1)
        if constants < 0:
            raise AbwError(f"a value of an earlier run was asked for: {GONE}", hint=KEEP)
        return self.engine.values(references, constants)

    def advance(self) -> None:
        """Compute what was recorded. Errors: AbwError for values of an earlier run, TooLargeError."""
        self._parsed(self.engine.compute)

    def _parsed(self, take: Callable[[Piece], Made]) -> Made:
        """Give what was recorded to a function. Errors: AbwError for values of an earlier run."""
        self.engine.catch_up(self._recorder)
        try:
            return take(self._recorder.take())
        except (StaleError, MisreadError) as wrong:
            number, index, slot = wrong.args
            instance, kind = self._numbers[index] if self._numbers else 0, self.engine.cells.types[number]
            what = f"instance {instance}: input '{kind.slots[slot].name}' of {kind.name}"
            if isinstance(wrong, MisreadError):
                raise AbwError(f"{what} is a value of another shape, or of a later call") from None
            raise AbwError(f"{what} is a value of an earlier run: {GONE}", hint=KEEP) from None

    def _go_on(self, going: Iterable[Going]) -> None:
        """Let programs go on until each waits or has ended, and those that get ready meanwhile."""
        waiting, asks, way = self._waiting, self._asks, CLOSED
        owner, noting = self._recorder.owner, self._noting
        try:
            while True:
                for task, found, error in going:
                    fiber, self._current = task.fiber, task
                    assert fiber is not None
                    if noting is not None and fiber.way != way:
                        noting.asking.value = way = fiber.way
                    owner.value = task.owner
                    outcome = fiber.resume(found) if error is None else fiber.throw(error)
                    if outcome is ARGMAX or (type(outcome) is Ask and outcome.how != "sample"):
                        waiting.append(task)
                        asks.append(outcome)
                    else:
                        self._note(task, outcome)
                if not self._ready:
                    break
                going, self._ready = self._ready, []
        finally:
            self._current = None
            if noting is not None:
                noting.asking.value = CLOSED

    def _resumed(self, tasks: list[Task], found: Sequence[Answer] | None, more: int) -> bool:
        """Go on by `Recorder.resume` with programs that all wait in one way; whether they do."""
        recorder = self._noting
        if recorder is None or self._waiting or self._ready:
            return False
        if self._crew.tasks is not tasks or len(self._crew.fibers) != len(tasks):  # others came later
            self._crew = crew_of(tasks)
        crew, gone, at = self._crew, set[int](), 0
        asks: list[Any] = [None] * len(tasks)
        if crew.way == CLOSED:
            return False
        recorder.give(found)
        recorder.left = max(0, more - recorder.rounds) if found is None else 0
        try:
            self._going = tasks
            while True:
                recorder.asking.value = crew.way
                try:
                    at = recorder.resume(crew.going, crew.owners, asks, at)
                    if at == len(tasks):
                        break
                    outcome = crew.fibers[at].stopped(asks[at], recorder.sent)
                except (Exception, Stopped) as error:
                    at = recorder.resumed
                    outcome = crew.fibers[at].raised(error)
                if type(outcome) is Ask and outcome.how != "sample":
                    asks[at] = outcome
                else:
                    gone.add(at)
                    self._note(tasks[at], outcome)
                at += 1
        finally:
            self._going, recorder.asking.value, recorder.left = (), CLOSED, 0
        if gone:
            left = [i not in gone for i in range(len(tasks))]
            tasks, asks = [*compress(tasks, left)], [*compress(asks, left)]
            fibers, going, owners = ([*compress(some, left)] for some in crew[1:4])
            self._crew = Crew(tasks, fibers, going, owners, crew.way)
        if self._waiting:
            tasks, asks = tasks + self._waiting, asks + self._asks
        self._waiting, self._asks = tasks, asks
        if self._ready:
            self._go_on(())
        return True

    def _note(self, task: Task, outcome: Outcome) -> None:
        """Take note of how a fiber stopped."""
        if isinstance(outcome, Ask):
            task.note(outcome, self._seed)
            self._waiting.append(task)
            self._asks.append(outcome)
        elif isinstance(outcome, Branches):
            for branch, item in zip(task.fork(len(outcome.items)), outcome.items, strict=True):
                branch.fiber = self._fibers.make(outcome.function, item, self._noting)
                self._ready.append((branch, None, None))
            if not outcome.items:
                self._ready.append((task, [], None))
        else:
            task.ended = outcome
            assert task.fiber is not None
            task.fiber.ended()
            if task.parent is not None:
                self._join(task.parent)

    def _join(self, task: Task) -> None:
        """Count a branch of a task that has ended; after the last one the task goes on."""
        task.left -= 1
        if task.left:
            return
        ends = [branch.ended for branch in task.branches]
        errors = [end.error for end in ends if isinstance(end, Failed)]
        results = [end.result for end in ends if isinstance(end, Done)]
        self._ready.append((task, None, errors[0]) if errors else (task, results, None))
        task.branches = ()

    def _answers(self, asks: Sequence[Ask]) -> list[Answer]:
        """Answer questions, those of one kind to values of one shape together; noted ones are answered."""
        found: list[Answer] = [None] * len(asks)
        alike: dict[tuple[str, int], list[int]] = {}
        noted = 0
        for i, ask in enumerate(asks):
            if id(ask) in NOTED:
                found[i], noted = self._recorder.answered(noted), noted + 1
            else:
                alike.setdefault((ask.how, ask.handles[0] & (KINDS - 1)), []).append(i)
        for group in alike.values():
            some = [asks[i] for i in group]
            rows = self.values([handle for ask in some for handle in ask.handles])
            for i, one in zip(group, answer(some[0].how, rows, some), strict=True):
                found[i] = one
        return found


class Running(threading.local):
    """The innermost runner of this thread."""

    runner: BatchRunner | None = None


RUNNING = Running()


def each(function: Program, items: Iterable[Any]) -> list[Any]:
    """Run a function on each item, all concurrently, as instances are; returns the results in order.

    The program that calls it waits for all of them. In a generator function write `results = yield
    abw.each(function, items)`. An exception in one of them is raised here when all have ended.
    Errors: AbwError outside of a program.
    """
    runner = RUNNING.runner
    if runner is None:
        raise AbwError(
            "abw.each can be called only in a running program", hint="net.run(function, instances)"
        )
    require_program(function)
    found: list[Any] = runner.ask(Branches(function, tuple(items)))
    return found


def best(k: int, values: Sequence[Value], plus: Sequence[float] | None = None) -> list[Picked]:
    """Find the k best elements of several values: (value's index, element's index, score), best first.

    An element's score is its log softmax in its value, added to that value's number in `plus`: in beam search
    the score of the sentence so far. Of equals the first wins. Returns all elements if there are fewer than
    k.
    Errors: AbwError for values of several shapes, or none.
    """
    try:
        ask = values[0]._best
    except (TypeError, LookupError, AttributeError):
        refuse_best(values)
    return ask(values, k, [0.0] * len(values) if plus is None else plus)
