"""Where the values of a cell lie while its stages run: in rows padded to whole vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.normal import NormalCell
from abw.core.exec.lower.stages import Single, Stage
from abw.core.ir.cell import Shape

Floats = NDArray[np.float32]

# So many rows of a list are added one after the other in single precision, so that short lists cost no more;
# the sums of blocks in double, or compensated. The error stays below 1e-6 of the rows' absolute values,
# however long the list.
BLOCK = 8
# Attention's weights are relative to a level, which rises when a score is above it by more than this; what
# was summed before is scaled then. Steps as large as this are so few that their roundings do not add up.
RISE = 1.0


def columns(shape: Shape) -> int:
    """The floats of one row of a matrix, or of a vector."""
    return shape[-1] if shape else 1


def padded(count: int, lanes: int) -> int:
    """A number of floats as a whole number of vectors."""
    return -(-count // lanes) * lanes


def row_floats(shape: Shape, lanes: int) -> int:
    """The floats that a value takes: each row of a matrix, and a vector, is a whole number of vectors.

    What lies in the padding is never read as a value, but may be computed with.
    """
    rows = shape[0] if len(shape) == 2 else 1
    return rows * padded(columns(shape), lanes)


def matrix_view(memory: Floats, shape: Shape, lanes: int) -> Floats:
    """Rows (n, row_floats) as values (n, *shape), without the padding."""
    count = columns(shape)
    rows = shape[0] if len(shape) == 2 else 1
    values = memory.reshape(len(memory), rows, padded(count, lanes))[:, :, :count]
    return values if len(shape) == 2 else values[:, 0].reshape(len(memory), *shape)


@dataclass(frozen=True, slots=True)
class Home:
    """The memory of a value's rows, `pitch` floats each: slot or output `number`, or scratch rows, which lie
    `number` floats a lane into the scratch memory.
    """

    kind: Literal["slot", "output", "scratch"]
    number: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A cell's values by their homes: inputs, outputs, then scratch values, `width` floats a lane.

    A row is a whole number of vectors of `lanes` floats.
    """

    normal: NormalCell
    lanes: int
    homes: Mapping[int, Home]
    width: int

    def shape_of(self, value: int) -> Shape:
        """The shape of a value."""
        return self.normal.cell.shape_of(value)

    def floats(self, value: int) -> int:
        """The floats of a value's row."""
        return row_floats(self.shape_of(value), self.lanes)

    def column(self, held: int, first: int) -> int:
        """Where the unpadded float `first` of a value lies in its row."""
        count = columns(self.shape_of(held))
        return first // count * padded(count, self.lanes) + first % count

    def held(self, value: int) -> tuple[int, int]:
        """The value that holds a value, which may be a slice, and its column there."""
        held = self.normal.root[value]
        return held, self.column(held, self.normal.start[value])


def place_values(normal: NormalCell, stages: Sequence[Stage | Single], lanes: int) -> Placement:
    """Inputs and outputs at home, all else that stages store in scratch rows."""
    cell = normal.cell

    def pitch(value: int) -> int:
        return row_floats(cell.shape_of(value), lanes)

    homes = {i: Home("slot", i, pitch(i)) for i in range(len(cell.inputs))}
    homes |= {value: Home("output", o, pitch(value)) for o, (_, value) in enumerate(cell.outputs)}
    width = 0
    for stage in stages:
        for value in stored_by(stage):
            if value not in homes:
                homes[value] = Home("scratch", width, pitch(value))
                width += homes[value].pitch
    return Placement(normal, lanes, homes, width)


def stored_by(stage: Stage | Single) -> tuple[int, ...]:
    """The values that a stage writes to memory."""
    return (stage.value,) if isinstance(stage, Single) else stage.stores


def whole_arguments(normal: NormalCell, single: Single) -> tuple[int, ...]:
    """The arguments that are read whole; the parts of a right side take the second one's place."""
    return normal.arguments(single.value)[: 1 if single.right else None]


def read_by(normal: NormalCell, stage: Stage | Single) -> set[int]:
    """The values that a stage reads from memory."""
    if isinstance(stage, Single):
        return {part.value for part in stage.right} | {normal.root[a] for a in whole_arguments(normal, stage)}
    members = {*stage.operations, *(gate.value for gate in stage.gates)}
    read = (normal.root[a] for v in stage.operations for a in normal.arguments(v) if a not in members)
    return products_read(stage) | set(read)


def products_read(stage: Stage) -> set[int]:
    """The values that a stage's gates multiply with weights."""
    return {part.value for gate in stage.gates for _, _, part in gate.products}


def static_rows(normal: NormalCell, stage: Stage | Single) -> dict[tuple[int, Shape], None]:
    """The static values that a stage reads as rows, with the rows' shapes, as the stage names them."""
    if isinstance(stage, Single):
        read = [(a, normal.cell.shape_of(a)) for a in whole_arguments(normal, stage)]
    else:
        read = [(a, stage.shape) for value in stage.operations for a in normal.arguments(value)]
    return dict.fromkeys((a, shape) for a, shape in read if normal.static[a])
