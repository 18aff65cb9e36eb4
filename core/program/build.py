"""Nets of objects: libraries without a file, and types that are added while programs run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.ir.cell import Cell, Param, Shape
from abw.core.ir.model import NOWHERE, Library, Reduction, Table, library_of, with_type
from abw.core.program.load import OVERRIDES
from abw.core.program.net import TAKEN, Net
from abw.core.program.recording.recorder import Call
from abw.core.program.recording.values import BITS, Value

# A size, by its number or a dim's name; several are a shape.
Size = int | str
Sizes = Size | Sequence[Size]


def library(
    name: str,
    *,
    dims: Mapping[str, int] | None = None,
    tables: Mapping[str, tuple[int, Sizes]] | None = None,
    params: Mapping[str, Sizes] | None = None,
) -> Library:
    """Make a library without a file: `abw.cells(library)` makes a net of it, and `@net.cell` its cells.

    `dims`: sizes by name. `tables`: of each its number of rows, and the size or shape of a row. `params`: the
    sizes or shapes of parameters that are values. Errors: AbwError for what is no size or no usable name.

        net = abw.cells(abw.library("reader", dims={"hidden": 64}, tables={"words": (1000, "hidden")}))
    """
    said = OVERRIDES.get().dims
    known = {**(dims or {}), **{dim: size for dim, size in said.items() if dim in (dims or {})}}
    for each in (*(tables or {}), *(params or {})):
        if not each.isidentifier() or each.startswith("_") or each in TAKEN:
            raise AbwError(f"'{each}' cannot be called", hint="an identifier that a net has not taken")
    if both := {*(tables or {})} & {*(params or {})}:
        raise AbwError(f"'{min(both)}' is both a table and a parameter", hint="rename one of them")
    made = []
    for table, (rows, sizes) in (tables or {}).items():
        made.append(Table(table, _size(rows, known), _shape(sizes, known), None, None, NOWHERE))
    own = [Param(param, _shape(sizes, known)) for param, sizes in (params or {}).items()]
    return library_of(name, dims=known, tables=made, params=own)


def _shape(sizes: Sizes, dims: Mapping[str, int]) -> Shape:
    return tuple(_size(size, dims) for size in ([sizes] if isinstance(sizes, int | str) else sizes))


def _size(size: Size, dims: Mapping[str, int]) -> int:
    if isinstance(size, str):
        if size not in dims:
            raise AbwError(f"there is no dim '{size}'", hint=did_you_mean(size, tuple(dims)))
        size = dims[size]
    if size < 1:
        raise AbwError(f"{size} is not a size", hint="1 or more")
    return size


# For those who make cells and values by themselves, also while programs run.


def add_type(net: Net, cell: Cell, params: Sequence[int | Param] = ()) -> int:
    """Add a type to a net, also while programs run; returns its number. Earlier values stay valid.

    It is called by `net.NAME`, with the cell's name, and by what `callable_type` gives. `params`: see
    `with_type`. Kernels are compiled once something is computed; what the run has computed already is
    computed again then. Errors: AbwError during a run for a type of more outputs than there is room for.
    """
    return net._extend(with_type(net.library, cell, params))


def value_class(net: Net, shape: Shape) -> type[Value]:
    """Make one more class of a net's values of a shape; attributes may be added to it.

    A value of another class has the same handle, `ref`. Errors: AbwError if no cell has such a value.
    """
    if shape not in net._values:
        raise AbwError(f"no cell has a value of shape {list(shape)}")
    return net._session.recorder.value_class(net._session, shape)


def kind_of_shape(net: Net, shape: Shape) -> int:
    """The low bits of the handles of a net's values of a shape."""
    return net._kind[shape]


def callable_type(
    net: Net,
    number: int,
    inputs: Sequence[type[Value]],
    outputs: Sequence[type[Value]],
    otherwise: Callable[[Sequence[object]], Any],
) -> Call:
    """Make a function that records calls of a type, with these classes of arguments and results.

    `otherwise` gets the arguments of a call that are not all of these classes; the call gives what it gives,
    or raises what it raises. Raises ValueError for classes of other shapes than the type's.
    """
    made = net.library.types[number]
    assert made.cell is not None
    wanted = [port.shape for port in (*made.cell.inputs, *made.outputs)]
    if [each.shape for each in (*inputs, *outputs)] != wanted:
        raise ValueError(f"the classes are not of the shapes of {made.name}: {wanted}")
    callee = net._callee(number, inputs, outputs)
    return net._session.recorder.callable_cell(callee, lambda _, arguments: otherwise(arguments))


def callable_reduction(net: Net, reduction: Reduction, input: type[Value], output: type[Value]) -> Call:
    """Make a function that records reductions of lists of values of a class, and gives one of another.

    Its type is added to the net if it is new. Raises ValueError for classes of several shapes.
    """
    return net._reductions.callable(reduction, input, output)


def stack_inputs(net: Net, stack: Callable[[Sequence[Any]], NDArray[np.float32]]) -> None:
    """Set the function that makes an array (n, *shape) of n objects given to `input_handle`."""
    net._session.inputs.stack = stack


def input_handle(net: Net, shape: Shape, given: object) -> int:
    """Return the handle of a value that is given as an object of the instance.

    All objects of a shape are stacked together when something is computed; nothing is checked before.
    Errors: AbwError where no program runs, or no cell has such a value.
    """
    if net._session.runner is None:
        net._session.refuse_idle()
    if shape not in net._inputs:
        raise AbwError(f"no cell has a value of shape {list(shape)}")
    constant = net._inputs[shape]
    row = net._session.inputs.later(constant, given)
    return (-1 - constant.first - row << BITS) + net._kind[shape]
