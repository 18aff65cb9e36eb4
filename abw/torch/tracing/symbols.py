"""Symbols for sizes, whole numbers and tensors of one instance while code is traced into cells.

Shapes: a vector may be given as (d,), (1, d), (1, 1, d), … It has that *logical* shape; the cell has it
without ones, as a vector, or as a matrix whose rows all dimensions but the last number. So `view`, `squeeze`,
`unsqueeze` and `t` of a vector cost nothing. A tensor stacked from a list whose length differs from instance
to instance has one dimension `K` of unknown size.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

# Python's operators, as their methods are named without the underscores.
ARITHMETIC = ("add", "sub", "mul", "truediv", "matmul", "pow", "floordiv", "mod")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
OTHERS = ("neg", "abs", "and", "or", "invert", "getitem")


class CannotTrace(Exception):  # noqa: N818 (it is caught and turned into a message)
    """Code that cannot become a cell, and why."""


class NeedsFixed(CannotTrace):
    """A list of unknown length has to be traced element by element."""

    frames: Sequence[traceback.FrameSummary] = ()

    def kept(self) -> NeedsFixed:
        """The same to be kept: `frames` say where it was raised, and hold nothing that was computed there."""
        found = NeedsFixed(*self.args)
        found.frames = traceback.extract_tb(self.__traceback__)
        return found


class NeedsConstant(CannotTrace):
    """An integer has to be a constant of the cell; `path` says which argument it is."""

    def __init__(self, path: tuple[Any, ...]) -> None:
        super().__init__("a number of the instance is computed with")
        self.path = path


class NeedsRows(CannotTrace):
    """A tensor of the instance is no mask: its rows are computed with; `path` says which argument it is."""

    def __init__(self, path: tuple[Any, ...]) -> None:
        super().__init__("a mask is computed with")
        self.path = path


class NeedsInput(CannotTrace):
    """What is returned depends on nothing that differs from call to call."""


class DependsOnData(CannotTrace):
    """Code asks for the numbers of a tensor, which makes it a decision."""


def operators(
    cls: Any, names: Iterable[str], make: Callable[[str], Any], forms: Sequence[str] = ("",)
) -> None:
    """Give a class operators: `make(name)` is that of a name with its underscores; forms: "", "r", "i"."""
    for name in names:
        for form in forms:
            setattr(cls, f"__{form}{name}__", make(f"__{form}{name}__"))


class Refusing:
    """What is known when code runs, not while it is traced: `refuse` raises what says so at any other use."""

    __slots__ = ()

    def refuse(self, *_: object) -> Any:
        raise NotImplementedError


operators(Refusing, ("bool", "float", "int", "index", "iter", "len"), lambda _: lambda self: self.refuse())
operators(Refusing, ("getitem", "neg", "abs", *COMPARISONS[:4]), lambda _: lambda self, *_: self.refuse())
operators(Refusing, ARITHMETIC, lambda _: lambda self, *_: self.refuse(), ("", "r"))


class UnknownSize(Refusing):
    """The size of the dimension K, which cannot be used as a number."""

    def __repr__(self) -> str:
        return "K"

    def refuse(self, *_: object) -> Any:
        raise NeedsFixed("the length of a list is used as a number")


K: Any = UnknownSize()


def core(shape: Sequence[Any]) -> tuple[int, ...]:
    """The shape that a cell has for a logical one: without K and ones. Errors: CannotTrace."""
    sizes = tuple(s for s in shape if s is not K and s != 1)
    if 0 in sizes:
        raise CannotTrace("a tensor without elements")
    return (math.prod(sizes[:-1]), sizes[-1]) if len(sizes) > 2 else sizes or (1,)


def numel(shape: Sequence[Any]) -> int:
    """The number of elements, of one row where there is K."""
    return math.prod(s for s in shape if s is not K)


def sizes_of(args: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes given one by one, or as a tuple."""
    if len(args) == 1 and isinstance(args[0], tuple | list | torch.Size):
        return tuple(args[0])
    return tuple(args)


def sized(shape: Sequence[Any], d: int, *sizes: Any) -> tuple[Any, ...]:
    """A shape with these sizes in the place of dimension d."""
    return (*shape[:d], *sizes, *shape[d + 1 :])


def dims_of(dim: Any, rank: int) -> list[int]:
    """The dimensions that `dim` names: all where it is None or empty. Errors: CannotTrace."""
    if dim is None or dim in ((), []):
        return list(range(rank))
    return [axis(d, rank) for d in (dim if isinstance(dim, tuple | list) else (dim,))]


def axis(dim: int, rank: int) -> int:
    """A dimension counted from the first. Errors: CannotTrace where there is none."""
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise CannotTrace(f"dimension {dim} of a tensor of {rank}")
    return dim % max(rank, 1)


class TensorLike:
    """What stands for a tensor that has the shape `shape_`."""

    __slots__ = ()
    dtype: Any = torch.float32
    device, layout, grad_fn = torch.device("cpu"), torch.strided, None
    requires_grad = is_cuda = is_nested = is_sparse = False
    shape_: Any
    # What a function of PyTorch's does: `dispatcher(function, args, kwargs)`.
    dispatcher: Any = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.dispatcher(func, args, kwargs or {})

    @property
    def shape(self) -> Any:
        return torch.Size(self.shape_)

    @property
    def ndim(self) -> int:
        return len(self.shape_)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape_[dim]

    def dim(self) -> int:
        return len(self.shape_)

    ndimension = dim

    def numel(self) -> int:
        return math.prod(self.shape_)

    nelement = numel

    def __len__(self) -> int:
        if not self.shape_:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape_[0])

    __hash__ = object.__hash__


class Index(Refusing):
    """An integer that differs from call to call: it can name a row of an embedding, and nothing else."""

    __slots__ = ("path", "rows", "slot", "trace")

    def __init__(self, trace: Any, path: tuple[Any, ...], slot: int, rows: bool = False) -> None:
        self.trace, self.path, self.slot, self.rows = trace, path, slot, rows

    def refuse(self, *_: object) -> Any:
        raise NeedsConstant(self.path)

    __eq__ = __ne__ = __hash__ = refuse


class Indices(TensorLike):
    """A tensor of whole numbers that differ from call to call."""

    dtype = torch.int64

    def __init__(self, index: Index, shape: Sequence[Any]) -> None:
        self.index, self.shape_ = index, tuple(shape)

    @property
    def shape(self) -> Any:
        return self.shape_

    def item(self) -> Index:
        """The integer."""
        return self.index

    def unsqueeze(self, dim: int) -> Indices:
        d = dim % (len(self.shape_) + 1)
        return Indices(self.index, (*self.shape_[:d], 1, *self.shape_[d:]))

    def squeeze(self, dim: int | None = None) -> Indices:
        dims = dims_of(dim, len(self.shape_))
        return Indices(self.index, [s for i, s in enumerate(self.shape_) if i not in dims or s != 1])

    def view(self, *shape: Any) -> Indices:
        sizes = sizes_of(shape)
        if any(s is K for s in self.shape_) or numel(self.shape_) != 1:
            raise NeedsFixed("indices of unknown number in another shape")
        return Indices(self.index, tuple(1 if s == -1 else s for s in sizes))

    reshape = view

    def to(self, *_: Any, **__: Any) -> Indices:
        return self

    long = cuda = cpu = detach = clone = to
