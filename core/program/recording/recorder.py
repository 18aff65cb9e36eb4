"""Records calls of cells: each becomes a node of the tape, of which only handles are known yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.network import Network
from abw.core.jit.decorators import njit
from abw.core.program.recording.values import BITS, SHAPES, Owner, Value, value_class

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# Takes a node's words.
Write = Callable[[tuple[int, ...]], object]
# The bit of a node's first word from which on it has the index of the instance.
OWNER = 32
TYPE = (1 << OWNER) - 1
# A cell as programs call it: values in, a value or a tuple of values out.
Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Callee:
    """A cell that can be called: its type's number, the classes of its inputs, by name, and outputs; and what
    is added to a node's first handle for each output's.
    """

    name: str
    number: int
    inputs: tuple[tuple[str, type[Value]], ...]
    outputs: tuple[type[Value], ...]
    added: tuple[int, ...]


# Called with arguments that are not all values of the shapes wanted: raises, or says what the call gives.
Refuse = Callable[[Callee, Sequence[object]], Any]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction that can be called: its type's number, the classes of what it reduces and gives, and what
    is added to a node's first handle for that of its output.
    """

    name: str
    number: int
    input: type[Value]
    output: type[Value]
    added: int


# Called with what is no list of several values of the class wanted: raises, or says what the call gives.
RefuseValues = Callable[[Reduced, Any], Any]


class Number:
    """A number that is changed in place."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Piece(NamedTuple):
    """What was recorded between two decisions: `nodes` in words."""

    words: Longs
    nodes: int


class Recorder:
    """The tape while it is written.

    A node is `1 + inputs` words in a row: its type's number with its instance's index above bit `OWNER`, then
    its operands' handles. A reduction has the length of its lists before these, and a list for each slot. A
    handle is `reference << BITS | kind`. `next` is the handle of the next node's
    first output without its kind, `begun` that of the first node since `take`. `owner` is the index of the
    instance that records, shifted by OWNER. `write` takes a node's words. Nodes are numbered on from run to
    run, so that a handle of an earlier run is recognised.
    """

    __slots__ = ("_words", "begun", "next", "owner", "step", "write")

    def __init__(self, width: int) -> None:
        self.step = width << BITS
        self.next = self.begun = 0
        self.owner: Number = Number()
        self._words: list[int] = []
        self.write: Write
        self.restore()

    def widen(self, width: int) -> None:
        """Give each further node room for so many outputs; handles of earlier nodes stay valid."""
        self.step = width << BITS
        self.next = self.begun = -(-self.next // self.step) * self.step

    def take(self) -> Piece:
        """Return the words written since the last call; the next run may overwrite them."""
        begin, self.begun = self.begun, self.next
        words = np.fromiter(self._words, np.int64, len(self._words))
        self._words.clear()
        return Piece(words, (self.begun - begin) // self.step)

    def executed(self) -> Sequence[Piece]:
        """What was executed without `take`."""
        return ()

    def divert(self, write: Write) -> None:
        """Give the words of further calls to this function instead of the tape."""
        self.write = write

    def restore(self) -> None:
        """Write to the tape again."""
        self.write = self._words.extend

    def value_class(self, net: Owner, shape: tuple[int, ...]) -> type[Value]:
        """A class for a net's values of a shape."""
        return value_class(net, shape)

    def callable_cell(self, callee: Callee, refuse: Refuse) -> Call:
        """The function that records a call of a cell, or hands it to `refuse`."""
        return callable_cell(callee, self, refuse)

    def callable_reduction(self, made: Reduced, refuse: RefuseValues) -> Call:
        """The function that records a reduction of a list of values, or hands it to `refuse`."""
        return callable_reduction(made, self, refuse)

    def node(self, number: int, *words: int) -> int:
        """Write a node of a type with these words; returns its first handle."""
        first = self.next
        self.write((number | self.owner.value, *words))
        self.next = first + self.step
        return first

    def nodes(self, number: int, words: Longs) -> int:
        """Write a node of a type for each row of words (m, w); returns the first one's first handle, from
        which those of the others follow by `step`.
        """
        first = self.next
        for row in words.tolist():
            self.node(number, *row)
        return first


_SOURCE = """
def {name}({signature}):
    if {wrong}:
        return refuse(callee, ({arguments}))
    first = tape.next
    tape.write(({words}))
    tape.next = first + tape.step
    {made}
    return {result}
"""


def callable_cell(callee: Callee, tape: Recorder, refuse: Refuse) -> Call:
    """Make the function that records a call, unrolled over its inputs, which takes half the time of a loop.

    Its parameters are called as the cell's inputs are. Cost of a call: see docs/benchmarks.md.
    """
    names = [name if _usable(name) else f"input_{i}" for i, (name, _) in enumerate(callee.inputs)]
    made = [
        f"value{o}_ = class{o}_(); value{o}_.ref = first + {added}" for o, added in enumerate(callee.added)
    ]
    results = [f"value{o}_" for o in range(len(made))]
    lines = {
        "name": callee.name if _usable(callee.name) else "cell",
        "signature": ", ".join(names),
        "wrong": " or ".join(f"{n}.__class__ is not input{i}_" for i, n in enumerate(names)) or "False",
        "arguments": "".join(f"{n}, " for n in names),
        "words": ", ".join([f"{callee.number} | owner_.value", *(f"{n}.ref" for n in names)]) + ",",
        "made": "; ".join(made),
        "result": results[0] if len(results) == 1 else f"({', '.join(results)})",
    }
    source = _SOURCE.format(**lines)
    scope: dict[str, Any] = {"tape": tape, "owner_": tape.owner, "refuse": refuse, "callee": callee}
    scope |= {f"input{i}_": kind for i, (_, kind) in enumerate(callee.inputs)}
    scope |= {f"class{o}_": kind for o, kind in enumerate(callee.outputs)}
    exec(compile(source, f"<cell {callee.name}>", "exec"), scope)
    found: Call = scope[lines["name"]]
    return found


def callable_reduction(made: Reduced, tape: Recorder, refuse: RefuseValues) -> Call:
    """The function that records a reduction of a list of values. Cost: 50 ns a value."""

    def reduce(values: Any) -> Any:  # noqa: ANN401
        if values.__class__ not in (list, tuple) or len(values) < 2:
            return refuse(made, values)
        for value in values:
            if value.__class__ is not made.input:
                return refuse(made, values)
        found: Any = made.output()
        found.ref = tape.node(made.number, len(values), *[value.ref for value in values]) + made.added
        return found

    return reduce


_OWN = ("tape", "owner_", "refuse", "callee", "first")


def _usable(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name) and name not in _OWN


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
