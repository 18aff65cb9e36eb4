"""Where a kernel's values lie: rows padded to whole vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.cell import Shape

Floats = NDArray[np.float32]

# So many rows of a list are added one after the other in single precision, so that short lists cost no more;
# the sums of blocks in double, or compensated. The error stays below 1e-6 of the rows' absolute values,
# however long the list.
BLOCK = 8
# Attention's weights are relative to a level, which rises when a score is above it by more than this; what
# was summed before is scaled then. Steps as large as this are so few that their roundings do not add up.
RISE = 1.0


def columns(shape: Shape) -> int:
    """The floats of one row of a matrix, or of a vector."""
    return shape[-1] if shape else 1


def padded(count: int, lanes: int) -> int:
    """A number of floats as a whole number of vectors."""
    return -(-count // lanes) * lanes


def row_floats(shape: Shape, lanes: int) -> int:
    """The floats that a value takes: each row of a matrix, and a vector, is a whole number of vectors.

    What lies in the padding is never read as a value, but may be computed with.
    """
    rows = shape[0] if len(shape) == 2 else 1
    return rows * padded(columns(shape), lanes)


def matrix_view(memory: Floats, shape: Shape, lanes: int) -> Floats:
    """Rows (n, row_floats) as values (n, *shape), without the padding."""
    count = columns(shape)
    rows = shape[0] if len(shape) == 2 else 1
    values = memory.reshape(len(memory), rows, padded(count, lanes))[:, :, :count]
    return values if len(shape) == 2 else values[:, 0].reshape(len(memory), *shape)
