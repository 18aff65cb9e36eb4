"""Granularity `op`: every operation of every cell is a node, as in DyNet without static subgraphs.

A network of cells becomes one whose types are single operations; operations with the same name, shapes and
parameters are one type, whatever cell they come from. A table's row is looked up by a node of its own, and
a reduction is a node for each of its outputs. Attention is one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.data.links import ranges
from abw.core.graph.dag import Dag, Reads
from abw.core.graph.edges import consumers
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell, Op, Param, Port, Shape
from abw.core.ir.model import Attention
from abw.core.ir.network import NetType, Network, Slot, order_of

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class OpNode:
    """One node that a cell's node becomes: its type, and its arguments.

    An argument (True, s) is the cell's slot s, (False, j) the result of step j.
    """

    type: int
    args: tuple[tuple[bool, int], ...]


@dataclass(frozen=True, slots=True)
class Expansion:
    """What the nodes of one cell type become; output o is step `outputs[o]`'s result.

    `lookups[s]` is, for each slot, the lookup types by the number of the constant (a table) they read.
    """

    steps: tuple[OpNode, ...]
    outputs: tuple[int, ...]
    lookups: tuple[dict[int, int], ...]


@dataclass(frozen=True, slots=True)
class OpNetwork:
    """A network of operations, and how each type of the network of cells becomes part of it.

    `order`: see `order_of`.
    """

    network: Network
    templates: tuple[Expansion, ...]
    order: Ints | None


def op_network(cells: Network) -> OpNetwork:
    """Split a network of cells into operations. Cost: linear in the cells' operations and flows."""
    types: dict[object, int] = {}
    built: list[NetType] = []

    def number_of(key: object, net_type: NetType) -> int:
        if key not in types:
            types[key] = len(built)
            built.append(net_type)
        return types[key]

    templates = tuple(_template(t, cells, number_of) for t in cells.types)
    producers: list[list[set[tuple[int, int]]]] = [[set() for _ in t.slots] for t in built]
    constants: list[list[set[int]]] = [[set(s.constants) for s in t.slots] for t in built]
    for t, template in zip(cells.types, templates, strict=True):
        for step in template.steps:
            for slot, (is_slot, number) in enumerate(step.args):
                if not is_slot:
                    producers[step.type][slot].add((template.steps[number].type, 0))
                    continue
                source = t.slots[number]
                for p, o in source.producers:
                    producers[step.type][slot].add((templates[p].steps[templates[p].outputs[o]].type, 0))
                lookups = template.lookups[number]
                producers[step.type][slot].update((lookup, 0) for lookup in lookups.values())
                constants[step.type][slot].update(c for c in source.constants if c not in lookups)
    filled = tuple(
        replace(
            t,
            slots=tuple(
                Slot(s.name, s.shape, tuple(sorted(producers[n][i])), tuple(sorted(constants[n][i])))
                for i, s in enumerate(t.slots)
            ),
        )
        for n, t in enumerate(built)
    )
    outputs = tuple(
        (name, tuple((templates[t].steps[templates[t].outputs[o]].type, 0) for t, o in pairs))
        for name, pairs in cells.outputs
    )
    network = replace(cells, granularity="op", types=filled, outputs=outputs, width=1)
    return OpNetwork(network, templates, order_of(network))


def _template(t: NetType, cells: Network, number_of: Callable[[object, NetType], int]) -> Expansion:
    if isinstance(t.reduction, Attention):
        slots = tuple(Slot(s.name, s.shape, (), ()) for s in t.slots)
        name = f"{t.reduction}({', '.join(_show(s.shape) for s in slots)})"
        number = number_of((t.reduction, slots), NetType(name, None, t.reduction, slots, t.outputs, ()))
        args = tuple((True, s) for s in range(len(slots)))
        return Expansion((OpNode(number, args),), (0,), tuple({} for _ in slots))
    if t.reduction:
        steps = []
        for number, port in enumerate(t.outputs):
            slot = Slot("x", port.shape, (), ())
            name = f"{t.reduction}({_show(port.shape)})"
            reduced = NetType(name, None, t.reduction, (slot,), (Port("y", port.shape),), ())
            steps.append(OpNode(number_of((t.reduction, port.shape), reduced), ((True, number),)))
        return Expansion(tuple(steps), tuple(range(len(steps))), tuple({} for _ in t.slots))
    assert t.cell is not None
    lookups = tuple(
        {
            c: number_of(("lookup", cells.constants[c].number), _lookup(cells, c))
            for c in slot.constants
            if cells.constants[c].kind == "table"
        }
        for slot in t.slots
    )
    cell, steps, step_of = t.cell, [], {}
    for offset, op in enumerate(cell.ops):
        if op.name == "constant":
            continue
        step_of[cell.first_op + offset] = len(steps)
        key, net_type = _single(op, cell, t.params, cells)
        args = tuple(
            (True, a) if a < len(cell.inputs) else (False, step_of[a]) for a in op.args if _is_value(a, cell)
        )
        steps.append(OpNode(number_of(key, net_type), args))
    return Expansion(tuple(steps), tuple(step_of[value] for _, value in cell.outputs), lookups)


