"""A scope: programs begun and cells called one by one, which run as one mini-batch where it ends."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.program.running.fibers import Done, Failed, Program, require_program
from abw.core.program.running.results import in_arrays, noted
from abw.core.program.running.runner import BatchRunner
from abw.core.program.running.task import Task


class Future:
    """What a program of a scope gives, once that has ended."""

    def __init__(self, task: Task | None, function: Program, number: int) -> None:
        self._task, self._function, self._number = task, function, number
        self._outcome: Done | Failed | None = None

    def value(self) -> Any:  # noqa: ANN401 (what the program returns)
        """The result, with arrays for values; raises what the program raised, AbwError before the end."""
        if self._outcome is None:
            raise AbwError("this is known when the scope has ended", hint="ask behind the with block")
        if isinstance(self._outcome, Failed):
            raise noted(self._outcome.error, self._function, self._number)
        return self._outcome.result


class Batching:
    """A scope (`with net.batching() as batch:`): what is begun or called in it runs as one mini-batch.

    `batch(function, instance)` begins a program, and gives a `Future`. Cells can be called in it without a
    program, too; their values are known behind it, or when asked for.
    """

    def __init__(self, begin: Callable[[], BatchRunner], end: Callable[[BatchRunner | None], None]) -> None:
        """`begin` begins a mini-batch; `end` is told its runner, or None where it was broken off."""
        self._begin, self._end = begin, end
        self._runner: BatchRunner | None = None
        self._futures: list[Future] = []

    def __enter__(self) -> Batching:
        self._runner = self._begin()
        return self

    def __call__(self, function: Program, instance: object) -> Future:
        """Begin the program of an instance."""
        if self._runner is None:
            raise AbwError("the scope has ended", hint="with net.batching() as batch: batch(function, item)")
        require_program(function)
        number = len(self._futures)
        future = Future(self._runner.begin(function, instance, number), function, number)
        self._futures.append(future)
        return future

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runner, self._runner = self._runner, None
        assert runner is not None
        try:
            if error is None:
                runner.finish()
                self._settle(runner)
        finally:
            self._end(runner if error is None else None)

    def _settle(self, runner: BatchRunner) -> None:
        outcomes = [future._task.ended for future in self._futures if future._task]
        for future, outcome in zip(self._futures, in_arrays(outcomes, runner.values), strict=True):
            future._outcome = outcome
            future._task = None
