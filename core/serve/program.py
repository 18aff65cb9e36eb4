"""The engine of a program: runs a file's function for the instances of requests, in mini-batches."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.data.feed import open_feed
from abw.core.data.given.objects import read_objects
from abw.core.data.plain import name_of, plain
from abw.core.exec.registry import executor_of
from abw.core.program.load import NetOverrides, prepare
from abw.core.program.net import session_of
from abw.core.program.running.fibers import Failed, GeneratorFiber, Stopped, run_through
from abw.core.program.running.runner import BatchRunner
from abw.core.program.session import DEFAULT_GRANULARITY, Ended
from abw.core.script.find import Program, opened
from abw.core.script.items import items_of
from abw.core.script.returned import ReturnedArrays, Row, line_of
from abw.core.script.tracebacks import exit_refused, is_own, line_in_user_code, user_error
from abw.core.serve.answers import DATATYPES, Answer
from abw.core.serve.process import BatchEngine, Found, RequestBatch, main, wrong
from abw.core.serve.settings import Limits, Loading
from abw.core.store.arrays import HeldArrays

# A program may record this many times the nodes of a mini-batch before it waits for a value.
TIMES = 16
# The most errors of programs, each at another place, that are printed on standard error.
TOLD = 20


# Seconds from one signal to the next, the resolution of time limits.
EVERY = 0.02

# The functions that call the code of programs.
_CALLERS = {run_through.__code__, GeneratorFiber.resume.__code__, BatchRunner._resumed.__code__}


class Alarm:
    """Stops programs whose time is over; used once at a time, in the main thread of a process.

    The first program may take `seconds`; after it was stopped the others have half of that, and so on, twice
    that in all. A program that records over `most` nodes before it waits is stopped, too; `recorded` counts
    the nodes of all programs.
    """

    def __init__(self, seconds: float, recorded: Callable[[], int], most: int) -> None:
        self.seconds, self.recorded, self.most = seconds, recorded, most
        self._left = self._begun = self._end = 0.0
        self._others = 0

    @contextmanager
    def set(self) -> Iterator[None]:
        """Limit the time of the block."""
        before = signal.signal(signal.SIGALRM, self._ring)
        self._left, self._begun = self.seconds, time.monotonic()
        self._end = self._begun + self._left
        signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def over(self) -> str:
        """Return why waiting programs must be stopped now; '' if they need not be."""
        now = time.monotonic()
        if now < self._end:
            return ""
        self._left /= 2
        self._end = now + self._left
        return f"the program had not ended after {now - self._begun:.2g} s, and was stopped"

    def _ring(self, _: int, frame: FrameType | None) -> None:
        if not _is_program(frame):
            return
        nodes = self.recorded()
        self._others = min(self._others, nodes)
        if nodes - self._others > self.most:
            self._others = nodes
            raise AbwError(f"the program called cells over {self.most} times before it waited for a value")
        if why := self.over():
            raise Stopped(why)


def _is_program(frame: FrameType | None) -> bool:
    """Whether a frame runs a program's code or what that calls; abw's own code must not be stopped."""
    theirs = False
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame, theirs = frame.f_back, True
    return theirs and frame is not None and frame.f_code in _CALLERS


class ProgramEngine(BatchEngine):
    """A program, ready to answer requests."""

    def __init__(self, program: Program, format: str, limits: Limits) -> None:
        self.program, self.format, self.json = program, format, format == "json"
        self.most, self.nodes = limits.batch, limits.nodes
        session = self.session = session_of(program.net)
        self.alarm = Alarm(limits.timeout / 2, lambda: session.recorded, TIMES * self.nodes)
        self._outputs: list[dict[str, Any]] = []
        self._said: set[str] = set()

    def about(self) -> dict[str, Any]:
        """What the server needs to know about the program; outputs, if some data have been run."""
        return {"name": self.program.net.library.name, "format": self.format, "outputs": self._outputs}

    def warm(self, data: Path | None) -> None:
        """Compile everything that running needs; run some of the data, which shows what the outputs are.

        Errors: AbwError, also for what the program raises.
        """
        prepare(self.program.net, DEFAULT_GRANULARITY)
        if not self.json:
            plain(read_objects(["(1 a)"], self.format, errors={}))  # right or wrong, what reads is loaded
        if data is None:
            return
        with open_feed(data) as feed:
            items = next(items_of(feed, self.format, self.most, limit=self.most)).instances
        rows = []
        for ends in self._run(items.objects, items.numbers.tolist(), lambda: ""):
            for at, end in ends:
                place = f"{data}:{items.lines[at]}"
                if isinstance(end, Failed):
                    raise user_error(end.error, place) from end.error
                rows.append(Row("", 0, place, end.result))
        self._outputs = [
            {"name": name, "datatype": DATATYPES[array.dtype.name], "shape": [-1, *array.shape[1:]]}
            for name, array in _tensors(rows).items()
        ]

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Stop programs that take too long, or try to end Python."""
        with self.alarm.set(), exit_refused(self.program.name):
            yield

    def line(self, answer: Answer, line: int) -> bytes:
        """Write an answer as `abw run` does."""
        return line_of(Row(answer.name, line, f"line {line}", answer.given))

    def tensors(self, answers: Sequence[Answer], first: int) -> Mapping[str, Any]:
        """Collect returned arrays, as `abw run --output FILE.npz` does."""
        return _tensors([Row("", 0, f"instance {n}", each.given) for n, each in enumerate(answers, first)])

    def answers(self, batch: RequestBatch) -> Iterator[Found]:
        """Yield what each program returned, or why it failed; None after each round. Errors: AbwError."""
        objects, errors = batch.objects, batch.errors
        if not self.json:
            unread = dict(errors)
            instances = read_objects(objects, self.format, errors=errors)
            errors |= unread
            for at, made in zip(instances.numbers.tolist(), plain(instances).objects, strict=True):
                objects[at] = made
        yield from wrong(errors)
        good = [at for at in range(len(objects)) if at not in errors]
        # what depends on an instance's number depends on that in its request
        numbers = [batch.number[at] for at in good]
        for ends in self._run([objects[at] for at in good], numbers, self.alarm.over):
            for which, end in ends:
                at = good[which]
                if isinstance(end, Failed):
                    yield at, self._failed(end.error)
                else:
                    yield at, Answer(name_of(objects[at]), end.result)
            yield None

    def _run(
        self, items: Sequence[Any], numbers: Sequence[int], over: Callable[[], str]
    ) -> Iterator[list[Ended]]:
        """Yield how the programs of instances end, by their positions."""
        function = self.program.function
        for first in range(0, len(items), self.most):
            some = slice(first, first + self.most)
            for ends in self.session.run_as_they_end(function, items[some], numbers[some], self.nodes, over):
                yield [(first + at, end) for at, end in ends]

    def _failed(self, error: BaseException) -> Answer:
        """The answer of an instance whose program raised `error`.

        The first time at each place in the code, the error is also printed on standard error, with its lines.
        """
        place = line_in_user_code(error)
        if place not in self._said and len(self._said) < TOLD:
            self._said.add(place)
            print(user_error(error, self.program.name).message, file=sys.stderr, flush=True)
        message = error.message if isinstance(error, AbwError) else str(error)
        if not isinstance(error, AbwError | Stopped):
            message = f"{type(error).__name__}: {message}" if message else type(error).__name__
        shown = AbwError(message, hint=error.hint if isinstance(error, AbwError) else "")
        return Answer("", error=shown, where=place, status=504 if isinstance(error, Stopped) else 422)


