"""The reference for programs: each cell is computed where it is called, in double precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.cell.evaluate import run_cell
from abw.core.exec.interface import Array
from abw.core.exec.reference import attend
from abw.core.ir.model import Attention
from abw.core.ir.network import Slot
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.asks import Answer, Ask, margin
from abw.core.program.recording.recorder import Recorder
from abw.core.program.recording.segments import TYPE
from abw.core.program.recording.values import BITS
from abw.core.program.running.fibers import Fibers
from abw.core.program.running.runner import BatchRunner
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


class EagerRunner(BatchRunner):
    """Runs programs one after the other; computes what a recorder writes at once.

    `forced`: answers that programs get, whatever is right by the values here; `weighed` has what is right.
    """

    def __init__(
        self, recorder: Recorder, engine: Engine, fibers: Fibers, seed: int, forced: Log | None = None
    ) -> None:
        """`engine` has the network, which may be extended; nothing is computed by it."""
        super().__init__(recorder, engine, fibers, seed, {})
        self._wide: list[NDArray[np.float64]] = []
        self._values: dict[int, NDArray[np.float64]] = {}
        self._next, self._forced = self.base * engine.cells.width, forced
        self.weighed: list[Weighed] = []

    def write(self, words: Iterable[int]) -> None:
        """Compute a node. Errors: AbwError for an operand that is not of this run."""
        number, *handles = words
        values = self.engine.params.values
        self._wide += [np.asarray(value, np.float64) for value in values[len(self._wide) :]]
        net_type = self.engine.cells.types[number & TYPE]
        slots: Iterable[Slot] = net_type.slots
        if net_type.cell is None:
            length, *handles = handles
            lists, query = net_type.slots[: net_type.lists], net_type.slots[net_type.lists :]
            slots = [*(slot for slot in lists for _ in range(length)), *query]
        operands = []
        for slot, handle in zip(slots, handles, strict=True):
            try:
                operands.append(self._value(handle >> BITS))
            except LookupError:
                message = f"input '{slot.name}' of {net_type.name} is a value of an earlier run"
                raise AbwError(f"{message}, or of another instance: {GONE}", hint=KEEP) from None
        with np.errstate(all="ignore"):
            if net_type.cell is not None:
                found = run_cell(net_type.cell, operands, [self._wide[p] for p in net_type.params])
            elif isinstance(net_type.reduction, Attention):
                listed, keys = np.stack(operands[:length]), np.stack(operands[length : 2 * length])
                found = attend(net_type.reduction, listed, keys, operands[-1])
            else:
                found = [getattr(np, str(net_type.reduction))(np.stack(operands, axis=-1), axis=-1)]
        for output, value in enumerate(found):
            self._values[self._next + output] = value
        self._next += self.engine.cells.width

    def _value(self, reference: int) -> NDArray[np.float64]:
        """The value of a reference. Errors: LookupError for one of an earlier run's nodes."""
        if reference >= 0:
            return self._values[reference]
        return np.asarray(self.engine.constant(reference), np.float64)

    def values(self, handles: Sequence[int]) -> Array:
        """The values of handles, all of one shape. Errors: AbwError for one of an earlier run."""
        try:
            return np.stack([self._value(handle >> BITS) for handle in handles])
        except LookupError:
            raise AbwError(f"a value of an earlier run was asked for: {GONE}", hint=KEEP) from None

    def advance(self) -> None:
        """Everything is computed."""
        self._recorder.take()

    def _settled(self, tasks: Sequence[Task], asks: Sequence[Ask]) -> tuple[list[Task], Sequence[Answer]]:
        """The programs that get answers, and these: see `BatchRunner`."""
        if self._forced is None:
            return super()._settled(tasks, asks)
        found: list[Answer] = []
        for task, ask in zip(tasks, asks, strict=True):
            rows, taken = self.values(ask.handles), self._forced[task.path][task.asked][1]
            task.asked += 1
            self.weighed.append(Weighed(task.path, ask.how, rows, taken, *margin(ask.how, rows, ask, taken)))
            found.append(taken)
        return [*tasks], found
