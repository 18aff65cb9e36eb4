"""The reference for programs: each cell is computed where it is called, in double precision."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.cell.evaluate import run_cell
from abw.core.exec.interface import Array
from abw.core.exec.reference import attend
from abw.core.ir.model import Attention
from abw.core.ir.network import Slot
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.asks import Answer, answer, margin
from abw.core.program.recording.segments import TYPE
from abw.core.program.recording.values import BITS
from abw.core.program.running.fibers import (
    Asked,
    Branches,
    Done,
    Failed,
    GeneratorFiber,
    Program,
    run_through,
)
from abw.core.program.running.task import GONE, KEEP, Log, Path, Task


@dataclass(frozen=True, slots=True)
class Weighed:
    """A question that got the answer of another run: `taken`; `right` is the answer by the values here.

    `margin`: see `abw.core.program.recording.asks.margin`; `rows` are the values asked.
    """

    path: Path
    how: str
    rows: Array
    taken: Answer
    right: Answer
    margin: float


class EagerRunner:
    """Runs programs one after the other; computes what a recorder writes at once.

    References go on from earlier runs. `forced`: answers that programs get, whatever is right by the values
    here; `log` has what is right.
    """

    def __init__(self, engine: Engine, first: int, seed: int, forced: Log | None = None) -> None:
        """`engine` has the network, which may be extended; `first`: the next node's number among all."""
        self._engine, self._seed, self._forced = engine, seed, forced
        self._wide: list[NDArray[np.float64]] = []
        self._values: dict[int, NDArray[np.float64]] = {}
        self._next = first * engine.cells.width
        self._current = Task((0,))
        self.log: list[Weighed] = []

    def write(self, words: Iterable[int]) -> None:
        """Compute a node. Errors: AbwError for an operand that is not of this run."""
        number, *handles = words
        values = self._engine.params.values
        self._wide += [np.asarray(value, np.float64) for value in values[len(self._wide) :]]
        net_type = self._engine.cells.types[number & TYPE]
        slots: Iterable[Slot] = net_type.slots
        if net_type.cell is None:
            length, *handles = handles
            slots = [slot for slot in net_type.slots for _ in range(length)]
        operands = []
        for slot, handle in zip(slots, handles, strict=True):
            try:
                operands.append(self.value(handle >> BITS))
            except LookupError:
                message = f"input '{slot.name}' of {net_type.name} is a value of an earlier run"
                raise AbwError(f"{message}, or of another instance: {GONE}", hint=KEEP) from None
        with np.errstate(all="ignore"):
            if net_type.cell is not None:
                found = run_cell(net_type.cell, operands, [self._wide[p] for p in net_type.params])
            elif isinstance(net_type.reduction, Attention):
                listed, keys = np.stack(operands[:length]), np.stack(operands[length : 2 * length])
                found = [attend(net_type.reduction, listed, keys, operands[-1])]
            else:
                found = [getattr(np, str(net_type.reduction))(np.stack(operands, axis=-1), axis=-1)]
        for output, value in enumerate(found):
            self._values[self._next + output] = value
        self._next += self._engine.cells.width

    def value(self, reference: int) -> NDArray[np.float64]:
        """The value of a reference. Errors: LookupError for one of an earlier run's nodes."""
        if reference >= 0:
            return self._values[reference]
        return np.asarray(self._engine.constant(reference), np.float64)

    def run(self, function: Program, item: object, number: int) -> Done | Failed:
        """Run the program of an instance to its end."""
        return self._run(Task((number,)), function, item)

    def ask(self, asked: Asked) -> Any:  # noqa: ANN401
        """Answer a question at once; in a generator, return the object to yield."""
        if self._current.fiber is not None:
            return self._current.fiber.wait(asked)
        return self._answer(asked)

    def values(self, handles: Sequence[int]) -> Array:
        """The values of handles, all of one shape. Errors: AbwError for one of an earlier run."""
        try:
            return np.stack([self.value(handle >> BITS) for handle in handles])
        except LookupError:
            raise AbwError(f"a value of an earlier run was asked for: {GONE}", hint=KEEP) from None

    def _run(self, task: Task, function: Program, item: object) -> Done | Failed:
        outer, self._current = self._current, task
        try:
            if not inspect.isgeneratorfunction(function):
                return run_through(function, item)
            task.fiber = fiber = GeneratorFiber(function, item)
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