def _tensors(rows: Sequence[Row]) -> dict[str, Any]:
    """Collect what programs returned in arrays. Errors: AbwError for results of other types."""
    held = HeldArrays()
    returned = ReturnedArrays(held)
    for row in rows:
        returned.add(row)
    returned.finish()
    return held.arrays()


def opened_program(loading: Loading, limits: Limits) -> ProgramEngine:
    """Open the program that the server asks for, and warm it. The file's code runs here. Errors: AbwError."""
    executor = None
    if loading.executor or loading.precision:
        executor = executor_of(loading.executor or "cpu", loading.precision or "float32")
    same = {name: getattr(loading, name) for name in ("dims", "policy", "threads", "seed", "allow_outside")}
    weights = Path(loading.weights) if loading.weights else None
    overrides = NetOverrides(weights=weights, executor=executor, dedup=loading.dedup, **same)
    program = _OPEN.enter_context(opened(loading.target, overrides))
    engine = ProgramEngine(program, loading.format or "json", limits)
    with exit_refused(program.name):
        engine.warm(Path(loading.data) if loading.data else None)
    return engine


# What the program needs as long as the process lasts: modules beside its file.
_OPEN = ExitStack()

if __name__ == "__main__":
    with redirect_stdout(sys.stderr), _OPEN:
        main(opened_program)
