"""What cells mean: computed with NumPy, one node at a time, in the precision of what is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.cell import Cell, Op
from abw.core.ir.operations import OPERATIONS, Arrays

Array = NDArray[np.float64]

# What becomes of an operation's result, by its arguments.
Rounded = Callable[[Op, Sequence[Array], Array], Array]

NUMPY = Arrays(np)


def evaluate(op: Op, arguments: Sequence[Array]) -> Array:
    """One operation on one node's values, in their precision."""
    value = np.asarray(OPERATIONS[op.name].meaning(NUMPY, *arguments, *op.attr))
    return value.reshape(op.shape) if op.name == "constant" else value


def cell_values(
    cell: Cell, inputs: Sequence[Array], params: Sequence[Array], rounded: Rounded | None = None
) -> list[Array]:
    """All of a cell's values for one node, by their numbers; `rounded`: what becomes of each result."""
    values = [*inputs, *params]
    for op in cell.ops:
        arguments = [values[a] for a in op.args]
        value = evaluate(op, arguments)
        values.append(value if rounded is None else rounded(op, arguments, value))
    return values


def run_cell(
    cell: Cell, inputs: Sequence[Array], params: Sequence[Array], rounded: Rounded | None = None
) -> list[Array]:
    """A cell's outputs for one node; `rounded` as of `cell_values`."""
    values = cell_values(cell, inputs, params, rounded)
    return [values[value] for _, value in cell.outputs]
