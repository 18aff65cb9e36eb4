"""A library as a network, in which a value may flow into any slot of its shape; its tables as programs read
them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.data.intern import hashed
from abw.core.data.tensors import TRAINING, VOCABULARY, read_tensors
from abw.core.ir.cell import Port, Shape
from abw.core.ir.model import Library, NodeType, Table
from abw.core.ir.network import LISTED, Constant, NetType, Network, Slot
from abw.core.program.recording.values import Value

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


# Rows of a table that are kept as values once they were asked for.
MOST_KEPT = 1 << 20


@cache
def _hashed(weights: Path, table: str) -> bool:
    """Whether a program was trained to these weights, whose words had the rows of their hashes."""
    names = read_tensors(weights).tensors
    return any(name.startswith(TRAINING) for name in names) and f"{VOCABULARY}{table}" not in names


class Rows(dict[Any, Value]):
    """A table: `table[row]` is a row as a value, by its number or a word.

    A word's row is what the vocabulary says, without one its hash modulo the rows, as in a spec. As a dict it
    has the rows that were asked for.
    """

    def __init__(self, table: Table, make: Callable[[int], Value], weights: Path | None) -> None:
        """`weights`: the file that has the rows, None where they are drawn."""
        super().__init__()
        self._table, self._make, self._weights = table, make, weights

    def __missing__(self, key: object) -> Value:
        table = self._table
        if isinstance(key, str):
            row = self._word(key)
        else:
            try:
                row = operator.index(key)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(f"a row of table '{table.name}' is a number or a word, not {key!r}") from None
            if not 0 <= row < table.rows:
                hint = f"rows are 0 to {table.rows - 1}"
                raise AbwError(f"table '{table.name}' has no row {row}", hint=hint)
        found = self._make(row)
        if len(self) < MOST_KEPT:
            self[key] = found
        return found

    def _word(self, word: str) -> int:
        table = self._table
        if table.vocab is None:
            if self._weights is not None and not _hashed(self._weights, table.name):
                message = f"table '{table.name}' has weights, but no vocabulary that gives words their rows"
                raise AbwError(message, hint="name the words it was trained with: vocab: words.txt")
            return int(hashed([word], table.rows)[0])
        row = table.vocab.rows.get(word, table.unknown)
        if row is None:
            hint = "unknown: WORD in the table sets the row of all other words"
            raise AbwError(f"'{word}' is not a word of table '{table.name}'", hint=hint)
        return row
