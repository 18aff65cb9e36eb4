"""What programs record, as words and as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.network import Network
from abw.core.jit.decorators import njit
from abw.core.program.recording.values import BITS, SHAPES

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# The bit of a node's first word from which on it has the index of the instance.
OWNER = 32
TYPE = (1 << OWNER) - 1


class Piece(NamedTuple):
    """What was recorded between two decisions: `nodes` in words.

    A node is `1 + inputs` words in a row: its type's number with its instance's index above bit `OWNER`, then
    its operands' handles. A reduction has the length of its lists before these, and a list for each slot. A
    handle is `reference << BITS | kind`.
    """

    words: Longs
    nodes: int


@dataclass(frozen=True, slots=True)
class Segment:
    """n nodes of a tape, recorded between two decisions and numbered from `first` of the run.

    `type` (n,), `instance` (n,); node i reads `operand[operand_ptr[i]:operand_ptr[i + 1]]`: references, of
    which those of the run's nodes count from its first one.
    """

    first: int
    type: Ints
    instance: Ints
    operand_ptr: Ints
    operand: Ints

    def __len__(self) -> int:
        return len(self.type)

    def operands(self, order: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
        """`operand_ptr` and `operand` of the nodes in another order."""
        sizes = np.diff(self.operand_ptr)[order]
        ptr = np.append(0, np.cumsum(sizes)).astype(np.int32)
        index = np.arange(ptr[-1]) + np.repeat(self.operand_ptr[:-1][order] - ptr[:-1], sizes)
        return ptr, self.operand[index]


def joined(segments: Sequence[Segment]) -> Segment:
    """Join segments that follow each other."""
    begins = np.cumsum([0, *(len(each.operand) for each in segments)], dtype=np.int32)
    ends = [each.operand_ptr[1:] + begin for each, begin in zip(segments, begins, strict=False)]
    return Segment(
        segments[0].first if segments else 0,
        _together([each.type for each in segments]),
        _together([each.instance for each in segments]),
        _together([np.zeros(1, np.int32), *ends]),
        _together([each.operand for each in segments]),
    )


def _together(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int32), *parts])


class StaleError(Exception):
    """A node reads a value of an earlier run; the arguments are its type, its instance and the slot."""


class MisreadError(Exception):
    """A node reads a value of another shape, or of a later node; arguments as of StaleError."""


class Reads(NamedTuple):
    """What nodes of a network read: `slots` (T,), how many inputs each type has, below zero for a reduction;
    `kinds` (T, S), the number of each one's shape; `constants` (C, 3), of each its first number, its end, and
    the number of its shape.
    """

    slots: Ints
    kinds: Ints
    constants: Ints


def reads_of(cells: Network) -> Reads:
    """What nodes of a library's network read."""
    number = {c.shape: c.number for c in cells.constants if c.kind == "field"}
    sizes = np.array([len(t.slots) for t in cells.types], np.int32)
    kinds = np.full((len(sizes), max(sizes, default=0)), -1, np.int32)
    for t, net_type in enumerate(cells.types):
        kinds[t, : sizes[t]] = [number[slot.shape] for slot in net_type.slots]
    signed = np.where([t.cell is None for t in cells.types], -sizes, sizes).astype(np.int32)
    known = [(c.first, c.first + c.rows, number[c.shape]) for c in cells.constants]
    return Reads(signed, kinds, np.array(known, np.int32).reshape(-1, 3))


def segment(piece: Piece, reads: Reads, width: int, base: int, first: int) -> Segment:
    """Turn the words of a piece into arrays.

    The run's first node has number `base` among all runs', the piece's first one `first` in the
    run. Errors: StaleError, MisreadError. Cost: some 3 ns a word.
    """
    words, n = piece
    type_of, instance, ptr = np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n + 1, np.int32)
    operand = np.empty(len(words) - n, np.int32)
    wrong, misread = _parse(words, reads, width, base, first, type_of, instance, ptr, operand)
    if wrong >= 0:
        node = int(np.searchsorted(ptr[1:], wrong, side="right"))
        slot, t = wrong - int(ptr[node]), int(type_of[node])
        if reads.slots[t] < 0:
            slot //= int(ptr[node + 1] - ptr[node]) // -int(reads.slots[t])
        raise (MisreadError if misread else StaleError)(t, int(instance[node]), slot)
    return Segment(first, type_of, instance, ptr, operand[: ptr[-1]])


@njit
def _parse(
    words: Longs,
    reads: Reads,
    width: int,
    base: int,
    first: int,
    type_of: Ints,
    instance: Ints,
    ptr: Ints,
    operand: Ints,
) -> tuple[int, bool]:
    """Fill the arrays of a segment; returns the first operand of an earlier run, -1 without one; or one that
    is misread, and True.
    """
    slots, kinds, constants = reads
    at, n, m, stale, misread = 0, 0, 0, -1, -1
    while at < len(words):
        t = words[at] & TYPE
        type_of[n] = t
        instance[n] = words[at] >> OWNER
        at += 1
        length = 1
        if slots[t] < 0:
            length = words[at]
            at += 1
        for s in range(abs(slots[t])):
            for _ in range(length):
                reference = words[at] >> BITS
                wrong = words[at] & SHAPES - 1 != kinds[t, s]
                if reference >= 0:
                    if reference < base * width and stale < 0:
                        stale = m
                    reference -= base * width
                    wrong |= reference >= (first + n) * width
                else:
                    c = 0
                    while c < len(constants) and -1 - reference >= constants[c, 1]:
                        c += 1
                    wrong |= c == len(constants) or constants[c, 2] != kinds[t, s]
                if wrong and misread < 0:
                    misread = m
                operand[m] = reference
                m += 1
                at += 1
        n += 1
        ptr[n] = m
    if stale >= 0:
        return stale, False
    return misread, misread >= 0
