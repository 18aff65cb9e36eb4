"""Copies between the cells of real mini-batches, and how near the planner comes to a planted order."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from itertools import product

import numpy as np

from abw.bench.options import SPECS, Batch, DataDir, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.workloads import CASES, mini_batch
from abw.core.cell.layout import CONTIGUOUS, COPIED
from abw.core.cell.normal import size_of
from abw.core.cell.program import CellProgram, cell_program
from abw.core.ir.network import LayoutName
from abw.core.plan.plan import Plan
from abw.pqtree import declared_layout, plan_layout

# The bytes of a variable.
SIZE = 64


def layout(data: DataDir, specs: SpecsDir = SPECS, batch: Batch = 64) -> Rows:
    """Count copies between cells before and after planning, and plan random programs with a known layout.

    Counts use the first instances and the policy sufficient; the programs have 50 to 300 variables and 10
    to 30 % noise, eight of each, with at most 1.9 s each.
    """
    for chosen in CASES:
        planned, _ = mini_batch(chosen.name, specs, data, batch)
        before, after = boundary(planned, "declared"), boundary(planned, "planned")
        yield Row(
            "copies between cells",
            workload=chosen.name,
            batches=len(planned.schedule),
            kernels_before=before.kernels,
            before_bytes=before.bytes,
            kernels_after=after.kernels,
            after_bytes=after.bytes,
        )
    plan_layout([SIZE] * 128, planted_program(random.Random(0), 128, 0.5)[1], time_limit=0)  # loads all code
    for noise, n in product((0.1, 0.2, 0.3), (50, 100, 200, 300)):
        yield planted(n, noise, seeds=8, time_limit=1.9)


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


def planted_program(rng: random.Random, n: int, noise: float) -> tuple[list[int], list[list[list[int]]]]:
    """An order of n variables, and batches whose operands are contiguous in it but for a share of `noise`.

    A batch computes two to four neighbours from one or two such runs, in one order of lanes; an operand that
    is noise has random variables.
    """
    order = rng.sample(range(n), n)
    batches, at = [], 0
    while at < n:
        lanes = min(rng.randint(2, 4), n - at)
        permutation = rng.sample(range(lanes), lanes)
        begins = [at, *(rng.randrange(n - lanes + 1) for _ in range(rng.randint(1, 2)))]
        runs = [[order[begin + i] for i in permutation] for begin in begins]
        batches.append([rng.sample(range(n), lanes) if rng.random() < noise else run for run in runs])
        at += lanes
    return order, batches


def planted(n: int, noise: float, seeds: int, time_limit: float) -> Row:
    """The planner's cost for n variables beside the planted order's, summed over `seeds` programs.

    `reached`: programs where it costs no more; `proven`: those known to be optimal; `longest`: of one.
    """
    costs, planted, seconds, bounds = [], [], [], []
    for seed in range(seeds):
        order, batches = planted_program(random.Random(1000 * n + seed), n, noise)
        begin = time.monotonic()
        layout = plan_layout([SIZE] * n, batches, time_limit=time_limit)
        seconds.append(time.monotonic() - begin)
        costs.append(layout.cost)
        bounds.append(layout.bound)
        planted.append(declared_layout([SIZE] * n, batches, order).cost)
    return Row(
        "noisy programs",
        variables=n,
        noise_share=noise,
        programs=seeds,
        cost_bytes=sum(costs),
        planted_bytes=sum(planted),
        reached=sum(cost <= other for cost, other in zip(costs, planted, strict=True)),
        proven=sum(cost == bound for cost, bound in zip(costs, bounds, strict=True)),
        longest_seconds=max(seconds),
    )
