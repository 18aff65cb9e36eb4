"""A cell as steps of the device: stages with their memory and weights, products with constants hoisted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.normal import NormalCell
from abw.core.exec.cuda.tiles import VECTOR
from abw.core.exec.lower.rows import Fixed, columns, padded, row_floats
from abw.core.exec.lower.stages import Gate, Part, Single, Stage, group_gates, stages_of
from abw.core.ir.cell import Shape

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Home:
    """Where a value's rows are: in `slot` number s, `output` number o, or `scratch` from float `number` a
    lane.

    `pitch`: floats of a row.
    """

    kind: str
    number: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Segment:
    """An operand of products with the gates that it feeds, by their places in the step; `column` in its
    row."""

    part: Part
    column: int
    fed: tuple[int, ...]

    @property
    def length(self) -> int:
        """Elements, whole vectors of them."""
        return padded(self.part.length, VECTOR)


@dataclass(frozen=True, slots=True)
class Packed:
    """The weights of a step, `block` units at a time: what each block of threads reads lies together.

    For so many units: a bias for each gate if `biased`, [gate][unit]; then for each segment, element after
    element, the weights of the gates it feeds, [element][gate][unit].
    """

    gates: tuple[Gate, ...]
    segments: tuple[Segment, ...]
    biased: bool
    units: int
    block: int

    @property
    def block_floats(self) -> int:
        """The floats of so many units."""
        per_unit = len(self.gates) * self.biased + sum(s.length * len(s.fed) for s in self.segments)
        return per_unit * self.block

    @property
    def begins(self) -> tuple[int, ...]:
        """Where each segment's weights begin in those of so many units."""
        found = [len(self.gates) * self.block if self.biased else 0]
        for segment in self.segments:
            found.append(found[-1] + segment.length * len(segment.fed) * self.block)
        return tuple(found[:-1])

    @property
    def floats(self) -> int:
        """The floats of all units."""
        return padded(self.units, self.block) // self.block * self.block_floats

    @property
    def most_fed(self) -> int:
        """The most gates that an operand feeds."""
        return max(len(s.fed) for s in self.segments)

    @property
    def aligned(self) -> bool:
        """Whether all operands begin at whole vectors of their rows."""
        return all(s.column % VECTOR == 0 for s in self.segments)

    def write(self, memory: Floats, static: Mapping[int, NDArray[Any]]) -> None:
        """Pack the weights of these static values."""
        size = padded(self.units, self.block)
        parts = []
        if self.biased:
            bias = np.zeros((1, len(self.gates), size), np.float32)
            for g, gate in enumerate(self.gates):
                for value in gate.biases:
                    bias[0, g, : self.units] += np.broadcast_to(static[value], self.units)
            parts.append(bias)
        for segment in self.segments:
            weights = np.zeros((segment.length, len(segment.fed), size))
            for place, g in enumerate(segment.fed):
                for value, first, operand in self.gates[g].products:
                    if operand == segment.part:
                        taken = static[value][:, first : first + operand.length]
                        weights[: operand.length, place, : self.units] += taken.T
            parts.append(weights.astype(np.float32))
        blocks = [p.reshape(p.shape[0] * p.shape[1], -1, self.block).transpose(1, 0, 2) for p in parts]
        memory[: self.floats] = np.concatenate(blocks, axis=1).ravel()


@dataclass(frozen=True, slots=True)
class Step:
    """What runs on all lanes of a batch at once: sums of products, element-wise operations, or a single one.

    `level`: steps with the same one read nothing of each other. `weights`: of its gates, None without; the
    `fixed` rows of static values follow them. `hoisted`: the sums are stored for the step that goes on with
    them, `sums`: (gate's place in its step, float a lane) of each; in the other one they are added.
    """

    stage: Stage | Single
    level: int
    weights: Packed | None
    fixed: tuple[Fixed, ...]
    sums: tuple[tuple[int, int], ...]
    hoisted: bool

    @property
    def floats(self) -> int:
        """Floats of weights and fixed rows."""
        packed = self.weights.floats if self.weights else 0
        return packed + sum(row_floats(f.shape, VECTOR) for f in self.fixed)

    def write(self, memory: Floats, static: Mapping[int, NDArray[Any]]) -> None:
        """Lay down the step's weights."""
        if self.weights:
            self.weights.write(memory, static)
        for fixed in self.fixed:
            fixed.write(memory, static)


@dataclass(frozen=True, slots=True)
class CellSteps:
    """The steps of a cell. `scratch`, `sums`: floats a lane of scratch rows and of hoisted sums."""

    normal: NormalCell
    steps: tuple[Step, ...]
    homes: dict[int, Home]
    scratch: int
    sums: int
    early: frozenset[int]

    @property
    def depth(self) -> int:
        """How many steps must follow each other in a batch."""
        return 1 + max((s.level for s in self.steps), default=-1)

    def shape_of(self, value: int) -> Shape:
        """The shape of a value."""
        return self.normal.cell.shape_of(value)

    def column(self, held: int, first: int) -> int:
        """Where the unpadded float `first` of a value lies in its row."""
        count = columns(self.shape_of(held))
        return first // count * padded(count, VECTOR) + first % count

    def place(self, value: int) -> tuple[Home, int]:
        """The home of a value, or of what it is a part of, and its column there."""
        held = self.normal.root[value]
        return self.homes[held], self.column(held, self.normal.start[value])


