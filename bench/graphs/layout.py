"""Copies between the cells of real mini-batches: where a consumer wants its inputs other than they lie."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abw.bench.graphs.planted import bench_planted
from abw.bench.workloads import CASES, case, open_case
from abw.core.base.progress import Progress

if TYPE_CHECKING:
    from abw.core.cell.program import CellProgram
    from abw.core.ir.network import LayoutName
    from abw.core.plan.plan import Plan


def bench_layout(specs: Path, data: Path, batch: int, progress: Progress) -> dict[str, Any]:
    """Kernels and bytes between cells with variables in order of declaration, and with planned cells.

    By the sufficient-condition policy, on the first instances of the real files. Beside these, `planted`:
    layout programs of 50 to 300 variables with 10 to 30 % noise, eight of each, 1.9 s each. Errors: AbwError.
    """
    progress.phase("layouts", len(CASES))
    boundaries = []
    for number, chosen in enumerate(CASES, 1):
        boundaries.append({"workload": chosen.name, **boundaries_of(chosen.name, specs, data, batch)})
        progress.reached(number)
    planted = [
        row
        for noise in (0.1, 0.2, 0.3)
        for row in bench_planted([50, 100, 200, 300], noise=noise, seeds=8, time_limit=1.9)
    ]
    return {"schema_version": 1, "batch": batch, "boundaries": boundaries, "planted": planted}


def boundaries_of(name: str, specs: Path, data: Path, batch: int) -> dict[str, Any]:
    """A row of `boundaries`: one workload."""
    from abw.core.plan.plan import plan
    from abw.core.policy.rules.sufficient import Sufficient

    graph = open_case(case(name), specs, data, batch).graph(0, batch)
    schedule = Sufficient().schedule(graph.dag)
    planned = plan(graph, schedule)
    before, after = boundary(planned, "declared"), boundary(planned, "planned")
    return {
        "batches": len(schedule),
        "before": {"kernels": before.kernels, **asdict(before)},
        "after": {"kernels": after.kernels, **asdict(after)},
    }


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
