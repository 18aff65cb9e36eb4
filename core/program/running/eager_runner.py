"""Runs programs one after the other, each cell where it is called; decisions may be those of another run."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Array
from abw.core.program.engines.eager import EagerTape
from abw.core.program.recording.asks import Answer, answer, margin
from abw.core.program.recording.values import BITS
from abw.core.program.running.fibers import (
    Asked,
    Branches,
    Done,
    Failed,
    GeneratorFiber,
    Program,
    Silent,
    run_through,
)
from abw.core.program.running.task import GONE, KEEP, Log, Path, Task


@dataclass(frozen=True, slots=True)
class Weighed:
    """A question answered as it was elsewhere: `taken`; `right` is the answer by the values here.

    `margin`: see `abw.core.program.recording.asks.margin`; `rows` are the values asked.
    """

    path: Path
    how: str
    rows: Array
    taken: Answer
    right: Answer
    margin: float


class EagerRunner:
    """Programs one after the other, each cell computed where it is called.

    `forced`: answers that programs get, whatever is right by the values here. `log` has what is right.
    """

    def __init__(self, tape: EagerTape, seed: int, forced: Log | None = None) -> None:
        self._tape, self._seed, self._forced = tape, seed, forced
        self._current = Task((0,))
        self.log: list[Weighed] = []

    def run(self, function: Program, item: object, number: int) -> Done | Failed:
        """A program's run to its end."""
        return self._run(Task((number,)), function, item)

    def ask(self, asked: Asked) -> Any:  # noqa: ANN401
        """As in `Runner`: at once."""
        if self._current.fiber is not None:
            return self._current.fiber.wait(asked)
        return self._answer(asked)

    def values(self, handles: Sequence[int]) -> Array:
        """As in `Runner`, in double precision."""
        try:
            return self._tape.values(np.array(handles, np.int64) >> BITS)
        except LookupError:
            raise AbwError(f"a value of an earlier run was asked for: {GONE}", hint=KEEP) from None

    def _run(self, task: Task, function: Program, item: object) -> Done | Failed:
        outer, self._current = self._current, task
        try:
            if not inspect.isgeneratorfunction(function):
                return run_through(function, item)
            task.fiber = fiber = GeneratorFiber(function, item, Silent())
            outcome = fiber.resume(None)
            while not isinstance(outcome, Done | Failed):
                try:
                    found = self._answer(outcome)
                except Exception as error:
                    outcome = fiber.throw(error)
                else:
                    outcome = fiber.resume(found)
            return outcome
        finally:
            self._current = outer

    def _answer(self, asked: Asked) -> Answer:
        task = self._current
        if isinstance(asked, Branches):
            results = []
            for branch, item in zip(task.fork(len(asked.items)), asked.items, strict=True):
                outcome = self._run(branch, asked.function, item)
                if isinstance(outcome, Failed):
                    raise outcome.error
                results.append(outcome.result)
            return results
        task.note(asked, self._seed)
        rows = self.values(asked.handles)
        if self._forced is None:
            found = answer(asked.how, rows, [asked])[0]
            if isinstance(found, AbwError):
                raise found
            return found
        taken = self._forced[task.path][task.asked][1]
        task.asked += 1
        self.log.append(Weighed(task.path, asked.how, rows, taken, *margin(asked.how, rows, asked, taken)))
        return taken