def steps_of(normal: NormalCell, constant: frozenset[int], block: int) -> CellSteps:
    """The steps of a cell whose inputs `constant` no node computes; `block` units packed together.

    Where a stage multiplies such inputs and others, the products with the former make a step of their own.
    Cost: under a millisecond.
    """
    cell = normal.cell
    stages = stages_of(normal)
    homes = {i: Home("slot", i, row_floats(port.shape, VECTOR)) for i, port in enumerate(cell.inputs)}
    for o, (_, value) in enumerate(cell.outputs):
        homes[value] = Home("output", o, row_floats(cell.shape_of(value), VECTOR))
    scratch = sums = 0
    early: set[int] = set()
    levels: dict[int, int] = {}
    steps: list[Step] = []
    draft = CellSteps(normal, (), homes, 0, 0, frozenset())
    for stage in stages:
        for value in (stage.value,) if isinstance(stage, Single) else stage.stores:
            if value not in homes:
                floats = row_floats(cell.shape_of(value), VECTOR)
                homes[value] = Home("scratch", scratch, floats)
                scratch += floats
        level = 1 + max((levels[v] for v in _reads(normal, stage) if v in levels), default=-1)
        stored = (stage.value,) if isinstance(stage, Single) else stage.stores
        levels |= dict.fromkeys(stored, level)
        if isinstance(stage, Single) or not stage.gates:
            steps.append(Step(stage, level, None, _fixed(normal, stage, 0), (), False))
            continue
        segments = tuple(
            Segment(part, draft.column(part.value, part.start), fed)
            for part, fed in group_gates(stage.gates).segments
        )
        first = tuple(s for s in segments if s.part.value in constant)
        if len(first) == len(segments):
            first = ()
        units = stage.shape[0]
        held: list[tuple[int, int]] = []
        if first:
            early |= {s.part.value for s in first}
            for g in sorted({g for s in first for g in s.fed}):
                held.append((g, sums))
                sums += padded(units, VECTOR)
            # only the gates that are fed have sums
            number = {g: place for place, (g, _) in enumerate(held)}
            gates = tuple(stage.gates[g] for g in number)
            fed = tuple(Segment(s.part, s.column, tuple(number[g] for g in s.fed)) for s in first)
            own = tuple((number[g], at) for g, at in held)
            packed = Packed(gates, fed, False, units, block)
            steps.append(Step(stage, 0, packed, (), own, True))
        later = tuple(s for s in segments if s not in first)
        packed = Packed(stage.gates, later, any(gate.biases for gate in stage.gates), units, block)
        steps.append(Step(stage, level, packed, _fixed(normal, stage, packed.floats), tuple(held), False))
    return CellSteps(normal, tuple(steps), homes, scratch, sums, frozenset(early))


def _reads(normal: NormalCell, stage: Stage | Single) -> set[int]:
    """The values that a stage reads from memory."""
    if isinstance(stage, Single):
        return {part.value for part in stage.right} | {normal.root[a] for a in _arguments(normal, stage)}
    read = {part.value for gate in stage.gates for _, _, part in gate.products}
    members = {*stage.operations, *(gate.value for gate in stage.gates)}
    for value in stage.operations:
        read |= {normal.root[a] for a in normal.arguments(value) if a not in members}
    return read


def _arguments(normal: NormalCell, single: Single) -> tuple[int, ...]:
    """The arguments that are read whole; the parts of a right side take the second one's place."""
    return normal.arguments(single.value)[: 1 if single.right else None]


def _fixed(normal: NormalCell, stage: Stage | Single, begin: int) -> tuple[Fixed, ...]:
    """The static values that a stage reads as rows, from float `begin` of its weights on."""
    wanted: dict[tuple[int, Shape], None] = {}
    if isinstance(stage, Single):
        for a in _arguments(normal, stage):
            if normal.static[a]:
                wanted[a, normal.cell.shape_of(a)] = None
    else:
        for value in stage.operations:
            for a in normal.arguments(value):
                if normal.static[a] and not is_number(normal, a):
                    wanted[a, stage.shape] = None
    rows = []
    for value, shape in wanted:
        rows.append(Fixed(begin, value, shape, VECTOR))
        begin += row_floats(shape, VECTOR)
    return tuple(rows)


def is_number(normal: NormalCell, value: int) -> bool:
    """Whether a value is a number that the cell's text says."""
    return (
        value >= normal.cell.first_op and normal.op(value).name == "constant" and not normal.op(value).shape
    )
