"""Deciding how a cell's variables lie in memory: the layout planner of `abw.pqtree`, asked about a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.cell.batches import Batches
from abw.core.cell.layout import Arrangement
from abw.core.cell.normal import NormalCell, size_of
from abw.core.ir.network import LayoutName
from abw.pqtree import Layout, Status, declared_layout, paper_layout, plan_layout

SCRATCH = -1
# Seconds after which the search keeps what it has; cells that have an ideal layout need no search.
SEARCH = 0.25


@dataclass(frozen=True, slots=True)
class CellLayout:
    """A cell's layout problem and its solution.

    `variables[i]` is the value that the planner's variable i is. `operands[b]` are the operands of batch b
    (0 for its result, then its sources) that the planner was asked about: not those that are static, nor
    those that read slices, which lie in other variables. `moved`: the inputs copied to the scratch memory.
    """

    variables: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    moved: frozenset[int]
    layout: Layout


def solve(normal: NormalCell, batches: Batches, how: LayoutName = "planned") -> CellLayout:
    """Lay out what a cell computes with.

    An output lies where the node's results go, an input where the graph has it; the planner moves inputs that
    a batch reads side by side with other values to the scratch memory. Static values follow: they are packed
    once in whatever order the lanes have, so they need no place in the problem. Strides serve the operands
    that are left. Cost: 1 to 4 ms for a cell of 30 operations; nothing is compiled.
    """
    rows: list[list[tuple[int, ...]]] = []
    kept: list[tuple[int, ...]] = []
    for lanes in batches:
        operands = [lanes, *zip(*(normal.arguments(v) for v in lanes), strict=True)]
        whole = tuple(
            k
            for k, operand in enumerate(operands)
            if all(normal.root[v] == v and not normal.static[v] for v in operand)
        )
        rows.append([operands[k] for k in whole])
        kept.append(whole)
    variables = (*range(len(normal.cell.inputs)), *(v for lanes in batches for v in lanes))
    if how != "planned":
        return CellLayout(
            variables, tuple(kept), frozenset(), _plan(normal, rows, variables, frozenset(), how)
        )
    wanted, moved = None, _side_by_side(normal, rows)
    while wanted != moved:
        # an input that gains nothing by moving stays where it is, which moves the others
        wanted = moved
        layout = _plan(normal, rows, variables, wanted, how)
        moved = frozenset(
            variables[v]
            for operands in layout.operands
            for operand in operands
            if len(set(operand.variables)) > 1 and operand.status is not Status.COPIED
            for v in operand.variables
            if variables[v] in wanted
        )
    return CellLayout(variables, tuple(kept), moved, layout)


def _plan(
    normal: NormalCell,
    rows: Sequence[Sequence[Sequence[int]]],
    variables: Sequence[int],
    moved: frozenset[int],
    how: LayoutName,
) -> Layout:
    cell = normal.cell
    outside = {value for _, value in cell.outputs} | (set(range(len(cell.inputs))) - moved)
    number = {value: i for i, value in enumerate(variables)}
    sizes = [4 * size_of(cell.shape_of(v)) for v in variables]
    arenas = [v if v in outside else SCRATCH for v in variables]
    problem = [[[number[v] for v in operand] for operand in batch] for batch in rows]
    if how == "paper":
        return paper_layout(sizes, problem, arenas=arenas)
    if how == "declared":
        return declared_layout(sizes, problem, arenas=arenas)
    layout = plan_layout(sizes, problem, arenas=arenas, strided=True, time_limit=0)
    # trying the operands once is enough where strides serve those that are left
    if layout.gap:
        layout = plan_layout(sizes, problem, arenas=arenas, strided=True, time_limit=SEARCH)
    return layout


def arrange(normal: NormalCell, batches: Batches, how: LayoutName = "planned") -> Arrangement:
    """The lane orders and positions that a cell's program is made from."""
    solved = solve(normal, batches, how)
    ordered = tuple(
        tuple(lanes[lane] for lane in order)
        for lanes, order in zip(batches, solved.layout.lanes, strict=True)
    )
    outputs = {value for _, value in normal.cell.outputs}
    inside = solved.moved.union(v for lanes in batches for v in lanes) - outputs
    position = [-1] * len(normal.static)
    for rank, value in enumerate(
        v for v in (solved.variables[s] for s in solved.layout.order) if v in inside
    ):
        position[value] = rank
    return Arrangement(ordered, tuple(position))


def _side_by_side(normal: NormalCell, rows: Sequence[Sequence[Sequence[int]]]) -> frozenset[int]:
    """The inputs that some batch reads together with other values."""
    return frozenset(
        value
        for batch in rows
        for operand in batch
        if len(set(operand)) == len(operand) > 1
        for value in operand
        if value < len(normal.cell.inputs)
    )
