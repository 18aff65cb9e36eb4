"""A cell as stages: products summed in registers, and what is done to the sums before they are stored.

A stage runs over all rows (lanes of the batch) and all elements of its shape; whatever its products read, or
reads at another element than its own, was stored by an earlier stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from abw.core.cell.normal import NormalCell
from abw.core.ir.cell import Op, Shape
from abw.core.ir.operations import OPERATIONS


@dataclass(frozen=True, slots=True)
class Part:
    """`length` elements of a vector, or rows of a matrix, from float `start` of a value on."""

    value: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Gate:
    """A sum of products W @ x and of vectors that no lane changes; its result is `value`.

    Each product is the weights' value, their first column, and what they are multiplied with.
    """

    value: int
    products: tuple[tuple[int, int, Part], ...]
    biases: tuple[int, ...]


class Segment(NamedTuple):
    """An operand of products, and the numbers of the gates that it feeds."""

    part: Part
    fed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Gates that a block of rows sums up together, and each operand once."""

    gates: tuple[Gate, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Gates and element-wise operations, in order, on values of one shape; `stores` are read later."""

    shape: Shape
    gates: tuple[Gate, ...]
    operations: tuple[int, ...]
    stores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Single:
    """One operation of another kind (a product of what lanes differ in, softmax, …), alone.

    `right` is what the right side of a product of matrices is made of, one part above the other.
    """

    value: int
    right: tuple[Part, ...] = ()


def spread_sizes(op: Op) -> Shape:
    """The shape that a `spread` repeats along its sizes of 1; its argument has as many elements."""
    return tuple(map(int, op.attr[: len(op.shape)]))


def group_gates(gates: tuple[Gate, ...]) -> Group:
    """Gates with each operand once, in the order in which the gates name them."""
    parts: dict[Part, dict[int, None]] = {}
    for number, gate in enumerate(gates):
        for _, _, part in gate.products:
            parts.setdefault(part, {})[number] = None
    return Group(gates, tuple(Segment(part, tuple(fed)) for part, fed in parts.items()))


def consecutive(numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Where runs of consecutive numbers begin, and how long they are."""
    starts = [i for i, n in enumerate(numbers) if i == 0 or numbers[i - 1] != n - 1]
    return [(start, end - start) for start, end in pairwise([*starts, len(numbers)])]


def stages_of(normal: NormalCell) -> tuple[Stage | Single, ...]:
    """The stages in the order in which they run. Cost: linear in the operations."""
    return _Stages(normal).build()


@dataclass(slots=True)
class _Drafts:
    gates: list[Gate] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)


