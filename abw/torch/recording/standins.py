"""What stands for tensors while instances are recorded: values of cells, stacks of them, whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from abw.core.program.recording.values import KINDS, Value
from abw.torch.tracing.trace import DECIDING, MEANINGS, CannotTrace, base_name, sizes_of

# The cells of the models that are being recorded, the innermost last.
RECORDING: list[Any] = []
ARITHMETIC = [f"{r}{n}" for n in ("add", "sub", "mul", "truediv", "matmul") for r in ("", "r")]
ARITHMETIC += ["neg", "pow"]
INPLACE = ["add", "sub", "mul", "truediv"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


def operator(name: str) -> Any:
    return lambda self, *args: self.cells.op(name, self, *args)


def attribute(self: Any, name: str) -> Any:
    """A method of torch.Tensor, as an operation."""
    base, cells = base_name(name), self.cells
    if base in MEANINGS:
        if base != name:
            return lambda *args, **kwargs: cells.write(self, cells.op(base, self, *args, **kwargs))
        return lambda *args, **kwargs: cells.op(name, self, *args, **kwargs)
    if base in DECIDING or (hasattr(torch.Tensor, name) and callable(getattr(torch.Tensor, name))):
        return lambda *args, **kwargs: cells.by_torch(name, (self, *args), kwargs)
    raise AttributeError(f"a tensor has no attribute '{name}' while it is recorded")


class StandIn:
    """What stands for a tensor of floats, besides `Value`."""

    __slots__ = ()
    dtype, device, grad_fn = torch.float32, torch.device("cpu"), None
    requires_grad = is_cuda = False
    cells: Any
    shape_: tuple[int, ...]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch_function(func, args, kwargs or {})

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self.shape_)

    @property
    def ndim(self) -> int:
        return len(self.shape_)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape_[dim]

    def dim(self) -> int:
        return len(self.shape_)

    def numel(self) -> int:
        return math.prod(self.shape_)

    def __len__(self) -> int:
        return self.shape_[0]

    def item(self) -> float:
        return float(real(self))

    def tolist(self) -> Any:
        return real(self).tolist()

    def numpy(self) -> Any:
        return real(self).numpy()

    def __float__(self) -> float:
        return self.item()

    def __bool__(self) -> bool:
        return bool(real(self))

    __getattr__ = attribute
    __hash__ = object.__hash__


for _n in (*ARITHMETIC, *COMPARISONS):
    setattr(StandIn, f"__{_n}__", operator(f"__{_n}__"))


class Stack(StandIn):
    """Several values of an instance as one tensor: rows along dimension `k` of its shape."""

    __slots__ = ("_class", "cells", "fresh", "k", "rows", "shape_")
    fresh: bool

    def __init__(self, cells: Any, rows: list[Any], shape: tuple[int, ...], k: int) -> None:
        self.cells, self.rows, self.shape_, self.k = cells, rows, shape, k
        self._class: Any = None
        self.fresh = False

    def _row(self, i: int) -> Any:
        """Row i, without dimension k."""
        cls = self._class
        if cls is None:
            cls = self._class = self.cells.value_class(self.shape_[: self.k] + self.shape_[self.k + 1 :])
        row = self.rows[i]
        return row if row.__class__ is cls else self.cells.as_class(row, cls)

    def _part(self, key: slice) -> Stack | None:
        rows = self.rows[key]
        shape = (*self.shape_[: self.k], len(rows), *self.shape_[self.k + 1 :])
        return Stack(self.cells, rows, shape, self.k) if rows else None

    def __iter__(self) -> Iterator[Any]:
        if self.k == 0:
            return iter([self._row(i) for i in range(len(self.rows))])
        return iter([self[i] for i in range(self.shape_[0])])

    def __getitem__(self, key: Any) -> Any:
        keys = key if type(key) is tuple else (key,)
        first, rest = (keys[0] if keys else slice(None)), keys[1:]
        found: Any = None
        if self.k == 0 and isinstance(first, int | np.integer | Ints):
            if type(first) is not Ints or not first.shape_:
                found = self._row(int(first))
            elif len(first.shape_) == 1:
                rows = [self.rows[i] for i in first.items]
                found = Stack(self.cells, rows, (len(rows), *self.shape_[1:]), 0)
        elif self.k == 0 and isinstance(first, slice):
            found = self._part(first)
            if found is not None and rest and not all(type(r) is slice and r == slice(None) for r in rest):
                found = None
            rest = ()
        elif self.k == 1 and self.shape_[0] == 1 and type(first) is int and first in (0, -1):
            found = Stack(self.cells, self.rows, self.shape_[1:], 0)
        if found is None:
            return self.cells.op("__getitem__", self, key)
        return found[rest] if rest else found

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.k != 0 or type(key) is not int or not self.cells.owns(self):
            raise CannotTrace("a part of a tensor is written in place: collect rows in a list and stack them")
        self.rows[key] = self.cells.as_value(value, self.shape_[1:])

    def squeeze(self, dim: int | None = None) -> Any:
        shape = self.shape_
        dims = range(len(shape)) if dim is None else [dim % len(shape)]
        keep = [i for i in range(len(shape)) if not (i in dims and shape[i] == 1)]
        sizes = tuple(shape[i] for i in keep)
        if self.k not in keep:
            return self.cells.viewed(self.rows[0], sizes)
        return Stack(self.cells, self.rows, sizes, keep.index(self.k))

    def unsqueeze(self, dim: int) -> Stack:
        d = dim % (len(self.shape_) + 1)
        shape = (*self.shape_[:d], 1, *self.shape_[d:])
        return Stack(self.cells, self.rows, shape, self.k + (d <= self.k))

    def unbind(self, dim: int = 0) -> Any:
        if dim % len(self.shape_) == self.k:
            return tuple(self._row(i) for i in range(len(self.rows)))
        return self.cells.op("unbind", self, dim)


class Concat(StandIn):
    """Values and tensors side by side that are not copied yet: the cell that reads them does that."""

    __slots__ = ("_value", "cells", "ends", "parts")

    def __init__(self, cells: Any, parts: tuple[Any, ...], ends: tuple[int, int]) -> None:
        """`ends`: how many sizes of 1 stand before and behind the joined one."""
        self.cells, self.parts, self.ends = cells, parts, ends
        self._value: Any = None

    @property
    def shape_(self) -> tuple[int, ...]:  # type: ignore[override]
        before, behind = self.ends
        return (1,) * before + (sum([math.prod(p.shape) for p in self.parts]),) + (1,) * behind

    def value(self) -> Any:
        """As one value: a node that copies."""
        if self._value is None:
            self._value = self.cells.op("copied", self)
        return self._value

    def __getitem__(self, key: Any) -> Any:
        return self.cells.op("__getitem__", self, key)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self.shape_[0])])


class Ints:
    """Whole numbers as a tensor; `items` are its elements, row after row."""

    __slots__ = ("items", "shape_")
    dtype, device, requires_grad, is_cuda = torch.int64, torch.device("cpu"), False, False

    def __init__(self, items: list[int], shape: Sequence[int]) -> None:
        self.items, self.shape_ = items, tuple(shape)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch_function(func, args, kwargs or {})

    def tensor(self) -> torch.Tensor:
        """As a tensor of PyTorch's."""
        return torch.tensor(self.items, dtype=torch.int64).view(self.shape_)

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self.shape_)

    @property
    def ndim(self) -> int:
        return len(self.shape_)

    @property
    def data(self) -> Ints:
        return self

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape_[dim]

    def dim(self) -> int:
        return len(self.shape_)

    def numel(self) -> int:
        return len(self.items)

    def item(self) -> int:
        if len(self.items) != 1:
            raise ValueError(f"item() of {len(self.items)} elements")
        return self.items[0]

    def tolist(self) -> Any:
        return self.tensor().tolist()

    def view(self, *shape: Any) -> Ints:
        return Ints(self.items, tuple(torch.empty(self.shape_).view(*shape).shape))

    reshape = view

    def unsqueeze(self, dim: int) -> Ints:
        d = dim % (len(self.shape_) + 1)
        return Ints(self.items, (*self.shape_[:d], 1, *self.shape_[d:]))

    def squeeze(self, dim: int | None = None) -> Ints:
        dims = range(len(self.shape_)) if dim is None else [dim % len(self.shape_)]
        return Ints(self.items, [s for i, s in enumerate(self.shape_) if not (i in dims and s == 1)])

    def to(self, *args: Any, **kwargs: Any) -> Any:
        wanted = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
        return self.tensor().to(*wanted) if wanted and wanted[0].is_floating_point else self

    def float(self) -> torch.Tensor:
        return self.tensor().float()

    def long(self) -> Ints:
        return self

    int = cpu = cuda = detach = clone = contiguous = long

    def __index__(self) -> Any:
        return self.item()

    __int__ = __index__

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> Any:
        return self.shape_[0]

    def __getitem__(self, key: Any) -> Any:
        found = self.tensor()[key.tensor() if isinstance(key, Ints) else key]
        return Ints(found.reshape(-1).tolist(), tuple(found.shape))

    def __iter__(self) -> Iterator[Ints]:
        if len(self.shape_) == 1:
            return iter([Ints([item], ()) for item in self.items])
        return iter([self[i] for i in range(self.shape_[0])])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: _ints(getattr(self.tensor(), name)(*map(plain, args), **kwargs))

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Ints{self.items}"


