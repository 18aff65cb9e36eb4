"""Libraries made of objects instead of a file; types are added behind those that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from abw.core.base.errors import Span
from abw.core.ir.cell import Cell, Param, Port, Shape
from abw.core.ir.model import Attention, Input, Library, NodeType, Reduction, Table
from abw.core.ir.weights import Weights

NOWHERE = Span("", 0)
# Of attention; other reductions have one input, x.
ATTENDED = ("values", "keys", "query")


def library_of(
    name: str,
    *,
    dims: Mapping[str, int] | None = None,
    tables: Sequence[Table] = (),
    params: Sequence[Param] = (),
    outputs: int = 1,
) -> Library:
    """Make a library without types, whose `params` are all values.

    `outputs`: the most that a type may have which is added while programs run.
    """
    weights = Weights(None, {}, (), None, None)
    given = tuple(range(len(params)))
    return Library(name, (), dims or {}, tuple(tables), tuple(params), given, (), weights, outputs)


def with_type(library: Library, cell: Cell, params: Sequence[int | Param], where: Span = NOWHERE) -> Library:
    """Add a type that is called as its cell is.

    `params`: of each of the cell's, the number in the library's `params`, or a new one.
    """
    new = [each for each in params if isinstance(each, Param)]
    fresh = iter(range(len(library.params), len(library.params) + len(new)))
    numbers = tuple(next(fresh) if isinstance(each, Param) else each for each in params)
    made = NodeType(cell.name, "", frozenset(), (), cell, None, (), cell.output_ports, numbers, where)
    return replace(library, params=(*library.params, *new), types=(*library.types, made))


def with_reduction(library: Library, reduction: Reduction | Attention, shapes: Sequence[Shape]) -> Library:
    """Add a reduction of values of a shape; attention's `shapes` are those of values, keys and query."""
    names = ATTENDED if isinstance(reduction, Attention) else ("x",)
    inputs = tuple(Input(name, shape, (), NOWHERE) for name, shape in zip(names, shapes, strict=True))
    of = ", ".join("x".join(map(str, shape)) for shape in dict.fromkeys(shapes))
    outputs = (Port("y", shapes[0]),)
    made = NodeType(f"{reduction}({of})", "", frozenset(), (), None, reduction, inputs, outputs, (), NOWHERE)
    return replace(library, types=(*library.types, made))
