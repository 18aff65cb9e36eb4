"""Products of each row of a list with each: what becomes attention, while code is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abw.torch.tracing.symbols import K, NeedsFixed, Refusing, TensorLike, axis


class Scores(Refusing, TensorLike):
    """The products of each row of K with each: softmax and a product with rows make attention of them.

    Anything else raises NeedsFixed; so does all where `query` is None.
    """

    def __init__(self, query: Any, keys: Any, shape: Sequence[Any], weights: bool = False) -> None:
        self.trace, self.query, self.keys = keys.trace, query, keys
        self.shape_, self.weights = tuple(shape), weights

    def refuse(self, *_: object) -> Any:
        raise NeedsFixed("the products of all pairs of a list are computed with")

    __getattr__ = __setitem__ = refuse

    def _asked(self, holds: bool, weights: bool) -> Any:
        """The query. Errors: NeedsFixed where these are (no) weights, or it does not hold."""
        return self.query if self.query is not None and self.weights == weights and holds else self.refuse()

    def scaled(self, factor: Any) -> Scores:
        """The same times a number."""
        query = self._asked(type(factor) in (int, float), False)
        return Scores(query * factor, self.keys, self.shape_)

    def softmax(self, dim: int | None = None, *_: Any, **__: Any) -> Scores:
        """The weights of attention."""
        last = len(self.shape_) - 1
        query = self._asked(axis(-1 if dim is None else dim, last + 1) == last, False)
        return Scores(query, self.keys, self.shape_, True)

    def times(self, values: Any) -> Any:
        """Sums of rows, weighted: what attention gives."""
        traced = type(self.keys)
        query = self._asked(isinstance(values, traced) and values.shape_[-2:-1] == (K,), True)
        found = self.trace.attend(1, query, self.keys, values)
        return traced(self.trace, found, (*self.shape_[:-1], values.shape_[-1]))

    def __truediv__(self, number: Any) -> Scores:
        return self.scaled(1 / number if type(number) in (int, float) else number)

    __mul__ = __rmul__ = scaled
    __matmul__ = times
