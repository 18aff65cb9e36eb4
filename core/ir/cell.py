"""A cell: a small fixed dataflow over vectors and matrices, as a program in single-assignment form."""

from __future__ import annotations

from dataclasses import dataclass, replace

# `()` is a constant number, `(n,)` a vector, `(rows, columns)` a matrix.
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Port:
    """A named value with its shape: a cell's input, parameter or output."""

    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a cell. `init` is a constant, or None: drawn from the seed by fan-in, a vector zero."""

    name: str
    shape: Shape
    init: float | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the table (`operations.py`); `args` are value numbers smaller than its own.

    `attr`: a constant's numbers, row after row; a slice's start and stop; of others what
    `shapes.py` makes of the numbers written with them. `label`: the variable it was written to, or
    empty.
    """

    name: str
    args: tuple[int, ...]
    shape: Shape
    attr: tuple[float, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A checked cell with all its sizes known.

    Values are numbered: first the inputs, then the parameters, then one for each operation, in an order
    in which every argument comes before its use. `outputs` name values of operations (a spec's do, and what
    is made of them); no two are the same value.
    """

    name: str
    inputs: tuple[Port, ...]
    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    outputs: tuple[tuple[str, int], ...]

    def shape_of(self, value: int) -> Shape:
        """The shape of a value, by its number."""
        for ports in (self.inputs, self.params):
            if value < len(ports):
                return ports[value].shape
            value -= len(ports)
        return self.ops[value].shape

    @property
    def first_op(self) -> int:
        """The value number of the first operation."""
        return len(self.inputs) + len(self.params)

    @property
    def output_ports(self) -> tuple[Port, ...]:
        """The outputs with their shapes."""
        return tuple(Port(name, self.shape_of(value)) for name, value in self.outputs)


def without_dead(cell: Cell) -> Cell:
    """Keep the operations that an output needs, numbered anew. Cost: linear in the operations."""
    needed = {value for _, value in cell.outputs}
    for value in range(cell.first_op + len(cell.ops) - 1, cell.first_op - 1, -1):
        if value in needed:
            needed.update(cell.ops[value - cell.first_op].args)
    number = {value: value for value in range(cell.first_op)}
    ops: list[Op] = []
    for value, op in enumerate(cell.ops, cell.first_op):
        if value in needed:
            number[value] = cell.first_op + len(ops)
            ops.append(replace(op, args=tuple(number[a] for a in op.args)))
    outputs = tuple((name, number[value]) for name, value in cell.outputs)
    return replace(cell, ops=tuple(ops), outputs=outputs)
