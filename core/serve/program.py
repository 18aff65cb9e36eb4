"""The engine of a program: a file's function, run for the instances of requests, mini-batch by mini-batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from abw.core.base.errors import AbwError, from_system, printable
from abw.core.data.feed import open_feed
from abw.core.data.given.objects import read_objects
from abw.core.data.plain import plain
from abw.core.exec.registry import executor_of
from abw.core.program.minibatch import prepare, recorded, run_as_they_end
from abw.core.program.running.fibers import Failed, Stopped
from abw.core.program.session import DEFAULT_GRANULARITY, Ended
from abw.core.program.told import Told
from abw.core.script.find import Program, opened
from abw.core.script.items import items_of
from abw.core.script.raised import place_of, placed_exit, told
from abw.core.script.returned import Parts, Row, line_of
from abw.core.serve.alarm import Alarm
from abw.core.serve.answers import DATATYPES, Reply, refused, tensors_said
from abw.core.serve.answers import told as told_of_data
from abw.core.serve.process import main
from abw.core.serve.requests import TENSORS, Request, parsed
from abw.core.serve.together import Together
from abw.core.store.arrays import HeldArrays
from abw.core.store.outputs import line_of as line_without

TIMES = 16
"""So many times as many nodes as begin a mini-batch may a program record before it waits."""
TOLD = 20
"""So many errors of programs, at different places, are told on standard error."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an instance: its name in the data ('': its number), and what its program returned, or what
    is `wrong`, and whether the instance is (422) or time was over (504).
    """

    name: str | int
    result: Any = None
    wrong: Mapping[str, Any] | None = None
    status: int = 422


class ProgramEngine:
    """A program, ready to answer requests."""

    def __init__(self, program: Program, format: str, limits: Mapping[str, Any]) -> None:
        self.program, self.format = program, format
        self.most, self.nodes = limits["batch"], limits["nodes"]
        self.alarm = Alarm(limits["timeout"] / 2, partial(recorded, program.net), TIMES * self.nodes)
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

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        """Answers by the requests' numbers as they are there, with how many of the instances are wrong; None
        after each round without one.

        All are run together; where they cannot be, each is run alone.
        """
        left = dict(requests)
        try:
            with self.alarm.set(), placed_exit(self.program.name):
                for number, ends in self._together(requests):
                    if number is None:
                        yield None
                    else:
                        yield number, *_reply(left.pop(number), ends)
        except (AbwError, MemoryError, RecursionError) as error:
            if len(requests) == 1:
                wrong = error if isinstance(error, AbwError) else from_system(error)
                for number, request in left.items():
                    ends = [Outcome("", None, told_of_data(wrong, line)) for line in request.lines]
                    yield number, *_reply(request, ends)
                return
        for number, request in left.items():
            yield from self.run({number: request})

    def _together(self, requests: Mapping[int, Request]) -> Iterator[tuple[int | None, Sequence[Outcome]]]:
        """What came of each request, when that is known; of None after each round. Errors: AbwError."""
        together = Together[Outcome](requests)
        owner, line, settle = together.owner, together.line, together.settle
        objects, errors = self._objects(requests.values())
        for at, error in errors.items():
            yield from settle(at, Outcome("", None, told_of_data(error, line[at])))
        good = [at for at in range(len(owner)) if at not in errors]
        # what depends on an instance's number depends on that in its request
        own = [owner[at][1] for at in good]
        for ends in self._run([objects[at] for at in good], own, self.alarm.over):
            for which, end in ends:
                at = good[which]
                if isinstance(end, Failed):
                    yield from settle(at, self._failed(end.error, line[at]))
                else:
                    yield from settle(at, Outcome(_name(objects[at]), end.result))
            yield None, ()

    def _run(
        self, items: Sequence[Any], numbers: Sequence[int], over: Callable[[], str]
    ) -> Iterator[list[Ended]]:
        """How the programs of instances end, by their places."""
        net, function = self.program.net, self.program.function
        for first in range(0, len(items), self.most):
            some = slice(first, first + self.most)
            for ends in run_as_they_end(
                net, function, items[some], numbers[some], DEFAULT_GRANULARITY, self.nodes, over
            ):
                yield [(first + at, end) for at, end in ends]

    def _objects(self, requests: Iterable[Request]) -> tuple[list[Any], dict[int, AbwError]]:
        """The instances of requests as programs take them; what is wrong with those that cannot be read."""
        errors: dict[int, AbwError] = {}
        objects: list[Any] = []
        for request in requests:
            for text in request.texts:
                json = request.json or self.format == "json"
                objects.append(parsed(text, len(objects), errors) if json else text)
        if self.format == "json":
            return objects, errors
        unread = dict(errors)
        instances = read_objects(objects, self.format, errors=errors)
        errors |= unread
        for at, made in zip(instances.numbers.tolist(), plain(instances).objects, strict=True):
            objects[at] = made
        return objects, errors

    def _failed(self, error: BaseException, line: int) -> Outcome:
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
        hint = error.hint if isinstance(error, AbwError) else ""
        wrong = {"message": printable(message), "line": line, "column": None, "text": None}
        wrong |= {"hint": printable(hint) or None, "where": place or None}
        return Outcome("", None, wrong, 504 if isinstance(error, Stopped) else 422)


def _name(instance: object) -> str | int:
    """The id of a JSON object."""
    name = instance.get("id", "") if isinstance(instance, dict) else ""
    return name if isinstance(name, str | int) and not isinstance(name, bool) else ""


def _reply(request: Request, ends: Sequence[Outcome]) -> tuple[Reply, int]:
    """The answer to a request, and how many of its instances are wrong."""
    reply = _as_tensors(request, ends) if request.form == TENSORS else _as_lines(request, ends)
    return reply, sum(end.wrong is not None for end in ends)


def _as_lines(request: Request, ends: Sequence[Outcome]) -> Reply:
    """A JSON line an instance, as `abw run` writes them; 504 or 422 where all are wrong."""
    said, good, status = [], False, 422
    for number, (end, line) in enumerate(zip(ends, request.lines, strict=True)):
        name, wrong = end.name if end.name != "" else number, end.wrong
        if wrong is None:
            try:
                said.append(line_of(Row(name, line, f"line {line}", end.result)))
                good = True
                continue
            except AbwError as error:
                wrong = told_of_data(error, line)
        status = max(status, end.status)
        said.append(line_without(name, line, (), (), wrong))
    return Reply(200 if good else status, b"".join(said))


def _as_tensors(request: Request, ends: Sequence[Outcome]) -> Reply:
    """The arrays that `abw run --output FILE.npz` writes; a refusal where an instance is wrong."""
    for number, end in enumerate(ends):
        if end.wrong is not None:
            return refused(number, end.wrong, end.status)
    try:
        tensors = _tensors([Row("", 0, f"instance {n}", end.result) for n, end in enumerate(ends)])
    except AbwError as error:
        said = {"error": f"{error.message} (/v1/predict answers in JSON)"}
        return Reply(422, orjson.dumps(said))
    return tensors_said(tensors, request.asked)


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
    said = Told(
        loading["dims"],
        Path(loading["weights"]) if loading["weights"] else None,
        loading["policy"],
        executor_of(name or "cpu", precision or "float32") if name or precision else None,
        loading["threads"],
        loading["seed"],
        loading["allow_outside"],
    )
    program = _OPEN.enter_context(opened(loading["target"], said))
    engine = ProgramEngine(program, loading["format"], limits)
    with placed_exit(program.name):
        engine.warm(Path(data) if data else None)
    return engine


_OPEN = ExitStack()
"""What the program needs as long as the process lasts: modules beside its file."""

if __name__ == "__main__":
    with redirect_stdout(sys.stderr), _OPEN:
        main(opened_program)
