"""Stand-ins for tensors while instances are recorded: values of cells, stacks of them, whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from types import MethodType
from typing import Any

import numpy as np
import torch

from abw.core.program.recording.values import Value
from abw.torch.tracing.symbols import (
    ARITHMETIC,
    COMPARISONS,
    CannotTrace,
    TensorLike,
    operators,
    sized,
    sizes_of,
)
from abw.torch.tracing.trace import MEANINGS, base_name, positional

# The cells of the models that are being recorded, the innermost last.
RECORDING: list[Any] = []
# What is told how near decisions are to going the other way: `note(margin, size of the numbers)`.
WEIGHING: list[Any] = []
# Methods that give a tensor another shape.
VIEWS = ("view", "reshape", "squeeze", "unsqueeze", "flatten")


def operator(name: str) -> Any:
    return lambda self, *args: self.cells.op(name, self, *args)


def inplace(name: str) -> Any:
    plain = f"__{name[3:]}"
    return lambda self, other: self.cells.write(self, self.cells.op(plain, self, other))


def method(name: str) -> Any:
    """A method of torch.Tensor, as an operation."""
    base = base_name(name)

    def call(self: Any, *args: Any, **given: Any) -> Any:
        if base != name and base in MEANINGS:
            return self.cells.write(self, self.cells.op(base, self, *args, **given))
        return self.cells.op(name, self, *args, **given)

    return call


OPERATIONS = {
    name: method(name)
    for name in dir(torch.Tensor)
    if name[0] != "_" and callable(getattr(torch.Tensor, name))
}


def attribute(self: Any, name: str) -> Any:
    """A method of a value, as an operation."""
    if name in OPERATIONS:
        return MethodType(OPERATIONS[name], self)
    raise AttributeError(f"a tensor has no attribute '{name}' while it is recorded")


@cache
def shape_after(name: str, shape: tuple[int, ...], *args: Any) -> tuple[int, ...]:
    """The shape that a method of `VIEWS` gives a tensor of a shape. Errors: those of PyTorch."""
    return tuple(getattr(torch.empty(shape), name)(*args).shape)


@cache
def the_one(ends: tuple[int, int]) -> tuple[int, int]:
    """One object for all that are equal."""
    return ends


class StandIn(TensorLike):
    """A stand-in for a tensor of floats: `Stack` or `Concat`. Classes of values get the same methods."""

    __slots__ = ()
    cells: Any

    def tolist(self) -> Any:
        return real(self).tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        return real(self).numpy()

    __array__ = numpy

    def __index__(self) -> int:
        raise TypeError("only integer tensors of a single element can be converted to an index")

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key: Any) -> Any:
        return self.cells.op("__getitem__", self, key)

    @property
    def T(self) -> Any:  # noqa: N802
        return self.cells.op("t", self)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise CannotTrace("a part of a tensor is written in place: collect rows in a list and stack them")


for _name, _number in (("item", float), ("__float__", float), ("__int__", int), ("__bool__", bool)):
    setattr(StandIn, _name, lambda self, _number=_number: _number(real(self)))
for _name in OPERATIONS.keys() - set(dir(StandIn)):
    setattr(StandIn, _name, OPERATIONS[_name])
operators(StandIn, ("neg", "abs", *COMPARISONS), operator)
operators(StandIn, ARITHMETIC, operator, ("", "r"))
operators(StandIn, ARITHMETIC[:4], inplace, ("i",))


class Stack(StandIn):
    """Several values of an instance as one tensor: rows along dimension `k` of its shape."""

    __slots__ = ("_class", "cells", "k", "rows", "shape_")
    TAKES = ("cells", "rows", "shape_", "k")

    def __init__(self, cells: Any, rows: list[Any], shape: tuple[int, ...], k: int) -> None:
        self.cells, self.rows, self.shape_, self.k = cells, rows, shape, k
        self._class: Any = None

    def real(self) -> torch.Tensor:
        """The numbers: waits for them."""
        rows = [real(row).reshape(-1) for row in self.rows]
        shape = [len(rows), *sized(self.shape_, self.k)]
        return torch.stack(rows).view(shape).movedim(0, self.k)

    def _row(self, i: int) -> Any:
        """Row i, without dimension k."""
        cls = self._class
        if cls is None:
            cls = self._class = self.cells.value_class(sized(self.shape_, self.k))
        row = self.rows[i]
        return row if row.__class__ is cls else self.cells.view_as(row, cls)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._row(i) for i in range(len(self.rows))]) if self.k == 0 else super().__iter__()

    def __getitem__(self, key: Any) -> Any:
        if key.__class__ is int and self.k == 0:  # as mostly
            row = self.rows[key]
            return row if row.__class__ is self._class else self._row(key)
        keys = key if type(key) is tuple else (key,)
        first, rest = (keys[0] if keys else slice(None)), keys[1:]
        items, found = whole_numbers(first), None
        if self.k == 0 and type(items) is list:
            columns = whole_numbers(rest[0]) if len(rest) == 1 else None
            if type(columns) is list:
                return self.cells.op("elements", self, items, columns)
            rows = [self.rows[i] for i in items]
            self.cells.share(rows)  # they are no copies
            found = Stack(self.cells, rows, (len(rows), *self.shape_[1:]), 0)
            rest = rest and (slice(None), *rest)
        elif self.k == 0 and items is not None:
            found = self._row(items)
        elif self.k == 0 and isinstance(first, slice):
            rows = self.rows[first]
            if rows and all(type(r) is slice and r == slice(None) for r in rest):
                return Stack(self.cells, rows, (len(rows), *self.shape_[1:]), 0)
        elif self.k == 1 and self.shape_[0] == 1 and type(first) is int and first in (0, -1):
            found = Stack(self.cells, self.rows, self.shape_[1:], 0)
        if found is None:
            return self.cells.op("__getitem__", self, key)
        return found[rest] if rest else found

    def __setitem__(self, key: Any, value: Any) -> None:
        keys = key if type(key) is tuple else (key,)
        if self.k != 0 or not keys or type(keys[0]) is not int:
            super().__setitem__(key, value)
        row = self._row(keys[0])
        if len(keys) > 1:
            row[keys[1:]] = value
        else:
            self.cells.write(row, value)

    def clone(self) -> Stack:
        return Stack(self.cells, [row.clone() for row in self.rows], self.shape_, self.k)

    def squeeze(self, dim: int | None = None) -> Any:
        shape = self.shape_
        dims = range(len(shape)) if dim is None else [dim % len(shape)]
        keep = [i for i in range(len(shape)) if not (i in dims and shape[i] == 1)]
        sizes = tuple(shape[i] for i in keep)
        if self.k not in keep:
            return self.cells.viewed(self.rows[0], sizes)
        return Stack(self.cells, self.rows, sizes, keep.index(self.k))

    def unbind(self, dim: int = 0) -> Any:
        if dim % len(self.shape_) == self.k:
            return tuple(self._row(i) for i in range(len(self.rows)))
        return self.cells.op("unbind", self, dim)


class Concat(StandIn):
    """Concatenated values and tensors, which the cell that reads them copies; none where a model writes."""

    __slots__ = ("_value", "cells", "ends", "parts")
    TAKES = ("cells", "parts", "ends")

    def __init__(self, cells: Any, parts: tuple[Any, ...], ends: tuple[int, int]) -> None:
        """`ends`: how many sizes of 1 stand before and behind the joined one."""
        self.cells, self.parts, self.ends = cells, parts, the_one(ends)
        self._value: Any = None

    @property
    def shape_(self) -> tuple[int, ...]:
        before, behind = self.ends
        return (1,) * before + (sum([math.prod(p.shape) for p in self.parts]),) + (1,) * behind

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value()[key] = value  # which has all recorded again, without any `Concat`

    def value(self) -> Any:
        """As one value: a node that copies."""
        if self._value is None:
            copy = self.cells.ops.get(("copied", 1, ()))
            self._value = self.cells.op("copied", self) if copy is None else copy.quick(self)
        return self._value

    def real(self) -> torch.Tensor:
        """The numbers: waits for them."""
        return torch.cat([real(part).reshape(-1) for part in self.parts]).view(self.shape_)


class Derived(StandIn):
    """What is computed from parameters alone: each cell that reads it computes it."""

    __slots__ = ("cells", "shape_", "source", "tensor")

    def __init__(self, cells: Any, source: Any, tensor: torch.Tensor | None = None) -> None:
        """`source`: what it is in a trace; `tensor`: the parameter that it is itself."""
        self.cells, self.source, self.shape_, self.tensor = cells, source, source.shape_, tensor

    @property
    def data(self) -> Any:
        return self.cells.op("detach", self)

    def value(self) -> Any:
        """As one value of this instance."""
        return self.cells.op("add", self, torch.zeros(()))

    def real(self) -> torch.Tensor:
        """The numbers: waits for them."""
        return real(self.value()) if self.tensor is None else self.tensor.detach()

    def __getitem__(self, key: Any) -> Any:
        """Rows of a matrix of the model's by whole numbers are values."""
        first, *others = key if type(key) is tuple else (key,)
        found, n = whole_numbers(first), len(self)
        items = found if type(found) is list else [n if found is None else found]
        if not (self.cells.is_table(self.tensor) and all(-n <= i < n for i in items)):
            return super().__getitem__(key)
        table = self.cells.rows_of(self.tensor, self.shape_[1:])
        rows = [table[i % n] for i in items]
        if type(found) is not list:
            return rows[0][others[0]] if others else rows[0]
        made = Stack(self.cells, rows, (len(rows), *self.shape_[1:]), 0)
        return made[(slice(None), *others)] if others else made