class _Stages:
    def __init__(self, normal: NormalCell) -> None:
        self.normal = normal
        self.cell = normal.cell
        self.outputs = {value for _, value in self.cell.outputs}
        self.gates = self._gates()
        self.readers = self._readers()

    def build(self) -> tuple[Stage | Single, ...]:
        needed = [v for v in self.normal.batched if v in self.readers or v in self.outputs]
        level = self._levels(needed)
        drafts: dict[tuple[int, Shape], _Drafts] = {}
        singles: list[tuple[int, int]] = []
        for v in needed:
            if not self._fused(v):
                singles.append((level[v], v))
                continue
            draft = drafts.setdefault((level[v], self.cell.shape_of(v)), _Drafts())
            if v in self.gates:
                draft.gates.append(self.gates[v])
            else:
                draft.operations.append(v)
        stages: list[tuple[int, Stage | Single]] = [(at, Single(v, self._right(v))) for at, v in singles]
        for (at, shape), draft in drafts.items():
            members = {*draft.operations, *(gate.value for gate in draft.gates)}
            stores = tuple(v for v in sorted(members) if self._stored(v, members))
            stages.append((at, Stage(shape, tuple(draft.gates), tuple(draft.operations), stores)))
        return tuple(stage for _, stage in sorted(stages, key=lambda pair: pair[0]))

    # products and their sums

    def _gates(self) -> dict[int, Gate]:
        """Every product with weights, joined with what is added to it and used nowhere else."""
        normal, static = self.normal, self.normal.static
        uses: dict[int, int] = {}
        for v in range(self.cell.first_op, self.cell.first_op + len(self.cell.ops)):
            if not static[v]:
                for a in normal.arguments(v):
                    uses[a] = uses.get(a, 0) + 1
        gates: dict[int, Gate] = {}
        for v in normal.batched:
            op = normal.op(v)
            if op.name == "matmul" and len(op.shape) == 1 and static[op.args[0]] and not static[op.args[1]]:
                products = []
                start = 0
                for part in self._parts(op.args[1]):
                    products.append((op.args[0], start, part))
                    start += part.length
                gates[v] = Gate(v, tuple(products), ())
            elif op.name == "add" and any(a in gates for a in op.args):
                joined = Gate(v, (), ())
                for a in op.args:
                    if static[a]:
                        joined = Gate(v, joined.products, (*joined.biases, a))
                    elif a in gates and uses[a] == 1 and a not in self.outputs:
                        joined = Gate(v, joined.products + gates[a].products, joined.biases + gates[a].biases)
                    else:
                        break
                else:
                    gates[v] = joined
                    for a in op.args:
                        gates.pop(a, None)
        return gates

    def _parts(self, value: int) -> Iterator[Part]:
        """What a product's operand is made of: the values behind a concatenation, which is not made then."""
        normal = self.normal
        held = normal.root[value]
        whole = held == value and value >= self.cell.first_op
        if (
            whole
            and normal.op(value).name == "concat"
            and not any(map(normal.static.__getitem__, normal.arguments(value)))
        ):
            for a in normal.arguments(value):
                yield from self._parts(a)
        else:
            yield Part(held, normal.start[value], self.cell.shape_of(value)[0])

    def _right(self, v: int) -> tuple[Part, ...]:
        """The parts of a product's right side, where it is a matrix that lanes differ in."""
        op = self.normal.op(v)
        if op.name != "matmul" or len(op.shape) != 2 or self.normal.static[op.args[1]]:
            return ()
        return tuple(self._parts(op.args[1]))

    # what is needed, and when

    def _reads(self, v: int) -> Iterator[tuple[int, bool]]:
        """The values that v's stage reads for it, and whether each at v's own elements alone."""
        normal = self.normal
        if v in self.gates:
            for _, _, part in self.gates[v].products:
                yield part.value, False
            return
        fused = self._fused(v)
        right = () if fused else self._right(v)
        for part in right:
            yield part.value, False
        for a in normal.arguments(v)[: 1 if right else None]:
            if not normal.static[a]:
                held = normal.root[a]
                # what is spread is read at other elements than its own
                yield held, fused and held == a and normal.op(v).name != "spread"

    def _readers(self) -> dict[int, list[tuple[int, bool]]]:
        """List who reads each value that an output needs, and whether element by element."""
        readers: dict[int, list[tuple[int, bool]]] = {}
        for v in reversed(self.normal.batched):
            if v in self.outputs or v in readers:
                for a, own in self._reads(v):
                    readers.setdefault(a, []).append((v, own))
        return readers

    def _fused(self, v: int) -> bool:
        name = self.normal.op(v).name
        return v in self.gates or OPERATIONS[name].kind == "element" or name in ("identity", "spread")

    def _levels(self, needed: list[int]) -> dict[int, int]:
        """When each value is computed: as early as it can be; what is element-wise, as late as it may."""
        level: dict[int, int] = {}
        for v in needed:
            level[v] = max(
                (level[a] + (not self._together(a, v, own)) for a, own in self._reads(v) if a in level),
                default=0,
            )
        for v in reversed(needed):
            readers = self.readers.get(v, [])
            if v not in self.gates and self._fused(v) and readers:
                level[v] = min(level[u] - (not self._together(v, u, own)) for u, own in readers)
        return level

    def _together(self, a: int, v: int, own: bool) -> bool:
        """Whether v can be in the stage that computes its argument a."""
        return own and self._fused(a) and self.cell.shape_of(a) == self.cell.shape_of(v)

    def _stored(self, v: int, members: set[int]) -> bool:
        return v in self.outputs or any(u not in members or not own for u, own in self.readers.get(v, []))
