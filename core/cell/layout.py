"""In which order a cell's variables lie in memory, and what that makes of each operand.

Memory of one batch of n lanes: variable after variable, each a block of n rows (ED-Batch's
[variable][lane][feature]), so that operations on neighbouring variables are one operation on one array.
What decides the order is in `arrange.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.cell.batches import Batches
from abw.core.cell.normal import NormalCell, size_of

CONTIGUOUS, STRIDED, BROADCAST, COPIED, PACKED = range(5)
STATUS_NAMES = ("contiguous", "strided", "broadcast", "copied", "packed")

STATIC, SCRATCH = -1, 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What a layout planner decides.

    `batches`: the operations of each batch in lane order. `position[v]` (V values): the rank of v among the
    variables in scratch memory; -1 for those outside of it: static values, outputs (which lie with the
    node's results), slices, and inputs read where they are. An input with a position is copied there first.
    """

    batches: Batches
    position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lies: `home` STATIC, SCRATCH, 1 + i (input i), or 1 + inputs + o (output o).

    `offset` counts floats a lane before its block begins, `column` floats within a row, `pitch` floats in a
    row.
    """

    home: int
    offset: int
    column: int
    pitch: int


def places(normal: NormalCell, position: Sequence[int]) -> tuple[list[Place], int]:
    """Where every value lies under a layout, and the width of the scratch memory in floats a lane.

    Inputs without a position lie in their home, outputs too; both begin at offset 0.
    """
    cell = normal.cell
    output = {value: number for number, (_, value) in enumerate(cell.outputs)}
    offset = [0] * len(position)
    width = 0
    for value in sorted((v for v, p in enumerate(position) if p >= 0), key=lambda v: position[v]):
        offset[value] = width
        width += size_of(cell.shape_of(value))
    result = []
    for value, static in enumerate(normal.static):
        held = normal.root[value]
        pitch = size_of(cell.shape_of(held))
        if static:
            home = STATIC
        elif position[held] >= 0:
            home = SCRATCH
        elif held < len(cell.inputs):
            home = 1 + held
        else:
            home = 1 + len(cell.inputs) + output[held]
        result.append(Place(home, offset[held], normal.start[value], pitch))
    return result, width


def operand_status(operand: Sequence[Place], size: int) -> tuple[int, int, int]:
    """(status, distance in blocks' floats, distance in columns) of values of `size` floats each.

    Contiguous: neighbouring blocks in order, or one block alone. Strided: blocks, or columns of one block,
    at a constant distance. Broadcast: one value for all lanes of the operand. Packed: static, so put side by
    side once. Copied: everything else.
    """
    first = operand[0]
    if any((p.home == STATIC) != (first.home == STATIC) for p in operand):
        raise ValueError("an operand mixes static values with others")
    if first.home == STATIC:
        return PACKED, 0, 0
    if len(operand) == 1:
        return CONTIGUOUS, size, 0
    step, shift = operand[1].offset - first.offset, operand[1].column - first.column
    even = all(
        p.home == first.home
        and p.pitch == first.pitch
        and p.offset == first.offset + i * step
        and p.column == first.column + i * shift
        for i, p in enumerate(operand)
    )
    if not even or (step and shift):
        return COPIED, 0, 0
    if step == 0 and shift == 0:
        return BROADCAST, 0, 0
    if shift == 0 and step == size == first.pitch:
        return CONTIGUOUS, size, 0
    return STRIDED, step, shift
