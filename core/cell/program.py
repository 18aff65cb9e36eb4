"""A cell as a program for n lanes at once: batches of operations, places of variables, status of operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from abw.core.cell.arrange import arrange
from abw.core.cell.batches import batch_operations
from abw.core.cell.layout import COPIED, Arrangement, Place, operand_status, places
from abw.core.cell.normal import CellCosts, NormalCell, cell_costs, normalise, size_of
from abw.core.ir.cell import Cell
from abw.core.ir.network import LayoutName


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a batch: g values, of which value l belongs to lane l.

    `status` is one of CONTIGUOUS, STRIDED, BROADCAST, COPIED, PACKED (see `layout.operand_status`). `step`
    and `shift` are the distances between two neighbouring values: in floats a lane from block to block, and
    in floats within a row. `temporary` is the offset (floats a lane) of the scratch block through which a
    copied operand goes, -1 for others.
    """

    values: tuple[int, ...]
    status: int
    step: int
    shift: int
    temporary: int


@dataclass(frozen=True, slots=True)
class CellBatch:
    """One batch of g isomorphic operations: `result[l] = op(sources[0][l], sources[1][l], …)`."""

    op: str
    result: Operand
    sources: tuple[Operand, ...]

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The result followed by the sources."""
        return (self.result, *self.sources)


@dataclass(frozen=True, slots=True)
class CellProgram:
    """The data an executor needs to run a cell on n lanes.

    V values are numbered as in `normal.cell`. `position` (V,) is the layout; `place` (V,) follows from it.
    For n lanes the scratch memory is `n * width` floats; the block of a value in it begins at float
    `n * offset`, its row i at `n * offset + i * pitch + column`. `staged[i]` says that input i is copied into
    the scratch memory first, whatever its status in the plan.

    Counts, a batch of nodes: `launches` (batches of operations), `copies` (memory kernels: one for each
    copied operand), `copied_floats` (floats a lane that they move).
    """

    normal: NormalCell
    batches: tuple[CellBatch, ...]
    position: tuple[int, ...]
    place: tuple[Place, ...]
    width: int
    staged: tuple[bool, ...]
    costs: CellCosts
    copies: int
    copied_floats: int

    @property
    def cell(self) -> Cell:
        """The cell, without dead operations."""
        return self.normal.cell

    @property
    def launches(self) -> int:
        """Kernels a batch of nodes, memory kernels apart."""
        return len(self.batches)


@lru_cache(maxsize=4096)
def cell_program(cell: Cell, layout: LayoutName = "planned") -> CellProgram:
    """Batch and lay out a cell; kept for the next call. Cost: 2 ms for a cell of 30 operations."""
    normal = normalise(cell)
    return assemble(normal, arrange(normal, batch_operations(normal), layout))


def assemble(normal: NormalCell, arrangement: Arrangement) -> CellProgram:
    """The program that follows from batches, lane orders and positions, wherever they come from."""
    cell = normal.cell
    place, width = places(normal, arrangement.position)
    copies = copied = 0

    def operand(values: tuple[int, ...]) -> Operand:
        nonlocal width, copies, copied
        size = size_of(cell.shape_of(values[0]))
        status, step, shift = operand_status([place[v] for v in values], size)
        temporary = -1
        if status == COPIED:
            temporary = width
            width += size * len(values)
            copies += 1
            copied += size * len(values)
        return Operand(values, status, step, shift, temporary)

    batches = []
    for lanes in arrangement.batches:
        arguments = zip(*(normal.arguments(v) for v in lanes), strict=True)
        batches.append(
            CellBatch(
                normal.op(lanes[0]).name, operand(lanes), tuple(operand(values) for values in arguments)
            )
        )
    staged = tuple(arrangement.position[i] >= 0 for i in range(len(cell.inputs)))
    return CellProgram(
        normal,
        tuple(batches),
        arrangement.position,
        tuple(place),
        width,
        staged,
        cell_costs(normal),
        copies,
        copied,
    )
