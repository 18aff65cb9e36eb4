"""Where the rows lie that gradients of weights are summed of: compiled loops over references."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.weight_grads import JOB
from abw.core.jit.decorators import inner, njit
from abw.core.plan.plan import Plan

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# The references of each constant: first and end.
Bounds = tuple[Ints, Ints]

# What a job's side is: not there, an output of nodes, what nodes read.
NOTHING, COMPUTED, READ = range(3)

_Z, _N = JOB.index("z"), JOB.index("n")


def rows_of_constants(plan: Plan) -> Ints:
    """The first row of each constant in each arena (A, C), a plan's fields of vertices included; else -1."""
    arenas = plan.arenas
    first = arenas.constant_row
    if plan.given:
        first = first.copy()
        fields = [c for c in plan.graph.network.given if arenas.field_arena[c] >= 0]
        for number, (arena, row, _) in zip(fields, plan.given, strict=True):
            first[arena, number] = row
    return first


@njit
def place(
    sides: Longs,
    of_jobs: Longs,
    types: Longs,
    graph: tuple[Ints, Ints, Ints],
    plan: tuple[Ints, int, int],
    constants: tuple[Ints, Bounds],
    memory: tuple[Longs, Longs],
    numbers: tuple[Ints, int],
    jobs: Longs,
) -> None:
    """Write into jobs (see `RowSums`) of which `types` they are where the rows of both `sides` lie.

    `sides` (k, 5): what it is, its arena, the first float of a row, its type, and its output or slot;
    `of_jobs` (jobs, 2) the numbers of either. `plan`: the row of each value, where that begins, and how many
    outputs a node has. `memory`: where each arena begins, and the bytes of its rows. Into `numbers` go the
    rows that are read, by the type's nodes; it begins at an address, too.
    """
    type_ptr, operand_ptr, operand = graph
    row, row_at, width = plan
    first_row, bounds = constants
    filled = 0
    for k in range(len(sides)):
        kind, arena, start, t, o = sides[k]
        if kind == NOTHING:
            beginning, at, step, pitch = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        else:
            beginning, pitch = memory[0][arena] + 4 * start, memory[1][arena]
            at, step = row_at + 4 * (type_ptr[t] * width + o), np.int64(4 * width)
        if kind == READ:
            at, step = np.int64(numbers[1] + 4 * filled), np.int64(4)
            constant = 0
            for v in range(type_ptr[t], type_ptr[t + 1]):
                reference = operand[operand_ptr[v] + o]
                if reference >= 0:
                    numbers[0][filled] = row[reference]
                else:
                    constant, within = _constant(-1 - reference, bounds, constant)
                    numbers[0][filled] = first_row[arena, constant] + within
                filled += 1
        for j in range(len(jobs)):
            for side in range(2):
                if of_jobs[j, side] == k:
                    to = _Z + 4 * side
                    jobs[j, to], jobs[j, to + 1] = beginning, at
                    jobs[j, to + 2], jobs[j, to + 3] = step, pitch
    for j in range(len(jobs)):
        jobs[j, _N] = type_ptr[types[j] + 1] - type_ptr[types[j]]


@njit
def grouped(
    constants: Ints,
    gradients: Ints,
    bounds: Bounds,
    values: tuple[Ints, Ints, Ints],
    fields: tuple[Ints, Ints],
    ptr: Ints,
    keys: Ints,
    found: tuple[Ints, Ints],
) -> None:
    """What flows into constants' gradients, by constant and arena: of group c * A + a from `ptr` of it on.

    `constants` and `gradients` (n,): references, as `TrainingGraph` has them; zeros are left out. `values`:
    `type_ptr`, the arenas of outputs (T, W), the row of each value; `fields`: the arena of each constant that
    is a field of vertices, and the first rows. `ptr` (C * A + 2,) are zeros. `keys` (n,) is room. What is
    found, in the order given: which row of the constant it is, and the gradient's row in its arena.
    """
    type_ptr, output_arena, row = values
    field_arena, first_row = fields
    number, lying = found
    width = np.uint32(output_arena.shape[1])
    arenas = len(first_row)
    n = len(constants)
    t, c, field = 0, 0, 0
    for i in range(n):
        c, _ = _constant(-1 - constants[i], bounds, c)
        arena, reference = -1, gradients[i]
        if reference >= 0:
            node, output = np.uint32(reference) // width, np.uint32(reference) % width
            if not type_ptr[t] <= node < type_ptr[t + 1]:  # mostly that of the value before
                t = 0
                while not type_ptr[t] <= node < type_ptr[t + 1]:
                    t += 1
            arena = output_arena[t, output]
        else:
            field, _ = _constant(-1 - reference, bounds, field)
            arena = field_arena[field]
        keys[i] = c * arenas + arena if arena >= 0 else -1
        if keys[i] >= 0:
            ptr[keys[i] + 2] += 1
    for g in range(2, len(ptr)):
        ptr[g] += ptr[g - 1]
    for i in range(n):
        if keys[i] >= 0:
            c, which = _constant(-1 - constants[i], bounds, c)
            at, reference = ptr[keys[i] + 1], gradients[i]
            number[at] = which
            if reference >= 0:
                lying[at] = row[reference]
            else:
                field, within = _constant(-1 - reference, bounds, field)
                lying[at] = first_row[field_arena[field], field] + within
            ptr[keys[i] + 1] += 1


@inner
def _constant(index: int, bounds: Bounds, constant: int) -> tuple[int, int]:
    """Which constant has a number, looked for from the one met last, and which of its rows that is."""
    first, end = bounds
    if not first[constant] <= index < end[constant]:
        constant = 0
        while not first[constant] <= index < end[constant]:
            constant += 1
    return constant, index - first[constant]
