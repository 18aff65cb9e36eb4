"""A running program, the path that names it, the runner that answers it, and questions to several values."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Array, Picked
from abw.core.program.recording.asks import Answer, Ask, chance
from abw.core.program.recording.machine_code import CLOSED
from abw.core.program.recording.values import Value, refuse_best
from abw.core.program.running.fibers import Asked, Branches, Done, Failed, Fiber, Program, require_program

# Which program asks: an instance's number; then, for each `each` around it, which `each` of its program that
# is, and the branch.
Path = tuple[int, ...]
# What was asked and answered, by owner it is.
Log = dict[Path, list[tuple[Ask, Answer]]]
GONE = "its memory has been reused"
KEEP = "return values from the program: they are arrays then, which stay"


class Runner(Protocol):
    """Answers questions while a net runs."""

    def ask(self, asked: Asked, /) -> Any:  # noqa: ANN401
        """Answer a question; in a generator, return the object to yield."""

    def values(self, handles: Sequence[int], /) -> Array:
        """The values of handles, all of one shape."""


class Running(threading.local):
    """The innermost runner of this thread."""

    runner: Runner | None = None


RUNNING = Running()


@dataclass(slots=True)
class Task:
    """A running program, or one of its branches; `ended` says how it ended.

    `draws`, `forks` and `asked` count how often it drew, branched and asked; of the `branches` that it waits
    for, `left` have not ended. `owner`: its instance's index in the mini-batch, as in `Recorder.owner`.
    """

    path: Path
    owner: int = 0
    parent: Task | None = None
    fiber: Fiber | None = None
    draws: int = 0
    forks: int = 0
    asked: int = 0
    branches: tuple[Task, ...] = ()
    left: int = 0
    ended: Done | Failed | None = None

    def note(self, ask: Ask, seed: int) -> None:
        """Draw the chance for a question that needs one."""
        if ask.how == "sample":
            salt = 0
            for number in self.path[1:]:
                salt = (salt ^ (number + 1)) * 0x100000001B3
            ask.chance = chance(seed, self.path[0], salt, self.draws)
            self.draws += 1

    def fork(self, count: int) -> tuple[Task, ...]:
        """Make so many branches, and wait for them."""
        paths = [(*self.path, self.forks, number) for number in range(count)]
        self.forks += 1
        self.branches = tuple(Task(path, self.owner, self) for path in paths)
        self.left = count
        return self.branches


class Crew(NamedTuple):
    """Waiting programs for `Recorder.resume`; `way` is CLOSED if they ask in several ways."""

    tasks: list[Task]
    fibers: list[Fiber]
    going: list[Any]
    owners: list[int]
    way: int


def crew_of(tasks: list[Task]) -> Crew:
    """Collect the waiting programs, all of which have begun."""
    fibers = [task.fiber for task in tasks if task.fiber]
    ways = {fiber.way for fiber in fibers}
    way = ways.pop() if len(ways) == 1 else CLOSED
    return Crew(tasks, fibers, [fiber.going for fiber in fibers], [task.owner for task in tasks], way)


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
