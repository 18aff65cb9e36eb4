"""Records calls of cells: each becomes a node of the tape, of which only handles are known yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.decorators import njit
from abw.core.program.recording.values import BITS, Owner, Value, value_class

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
    its operands' handles. A handle is `reference << BITS | kind`. `next` is the handle of the next node's
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
        """From the next node on a node has so many outputs; those that there are keep their handles."""
        self.step = width << BITS
        self.next = self.begun = -(-self.next // self.step) * self.step

    def take(self) -> Piece:
        """What was written since the last time; what a recorder gives may be overwritten in the next run."""
        begin, self.begun = self.begun, self.next
        words = np.fromiter(self._words, np.int64, len(self._words))
        self._words.clear()
        return Piece(words, (self.begun - begin) // self.step)

    def divert(self, write: Write) -> None:
        """From now on calls give their words to this function, not to the tape."""
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
    """The function that records a call; written out for its inputs, as a loop over them takes twice as long.

    Its parameters are called as the cell's inputs are. Cost of a call: see docs/benchmarks.md.
    """
    names = [name if _usable(name) else f"input_{i}" for i, (name, _) in enumerate(callee.inputs)]
    made = [
        f"value{o}_ = class{o}_(); value{o}_.ref = first + {added}" for o, added in enumerate(callee.added)
    ]
    results = [f"value{o}_" for o in range(len(made))]
    lines = {
        "name": callee.name,
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
    found: Call = scope[callee.name]
    return found


_OWN = ("tape", "owner_", "refuse", "callee", "first")


def _usable(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name) and name not in _OWN


@dataclass(frozen=True, slots=True)
class Segment:
    """n nodes of a tape, numbered on from `first` of the run: what was recorded between two decisions.

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


def segment(piece: Piece, slots: Ints, width: int, base: int, first: int) -> Segment:
    """Turn the words of a piece into arrays.

    `slots` (T,): inputs of each type. The run's first node has number `base` among all runs', the piece's
    first one `first` in the run. Errors: StaleError. Cost: some 3 ns a word.
    """
    words, n = piece
    type_of, instance, ptr = np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n + 1, np.int32)
    operand = np.empty(len(words) - n, np.int32)
    stale = _parse(words, slots, width * base, type_of, instance, ptr, operand)
    if stale >= 0:
        node = int(np.searchsorted(ptr, stale, side="right")) - 1
        raise StaleError(int(type_of[node]), int(instance[node]), stale - int(ptr[node]))
    return Segment(first, type_of, instance, ptr, operand)


@njit
def _parse(
    words: Longs, slots: Ints, base: int, type_of: Ints, instance: Ints, ptr: Ints, operand: Ints
) -> int:
    """Fill the arrays of a segment; returns the first operand of an earlier run, -1 without one."""
    at, n, m, stale = 0, 0, 0, -1
    while at < len(words):
        t = words[at] & TYPE
        type_of[n] = t
        instance[n] = words[at] >> OWNER
        at += 1
        for _ in range(slots[t]):
            reference = words[at] >> BITS
            if reference >= 0:
                if reference < base and stale < 0:
                    stale = m
                reference -= base
            operand[m] = reference
            m += 1
            at += 1
        n += 1
        ptr[n] = m
    return stale
