"""Parameters and tables from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.cell import Param
from abw.core.ir.network import Network

Floats = NDArray[np.float32]

MATRIX_GAIN = 0.7
VECTOR_RMS = 0.3
TABLE_RMS = 0.7
MATRIX_ROW_RMS = 0.1


@dataclass(frozen=True, slots=True)
class Params:
    """`values[i]` is `Network.params[i]`, `tables[i]` (rows, *shape) is `Network.tables[i]`; float32.

    Where there is `flat` they are views of it: the values one after the other, then the tables.
    """

    values: tuple[Floats, ...]
    tables: tuple[Floats, ...]
    flat: Floats | None = None

    def flattened(self) -> Params:
        """A copy in one vector, to be changed in place (see `Executor.update`)."""
        arrays = (*self.values, *self.tables)
        ends = np.cumsum([0, *(array.size for array in arrays)])
        flat = np.empty(ends[-1], np.float32)
        views = []
        for array, first in zip(arrays, ends[:-1].tolist(), strict=True):
            views.append(flat[first : first + array.size].reshape(array.shape))
            views[-1][...] = array
        return Params(tuple(views[: len(self.values)]), tuple(views[len(self.values) :]), flat)

    def refuse_unlike(self, other: Params) -> None:
        """Raise ValueError unless all have the shapes of the other ones."""
        for own, others in ((self.values, other.values), (self.tables, other.tables)):
            if [array.shape for array in own] != [array.shape for array in others]:
                raise ValueError("the parameters are not of the shapes that the executor was prepared for")


def init_params(network: Network, seed: int) -> Params:
    """Draw every parameter and table; each from its own stream, by the seed and its name alone.

    Root mean squares, so that a type's outputs keep one between 0.05 and 2 at sizes of 32 to 512:

    - matrices `MATRIX_GAIN / sqrt(columns)`. By fan-in alone (a gain of 1) recurrent cells stand at the edge
      of chaos, where rounding grows from step to step, and sums over neighbours push them past it;
    - vectors VECTOR_RMS: what keeps the second layer of an LSTM from fading, and a bias that is left out
      shows;
    - rows of tables that are vectors TABLE_RMS;
    - rows that are matrices (MV-RNN) serve two ends. A product with a vector keeps the vector's size at
      `1/sqrt(columns)`, while the matrices are outputs themselves and must not fall below 0.05: they get the
      larger of `1/sqrt(columns)` and MATRIX_ROW_RMS.

    A parameter with `init` is that constant.
    """
    values = tuple(_param(param, seed) for param in network.params)
    tables = []
    for table in network.tables:
        rms = max(table.shape[-1] ** -0.5, MATRIX_ROW_RMS) if len(table.shape) == 2 else TABLE_RMS
        tables.append(_draw(seed, f"table {table.name}", (table.rows, *table.shape), rms))
    return Params(values, tuple(tables))


def constant_value(network: Network, params: Params, reference: int, given: Sequence[Floats] = ()) -> Floats:
    """The value that a negative reference means (see `Network.width`); `given`: see `Graph`."""
    number, row = network.constant_of(reference)
    constant = network.constants[number]
    if constant.kind == "zeros":
        return np.zeros(constant.shape, np.float32)
    if constant.kind == "param":
        return params.values[constant.number]
    if constant.kind == "kept":
        raise ValueError("kept leaves lie in an executor's memory")
    if constant.kind == "field":
        return np.asarray(given[constant.number][row])
    return np.asarray(params.tables[constant.number][row])


def _param(param: Param, seed: int) -> Floats:
    if param.init is not None:
        return np.full(param.shape, param.init, np.float32)
    rms = MATRIX_GAIN * param.shape[-1] ** -0.5 if len(param.shape) == 2 else VECTOR_RMS
    return _draw(seed, f"param {param.name}", param.shape, rms)


def _draw(seed: int, name: str, shape: Sequence[int], rms: float) -> Floats:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    drawn = generator.standard_normal(tuple(shape), np.float32)
    drawn *= np.float32(rms)
    return drawn
