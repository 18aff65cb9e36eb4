"""The engine of a program: a file's function, run for the instances of requests, mini-batch by mini-batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.data.feed import open_feed
from abw.core.data.given.objects import read_objects
from abw.core.data.plain import plain
from abw.core.exec.registry import executor_of
from abw.core.program.net import prepare, session_of
from abw.core.program.overrides import NetOverrides
from abw.core.program.running.fibers import Failed, Stopped
from abw.core.program.session import DEFAULT_GRANULARITY, Ended
from abw.core.script.find import Program, opened
from abw.core.script.items import items_of
from abw.core.script.returned import Parts, Row, line_of
from abw.core.script.tracebacks import place_of, placed_exit, told
from abw.core.serve.alarm import Alarm
from abw.core.serve.answers import DATATYPES, Answer
from abw.core.serve.process import main
from abw.core.serve.request_batch import GroupEngine, Together
from abw.core.serve.requests import Request
from abw.core.store.arrays import HeldArrays

# So many times as many nodes as begin a mini-batch may a program record before it waits.
TIMES = 16
# So many errors of programs, at different places, are told on standard error.
TOLD = 20


class ProgramEngine(GroupEngine):
    """A program, ready to answer requests."""

    def __init__(self, program: Program, format: str, limits: Mapping[str, Any]) -> None:
        self.program, self.format = program, format
        session = self.session = session_of(program.net)
        self.most, self.nodes = limits["batch"], limits["nodes"]
        self.alarm = Alarm(limits["timeout"] / 2, lambda: session.recorded, TIMES * self.nodes)
        self._outputs: list[dict[str, Any]] = []
        self._said: set[str] = set()

    def about(self) -> dict[str, Any]:
        """What the server has to know of it: of outputs, what is known when it begins."""
        return {"name": self.program.net.library.name, "format": self.format, "outputs": self._outputs}

    def warm(self, data: Path | None) -> None:
        """Compile all that running takes; run some of the data, by which outputs are known beforehand.

        Errors: AbwError, of the program, too.
        """
        prepare(self.program.net, DEFAULT_GRANULARITY)
        if self.format != "json":
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
                    raise told(end.error, place) from end.error
                rows.append(Row("", 0, place, end.result))
        self._outputs = [
            {"name": name, "datatype": DATATYPES[array.dtype.name], "shape": [-1, *array.shape[1:]]}
            for name, array in _tensors(rows).items()
        ]

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Programs may take so long, and must not end Python."""
        with self.alarm.set(), placed_exit(self.program.name):
            yield

    def line(self, answer: Answer, line: int) -> bytes:
        """As `abw run` writes it."""
        return line_of(Row(answer.name, line, f"line {line}", answer.given))

    def tensors(self, answers: Sequence[Answer]) -> Mapping[str, Any]:
        """The arrays that `abw run --output FILE.npz` writes."""
        return _tensors([Row("", 0, f"instance {n}", each.given) for n, each in enumerate(answers)])

    def together(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Sequence[Answer]] | None]:
        """What came of each request, when that is known; None after each round. Errors: AbwError."""
        together = Together(requests, json=self.format == "json")
        settle, objects, errors = together.settle, together.objects, together.errors
        if self.format != "json":
            unread = dict(errors)
            instances = read_objects(objects, self.format, errors=errors)
            errors |= unread
            for at, made in zip(instances.numbers.tolist(), plain(instances).objects, strict=True):
                objects[at] = made
        yield from together.refuse(errors)
        good = [at for at in range(len(objects)) if at not in errors]
        # what depends on an instance's number depends on that in its request
        own = [together.number[at] for at in good]
        for ends in self._run([objects[at] for at in good], own, self.alarm.over):
            for which, end in ends:
                at = good[which]
                if isinstance(end, Failed):
                    yield from settle(at, **self._failed(end.error))
                else:
                    yield from settle(at, _name(objects[at]), end.result)
            yield None

    def _run(
        self, items: Sequence[Any], numbers: Sequence[int], over: Callable[[], str]
    ) -> Iterator[list[Ended]]:
        """How the programs of instances end, by their places."""
        function = self.program.function
        for first in range(0, len(items), self.most):
            some = slice(first, first + self.most)
            for ends in self.session.run_as_they_end(function, items[some], numbers[some], self.nodes, over):
                yield [(first + at, end) for at, end in ends]

    def _failed(self, error: BaseException) -> dict[str, Any]:
        """What is said of an instance whose program raised; with the lines of its code, once for each place,
        on standard error, too.
        """
        place = place_of(error)
        if place not in self._said and len(self._said) < TOLD:
            self._said.add(place)
            print(told(error, self.program.name).message, file=sys.stderr, flush=True)
        message = error.message if isinstance(error, AbwError) else str(error)
        if not isinstance(error, AbwError | Stopped):
            message = f"{type(error).__name__}: {message}" if message else type(error).__name__
        wrong = AbwError(message, hint=error.hint if isinstance(error, AbwError) else "")
        return {"error": wrong, "where": place, "status": 504 if isinstance(error, Stopped) else 422}


def _name(instance: object) -> str | int:
    """The id of a JSON object."""
    name = instance.get("id", "") if isinstance(instance, dict) else ""
    return name if isinstance(name, str | int) and not isinstance(name, bool) else ""


def _tensors(rows: Sequence[Row]) -> dict[str, Any]:
    """What programs returned as arrays. Errors: AbwError for what fits none."""
    held = HeldArrays()
    parts = Parts(held)
    for row in rows:
        parts.add(row)
    parts.finish()
    return held.arrays()


def opened_program(loading: dict[str, Any], limits: dict[str, Any]) -> ProgramEngine:
    """The engine that the server asks for, warm. The file's code is run, here. Errors: AbwError."""
    name, precision, data = loading["executor"], loading["precision"], loading["data"]
    overrides = NetOverrides(
        loading["dims"],
        Path(loading["weights"]) if loading["weights"] else None,
        loading["policy"],
        executor_of(name or "cpu", precision or "float32") if name or precision else None,
        loading["threads"],
        loading["seed"],
        loading["allow_outside"],
    )
    program = _OPEN.enter_context(opened(loading["target"], overrides))
    engine = ProgramEngine(program, loading["format"], limits)
    with placed_exit(program.name):
        engine.warm(Path(data) if data else None)
    return engine


# What the program needs as long as the process lasts: modules beside its file.
_OPEN = ExitStack()

if __name__ == "__main__":
    with redirect_stdout(sys.stderr), _OPEN:
        main(opened_program)
