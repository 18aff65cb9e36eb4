"""Pictures of memory: the order of a cell's variables, its PQ-tree, and a plan's arenas over time."""

from __future__ import annotations

import numpy as np

from abw.core.cell.arrange import solve
from abw.core.cell.batches import batch_operations
from abw.core.cell.layout import STATUS_NAMES
from abw.core.cell.names import meaning, value_names
from abw.core.cell.normal import normalise, size_of
from abw.core.cell.program import CellProgram, Operand, cell_program
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.ir.network import Network
from abw.core.plan.plan import plan
from abw.core.policy.launches import by_type
from abw.core.policy.schedule import Schedule
from abw.pqtree import shape
from abw.viz.data.pictures import (
    ArenaBlock,
    ArenaPicture,
    CellBatchView,
    MemoryPicture,
    OperandView,
    Ordering,
    TreePicture,
    Variable,
)


def memory_pictures(network: Network) -> tuple[MemoryPicture, ...]:
    """One picture for each cell of a network, in the order of its types."""
    types: dict[Cell, list[str]] = {}
    for t in network.types:
        if t.cell is not None:
            types.setdefault(t.cell, []).append(t.name)
    return tuple(memory_picture(cell, tuple(names)) for cell, names in types.items())


def memory_picture(cell: Cell, types: tuple[str, ...] = ()) -> MemoryPicture:
    """A cell's memory before and after planning. Cost: milliseconds."""
    before, after = (_ordering(cell_program(cell, how)) for how in ("declared", "planned"))
    return MemoryPicture(cell.name, types, before, after)


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


def arena_picture(graph: Graph, schedule: Schedule) -> ArenaPicture:
    """Which batch writes which rows of which arena, groups of types apart. Cost: that of planning."""
    planned = plan(graph, by_type(schedule, graph.dag))
    schedule = planned.schedule
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
        tuple(t.name for t in types),
        tuple(blocks),
    )


def tree_picture(cell: Cell) -> TreePicture:
    """The tree that the planner ended with, of the variables in scratch memory alone. Cost: milliseconds."""
    program, normal = cell_program(cell), normalise(cell)
    solved = solve(normal, batch_operations(normal))
    inside = [slot for slot in solved.layout.order if program.position[solved.variables[slot]] >= 0]
    names = value_names(program.cell)
    code = _in_order(shape.prune(shape.from_text(solved.layout.tree), inside))
    return TreePicture(cell.name, shape.to_text(code), tuple(names[solved.variables[s]] for s in inside))


def _in_order(code: shape.Code) -> shape.Code:
    """A tree with its leaves renamed from 0 on, which must be one of its orders."""
    children = shape.children_of(code)  # from the last node to the first: each after its children
    first = {at: token for at, token in enumerate(code) if token >= 0}
    for at, below in children.items():
        below.sort(key=first.__getitem__)  # of a Q-node this is its order or the reverse
        first[at] = first[below[0]]
    return tuple(code[at] for at in shape.walk(children)) if code else ()
