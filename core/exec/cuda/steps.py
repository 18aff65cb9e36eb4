"""A cell as steps of the device: stages with their memory and weights, products with constants hoisted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.normal import NormalCell
from abw.core.exec.cuda.tiles import VECTOR
from abw.core.exec.lower.packing import Fixed, PackedWeights, Statics
from abw.core.exec.lower.rows import Placement, padded, place_values, read_by, static_rows, stored_by
from abw.core.exec.lower.stages import Group, Segment, Single, Stage, group_gates, stages_of

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Step:
    """What runs on all lanes of a batch at once: sums of products, element-wise operations, or a single one.

    `level`: steps with the same one read nothing of each other. `weights`: of its gates, None without; the
    `fixed` rows of static values follow them. `hoisted`: the sums are stored for the step that goes on with
    them, `sums`: (gate's place in its step, float a lane) of each; in the other one they are added.
    """

    stage: Stage | Single
    level: int
    weights: PackedWeights | None
    fixed: tuple[Fixed, ...]
    sums: tuple[tuple[int, int], ...] = ()
    hoisted: bool = False

    @property
    def floats(self) -> int:
        """Floats of weights and fixed rows."""
        return (self.weights.floats if self.weights else 0) + sum(f.floats for f in self.fixed)

    @property
    def packed(self) -> PackedWeights:
        """The weights of a step that has gates."""
        assert self.weights is not None
        return self.weights

    def write(self, memory: Floats, static: Statics) -> None:
        """Lay down the step's weights, in zeros."""
        for packed in (*([self.weights] if self.weights else ()), *self.fixed):
            packed.write(memory, static)


@dataclass(frozen=True, slots=True)
class CellSteps(Placement):
    """The steps of a cell, and where its values lie.

    `sums`: floats a lane of hoisted sums. `early`: the inputs that hoisted steps read.
    """

    steps: tuple[Step, ...]
    sums: int
    early: frozenset[int]

    @property
    def depth(self) -> int:
        """How many steps must follow each other in a batch."""
        return 1 + max((s.level for s in self.steps), default=-1)


def steps_of(normal: NormalCell, constant: frozenset[int], block: int) -> CellSteps:
    """The steps of a cell whose inputs `constant` no node computes; `block` units packed together.

    Where a stage multiplies such inputs and others, the products with the former make a step of their own.
    Cost: under a millisecond.
    """
    stages = stages_of(normal)
    placement = place_values(normal, stages, VECTOR)
    sums = 0
    early: set[int] = set()
    levels: dict[int, int] = {}
    steps: list[Step] = []
    for stage in stages:
        level = 1 + max((levels[v] for v in read_by(normal, stage) if v in levels), default=-1)
        levels |= dict.fromkeys(stored_by(stage), level)
        if isinstance(stage, Single) or not stage.gates:
            steps.append(Step(stage, level, None, _fixed(normal, stage, 0)))
            continue
        group = group_gates(stage.gates)
        first = tuple(s for s in group.segments if s.part.value in constant)
        if len(first) == len(group.segments):
            first = ()
        units = stage.shape[0]
        held: list[tuple[int, int]] = []
        if first:
            early |= {s.part.value for s in first}
            # only the gates that are fed have sums
            number = {g: n for n, g in enumerate(sorted({g for s in first for g in s.fed}))}
            held = [(g, sums + n * padded(units, VECTOR)) for g, n in number.items()]
            sums += len(held) * padded(units, VECTOR)
            fed = tuple(Segment(s.part, tuple(number[g] for g in s.fed)) for s in first)
            hoisted = Group(tuple(stage.gates[g] for g in number), fed)
            packed = PackedWeights(0, hoisted, units, block, VECTOR, biased=False)
            own = tuple((number[g], at) for g, at in held)
            steps.append(Step(stage, 0, packed, (), own, hoisted=True))
        later = replace(group, segments=tuple(s for s in group.segments if s not in first))
        biased = any(gate.biases for gate in stage.gates)
        packed = PackedWeights(0, later, units, block, VECTOR, biased)
        steps.append(Step(stage, level, packed, _fixed(normal, stage, packed.floats), tuple(held)))
    return CellSteps(normal, VECTOR, placement.homes, placement.width, tuple(steps), sums, frozenset(early))


def _fixed(normal: NormalCell, stage: Stage | Single, begin: int) -> tuple[Fixed, ...]:
    """The static values that a stage reads as rows, from float `begin` of its weights on; no numbers."""
    rows = []
    for value, shape in static_rows(normal, stage):
        if isinstance(stage, Single) or not is_number(normal, value):
            rows.append(Fixed(begin, value, shape, VECTOR))
            begin += rows[-1].floats
    return tuple(rows)


def is_number(normal: NormalCell, value: int) -> bool:
    """Whether a value is a number that the cell's text says."""
    return (
        value >= normal.cell.first_op and normal.op(value).name == "constant" and not normal.op(value).shape
    )