def _is_value(value: int, cell: Cell) -> bool:
    """Whether a value is computed at each node: neither a parameter nor a written number."""
    if value < cell.first_op:
        return value < len(cell.inputs)
    return cell.ops[value - cell.first_op].name != "constant"


def _single(op: Op, cell: Cell, params: tuple[int, ...], cells: Network) -> tuple[object, NetType]:
    """One operation as a cell of its own, with the key that says which others it can be batched with."""
    inputs: list[Port] = []
    used: list[Param] = []
    numbers: list[int] = []
    constants: list[Op] = []
    places: list[tuple[str, int]] = []
    shown: list[str] = []
    for a in op.args:
        if _is_value(a, cell):
            places.append(("input", len(inputs)))
            inputs.append(Port(f"x{len(inputs)}", cell.shape_of(a)))
            shown.append(_show(inputs[-1].shape))
        elif a < cell.first_op:
            places.append(("param", len(used)))
            used.append(Param(f"p{len(used)}", cell.shape_of(a)))
            numbers.append(params[a - len(cell.inputs)])
            shown.append(cells.params[numbers[-1]].name)
        else:
            places.append(("constant", len(constants)))
            constants.append(cell.ops[a - cell.first_op])
            shown.append("constant" if constants[-1].shape else f"{constants[-1].attr[0]:g}")
    first = {"input": 0, "param": len(inputs), "constant": len(inputs) + len(used)}
    args = tuple(first[kind] + index for kind, index in places)
    attr = f"[{':'.join(f'{a:g}' for a in op.attr)}]" if op.attr else ""
    name = f"{op.name}{attr}({', '.join(shown)})"
    ops, result = (*constants, replace(op, args=args, label="y")), len(inputs) + len(used) + len(constants)
    single = Cell(name, tuple(inputs), tuple(used), ops, (("y", result),))
    slots = tuple(Slot(i.name, i.shape, (), ()) for i in inputs)
    net_type = NetType(name, single, None, slots, (Port("y", op.shape),), tuple(numbers))
    key = (op.name, op.attr, tuple(places), tuple(i.shape for i in inputs), tuple(numbers), tuple(constants))
    return key, net_type


def _lookup(cells: Network, constant: int) -> NetType:
    """A node that reads one row of a table."""
    read = cells.constants[constant]
    name = f"lookup({cells.tables[read.number].name})"
    copy = Op("identity", (0,), read.shape, label="y")
    cell = Cell(name, (Port("x", read.shape),), (), (copy,), (("y", 1),))
    return NetType(name, cell, None, (Slot("x", read.shape, (), (constant,)),), (Port("y", read.shape),), ())


def _show(shape: Shape) -> str:
    return "x".join(str(n) for n in shape)


class _Block(NamedTuple):
    """The nodes of operation `type` that nodes `origin` of one type of cells become, by one of its steps; or
    that look up rows of a `constant` (else -1) for one of its slots.
    """

    type: int
    cell: int
    place: int
    constant: int
    origin: Ints