def _ints(found: Any) -> Any:
    """A tensor of whole numbers as `Ints`."""
    if isinstance(found, torch.Tensor) and found.dtype == torch.int64:
        return Ints(found.reshape(-1).tolist(), tuple(found.shape))
    return found


def _ints_operator(name: str) -> Any:
    def apply(self: Ints, *args: Any) -> Any:
        others = [plain(a) for a in args]
        if len(self.items) == 1 and all(isinstance(a, int | float) for a in others):
            found = getattr(self.items[0], name)(*others)
            if isinstance(found, bool):
                return found
            if type(found) is int:
                return Ints([found], self.shape_)
        return _ints(getattr(self.tensor(), name)(*others))

    return apply


for _n in (*ARITHMETIC, *COMPARISONS, "floordiv", "mod"):
    setattr(Ints, f"__{_n}__", _ints_operator(f"__{_n}__"))


class Comparison:
    """A value compared with a number: a decision when it is asked, a tensor of 0 and 1 elsewhere."""

    __slots__ = ("how", "limit", "value")
    dtype = torch.bool

    def __init__(self, value: Value, how: str, limit: float) -> None:
        self.value, self.how, self.limit = value, how, limit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch_function(func, args, kwargs or {})

    @property
    def shape(self) -> Any:
        return self.value.shape

    def tensor(self) -> Any:
        """1 where it holds, else 0."""
        return self.value.cells.op(f"__{self.how}__", self.value, self.limit)  # type: ignore[attr-defined]

    float = tensor

    def _real(self) -> torch.Tensor:
        found: torch.Tensor = getattr(real(self.value), self.how)(self.limit)
        return found

    def item(self) -> bool:
        return bool(self)

    def any(self, *dims: Any) -> Any:
        return self if not dims and self.value.shape.numel() == 1 else self._real().any(*dims)  # type: ignore[attr-defined]

    def all(self, *dims: Any) -> Any:
        return self if not dims and self.value.shape.numel() == 1 else self._real().all(*dims)  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        value: Any = self.value
        if self.how in ("eq", "ne") or math.prod(value.shape) != 1:
            return bool(self._real())
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

    __rand__, __ror__ = __and__, __or__

    def __int__(self) -> int:
        return int(bool(self))

    def __float__(self) -> Any:
        return float(int(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)


for _n in ARITHMETIC:
    setattr(Comparison, f"__{_n}__", lambda self, *args, _n=_n: getattr(self.tensor(), f"__{_n}__")(*args))


class Maximum:
    """`torch.max(value, dim)`: the values are computed, the indices are a decision."""

    __slots__ = ("dim", "keepdim", "value")

    def __init__(self, value: Any, dim: int, keepdim: bool) -> None:
        self.value, self.dim, self.keepdim = value, dim, keepdim

    @property
    def values(self) -> Any:
        return self.value.cells.op("amax", self.value, self.dim, self.keepdim)

    @property
    def indices(self) -> Any:
        return self.value.argmax(self.dim, self.keepdim)

    def __getitem__(self, i: int) -> Any:
        return self.values if i in (0, -2) else self.indices

    def __iter__(self) -> Iterator[Any]:
        return iter((self.values, _Argmax(self)))


class _Argmax(Ints):
    """The indices of a `Maximum`, asked for when they are used."""

    __slots__ = ("_of",)

    def __init__(self, of: Maximum) -> None:
        self._of: Any = of

    def __getattr__(self, name: str) -> Any:
        if name in ("items", "shape_"):
            found = self._of.indices
            self.items, self.shape_ = found.items, found.shape_
            return getattr(self, name)
        return super().__getattr__(name)


def real(x: Any) -> torch.Tensor:
    """The numbers of a stand-in as a tensor: waits for them."""
    if isinstance(x, Value):
        made: Any = x
        made.cells.waits()
        return torch.from_numpy(np.array(x.value(), np.float32)).view(made.shape)
    if isinstance(x, Stack):
        rows = [real(row).reshape(-1) for row in x.rows]
        shape = [len(rows), *[s for i, s in enumerate(x.shape_) if i != x.k]]
        return torch.stack(rows).view(shape).movedim(0, x.k)
    if isinstance(x, Concat):
        return real(x.value())
    if isinstance(x, Comparison):
        return x._real()
    assert isinstance(x, Ints)
    return x.tensor()


STAND_INS = (Value, Stack, Concat, Comparison)


def plain(x: Any) -> Any:
    """Arguments with PyTorch's tensors in the place of what stands for them."""
    if isinstance(x, (*STAND_INS, Ints)):
        return real(x)
    if type(x) in (list, tuple):
        return type(x)(plain(y) for y in x)
    return x


def cells_of(args: Any) -> Any:
    """The cells that some arguments belong to; None without any."""
    for a in args:
        if isinstance(a, Value | StandIn):
            return a.cells  # type: ignore[union-attr]
        if isinstance(a, Comparison):
            return a.value.cells  # type: ignore[attr-defined]
        if isinstance(a, list | tuple):
            found = cells_of(a)
            if found is not None:
                return found
    return None


def torch_function(func: Any, args: Any, kwargs: Any) -> Any:
    """A function of PyTorch's that is given something that stands for a tensor."""
    cells = cells_of((*args, *kwargs.values()))
    if cells is None:  # whole numbers alone
        if func is torch.nn.functional.embedding or getattr(func, "__name__", "") == "embedding":
            cells = RECORDING[-1] if RECORDING else None
        if cells is None:
            found = func(*[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()})
            return _ints(found)
    name = getattr(func, "__name__", str(func))
    base = base_name(name)
    args = [a.tensor() if isinstance(a, Comparison) else a for a in args]
    if base != name or kwargs.get("inplace"):
        kwargs = {k: v for k, v in kwargs.items() if k != "inplace"}
        return cells.write(args[0], cells.op(base, *args, **kwargs))
    kwargs.pop("inplace", None)
    return cells.op(base, *args, **kwargs)


def of_kind(value: Any) -> int:
    """The kind of a value's handle."""
    return int(value.ref & (KINDS - 1))


def as_ints(data: Any) -> Ints:
    """`torch.tensor` of whole numbers in lists. Errors: ValueError for lists of several lengths."""
    if type(data) is int:
        return Ints([data], ())
    shape: list[int] = []
    items = data
    while isinstance(items, list | tuple):
        shape.append(len(items))
        items = items[0] if items else None
    flat = list(data)
    for n in shape[1:]:
        if any(not isinstance(part, list | tuple) or len(part) != n for part in flat):
            raise ValueError(f"expected sequences of length {n}")
        flat = [y for part in flat for y in part]
    return Ints([int(y) for y in flat], sizes_of((tuple(shape),)))
