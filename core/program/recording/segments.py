"""What programs record, as words and as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import TooLargeError
from abw.core.ir.network import Network
from abw.core.jit.decorators import inner, njit
from abw.core.program.recording.values import BITS, SHAPES

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# The bit of a node's first word from which on it has the index of the instance.
OWNER = 32
TYPE = (1 << OWNER) - 1
MOST_OPERANDS = 2**31 - 1


class Piece(NamedTuple):
    """What was recorded between two decisions: `nodes` in words.

    A node is `1 + inputs` words in a row: its type's number with its instance's index above bit `OWNER`, then
    its operands' handles. A reduction has the length of its lists before these, and a list for each slot;
    attention's query is no list, and several nodes that read the same lists are `lists_of` and their queries.
    A handle is `reference << BITS | kind`.
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
    """Join segments of a run that follow each other."""
    some = [each for each in segments if len(each)]
    if len(some) < 2:
        return some[0] if some else NOTHING
    begins = np.cumsum([0, *(len(each.operand) for each in some)], dtype=np.int32)
    ends = [each.operand_ptr[1:] + begin for each, begin in zip(some, begins, strict=False)]
    return Segment(
        some[0].first,
        np.concatenate([each.type for each in some]),
        np.concatenate([each.instance for each in some]),
        np.concatenate([np.zeros(1, np.int32), *ends]),
        np.concatenate([each.operand for each in some]),
    )


_NONE = np.zeros(0, np.int32)
NOTHING = Segment(0, _NONE, _NONE, np.zeros(1, np.int32), _NONE)


def reaching(whole: Segment, nodes: Longs, width: int) -> tuple[Segment, Ints]:
    """The nodes of a run from its beginning on that others of it read, or by way of others, and these `nodes`
    themselves; and the numbers that they had. Cost: some 5 ns a node.
    """
    reached = np.zeros(len(whole), np.bool_)
    reached[nodes] = True
    shift = width.bit_length() - 1
    _reach(shift, whole.operand_ptr, whole.operand, reached)
    kept = np.flatnonzero(reached).astype(np.int32)
    if len(kept) == len(whole):
        return whole, kept
    number = np.cumsum(reached, dtype=np.int32) - np.int32(1)
    ptr, operand = whole.operands(kept)
    computed = operand >= 0
    node, output = operand[computed] >> shift, operand[computed] & width - 1
    operand[computed] = number[node] << shift | output
    return Segment(0, whole.type[kept], whole.instance[kept], ptr, operand), kept


@njit
def _reach(shift: int, ptr: Ints, operand: Ints, reached: NDArray[np.bool_]) -> None:
    """Note which nodes others read that are `reached`: all read earlier ones."""
    for v in range(len(reached) - 1, -1, -1):
        if reached[v]:
            for k in range(ptr[v], ptr[v + 1]):
                if operand[k] >= 0:
                    reached[operand[k] >> shift] = True


class StaleError(Exception):
    """A node reads a value of an earlier run; the arguments are its type, its instance and the slot."""


class MisreadError(Exception):
    """A node reads a value of another shape, or of a later node; arguments as of StaleError."""


class Reads(NamedTuple):
    """What nodes of a network read: `slots` (T,), how many inputs each type has, of which the first `lists`
    (T,) are lists; `kinds` (T, S), the number of each one's shape; `constants` (C, 3), of each its first
    number, its end, and the number of its shape.
    """

    slots: Ints
    lists: Ints
    kinds: Ints
    constants: Ints


def reads_of(cells: Network) -> Reads:
    """What nodes of a library's network read."""
    number = {c.shape: c.number for c in cells.constants if c.kind == "field"}
    sizes = np.array([len(t.slots) for t in cells.types], np.int32)
    kinds = np.full((len(sizes), max(sizes, default=0)), -1, np.int32)
    for t, net_type in enumerate(cells.types):
        kinds[t, : sizes[t]] = [number[slot.shape] for slot in net_type.slots]
    lists = np.array([t.lists for t in cells.types], np.int32)
    known = [(c.first, c.first + c.rows, number[c.shape]) for c in cells.constants]
    return Reads(sizes, lists, kinds, np.array(known, np.int32).reshape(-1, 3))


def segment(piece: Piece, reads: Reads, width: int, base: int, first: int) -> Segment:
    """Turn the words of a piece into arrays.

    The run's first node has number `base` among all runs', the piece's first one `first` in the
    run. Errors: StaleError, MisreadError, TooLargeError. Cost: some 3 ns a word.
    """
    words, n = piece
    operands = _operands(words, reads)
    if operands > MOST_OPERANDS:
        raise TooLargeError(4 * operands, 4 * MOST_OPERANDS, "a graph as far as 32-bit numbers reach")
    type_of, instance, ptr = np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n + 1, np.int32)
    operand = np.empty(operands, np.int32)
    wrong, misread = _parse(words, reads, width, base, first, type_of, instance, ptr, operand)
    if wrong >= 0:
        node = int(np.searchsorted(ptr[1:], wrong, side="right"))
        slot, t = wrong - int(ptr[node]), int(type_of[node])
        slot //= int(ptr[node + 1] - ptr[node]) // int(reads.slots[t])
        raise (MisreadError if misread else StaleError)(t, int(instance[node]), slot)
    return Segment(first, type_of, instance, ptr, operand)


def lists_of(length: int, nodes: int) -> int:
    """The word that says how long the lists are that so many nodes read."""
    return length | (nodes - 1) << OWNER


@inner
def _head(words: Longs, at: int, lists: int) -> tuple[int, int]:
    """How long the lists of the record are that begins there, and of how many nodes it is."""
    return (words[at + 1] & TYPE, (words[at + 1] >> OWNER) + 1) if lists else (1, 1)


@njit
def _operands(words: Longs, reads: Reads) -> int:
    """How many operands the nodes have that words say."""
    at, found = 0, 0
    while at < len(words):
        t = words[at] & TYPE
        lists, slots = int(reads.lists[t]), int(reads.slots[t])
        length, count = _head(words, at, lists)
        found += count * length * slots
        at += 1 + min(lists, 1) + length * lists + count * (slots - lists)
    return found


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
    at, n, m, stale, misread = 0, 0, 0, -1, -1
    while at < len(words):
        t = words[at] & TYPE
        lists, slots = int(reads.lists[t]), int(reads.slots[t])
        length, count = _head(words, at, lists)
        begin, below = at + 1 + min(lists, 1), (first + n) * width
        own = begin + length * lists
        for _ in range(count):
            type_of[n], instance[n] = t, words[at] >> OWNER
            for s in range(slots):
                for i in range(length):
                    word = words[begin + length * s + i] if s < lists else words[own + s - lists]
                    reference = word >> BITS
                    wrong = word & SHAPES - 1 != reads.kinds[t, s]
                    if reference >= 0:
                        if reference < base * width and stale < 0:
                            stale = m
                        reference -= base * width
                        wrong |= reference >= below
                    else:
                        wrong |= not _is_constant(-1 - reference, reads.kinds[t, s], reads.constants)
                    if wrong and misread < 0:
                        misread = m
                    operand[m] = reference
                    m += 1
            own += slots - lists
            n += 1
            ptr[n] = m
        at = own
    if stale >= 0:
        return stale, False
    return misread, misread >= 0


@inner
def _is_constant(number: int, kind: int, constants: Ints) -> bool:
    """Whether a constant of this shape has the number."""
    c = 0
    while c < len(constants) and number >= constants[c, 1]:
        c += 1
    return bool(c < len(constants) and constants[c, 2] == kind)