def expand(graph: Graph, ops: OpNetwork) -> Graph:
    """The graph of a mini-batch with a node for each operation of its cells. Linear in nodes and operands."""
    cells, network = graph.network, ops.network
    blocks = sorted(_blocks(graph, ops), key=lambda block: block.type)
    ends = np.cumsum([len(block.origin) for block in blocks], dtype=np.int32)
    first = {b[1:4]: end - len(b.origin) for b, end in zip(blocks, ends.tolist(), strict=True)}
    value = np.zeros(max(len(graph) * cells.width, 1), np.int32)  # one, where all results are constants

    def made(t: int, place: int, constant: int, count: int) -> Ints:
        return np.arange(count, dtype=np.int32) + np.int32(first[t, place, constant])

    for t, template in enumerate(ops.templates):
        nodes = _nodes(graph, t)
        for o, step in enumerate(template.outputs):
            value[nodes * cells.width + o] = made(t, step, -1, len(nodes))

    def translate(references: Ints) -> Ints:
        return np.where(references >= 0, value[np.maximum(references, 0)], references).astype(np.int32)

    @cache
    def fed(t: int, slot: int) -> Ints:
        """What each node of a type reads in a slot."""
        nodes = _nodes(graph, t)
        column = translate(_operands(graph, t).reshape(len(nodes), len(cells.types[t].slots))[:, slot])
        for block in blocks:
            if block[1:3] == (t, slot) and block.constant >= 0:
                column[block.origin - nodes[:1]] = made(*block[1:4], len(block.origin))
        return column

    def read(block: _Block) -> tuple[Ints, Ints]:
        """The operands of a block's nodes, one after the other, and how many each has."""
        t, place, origin = block.cell, block.place, block.origin
        steps = ops.templates[t].steps
        if block.constant >= 0:
            return graph.operand[graph.operand_ptr[origin] + np.int32(place)], np.ones(len(origin), np.int32)
        if cells.types[t].reduction:
            sizes = np.diff(graph.operand_ptr[graph.type_ptr[t] : graph.type_ptr[t + 1] + 1])
            if len(steps) == 1:
                return translate(_operands(graph, t)), sizes
            sizes = sizes // np.int32(len(cells.types[t].slots))
            return translate(graph.operand[ranges(graph.operand_ptr[origin] + place * sizes, sizes)]), sizes
        columns = [
            fed(t, number) if is_slot else made(t, number, -1, len(origin))
            for is_slot, number in steps[place].args
        ]
        flat = np.stack(columns, axis=1).ravel() if columns else np.empty(0, np.int32)
        return flat, np.full(len(origin), len(columns), np.int32)

    operands, sizes = zip(*map(read, blocks), strict=True)
    operand, origin = np.concatenate(operands), np.concatenate([block.origin for block in blocks])
    operand_ptr = np.zeros(len(origin) + 1, np.int32)
    np.cumsum(np.concatenate(sizes), out=operand_ptr[1:])
    types, counts = [b.type for b in blocks], [len(b.origin) for b in blocks]
    type_of = np.repeat(np.array(types, np.int32), counts)
    per_type = np.bincount(types, weights=counts, minlength=len(network.types))
    type_ptr = np.append(0, np.cumsum(per_type)).astype(np.int32)
    slots = np.array([len(t.slots) for t in network.types], np.int32)
    lists = np.array([t.reduction is not None for t in network.types])
    every = np.tile(np.arange(max(slots, default=0), dtype=np.int32), (len(slots), 1))
    find = partial(consumers, type_ptr, slots, lists, every, operand_ptr, operand, 0)
    dag = Dag(tuple(t.name for t in network.types), type_of, find, ops.order, Reads(operand_ptr, operand, 0))
    results = tuple(replace(r, reference=translate(r.reference)) for r in graph.results)
    whose = graph.vertex[origin], graph.instance[origin], results, graph.instances
    return Graph(network, type_ptr, *whose, dag, operand_ptr, operand, given=graph.given)


def _nodes(graph: Graph, t: int) -> Ints:
    return np.arange(graph.type_ptr[t], graph.type_ptr[t + 1], dtype=np.int32)


def _operands(graph: Graph, t: int) -> Ints:
    """What the nodes of a type read."""
    return graph.operand[slice(*graph.operand_ptr[graph.type_ptr[t : t + 2]].tolist())]


def _blocks(graph: Graph, ops: OpNetwork) -> Iterator[_Block]:
    """What each type's nodes become: the lookups of its slots, then its steps."""
    for t, template in enumerate(ops.templates):
        nodes = _nodes(graph, t)
        for slot, lookups in enumerate(template.lookups):
            for number, lookup in lookups.items():
                constant = graph.network.constants[number]
                read = _operands(graph, t).reshape(len(nodes), len(template.lookups))[:, slot]
                index = -1 - read.astype(np.int64) - constant.first
                yield _Block(lookup, t, slot, number, nodes[(index >= 0) & (index < constant.rows)])
        for j, step in enumerate(template.steps):
            yield _Block(step.type, t, j, -1, nodes)
