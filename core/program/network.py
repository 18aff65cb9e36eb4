"""A library as a network, in which a value may flow into any slot of its shape."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.base.errors import AbwError
from abw.core.ir.cell import Port, Shape
from abw.core.ir.model import Library, NodeType
from abw.core.ir.network import LISTED, Constant, NetType, Network, Slot

# Values of one shape that the instances of a mini-batch may bring along: all shapes have to be numbered.
MOST_GIVEN = 1 << 20


def shapes_of(library: Library) -> tuple[Shape, ...]:
    """Return all shapes of values, each once: first of tables and parameters, then of inputs and outputs.

    A type added behind the others adds its shapes behind theirs.
    """
    ports: list[Sequence[Port]] = []
    for t in library.types:
        ports += [_inputs(t), t.outputs]
    tables = [table.shape for table in library.tables]
    given = [library.params[number].shape for number in library.given]
    return tuple(dict.fromkeys([*tables, *given, *(port.shape for some in ports for port in some)]))


def width_of(library: Library) -> int:
    """`Network.width`: a power of two, no smaller than a type's number of outputs."""
    most = max((len(t.outputs) for t in library.types), default=1)
    return 1 << (max(most, library.outputs) - 1).bit_length()


def _inputs(node_type: NodeType) -> Sequence[Port]:
    """What a type reads."""
    if node_type.cell is not None:
        return node_type.cell.inputs
    return [Port(given.name, given.shape) for given in node_type.inputs]


def constants_of(library: Library) -> tuple[Constant, ...]:
    """The tables, the parameters that are values, then zeros and what instances bring along (`InputRows`), of
    each shape in the order of `shapes_of`.

    The references of those that are there stay as they are when types are added. Errors: AbwError for more
    rows than can be numbered.
    """
    kinds = [
        *(("table", n, table.shape, table.rows) for n, table in enumerate(library.tables)),
        *(("param", n, library.params[n].shape, 1) for n in library.given),
    ]
    for number, shape in enumerate(shapes_of(library)):
        kinds += [("zeros", 0, shape, 1), ("field", number, shape, MOST_GIVEN)]
    constants: list[Constant] = []
    first = 0
    for kind, number, shape, rows in kinds:
        constants.append(Constant(kind, number, shape, first, rows))  # type: ignore[arg-type]
        first += rows
    if first > -LISTED:
        raise AbwError("the library's tables have too many rows", hint="fewer rows in tables")
    return tuple(constants)


def library_network(library: Library) -> Network:
    """The network whose types are the library's; one arena a shape. Cost: linear in slots times types."""
    constants = constants_of(library)
    made: dict[Shape, list[tuple[int, int]]] = {}
    for t, node_type in enumerate(library.types):
        for o, port in enumerate(node_type.outputs):
            made.setdefault(port.shape, []).append((t, o))
    rows_of: dict[Shape, list[int]] = {}
    for n, constant in enumerate(constants):
        rows_of.setdefault(constant.shape, []).append(n)
    types = tuple(
        NetType(
            t.name,
            t.cell,
            t.reduction,
            tuple(
                Slot(port.name, port.shape, tuple(made.get(port.shape, ())), tuple(rows_of[port.shape]))
                for port in _inputs(t)
            ),
            t.outputs,
            t.params,
        )
        for t in library.types
    )
    fields = tuple(f"input {list(shape)}" for shape in shapes_of(library))
    return Network(
        library.name,
        "cell",
        types,
        library.params,
        library.tables,
        constants,
        (),
        width_of(library),
        fields=fields,
    )
