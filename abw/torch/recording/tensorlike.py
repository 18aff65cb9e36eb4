"""Classes of values that behave like tensors of a logical shape."""

from __future__ import annotations

import math
from typing import Any

import torch

from abw.core.program.recording.values import Value
from abw.torch.recording.standins import (
    ARITHMETIC,
    COMPARISONS,
    INPLACE,
    Comparison,
    Ints,
    Maximum,
    attribute,
    operator,
    real,
    torch_function,
)
from abw.torch.tracing.trace import CannotTrace


def _single(size: torch.Size) -> bool:
    """Whether at most one dimension is not 1."""
    return bool(math.prod(size) == max(size, default=1))


def make_tensor_like(cells: Any, made: Any, shape: tuple[int, ...], kind: int, detached: bool) -> None:
    """Make a class of values behave like tensors of a logical shape."""
    size = torch.Size(shape)

    def function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch_function(func, args, kwargs or {})

    def sizes(self: Any, dim: int | None = None) -> Any:
        return size if dim is None else size[dim]

    fields: dict[str, Any] = {
        "shape": size, "cells": cells, "kind_": kind, "detached_": detached, "ndim": len(size),
        "grad_fn": None, "dtype": torch.float32, "device": torch.device("cpu"),
        "requires_grad": False, "is_cuda": False,
        "size": sizes, "dim": lambda self: len(size), "ndimension": lambda self: len(size),
        "numel": lambda self: math.prod(size), "nelement": lambda self: math.prod(size),
        "__len__": lambda self: _length(size), "__hash__": object.__hash__, "__getattr__": attribute,
        "__torch_function__": classmethod(function), "data": property(lambda self: cells.detached(self)),
        "detach": lambda self: cells.detached(self),        "T": property(lambda self: cells.op("t", self)),
        "__iter__": lambda self: iter([self[i] for i in range(_length(size))]),
        "item": lambda self: float(real(self)), "tolist": lambda self: real(self).tolist(),
        "numpy": lambda self, **_: real(self).numpy(), "__float__": lambda self: float(real(self)),
        "__int__": lambda self: int(real(self)), "__array__": lambda self, *_, **__: real(self).numpy(),
        "__bool__": lambda self: bool(real(self)), "__index__": _no_index, "__setitem__": _no_writing,
        "__getitem__": _item, "argmax": _argmax(made, size), "max": _max, "topk": _topk,
        "__repr__": lambda self: f"<recorded tensor of shape {list(size)}>",
    }  # fmt: skip
    fields |= {f"__{n}__": operator(f"__{n}__") for n in ARITHMETIC}
    fields |= {f"__i{n}__": _inplace(f"__{n}__") for n in INPLACE}
    fields |= {f"__{n}__": _comparison(n) for n in COMPARISONS}
    fields |= {n: _viewing(cells, size, n) for n in ("view", "reshape", "squeeze", "unsqueeze", "flatten")}
    fields |= {n: _unchanged(n) for n in ("contiguous", "clone", "to", "float", "cpu", "cuda")}
    for name, field in fields.items():
        setattr(made, name, field)


def _length(size: torch.Size) -> int:
    if not size:
        raise TypeError("len() of a 0-d tensor")
    return int(size[0])


def _no_index(self: Any) -> int:
    raise TypeError("only integer tensors of a single element can be converted to an index")


def _no_writing(self: Any, key: object, value: object) -> None:
    if self.shape and self.shape[0] == 1 and type(key) is int and key in (0, -1):
        row = self.cells.as_value(value, self.shape[1:])
        self.cells.write(self, self.cells.as_class(row, type(self)))
        return
    raise CannotTrace("a part of a tensor is written in place: collect rows in a list and stack them")


def _inplace(name: str) -> Any:
    return lambda self, other: self.cells.write(self, self.cells.op(name, self, other))


def _comparison(how: str) -> Any:
    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, int | float):
            return Comparison(self, how, other)
        if other is None or isinstance(other, str):
            return NotImplemented
        apart = self.cells.op("sub", self, other)
        return (
            Comparison(apart, how, 0.0)
            if isinstance(apart, Value)
            else self.cells.op(f"__{how}__", self, other)
        )

    return compare


def _unchanged(name: str) -> Any:
    def same(self: Any, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(a, torch.dtype) and a is not torch.float32 for a in (*args, *kwargs.values())):
            return self.cells.by_torch(name, (self, *args), kwargs)
        if name == "clone":
            found = type(self)()
            found.ref = self.ref
            return found
        return self

    return same


def _viewing(cells: Any, size: torch.Size, name: str) -> Any:
    """A method that gives the value another shape, as torch.Tensor does; errors are PyTorch's."""
    shaped = getattr(torch.Tensor, name)
    known: dict[Any, Any] = {}

    def view(self: Any, *args: Any, **kwargs: Any) -> Any:
        key = (args, tuple(kwargs.items()))
        cls = known.get(key)
        if cls is None:
            shape = tuple(shaped(torch.empty(size), *args, **kwargs).shape)
            cls = known[key] = cells.value_class(shape, self.detached_)
        cells.seen_views.add(self.ref)
        found = cls()
        found.ref = self.ref
        return found

    return view


def _item(self: Any, key: Any) -> Any:
    if key.__class__ is int:
        return self.cells.op("__getitem__", self, key)
    if isinstance(key, Ints | torch.Tensor | list):
        items = key.items if isinstance(key, Ints) else key if type(key) is list else None
        if isinstance(key, torch.Tensor) and key.dtype == torch.int64 and key.ndim == 1:
            items = key.tolist()
        if (
            items is not None
            and all(type(i) is int for i in items)
            and (type(key) is not Ints or key.ndim == 1)
        ):
            size = self.shape[0]
            if any(not -size <= i < size for i in items):
                raise IndexError(f"index {items} is out of bounds for dimension 0 with size {size}")
            return self.cells.op("gathered", self, *items)
        if type(key) is Ints and not key.shape_:
            key = key.item()
    return self.cells.op("__getitem__", self, key)


def _argmax(made: Any, size: torch.Size) -> Any:
    own, one, alike = made.argmax, math.prod(size) == 1, _single(size)

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Ints:
        self.cells.waits()
        if not alike:
            found = real(self).argmax(dim, keepdim)
            return Ints(found.reshape(-1).tolist(), tuple(found.shape))
        d = None if dim is None else dim % max(len(size), 1)
        if d is not None and size and size[d] == 1 and not one:  # of single elements
            shape = [s for i, s in enumerate(size) if i != d or keepdim]
            return Ints([0] * math.prod(size), shape)
        found = 0 if one else own(self)
        if d is None:
            return Ints([found], (1,) * len(size) if keepdim else ())
        return Ints([found], [1 if i == d else s for i, s in enumerate(size) if keepdim or i != d])

    return argmax


def _max(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if type(dim) is int:
        return Maximum(self, dim, keepdim)
    return self.cells.op("max", self, *(() if dim is None else (dim,)))


def _topk(self: Any, *args: Any, **kwargs: Any) -> Any:
    return real(self).topk(*args, **kwargs)
