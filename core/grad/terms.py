"""The gradients of weights: products summed over all rows of a type, in the order of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import run_cell
from abw.core.grad.cell import Differentiated, Operand

Array = NDArray[np.float64]

# So many rows are summed from zero; then the sums of chunks are added in order. What comes out is then the
# same to the bit whatever the batches were, and long sums do not lose digits.
CHUNK = 128


def static_gradients(
    made: Differentiated,
    dz: Callable[[int], NDArray[Any]],
    x: Callable[[Operand], NDArray[Any]],
) -> dict[int, Array]:
    """The gradients of the values that a type's rows share, by the terms: this is what a kernel has to do.

    `dz(o)` gives the backward cell's output o at all rows (n, *shape), `x(operand)` what they are multiplied
    with, (n, length). Computed in double precision.
    """
    found = {static: np.zeros(made.forward.shape_of(static)) for static in made.statics}
    for term in made.terms:
        left = np.asarray(dz(term.dz), np.float64)
        right = None if term.x is None else np.asarray(x(term.x), np.float64)
        gradient = found[term.static]
        if term.x is not None:
            gradient = gradient[:, term.column : term.column + term.x.length]
        for start in range(0, len(left), CHUNK):
            rows = slice(start, start + CHUNK)
            gradient += left[rows].sum(axis=0) if right is None else left[rows].T @ right[rows]
    return found


def param_gradients(
    made: Differentiated, statics: Mapping[int, Array], params: Sequence[NDArray[Any]]
) -> dict[int, Array]:
    """From the gradients of what rows share to those of the cell's parameters, by number."""
    shared = made.shared
    if shared is None:
        return {}
    values = [np.asarray(value, np.float64) for value in params]
    given = [statics[static] for static in made.statics]
    return input_gradients(shared, values, given)


def input_gradients(
    made: Differentiated, inputs: Sequence[Array], gradients: Sequence[Array], params: Sequence[Array] = ()
) -> dict[int, Array]:
    """The gradients of a cell's inputs at one node, by number: its forward and backward cell with NumPy."""
    if made.backward is None:
        return {}
    saved = run_cell(made.forward, inputs, params)
    sources = {"input": inputs, "saved": saved, "gradient": gradients}
    read = [sources[leaf.source][leaf.number] for leaf in made.reads]
    found = run_cell(made.backward, read, [params[p] for p in made.params])
    return {i: found[o] for i, o in made.inputs.items()}
