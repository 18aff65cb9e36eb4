"""Pictures of memory: the order of a cell's variables, its PQ-tree, and a plan's arenas over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abw.core.cell.batches import batch_operations
from abw.core.cell.layout import STATUS_NAMES, Arrangement
from abw.core.cell.normal import normalise, size_of
from abw.core.cell.program import CellProgram, Operand, assemble, cell_program
from abw.core.graph.graph import Graph
from abw.core.graph.network import Network
from abw.core.plan.plan import plan
from abw.core.policy.schedule import Schedule
from abw.core.spec.cell import Cell
from abw.viz.pictures import (
    ArenaBlock,
    ArenaPicture,
    CellBatchView,
    MemoryPicture,
    OperandView,
    Ordering,
    Variable,
)

SIGNS = {"matmul": "@", "add": "+", "sub": "-", "mul": "*", "div": "/"}


def memory_pictures(network: Network) -> tuple[MemoryPicture, ...]:
    """One picture for each cell of a network, in the order of its types."""
    types: dict[Cell, list[str]] = {}
    for t in network.types:
        if t.cell is not None:
            types.setdefault(t.cell, []).append(t.name)
    return tuple(memory_picture(cell, tuple(names)) for cell, names in types.items())


def memory_picture(cell: Cell, types: tuple[str, ...] = ()) -> MemoryPicture:
    """A cell's memory before and after planning. Cost: milliseconds."""
    program = cell_program(cell)
    return MemoryPicture(cell.name, types, _ordering(_declared(cell)), _ordering(program))


def _declared(cell: Cell) -> CellProgram:
    """The program of a cell whose variables lie in the order of their definition."""
    normal = normalise(cell)
    outputs = {value for _, value in normal.cell.outputs}
    position = [-1] * len(normal.static)
    for rank, value in enumerate(v for v in normal.batched if v not in outputs):
        position[value] = rank
    return assemble(normal, Arrangement(batch_operations(normal), tuple(position)))


def _ordering(program: CellProgram) -> Ordering:
    cell = program.cell
    names = value_names(cell)
    inside = sorted((v for v, p in enumerate(program.position) if p >= 0), key=lambda v: program.position[v])
    variables = tuple(
        Variable(names[v], meaning(cell, v, names), size_of(cell.shape_of(v)), v < len(cell.inputs))
        for v in inside
    )

    def view(role: str, operand: Operand) -> OperandView:
        return OperandView(role, tuple(names[v] for v in operand.values), STATUS_NAMES[operand.status])

    batches = tuple(
        CellBatchView(
            batch.op,
            (
                view("result", batch.result),
                *(view(f"source {i}", source) for i, source in enumerate(batch.sources, 1)),
            ),
        )
        for batch in program.batches
    )
    return Ordering(variables, batches, program.copies, program.copied_floats)


def value_names(cell: Cell) -> tuple[str, ...]:
    """A name for every value, no two the same.

    Inputs, parameters and variables have their own; the steps towards variable `i` are `i.1`, `i.2`, ...
    """
    names = [port.name for port in cell.inputs] + [param.name for param in cell.params]
    used = set(names)
    unnamed: list[int] = []
    for op in cell.ops:
        names.append(op.label)
        if not op.label or op.label in used:
            unnamed.append(len(names) - 1)
            continue
        used.add(op.label)
        for step, value in enumerate(unnamed, 1):
            names[value] = f"{op.label}.{step}"
        unnamed.clear()
    for value in unnamed:
        names[value] = f"%{value}"
    return tuple(names)


def meaning(cell: Cell, value: int, names: Sequence[str]) -> str:
    """What computes a value, in a word or two: `Wi @ x`, `sigmoid(i.4)`; an input or parameter is itself."""
    if value < cell.first_op:
        return names[value]
    op = cell.ops[value - cell.first_op]
    arguments = [names[a] for a in op.args]
    if op.name in SIGNS and len(arguments) == 2:
        return f"{arguments[0]} {SIGNS[op.name]} {arguments[1]}"
    if op.name == "constant":
        return f"{op.attr[0]:g}"
    if op.name == "slice":
        return f"{arguments[0]}[{op.attr[0]:g}:{op.attr[1]:g}]"
    return f"{op.name}({', '.join(arguments)})"


def arena_picture(graph: Graph, schedule: Schedule) -> ArenaPicture:
    """Which batch writes which rows of which arena. Cost: that of planning."""
    planned = plan(graph, schedule)
    arenas, types = planned.arenas, graph.network.types
    blocks = []
    for b, o in np.argwhere(planned.base >= 0).tolist():
        t = int(schedule.type[b])
        rows = int(schedule.ptr[b + 1] - schedule.ptr[b])
        arena = int(arenas.output_arena[t, o])
        blocks.append(
            ArenaBlock(arena, b, types[t].name, types[t].outputs[o].name, int(planned.base[b, o]), rows)
        )
    return ArenaPicture(
        arenas.shape,
        tuple(planned.rows.tolist()),
        tuple(arenas.head.tolist()),
        len(schedule),
        tuple(blocks),
    )
