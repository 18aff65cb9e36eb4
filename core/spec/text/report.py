"""The problems of a spec, collected: a file's mistakes are shown all at once."""

from __future__ import annotations

from collections.abc import Iterable

from abw.core.base.errors import Problem, Span, SpecError, did_you_mean


class Report:
    """The problems found so far; each is told once, and counted as often as it is met."""

    def __init__(self) -> None:
        """No problems."""
        self._problems: dict[Problem, None] = {}
        self._noted = 0

    def __len__(self) -> int:
        """How many were noted: it grows with every mistake, also one that was found before."""
        return self._noted

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All of them, each once, as first met."""
        return tuple(self._problems)

    def add(self, message: str, where: Span | None = None, hint: str = "") -> None:
        """Note a mistake."""
        self.extend([Problem(message, where, hint)])

    def extend(self, problems: Iterable[Problem]) -> None:
        """Note mistakes that someone else found."""
        for problem in problems:
            self._problems[problem] = None
            self._noted += 1

    def check(self) -> None:
        """Raise SpecError if there are problems: file by file as first met, each in order of its lines."""
        if not self._problems:
            return
        files: dict[str, int] = {}
        for problem in self._problems:
            files.setdefault(problem.where.file if problem.where else "", len(files))

        def place(problem: Problem) -> tuple[int, int, int]:
            where = problem.where
            return (files[where.file], where.line, where.column) if where else (-1, 0, 0)

        raise SpecError(sorted(self._problems, key=place))


def suggest(name: str, allowed: Iterable[str]) -> str:
    """A hint for a wrong name: the nearest right one, and all that are allowed."""
    names = sorted(set(allowed))
    hint = did_you_mean(name, names)
    return f"{hint} allowed here: {', '.join(names)}" if hint.startswith("did you mean") else hint
