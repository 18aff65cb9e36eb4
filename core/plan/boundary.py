"""Copies between cells: where a consumer wants its inputs other than their producers left them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abw.core.cell.layout import CONTIGUOUS, COPIED
from abw.core.cell.normal import size_of
from abw.core.cell.program import CellProgram, cell_program
from abw.core.graph.network import LayoutName
from abw.core.plan.plan import Plan
from abw.core.plan.whole import WholeGraph
from abw.pqtree import Layout


@dataclass(frozen=True, slots=True)
class Boundary:
    """Memory kernels between the cells of a mini-batch, and the bytes they write.

    `gathers`: operands whose rows are not contiguous. `moved`: contiguous ones that a cell still puts beside
    other variables. `inside`: operands within cells that mix inputs with other values and are copied there.
    """

    gathers: int
    moved: int
    inside: int
    bytes: int

    @property
    def kernels(self) -> int:
        """All of them."""
        return self.gathers + self.moved + self.inside


def boundary(plan: Plan, how: LayoutName) -> Boundary:
    """The copies between the cells of a plan, each cell laid out in this way. Linear in the operands."""
    arenas, types, schedule = plan.arenas, plan.graph.network.types, plan.schedule
    rows, lanes = np.diff(plan.index_ptr), np.diff(schedule.ptr)
    gathers = moved = inside = total = 0
    for b, t in enumerate(schedule.type.tolist()):
        cell = types[t].cell
        program = None if cell is None else cell_program(cell, how)
        for s in range(len(types[t].slots)):
            k = int(plan.operand_ptr[b]) + s
            gathered = plan.status[k] != CONTIGUOUS
            # a list is reduced to where the cell wants it
            if gathered or (program is not None and program.staged[s] and plan.list_ptr[k] < 0):
                gathers += bool(gathered)
                moved += not gathered
                total += int(rows[k]) * int(arenas.row_floats[arenas.slot_arena[t, s]])
        if program is not None:
            copies, floats = _inside(program)
            inside += copies
            total += int(lanes[b]) * floats
    return Boundary(gathers, moved, inside, 4 * total)


def _inside(program: CellProgram) -> tuple[int, int]:
    """The copies of operands that mix inputs with other values, and their floats a lane."""
    inputs = len(program.cell.inputs)
    copied = [
        len(operand.values) * size_of(program.cell.shape_of(operand.values[0]))
        for batch in program.batches
        for operand in batch.operands
        if operand.status == COPIED and min(operand.values) < inputs
    ]
    return len(copied), sum(copied)


def planned_boundary(plan: Plan, whole: WholeGraph, layout: Layout) -> Boundary:
    """The same with the values of the mini-batch in a layout of the whole graph, and the plan's schedule.

    Operands that read words or initial states, and those of reductions, are as in the plan. A result that is
    copied is a gather like any other; an input that a cell wants beside others is still put there.
    """
    arenas, types, schedule = plan.arenas, plan.graph.network.types, plan.schedule
    gathers = moved = total = 0
    for b, t in enumerate(schedule.type.tolist()):
        program = arenas.programs[t]
        laid = iter(layout.operands[b])
        for _ in types[t].outputs:
            operand = next(laid)
            gathers += operand.moved > 0
            total += operand.moved
        for s in range(len(types[t].slots)):
            k = int(plan.operand_ptr[b]) + s
            size = (
                int(np.diff(plan.index_ptr[k : k + 2])[0])
                * 4
                * int(arenas.row_floats[arenas.slot_arena[t, s]])
            )
            if program is None or s in whole.fixed[b]:
                gathered = bool(plan.status[k] != CONTIGUOUS)
            else:
                gathered = next(laid).moved > 0
            if gathered or (program is not None and program.staged[s] and plan.list_ptr[k] < 0):
                gathers += gathered
                moved += not gathered
                total += size
    return Boundary(gathers, moved, 0, total)