class Ints(TensorLike):
    """Whole numbers as a tensor; `items` are its elements, row after row."""

    __slots__ = ("items", "shape_")
    dtype = torch.int64

    def __init__(self, items: list[int], shape: Sequence[int]) -> None:
        self.items, self.shape_ = items, tuple(shape)

    def tensor(self) -> torch.Tensor:
        """As a tensor of PyTorch's."""
        return torch.tensor(self.items, dtype=torch.int64).view(self.shape_)

    real = tensor

    @property
    def data(self) -> Ints:
        return self

    def item(self) -> int:
        if len(self.items) != 1:
            raise ValueError(f"item() of {len(self.items)} elements")
        return self.items[0]

    def tolist(self) -> Any:
        return self.tensor().tolist()

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

    def __getitem__(self, key: Any) -> Any:
        return as_stand_in(self.tensor()[key.tensor() if isinstance(key, Ints) else key])

    def __iter__(self) -> Iterator[Ints]:
        if len(self.shape_) == 1:
            return iter([Ints([item], ()) for item in self.items])
        return iter([self[i] for i in range(self.shape_[0])])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in VIEWS:
            return lambda *args: Ints(self.items, shape_after(name, self.shape_, *args))
        found = getattr(self.tensor(), name)
        if not callable(found):
            return as_stand_in(found)
        return lambda *args, **kwargs: as_stand_in(found(*map(plain, args), **kwargs))

    def __repr__(self) -> str:
        return f"Ints{self.items}"


