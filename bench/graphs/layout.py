"""Copies between the cells of real mini-batches: where a consumer wants its inputs other than they lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from abw.bench.graphs.planted import planted_rows
from abw.bench.options import SPECS, Batch, DataDir, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.workloads import CASES, Case, open_case

if TYPE_CHECKING:
    from abw.core.cell.program import CellProgram
    from abw.core.ir.network import LayoutName
    from abw.core.plan.plan import Plan


def layout(data: DataDir, specs: SpecsDir = SPECS, batch: Batch = 64) -> Rows:
    """Count copies between cells before and after planning, and plan programs with a hidden order and noise.

    Counts use the first instances and the policy sufficient; the programs have 50 to 300 variables and 10
    to 30 % noise, eight of each, with at most 1.9 s each.
    """
    for chosen in CASES:
        planned, batches = _planned(chosen, specs, data, batch)
        before, after = boundary(planned, "declared"), boundary(planned, "planned")
        yield Row(
            "copies between cells",
            workload=chosen.name,
            batches=batches,
            kernels_before=before.kernels,
            before_bytes=before.bytes,
            kernels_after=after.kernels,
            after_bytes=after.bytes,
        )
    for noise in (0.1, 0.2, 0.3):
        yield from planted_rows([50, 100, 200, 300], noise=noise, seeds=8, time_limit=1.9)


def _planned(chosen: Case, specs: Path, data: Path, batch: int) -> tuple[Plan, int]:
    """A workload's first mini-batch, and its number of batches."""
    from abw.core.plan.plan import plan
    from abw.core.policy.rules.sufficient import Sufficient

    graph = open_case(chosen, specs, data, batch).graph(0, batch)
    schedule = Sufficient().schedule(graph.dag)
    return plan(graph, schedule), len(schedule)


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
        """All memory kernels between the cells."""
        return self.gathers + self.moved + self.inside


def boundary(plan: Plan, how: LayoutName) -> Boundary:
    """The copies between the cells of a plan, each cell laid out in this way. Linear in the operands."""
    from abw.core.cell.layout import CONTIGUOUS
    from abw.core.cell.program import cell_program

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
    from abw.core.cell.layout import COPIED
    from abw.core.cell.normal import size_of

    inputs = len(program.cell.inputs)
    copied = [
        len(operand.values) * size_of(program.cell.shape_of(operand.values[0]))
        for batch in program.batches
        for operand in batch.operands
        if operand.status == COPIED and min(operand.values) < inputs
    ]
    return len(copied), sum(copied)
