"""Decisions: values compared with numbers, and indices of the largest, smallest or sorted elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from abw.core.program.recording.values import Value
from abw.torch.recording.standins import WEIGHING, Ints, StandIn, real


class Comparison(StandIn):
    """A value compared with a number: a decision where Python branches on it, else a tensor of 0 and 1."""

    __slots__ = ("how", "limit", "value")
    dtype = torch.bool

    def __init__(self, value: Any, how: str, limit: float) -> None:
        self.value, self.how, self.limit = value, how, limit

    @property
    def shape_(self) -> Any:
        return self.value.shape

    @property
    def cells(self) -> Any:
        return self.value.cells

    def tensor(self) -> Any:
        """1 where it holds, else 0."""
        found = self.value.cells.op(f"__{self.how}__", self.value, self.limit)
        return found.value if isinstance(found, Flags) else found

    float = tensor

    def real(self) -> torch.Tensor:
        """The booleans: waits for them."""
        numbers = real(self.value)
        if WEIGHING:
            WEIGHING[-1].note(float((numbers - self.limit).abs().min()), float(numbers.abs().max()))
        found: torch.Tensor = getattr(numbers, self.how)(self.limit)
        return found

    def any(self, *dims: Any) -> Any:
        return self if not dims and self.numel() == 1 else self.real().any(*dims)

    def all(self, *dims: Any) -> Any:
        return self if not dims and self.numel() == 1 else self.real().all(*dims)

    def __bool__(self) -> bool:
        value: Any = self.value
        if self.how in ("eq", "ne") or self.numel() != 1 or WEIGHING or not isinstance(self.value, Value):
            return bool(self.real())
        value.cells.waits()
        limit = np.float32(self.limit)  # as PyTorch compares
        below = float(np.nextafter(limit, np.float32(-np.inf)))
        at, turned = {
            "gt": (float(limit), False), "ge": (below, False), "le": (float(limit), True), "lt": (below, True)
        }[self.how]  # fmt: skip
        return bool(value.above(at)) != turned

    def __and__(self, other: Any) -> Comparison:
        return Comparison(self.tensor() * other.float(), "gt", 0.5)

    def __or__(self, other: Any) -> Comparison:
        return Comparison(self.tensor() + other.float(), "gt", 0.5)

    def __invert__(self) -> Comparison:
        return Comparison(self.tensor(), "lt", 0.5)

    __rand__, __ror__, item = __and__, __or__, __bool__

    def __int__(self) -> int:
        return int(bool(self))

    def __float__(self) -> Any:
        return float(bool(self))


class Flags(Comparison):
    """Booleans that a cell computes as 0 and 1: a value, or a stack of values."""

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        super().__init__(value, "gt", 0.5)

    def tensor(self) -> Any:
        """The value itself."""
        return self.value

    float = tensor

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value[key] = float(value) if isinstance(value, int) else value

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(self.value, Value) else Flags(self.value[key])


class Pair:
    """Values and indices along a dimension, as torch.max, min, topk and sort give: `kind`.

    Each is computed when it is first asked for; indices are a decision.
    """

    __slots__ = ("_made", "_make", "kind")

    def __init__(self, kind: str, values: Callable[[Any], Any], indices: Callable[[], Any]) -> None:
        """`values(pair)`: they may ask for the indices."""
        self.kind, self._make = kind, (lambda: values(self), indices)
        self._made: dict[int, Any] = {}

    def __getitem__(self, i: int) -> Any:
        i = range(2)[i]
        if i not in self._made:
            self._made[i] = self._make[i]()
        return self._made[i]

    @property
    def values(self) -> Any:
        return self[0]

    @property
    def indices(self) -> Any:
        return self[1]

    def __iter__(self) -> Iterator[Any]:
        return iter((self[0], _LaterInts(self)))


class _LaterInts(Ints):
    """The indices of a `Pair`, asked for when they are used."""

    __slots__ = ("_of",)

    def __init__(self, of: Pair) -> None:
        self._of: Any = of

    def __getattr__(self, name: str) -> Any:
        if name in ("items", "shape_"):
            found = self._of.indices
            self.items, self.shape_ = found.items, found.shape_
            return getattr(self, name)
        return super().__getattr__(name)


def weigh(numbers: torch.Tensor, dim: int | None, k: int = 1) -> None:
    """Note by how much the k largest are larger than the next, where that is asked for."""
    rows = numbers.reshape(-1) if dim is None or not numbers.dim() else numbers.movedim(dim, -1)
    if WEIGHING and rows.shape[-1] > k:
        best = rows.topk(k + 1).values
        WEIGHING[-1].note(float((best[..., k - 1] - best[..., k]).min()), float(numbers.abs().max()))