def as_stand_in(found: Any) -> Any:
    """A tensor of whole numbers as `Ints`."""
    if isinstance(found, torch.Tensor) and found.dtype == torch.int64:
        return Ints(found.reshape(-1).tolist(), tuple(found.shape))
    return found


def whole_numbers(key: Any) -> Any:
    """The whole number, or the list of them, that an index is, or that are true; None for anything else."""
    if getattr(key, "dtype", None) is torch.bool and len(key.shape) == 1:
        return real(key).nonzero().reshape(-1).tolist()
    if isinstance(key, torch.Tensor | Ints) and key.dtype is torch.int64:
        key = key.tolist()
    items = key if type(key) is list else [key]
    plain = items and all(isinstance(i, int | np.integer) and type(i) is not bool for i in items)
    return key if plain else None


def _ints_operator(name: str) -> Any:
    def apply(self: Ints, *args: Any) -> Any:
        others = [plain(a) for a in args]
        if len(self.items) == 1 and all(isinstance(a, int | float) for a in others):
            found = getattr(self.items[0], name)(*others)
            if isinstance(found, bool):
                return torch.tensor(found).reshape(self.shape_)
            if type(found) is int:
                return Ints([found], self.shape_)
        return as_stand_in(getattr(self.tensor(), name)(*others))

    return apply


operators(Ints, ("neg", *COMPARISONS), _ints_operator)
operators(Ints, ARITHMETIC, _ints_operator, ("", "r"))


def real(x: Any) -> torch.Tensor:
    """The numbers of a stand-in as a tensor: waits for them."""
    if isinstance(x, Value):
        made: Any = x
        made.cells.waits()
        return torch.from_numpy(np.array(x.value(), np.float32)).view(made.shape)
    found: torch.Tensor = x if isinstance(x, torch.Tensor) else x.real()
    return found


def plain(x: Any) -> Any:
    """Return the arguments with tensors in place of stand-ins."""
    if isinstance(x, Value | StandIn | Ints):
        return real(x)
    if type(x) in (list, tuple):
        return type(x)(plain(y) for y in x)
    return x


def cells_of(args: Any) -> Any:
    """The cells that some arguments belong to; None without any."""
    for a in args:
        if isinstance(a, Value | StandIn):
            return a.cells  # type: ignore[union-attr]
        if isinstance(a, list | tuple):
            found = cells_of(a)
            if found is not None:
                return found
    return None


def torch_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function of PyTorch on arguments that contain stand-ins for tensors."""
    cells = cells_of((*args, *kwargs.values()))
    if cells is None:  # whole numbers alone
        if func is torch.nn.functional.embedding or getattr(func, "__name__", "") == "embedding":
            cells = RECORDING[-1] if RECORDING else None
        if cells is None:
            found = func(*[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()})
            return as_stand_in(found)
    name = getattr(func, "__name__", str(func))
    base = base_name(name)
    written = kwargs.get("inplace") or base != name
    if args and type(args[0]) is torch.Tensor and (written or name == "__setitem__"):
        cells.hold_squares()
    kwargs = {k: v for k, v in kwargs.items() if k != "inplace" and (k != "out" or v is not None)}
    args = positional(args, kwargs)
    found = cells.op(base, *args, **kwargs)
    return cells.write(args[0], found) if written else found


for _cls in (StandIn, Ints):
    _cls.dispatcher = staticmethod(torch_function)


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
