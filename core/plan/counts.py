"""What a plan takes of an executor that wants every operand contiguous: launches, gathers, copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.layout import CONTIGUOUS
from abw.core.cell.program import CellProgram, cell_program
from abw.core.ir.network import Network
from abw.core.plan.arenas import Arenas, once_a_network

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Counts:
    """What executing a plan takes.

    `launches`: batches of operations (a reduction: one an output), and operands that are reduced for a cell.
    `memory_kernels`: gathers and copies, each one operand of one batch. `bytes_moved`: what they write.
    """

    batches: int
    launches: int
    memory_kernels: int
    bytes_moved: int


@dataclass(frozen=True, slots=True)
class Programs:
    """The cells of a network's T types laid out in memory, as only such executors need them.

    `programs[t]`: None for a reduction. `staged` (T, S) bool: the cell copies this input whatever its status.
    A batch of type t takes `launches`, `copies` (T,); a lane of it `copied_floats` (T,).
    """

    programs: tuple[CellProgram | None, ...]
    staged: NDArray[np.bool_]
    launches: Longs
    copies: Longs
    copied_floats: Longs


@once_a_network
def programs_of(network: Network) -> Programs:
    """A network's cells laid out; computed once for it. Cost: some milliseconds a cell, then nothing."""
    programs = tuple(None if t.cell is None else cell_program(t.cell, network.layout) for t in network.types)
    staged = np.zeros((len(programs), max((len(t.slots) for t in network.types), default=0)), np.bool_)
    for t, program in enumerate(programs):
        if program is not None:
            staged[t, : len(program.staged)] = program.staged
    counts = [
        (len(net_type.outputs), 0, 0) if p is None else (p.launches, p.copies, p.copied_floats)
        for p, net_type in zip(programs, network.types, strict=True)
    ]
    launches, copies, copied = np.array(counts, np.int64).reshape(-1, 3).T
    return Programs(programs, staged, launches, copies, copied)


def count(
    network: Network, arenas: Arenas, batches: tuple[Ints, Ints], operands: tuple[Ints, Ints, Ints, Ints]
) -> Counts:
    """The counts of batches (`type`, `ptr`) with operands (`operand_ptr`, `index_ptr`, `status`, `list_ptr`).

    Cost: some 30 us.
    """
    type, ptr = batches
    operand_ptr, index_ptr, status, list_ptr = operands
    made = programs_of(network)
    operand_type = np.repeat(type, np.diff(operand_ptr))
    slot = np.arange(len(status)) - np.repeat(operand_ptr[:-1], np.diff(operand_ptr))
    listed = list_ptr >= 0
    moved = (status != CONTIGUOUS) | (made.staged[operand_type, slot] & ~listed)
    sizes = arenas.row_floats[arenas.slot_arena[operand_type, slot]].astype(np.int64)
    copied = np.diff(ptr) @ made.copied_floats[type] + (np.diff(index_ptr) * sizes)[moved].sum()
    launches = made.launches[type].sum() + (listed & ~arenas.reduces[operand_type]).sum()
    return Counts(len(type), int(launches), int(made.copies[type].sum() + moved.sum()), 4 * int(copied))
