"""The problems of a spec, collected: a file's mistakes are shown all at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from abw.core.base.errors import AbwError, Problem, Span, SpecError, did_you_mean

T = TypeVar("T")


class Report:
    """The problems found so far; each is told once, and counted as often as it is met."""

    def __init__(self) -> None:
        """No problems."""
        self._problems: dict[Problem, None] = {}
        self._noted = 0
        self._refused: set[tuple[str, str]] = set()  # files and names
        self._refusals: set[Problem] = set()
        self.large: dict[Problem, tuple[int, ...]] = {}
        """What would hold too many numbers, by its problem: its sizes."""

    def __len__(self) -> int:
        """How many were noted: it grows with every mistake, also one that was found before."""
        return self._noted

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All of them, each once, as first met, but for what follows from a refused name."""
        told = [p for p in self._problems if p in self._refusals or not self._follows(p)]
        same: dict[tuple[str, str], list[Problem]] = {}
        for problem in told:
            if problem.where and problem.message.startswith("unknown dim "):  # one line declares it
                same.setdefault((problem.where.file, problem.message), []).append(problem)
        others = {p: None for places in same.values() for p in places[1:]}
        counts = {places[0]: len(places) for places in same.values() if len(places) > 1}
        return tuple(
            replace(p, message=f"{p.message}, at {counts[p]} places") if p in counts else p
            for p in told
            if p not in others
        )

    def add(self, message: str, where: Span | None = None, hint: str = "") -> None:
        """Note a mistake."""
        self.extend([Problem(message, where, hint)])

    def extend(self, problems: Iterable[Problem]) -> None:
        """Note mistakes that someone else found."""
        for problem in problems:
            self._problems[problem] = None
            self._noted += 1

    def blame(self, one: Problem) -> None:
        """Tell one mistake in place of all that is too large."""
        if not set(self._problems).isdisjoint(self.large):
            self._problems = {p: None for p in (one, *self._problems) if p not in self.large}

    def refuse(self, name: str, message: str, where: Span, hint: str = "") -> None:
        """Note a mistake in a name that is introduced there: it is not told where else the name is missed."""
        self.add(message, where, hint)
        self._refusals.add(Problem(message, where, hint))
        self.hide([name], where)

    def hide(self, names: Iterable[str], where: Span) -> None:
        """Leave out what points at these names in that file: a mistake keeps them from being introduced."""
        self._refused.update((where.file, name) for name in names)

    def _follows(self, problem: Problem) -> bool:
        """Whether a problem points at a path in which there is a refused name."""
        where = problem.where
        if not (self._refused and where):
            return False
        begin, end = where.column - 1, where.column - 1 + where.length
        before = re.search(r"[\w.\[\]-]*$", where.text[:begin])
        behind = re.match(r"[\w.\[\]-]*", where.text[end:])
        path = f"{before and before[0]}{where.text[begin:end]}{behind and behind[0]}"
        return any((where.file, name) in self._refused for name in re.split(r"[^\w-]+", path))

    def check(self) -> None:
        """Raise SpecError if there are problems: file by file as first met, each in order of its lines."""
        problems = self.problems
        if not problems:
            return
        files: dict[str, int] = {}
        for problem in problems:
            files.setdefault(problem.where.file if problem.where else "", len(files))

        def position(problem: Problem) -> tuple[int, int, int]:
            where = problem.where
            return (files[where.file], where.line, where.column) if where else (-1, 0, 0)

        raise SpecError(sorted(problems, key=position))

    def checked(self, found: T | None, path: object, what: str) -> T:
        """Check, and return what was found in a file. Errors: SpecError; AbwError where that is nothing."""
        self.check()
        if found is None:
            raise AbwError(f"{path} is no {what}")
        return found


_OPEN: ContextVar[Report] = ContextVar("report")


@contextmanager
def reporting() -> Iterator[Report]:
    """Collect the mistakes that are noted while a spec is read in the block, or in a function."""
    found = Report()
    before = _OPEN.set(found)
    try:
        yield found
    finally:
        _OPEN.reset(before)


def report() -> Report:
    """The mistakes of what is read now (`reporting`); elsewhere none are kept."""
    found = _OPEN.get(None)
    return Report() if found is None else found


def note(message: str, where: Span | None = None, hint: str = "") -> None:
    """Note a mistake in what is read now."""
    report().add(message, where, hint)


def suggest(name: str, allowed: Iterable[str]) -> str:
    """A hint for a wrong name: the nearest right one, and all that are allowed."""
    names = sorted(set(allowed))
    hint = did_you_mean(name, names)
    return f"{hint} allowed here: {', '.join(names)}" if hint.startswith("did you mean") else hint
