"""A running program, and the path that names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from abw.core.program.recording.asks import Answer, Ask, chance
from abw.core.program.recording.machine_code import CLOSED
from abw.core.program.running.fibers import Done, Failed, Fiber

# Which program asks: an instance's number; then, for each `each` around it, which `each` of its program that
# is, and the branch.
Path = tuple[int, ...]
# What was asked and answered, by owner it is.
Log = dict[Path, list[tuple[Ask, Answer]]]
GONE = "its memory has been reused"
KEEP = "return values from the program: they are arrays then, which stay"


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
