"""Hoisting: products that wait for nothing recurrent leave the recurrent cell for a type of their own.

An LSTM cell multiplies the word it reads and the state before it. The first product needs no other step, so
all steps' are computed in one batch beforehand, and the sequential part has half as much to do (the input
projections of cuDNN's recurrent layers; ACRoBat's hoisting, section B.1).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from abw.core.cell.names import value_names
from abw.core.graph.cells import cell_network
from abw.core.ir.cell import Cell, Op, Port
from abw.core.ir.model import Input, Model, NodeSource, NodeType
from abw.core.ir.network import loops_of


@dataclass(frozen=True, slots=True)
class SubCell:
    """A part of a cell as a cell: which of the whole's inputs and parameters it has, in its own order.

    What another part computes for it are further inputs behind `inputs`.
    """

    cell: Cell
    inputs: tuple[int, ...]
    params: tuple[int, ...]


def hoist(model: Model, names: Collection[str] | None = None) -> Model:
    """The model with a type `NAME-hoisted` for each type in a loop that has products to hoist.

    `names`: of those types alone. Types keep their numbers, the new ones come last. The results are the same
    but for rounding; a model with nothing to hoist is returned as it is. Cost: linear in the cells.
    """
    loop = loops_of(cell_network(model)).tolist()
    types: list[NodeType] = list(model.types)
    for number, node_type in enumerate(model.types):
        if node_type.cell is None or loop[number] < 0 or (names is not None and node_type.name not in names):
            continue
        early = [all(loop[p] != loop[number] for p in _producers(i)) for i in node_type.inputs]
        parts = split(node_type.cell, early)
        if parts:
            first, rest = parts
            hoisted = replace(
                _typed(node_type, first), name=f"{node_type.name}-hoisted", outputs=first.cell.output_ports
            )
            read = tuple(
                Input(port.name, port.shape, (NodeSource((), ((len(types), o),)),), node_type.span)
                for o, port in enumerate(first.cell.output_ports)
            )
            late = _typed(node_type, rest)
            types[number] = replace(late, inputs=late.inputs + read)
            types.append(hoisted)
    return replace(model, types=tuple(types)) if len(types) > len(model.types) else model


def _producers(wanted: Input) -> list[int]:
    return [t for s in wanted.sources if isinstance(s, NodeSource) for t, _ in s.producers]


def _typed(node_type: NodeType, part: SubCell) -> NodeType:
    """The type with a part of its cell; what other parts compute for it is not among its inputs yet."""
    return replace(
        node_type,
        cell=part.cell,
        inputs=tuple(node_type.inputs[i] for i in part.inputs),
        params=tuple(node_type.params[i] for i in part.params),
    )


def split(cell: Cell, early: Sequence[bool]) -> tuple[SubCell, SubCell] | None:
    """Part a cell by which of its inputs are there early: what can be computed of these alone, and the rest.

    None if no matrix product is among the first. The first part's outputs are the last inputs of the second.
    """
    start = cell.first_op
    static = [False] * len(cell.inputs) + [True] * len(cell.params)
    given = [*early, *static[len(cell.inputs) :]]
    hoisted = [False] * start  # early values with a product in them: others are cheaper to compute again
    for op in cell.ops:
        static.append(all(static[a] for a in op.args))
        given.append(all(given[a] for a in op.args))
        hoisted.append(
            given[-1] and not static[-1] and (op.name == "matmul" or any(hoisted[a] for a in op.args))
        )
    read = {a for v, op in enumerate(cell.ops, start) if not hoisted[v] for a in op.args}
    read.update(value for _, value in cell.outputs)
    cut = [v for v in range(start, len(hoisted)) if hoisted[v] and v in read]
    if not cut:
        return None
    names = value_names(cell)
    first = _part(cell, [(names[v], v) for v in cut], ())
    rest = _part(cell, cell.outputs, cut)
    return replace(first, cell=replace(first.cell, name=f"{cell.name}-hoisted")), rest


def _part(cell: Cell, outputs: Sequence[tuple[str, int]], given: Collection[int]) -> SubCell:
    """What `outputs` need, where the operations `given` are inputs, behind the cell's own."""
    needed = {value for _, value in outputs}
    for value in range(cell.first_op + len(cell.ops) - 1, cell.first_op - 1, -1):
        if value in needed and value not in given:
            needed.update(cell.ops[value - cell.first_op].args)
    inputs = [i for i in range(len(cell.inputs)) if i in needed]
    params = [p for p in range(len(cell.params)) if p + len(cell.inputs) in needed]
    number: dict[int, int] = {}
    for value in (*inputs, *given, *(p + len(cell.inputs) for p in params)):
        number[value] = len(number)
    ops: list[Op] = []
    for value, op in enumerate(cell.ops, cell.first_op):
        if value in needed and value not in number:
            number[value] = len(number)
            ops.append(replace(op, args=tuple(number[a] for a in op.args)))
    for name, value in outputs:
        if value in given:  # an output is an operation's own, at whatever granularity
            ops.append(Op("identity", (number[value],), cell.shape_of(value), label=name))
            number[value] = len(inputs) + len(given) + len(params) + len(ops) - 1
    names = value_names(cell)
    ports = (*(cell.inputs[i] for i in inputs), *(Port(names[v], cell.shape_of(v)) for v in given))
    return SubCell(
        Cell(
            cell.name,
            ports,
            tuple(cell.params[p] for p in params),
            tuple(ops),
            tuple((name, number[value]) for name, value in outputs),
        ),
        tuple(inputs),
        tuple(params),
    )
