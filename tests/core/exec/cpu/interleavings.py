"""Small models of threads, run in every order of their steps: a checker of its own.

A thread is a generator: what it does between two `yield`s is one step, which nothing comes between. `yield f`
waits until `f()` is true. A model makes its threads anew each time, over state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from types import GeneratorType, SimpleNamespace

Steps = Generator[Callable[[], bool] | None, None, None]
# What gives the state that threads share, and the threads.
Model = Callable[[], tuple[SimpleNamespace, Sequence[Steps]]]


# The value of a place that is anybody's.
GIVEN_BACK = -1


class WrongError(Exception):
    """What may not happen."""


class Memory:
    """What threads read and write; an access that nothing orders behind an earlier one is wrong.

    Each thread has a clock for every thread: how much of what that one did lies before it. Clocks go from
    thread to thread by atomic counters alone, as they are released and acquired: by these an access is
    ordered, or a race on a processor that reorders reads and writes as it likes.
    """

    def __init__(self, threads: int) -> None:
        self.clock = [[int(t == other) for other in range(threads)] for t in range(threads)]
        self.written: dict[object, tuple[int, int, int]] = {}
        self.reads: dict[object, dict[int, int]] = {}
        self.counters: dict[object, int] = {}
        self.released: dict[object, list[int]] = {}

    def _ordered(self, thread: int, other: int, time: int, what: str) -> None:
        if time > self.clock[thread][other]:
            raise WrongError(what)

    def write(self, thread: int, place: object, value: int = 0) -> None:
        """Write, behind all accesses before."""
        if place in self.written:
            other, time, _ = self.written[place]
            self._ordered(thread, other, time, f"{thread} writes {place} while {other} writes it")
        for other, time in self.reads.pop(place, {}).items():
            self._ordered(thread, other, time, f"{thread} writes {place} while {other} reads it")
        self.written[place] = thread, self.clock[thread][thread], value

    def read(self, thread: int, place: object) -> int:
        """What was written, behind that."""
        if place not in self.written:
            raise WrongError(f"{thread} reads {place} before it is written")
        other, time, value = self.written[place]
        self._ordered(thread, other, time, f"{thread} reads {place} while {other} writes it")
        self.reads.setdefault(place, {})[thread] = self.clock[thread][thread]
        if value == GIVEN_BACK:
            raise WrongError(f"{thread} reads {place} after it was given back")
        return value

    def give_back(self, thread: int, place: object) -> None:
        """From now on it is anybody's."""
        self.write(thread, place, GIVEN_BACK)

    def add(self, thread: int, counter: object, more: int = 1, *, ordered: bool = True) -> int:
        """Add to a counter in one step: its value before. Acquired and released, unless not `ordered`."""
        before = self.counters.get(counter, 0)
        self.counters[counter] = before + more
        if ordered:
            self._acquire(thread, counter)
            self.released[counter] = list(self.clock[thread])
            self.clock[thread][thread] += 1
        return before

    def load(self, thread: int, counter: object, *, ordered: bool = True) -> int:
        """The value of a counter; acquired, unless not `ordered`."""
        if ordered:
            self._acquire(thread, counter)
        return self.counters.get(counter, 0)

    def peek(self, counter: object) -> int:
        """The value of a counter, for conditions: orders nothing."""
        return self.counters.get(counter, 0)

    def _acquire(self, thread: int, counter: object) -> None:
        known = self.released.get(counter, self.clock[thread])
        self.clock[thread] = [max(pair) for pair in zip(self.clock[thread], known, strict=True)]


def frozen(value: object) -> Hashable:
    """A value as one that can be looked up."""
    match value:
        case Memory() | SimpleNamespace():
            return frozen(vars(value))
        case dict():
            return frozenset((key, frozen(item)) for key, item in value.items())
        case list() | tuple():
            return tuple(frozen(item) for item in value)
    assert isinstance(value, Hashable)
    return value


def place(thread: object) -> Hashable:
    """Where a thread stands, in its own function and those that it waits for: lines, and numbers there."""
    found = []
    while isinstance(thread, GeneratorType) and thread.gi_frame is not None:
        own = thread.gi_frame.f_locals.items()
        numbers = tuple((name, frozen(v)) for name, v in own if isinstance(v, int | list | tuple | dict))
        found.append((thread.gi_frame.f_lasti, numbers))
        thread = thread.gi_yieldfrom
    return tuple(found)


class Run:
    """A model under way, by the choices made so far."""

    def __init__(self, model: Model, choices: Sequence[int]) -> None:
        self.state, threads = model()
        self.threads = list(threads)
        self.waits: list[Callable[[], bool] | None] = [None] * len(self.threads)
        self.ended = [False] * len(self.threads)
        for choice in choices:
            self.step(choice)

    def step(self, number: int) -> None:
        """Let a thread do a step."""
        try:
            self.waits[number] = next(self.threads[number])
        except StopIteration:
            self.ended[number] = True

    def able(self) -> list[int]:
        """The threads that can do one."""
        pairs = enumerate(zip(self.ended, self.waits, strict=True))
        return [n for n, (ended, wait) in pairs if not ended and (wait is None or wait())]

    def key(self) -> Hashable:
        """What decides all that can follow."""
        return frozen(self.state), tuple(map(place, self.threads))


def explore(model: Model, check: Callable[[SimpleNamespace], object] = bool, most: int = 200_000) -> int:
    """Run a model in every order; how many states there are. `check` looks at each one in which all ended.

    Raises WrongError, with the order of steps, for what the model or `check` raises, and for threads that all
    wait.
    Cost: some 0.1 ms a state.
    """
    seen, left = set[Hashable](), [list[int]()]
    while left:
        choices = left.pop()
        try:
            run = Run(model, choices)
            while (key := run.key()) not in seen:
                seen.add(key)
                assert len(seen) < most, "too many states"
                if all(run.ended):
                    check(run.state)
                    break
                able = run.able()
                if not able:
                    raise WrongError(f"{[n for n, ended in enumerate(run.ended) if not ended]} wait for ever")
                left += [[*choices, n] for n in able[1:]]
                choices = [*choices, able[0]]
                run.step(able[0])
        except (WrongError, AssertionError) as error:
            raise WrongError(f"{error}, by the steps {choices}") from error
    return len(seen)
