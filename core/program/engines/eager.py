"""The meaning of programs: each cell is computed where it is called, in double precision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import run_cell
from abw.core.exec.params import Params, constant_value
from abw.core.ir.network import Network
from abw.core.program.recording.given import Given
from abw.core.program.recording.recorder import TYPE, Longs
from abw.core.program.recording.values import BITS

Array = NDArray[np.float64]


class EagerTape:
    """Takes what a recorder writes, and computes it at once; knows the values by their references.

    References are those of handles: they go on from earlier runs.
    """

    def __init__(self, network: Network, params: Params, given: Given, first: int) -> None:
        """`first`: the number of the next node among all runs'."""
        self._network, self._params, self._given = network, params, given
        self._wide = [np.asarray(value, np.float64) for value in params.values]
        self._values: dict[int, Array] = {}
        self._next = first * network.width

    def write(self, words: Iterable[int]) -> None:
        """Compute a node. Errors: LookupError for an operand of an earlier run."""
        number, *handles = words
        net_type = self._network.types[number & TYPE]
        assert net_type.cell is not None
        operands = [self.value(handle >> BITS) for handle in handles]
        with np.errstate(all="ignore"):
            found = run_cell(net_type.cell, operands, [self._wide[p] for p in net_type.params])
        for output, value in enumerate(found):
            self._values[self._next + output] = value
        self._next += self._network.width

    def value(self, reference: int) -> Array:
        """The value of a reference. Errors: LookupError."""
        if reference >= 0:
            return self._values[reference]
        given = self._given.row(self._network, reference)
        if given is None:
            given = constant_value(self._network, self._params, reference)
        return np.asarray(given, np.float64)

    def values(self, references: Longs) -> NDArray[Any]:
        """The values of m references, all of one shape."""
        return np.stack([self.value(reference) for reference in references.tolist()])
