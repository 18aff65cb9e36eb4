"""Products of all pairs of rows that wait for the code that makes attention of them."""

from __future__ import annotations

from typing import Any

import torch

from abw.torch.recording.standins import StandIn, real


class Pairs(StandIn):
    """The products of each row of a query with each key, as `Scores` has them while code is traced."""

    __slots__ = ("cells", "fill", "hidden", "keys", "query", "weights")

    def __init__(self, cells: Any, query: Any, keys: Any, hidden: Any, fill: float, weights: bool) -> None:
        self.cells, self.query, self.keys = cells, query, keys
        self.hidden, self.fill, self.weights = hidden, fill, weights

    @property
    def shape_(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.keys.shape[-1])

    def write(self, made: Pairs) -> None:
        """Become what was made of it."""
        for name in self.__slots__:
            setattr(self, name, getattr(made, name))

    def value(self) -> Any:
        """As a matrix, by a cell for each length."""
        return self.cells.op("clone", self)

    def real(self) -> torch.Tensor:
        """The numbers: waits for them."""
        found = real(self.query) @ real(self.keys)
        found = found if self.hidden is None else found.masked_fill(self.hidden, self.fill)
        return found.softmax(-1) if self.weights else found
