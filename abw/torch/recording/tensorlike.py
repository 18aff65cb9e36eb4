"""Classes of values that behave like tensors of a logical shape."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch

from abw.core.program.recording.values import Value
from abw.torch.recording.decisions import Comparison, weigh
from abw.torch.recording.standins import (
    OPERATIONS,
    VIEWS,
    WEIGHING,
    Ints,
    StandIn,
    as_stand_in,
    attribute,
    real,
    shape_after,
    whole_numbers,
)
from abw.torch.tracing.symbols import COMPARISONS, CannotTrace, TensorLike, operators, sizes_of

# What a class has of its own.
OWN = {"__module__", "__doc__", "__slots__", "__annotations__", "shape", "shape_", "cells", "__dict__"}
METHODS = {n: f for cls in (TensorLike, StandIn) for n, f in vars(cls).items() if n not in OWN}
METHODS = {n: f for n, f in METHODS.items() if OPERATIONS.get(n) is not f} | {"__getattr__": attribute}


def make_tensor_like(cells: Any, made: Any, shape: tuple[int, ...], kind: int, detached: bool) -> None:
    """Make a class of values behave like tensors of a logical shape."""
    size = torch.Size(shape)
    fields: dict[str, Any] = METHODS | {
        "shape": size, "shape_": size, "cells": cells, "kind_": kind, "detached_": detached,
        "data": property(lambda self: cells.detached(self)), "detach": lambda self: cells.detached(self),
        "__setitem__": _set_item, "__getitem__": _item(cells, made), "argmax": _argmax(made, size),
        "__repr__": lambda self: f"<recorded tensor of shape {list(size)}>",
    }  # fmt: skip
    fields |= {name: _viewing(cells, size, name) for name in VIEWS}
    fields |= {name: _unchanged(name) for name in ("contiguous", "clone", "to", "float", "cpu", "cuda")}
    for name, field in fields.items():
        setattr(made, name, field)
    operators(made, COMPARISONS, _comparison)


def _set_item(self: Any, key: Any, value: Any) -> None:
    """Write the only row, or an element of a vector. Errors: CannotTrace for anything else."""
    cells, shape = self.cells, self.shape
    at = whole_numbers(key[0] if type(key) is tuple and len(key) == 1 else key)
    if shape and shape[0] == 1 and type(at) is int and at in (0, -1) and not isinstance(value, int | float):
        cells.write(self, cells.as_class(cells.as_value(value, shape[1:]), type(self)))
    elif len(shape) == 1 and type(at) is int and -shape[0] <= at < shape[0]:
        cells.write(self, cells.op("written", self, cells.one_hot(shape[0], at % shape[0]), value))
    else:
        raise CannotTrace("a part of a tensor is written in place: collect rows in a list and stack them")


def _comparison(name: str) -> Any:
    how = name.strip("_")

    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, int | float):
            return Comparison(self, how, other)
        if other is None or isinstance(other, str):
            return NotImplemented
        apart = self.cells.op("sub", self, other)
        return Comparison(apart, how, 0.0) if isinstance(apart, Value) else self.cells.op(name, self, other)

    return compare


def _unchanged(name: str) -> Any:
    def same(self: Any, *args: Any, **kwargs: Any) -> Any:
        for to in (*args, *kwargs.values()):
            if isinstance(to, torch.dtype) and to is not torch.float32:
                asked = not (to.is_floating_point or to.is_complex)  # without a gradient
                return (
                    as_stand_in(real(self).to(to))
                    if asked
                    else self.cells.by_torch(name, (self, *args), kwargs)
                )
        if name == "clone":
            found = type(self)()
            found.ref = self.ref
            return found
        return self

    return same


def _viewing(cells: Any, size: torch.Size, name: str) -> Any:
    """A method that gives the value another shape, as torch.Tensor does; errors are PyTorch's."""
    known: dict[Any, Any] = {}

    def view(self: Any, *args: Any, **kwargs: Any) -> Any:
        key = (*sizes_of(args), *kwargs.values())
        cls = known.get(key)
        if cls is None:
            cls = known[key] = cells.value_class(shape_after(name, size, *key), self.detached_)
        return cells.view_as(self, cls)

    return view


def _item(cells: Any, made: Any) -> Any:
    elements = cells.elements

    def item(self: Any, key: Any) -> Any:
        if key.__class__ is int:
            known = elements.get((made, key))
            return cells.element(self, key) if known is None else known(self)
        found = whole_numbers(key)
        if type(key) is tuple and len(key) == 2 and type(whole_numbers(key[0])) is list:
            columns = whole_numbers(key[1])
            if type(columns) is list:
                return cells.op("elements", self, whole_numbers(key[0]), columns)
            return self[key[0]][:, key[1]]
        if type(found) is not list:
            return cells.op("__getitem__", self, key if found is None else found)
        if not found:
            return torch.zeros(0, *self.shape[1:])
        size = self.shape[0]
        if any(not -size <= i < size for i in found):
            raise IndexError(f"index {found} is out of bounds for dimension 0 with size {size}")
        return cells.op("gathered", self, *found)

    return item


def _argmax(made: Any, size: torch.Size) -> Any:
    own, alike = made._asked, math.prod(size) == max(size, default=1)

    @cache
    def after(*how: Any) -> tuple[tuple[int, ...], list[int]]:
        shape = shape_after("argmax", size, *how)
        n = math.prod(shape)
        return shape, [0] * n if n == math.prod(size) else []  # of single elements: 0

    def argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        self.cells.waits()
        if not alike or WEIGHING:
            numbers = real(self)
            weigh(numbers, dim)
            return as_stand_in(numbers.argmax(dim, keepdim))
        shape, zeros = after(dim, keepdim)
        return Ints(zeros[:] or [own(self, None)], shape)

    return argmax
