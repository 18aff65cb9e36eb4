"""Layouts: an order of variables in memory, and what it makes of each operand."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from abw.pqtree.layouts.problem import LAUNCH, Key, Program


class Status(StrEnum):
    """How a batch finds an operand."""

    CONTIGUOUS = "contiguous"  # lane after lane
    STRIDED = "strided"  # at equal distances
    BROADCAST = "broadcast"  # one variable for all lanes
    COPIED = "copied"  # gathered before the batch, or scattered after it


@dataclass(frozen=True, slots=True)
class OperandLayout:
    """One operand: where its lanes are, and what it costs.

    `variables` are those of its lanes, as the batch declares them. In the batch's lane order, lane i is at
    `offset + i * stride` bytes of the arena, unless it is copied. `moved` are the bytes copied at each run,
    `packed` those copied once for all runs; `reason` says why.
    """

    key: Key
    status: Status
    variables: tuple[int, ...]
    offset: int
    stride: int
    moved: int
    packed: int
    reason: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Variables in the order they have in memory, and what becomes of each operand.

    `offsets[v]` is in bytes from the beginning of the arena of variable v. `lanes[b]` is the order in which
    batch b runs its declared lanes. `tree` is the text of the PQ-tree that the operands kept free of copies
    leave. `cost` is what the copies of a run cost, in bytes (launches included); no order costs less than
    `bound` (strides left aside).
    """

    order: tuple[int, ...]
    offsets: tuple[int, ...]
    lanes: tuple[tuple[int, ...], ...]
    operands: tuple[tuple[OperandLayout, ...], ...]
    tree: str
    cost: int
    bound: int

    @property
    def copy_free_operands(self) -> int:
        """How many operands need no copy, at a run or before."""
        return sum(not (o.moved or o.packed or o.status is Status.COPIED) for b in self.operands for o in b)

    @property
    def bytes_moved(self) -> int:
        """Copied at each run."""
        return sum(operand.moved for batch in self.operands for operand in batch)

    @property
    def bytes_packed(self) -> int:
        """Copied once, of what never changes."""
        return sum(operand.packed for batch in self.operands for operand in batch)

    @property
    def kernels(self) -> int:
        """Memory kernels at each run."""
        return sum(operand.moved > 0 for batch in self.operands for operand in batch)

    @property
    def ideal(self) -> bool:
        """Whether no operand is copied."""
        return self.copy_free_operands == sum(map(len, self.operands))

    @property
    def gap(self) -> int:
        """How much less the best order might cost; 0 where this one is proven optimal."""
        return max(0, self.cost - self.bound)


def name_of(key: Key) -> str:
    """An operand in words."""
    return f"batch {key[0]}'s {'result' if key[1] == 0 else f'source {key[1]}'}"


def declared_layout(
    sizes: Sequence[int],
    batches: Sequence[Sequence[Sequence[int]]],
    order: Sequence[int] | None = None,
    *,
    arenas: Sequence[Hashable] | None = None,
    constant: Collection[Hashable] = (),
    launch: int = LAUNCH,
    strided: bool | Collection[int] = False,
) -> Layout:
    """Lay out variables in a given order; by default in that of declaration."""
    program = Program.of(sizes, batches, arenas, constant, launch)
    return lay_out(program, range(len(sizes)) if order is None else order, strided=strided)


def lay_out(
    program: Program,
    order: Sequence[int],
    *,
    strided: bool | Collection[int] = False,
    reasons: Mapping[Key, str] | None = None,
    tree: str = "",
    bound: int = 0,
) -> Layout:
    """Place the variables in this order (arena after arena) and see what becomes of each operand.

    Each batch takes the lane order that frees the operands of most weight.
    """
    first: dict[Hashable, int] = {}
    for arena in program.arenas:
        first.setdefault(arena, len(first))
    placed = sorted(order, key=lambda variable: first[program.arenas[variable]])
    if sorted(placed) != list(range(len(program.sizes))):
        raise ValueError("the order does not have each variable once")
    offsets, ends = [0] * len(placed), dict.fromkeys(first, 0)
    for variable in placed:
        offsets[variable] = ends[program.arenas[variable]]
        ends[program.arenas[variable]] += program.sizes[variable]
    taken = [strided if isinstance(strided, bool) else b in strided for b in range(len(program.batches))]
    lanes = tuple(_lane_order(program, b, offsets, taken[b]) for b in range(len(program.batches)))
    operands = tuple(
        tuple(
            _operand(program, (b, k), offsets, lanes[b], taken[b], reasons or {}) for k in range(len(batch))
        )
        for b, batch in enumerate(program.batches)
    )
    moved = [operand.moved for batch in operands for operand in batch]
    cost = sum(moved) + program.launch * sum(some > 0 for some in moved)
    return Layout(tuple(placed), tuple(offsets), lanes, operands, tree, cost, bound)


def _stride(program: Program, operand: Sequence[int], offsets: Sequence[int]) -> int:
    """The distance of the lanes in bytes, if it is always the same and positive; else 0."""
    begins = [offsets[variable] for variable in operand]
    step = begins[1] - begins[0] if len(begins) > 1 else program.sizes[operand[0]]
    even = all(b - a == step for a, b in itertools.pairwise(begins))
    return step if even and step > 0 else 0


def _lane_order(program: Program, b: int, offsets: Sequence[int], strided: bool) -> tuple[int, ...]:
    """The order of the lanes that frees most weight: some operand's in memory, or as declared."""
    batch = program.batches[b]
    lanes = range(len(batch[0]))
    declared = tuple(lanes)
    if len(lanes) == 1:
        return declared
    gain: dict[tuple[int, ...], tuple[int, int]] = {}
    for k, operand in enumerate(batch):
        if program.obstacles[b][k] != "":
            continue
        order = tuple(sorted(lanes, key=lambda lane: offsets[operand[lane]]))
        size = program.sizes[operand[0]]
        step = _stride(program, [operand[lane] for lane in order], offsets)
        if step == size or (strided and step):
            weight = 0 if program.is_constant(operand) else program.launch + program.bytes_of(operand)
            before = gain.get(order, (0, 0))
            gain[order] = (before[0] + weight, before[1] + program.bytes_of(operand))
    return max(gain, key=lambda order: (gain[order], order == declared), default=declared)


def _operand(
    program: Program,
    key: Key,
    offsets: Sequence[int],
    lanes: Sequence[int],
    strided: bool,
    reasons: Mapping[Key, str],
) -> OperandLayout:
    """Find the status of one operand when its batch runs its lanes in this order."""
    operand = program.batches[key[0]][key[1]]
    if program.is_broadcast(key):
        return OperandLayout(key, Status.BROADCAST, operand, offsets[operand[0]], 0, 0, 0, "")
    reason = program.obstacle(key)
    if not reason:
        ordered = [operand[lane] for lane in lanes]
        step = _stride(program, ordered, offsets)
        begin = offsets[ordered[0]]
        if step == program.sizes[operand[0]] or len(operand) == 1:
            return OperandLayout(key, Status.CONTIGUOUS, operand, begin, step, 0, 0, "")
        if strided and step:
            return OperandLayout(key, Status.STRIDED, operand, begin, step, 0, 0, "")
        reason = reasons.get(key, "is not adjacent and aligned in this order")
    size, once = program.bytes_of(operand), program.is_constant(operand)
    return OperandLayout(key, Status.COPIED, operand, 0, 0, 0 if once else size, size if once else 0, reason)
