"""A scope: programs and cells that are called one by one and run as one mini-batch when it ends."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.program.running.fibers import Done, Failed, Program, require_program
from abw.core.program.running.results import in_arrays, noted
from abw.core.program.running.runner import BatchRunner
from abw.core.program.running.task import Task
from abw.core.program.session import ProgramGranularity, Session


class Future:
    """The result of a program in a scope, known once the scope has ended."""

    def __init__(self, task: Task, function: Program, number: int) -> None:
        self._task, self._function, self._number = task, function, number
        self._outcome: Done | Failed | None = None

    def value(self) -> Any:  # noqa: ANN401 (what the program returns)
        """The result, with arrays for values; raises what the program raised, AbwError before the end."""
        if self._outcome is None:
            raise AbwError(
                "the result is known only when the scope has ended", hint="ask for it after the with block"
            )
        if isinstance(self._outcome, Failed):
            raise noted(self._outcome.error, self._function, self._number)
        return self._outcome.result


class Batching:
    """A scope (`with net.batching() as batch:`), whose programs and calls run as one mini-batch.

    `batch(function, instance)` begins a program, and gives a `Future`. Cells can be called in it without a
    program, too; their values are known behind it, or when asked for.
    """

    def __init__(self, session: Session, granularity: ProgramGranularity) -> None:
        self._session, self._granularity = session, granularity
        self._runner: BatchRunner | None = None
        self._futures: list[Future] = []

    def __enter__(self) -> Batching:
        self._runner = self._session.begin(self._granularity)
        return self

    def __call__(self, function: Program, instance: object) -> Future:
        """Begin the program of an instance."""
        if self._runner is None:
            raise AbwError("the scope has ended", hint="with net.batching() as batch: batch(function, item)")
        require_program(function)
        number = len(self._futures)
        future = Future(self._runner.begin(function, [instance], [number])[0], function, number)
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
                ends = in_arrays([future._task.ended for future in self._futures], runner.values)
                for future, outcome in zip(self._futures, ends, strict=True):
                    future._outcome = outcome
        finally:
            self._session.end(runner if error is None else None)
