"""Records calls of cells in machine code: each becomes a node of a tape, of which only handles are known.

So are questions (`argmax`, `above`, `best`), on which a program waits then. All that is not a call with
values of the right classes is left to functions of Python's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.interface import ASK_WORDS
from abw.core.jit.pointers import Table
from abw.core.program.recording.asks import ABOVE, ARGMAX, BEST, Answer, Ask, Asks
from abw.core.program.recording.machine_code import (
    BY_NAME,
    CLOSED,
    FAST,
    WORDS,
    available,
    machine_function,
    value_type,
)
from abw.core.program.recording.machine_region import words_of
from abw.core.program.recording.segments import Longs, Piece, lists_of
from abw.core.program.recording.values import BITS, Owner, Value, class_fields

# Takes a node's words.
Write = Callable[[tuple[int, ...]], object]
# A cell as programs call it: values in, a value or a tuple of values out.
Call = Callable[..., Any]
# So many words there is room for at first.
LEAST = 1 << 12
# So many rounds follow on each other at most.
ROUNDS = 1 << 12
MOST = 2**63 - 1
_AT, _BEGIN, _LIMIT, _ROUNDS = (WORDS[name] for name in ("at", "begin", "limit", "rounds"))
_ASKED, _MASKED, _RANKED, _PICKED = (WORDS[name] for name in ("asked", "masked", "ranked", "picked"))
_ROOM, _MASK_ROOM, _RANK_ROOM = (WORDS[name] for name in ("room", "mask_room", "rank_room"))
_LEAST, _MOST, _LEFT = WORDS["least"], WORDS["most"], WORDS["left"]


@dataclass(frozen=True, slots=True)
class Callee:
    """A cell that can be called: its type's number, the classes of its inputs, by name, and outputs; and what
    is added to a node's first handle for each output's. Of a reduction the input is a list of values.
    """

    name: str
    number: int
    inputs: tuple[tuple[str, type[Value]], ...]
    outputs: tuple[type[Value], ...]
    added: tuple[int, ...]


# Called with arguments that are not all values of the classes wanted, or with what is no list of several such
# values: raises, or says what the call gives.
Refuse = Callable[[Callee, Any], Any]


def _word(name: str) -> Any:  # noqa: ANN401 (a property that is a number)
    """An attribute that is a word of the recorder's state."""
    number = WORDS[name]

    def read(recorder: Recorder) -> int:
        return recorder._state[number]

    def write(recorder: Recorder, value: int) -> None:
        recorder._state[number] = value

    return property(read, write)


@dataclass(slots=True)
class Executed(Sequence[Piece]):
    """Pieces among the words of a tape, each from one to another number, of so many nodes: `cuts` (n, 3)."""

    words: Longs
    cuts: Longs

    def __len__(self) -> int:
        return len(self.cuts)

    def __getitem__(self, number: Any) -> Any:  # noqa: ANN401
        begin, end, nodes = self.cuts[number].tolist()
        return Piece(self.words[begin:end], nodes)

    @property
    def together(self) -> Piece:
        """All pieces, which follow one another, as one."""
        return Piece(self.words[self.cuts[0, 0] : self.cuts[-1, 1]], int(self.cuts[:, 2].sum()))


class Recorder:
    """The tape while it is written, in memory that machine code writes to, and the questions about it.

    `next` is the handle of the next node's first output without its kind, `begun` that of the first node
    that is neither taken nor executed. `owner` is the index of the instance that records, shifted by OWNER.
    `write` takes a node's words where machine code does not. Nodes are numbered on from run to run, so that a
    handle of an earlier run is recognised.

    `asking` says how questions are asked now. An executor's tape answers them from what lies at `head`. The
    programs that asked go on by `resume(calls, owners, stops, first)`: from number `first` on, each of what
    `Fiber.going` gave goes on with its answer (see `give`), as the instance that `owners` says; what it stops
    with is written to `stops`. Where all have asked what the tape can answer, that does, and they go on
    again, for as many rounds as are `left`. It returns the index of the first that stops otherwise than by a
    question that is noted, or how many there are, and raises what a generator raises. `resumed` is the index
    of the program that went on last; `sent` says how that stopped, if it is a generator: 1 by yielding, 0 at
    its end. `answered(i)` is the tape's answer to question i.
    """

    __slots__ = (
        "_arrays", "_buffer", "_given", "_state", "_switch", "answered", "asking", "head", "owner", "resume",
        "write",
    )  # fmt: skip
    _buffer: Longs
    _state: ctypes.Array[ctypes.c_int64]
    next, begun, step = _word("next"), _word("begun"), _word("step")
    asked, least = _word("asked"), _word("least")
    resumed, sent, left, rounds = (_word(name) for name in ("resumed", "sent", "left", "rounds"))

    def __init__(self, width: int) -> None:
        """Raise AbwError where the interpreter's objects are not laid out as the machine code expects."""
        if not available():
            raise AbwError("programs run on CPython with its global lock, on x86-64 and AArch64")
        self.head = Table((ctypes.c_int64 * len(WORDS))())
        self._state = self.head.words
        self._arrays: dict[str, NDArray[Any]] = {}
        self._switch: object = None
        self._given: Sequence[Answer] | None = None
        self._point(cuts=np.empty((ROUNDS, 3), np.int64))
        self._grow(LEAST)
        self._make_room(LEAST, 4 * LEAST, LEAST)
        said = "resume(calls, owners, stops, first)"
        self.resume = machine_function("resume", "resume", FAST, said, (self.head,))
        self.answered = machine_function("answered", "answered", FAST, "answered(number)", (self.head,))
        for name, ask in (("argmax", ARGMAX), ("above", ABOVE), ("best", BEST)):
            self._state[WORDS[name]] = id(ask)
        self.owner, self.asking = (
            ctypes.c_int64.from_buffer(self._state, ctypes.sizeof(ctypes.c_int64) * WORDS[name])
            for name in ("owner", "asking")
        )
        self.widen(width)
        self.restore()

    def widen(self, width: int) -> None:
        """Give each further node room for so many outputs; handles of earlier nodes stay valid."""
        self.step = width << BITS
        self.next = self.begun = -(-self.next // self.step) * self.step

    def _grow(self, room: int) -> None:
        """Have room for so many words; those that there are stay."""
        at = self._state[_AT]
        buffer = np.empty(room, np.int64)
        buffer[:at] = self._buffer[:at] if at else 0
        self._buffer = buffer
        self.head.point(WORDS["words"], buffer)
        self._state[_LIMIT] = room

    def _point(self, **arrays: NDArray[Any]) -> None:
        """Keep these arrays; the words of the same names get their addresses."""
        self._arrays |= arrays
        for name, array in arrays.items():
            self.head.point(WORDS[name], array)

    def _make_room(self, asks: int, masks: int, values: int) -> None:
        """Have room for so many questions, bytes of what is allowed, and values of questions for the best of
        several; there are none now.
        """
        self._point(asks=np.empty((asks, ASK_WORDS), np.int64), answers=np.empty(asks, np.int64))
        self._point(masks=np.empty(masks, np.uint8), scores=np.empty(2 * values, np.int64))
        self._point(handles=np.empty(values, np.int64), plus=np.empty(values))
        self._state[_ROOM], self._state[_MASK_ROOM], self._state[_RANK_ROOM] = asks, masks, values

    def wait_by(self, switch: Callable[[Ask], Any] | None) -> None:
        """Set the function by which asking greenlets wait; it is given `ARGMAX`, `ABOVE` or `BEST`."""
        self._switch, self._state[WORDS["switch"]] = switch, id(switch)

    def asks(self) -> Asks:
        """The questions noted; overwritten by those after `forget`."""
        held = self._arrays
        return Asks(held["asks"][: self.asked], held["masks"], held["handles"], held["plus"])

    def give(self, answers: Sequence[Answer] | None) -> None:
        """Let programs go on with these answers; None: with those of the tape."""
        self._given = answers
        self._state[WORDS["listed"]] = 0 if answers is None else id(answers)

    def forget(self) -> None:
        """Forget the noted questions, which have been answered."""
        state = self._state
        if state[_ASKED] and self.crowded:
            self._make_room(2 * state[_ROOM], 2 * state[_MASK_ROOM], 2 * state[_RANK_ROOM])
        state[_ASKED] = state[_MASKED] = state[_RANKED] = state[_PICKED] = 0
        state[_LEAST], state[_MOST] = MOST, -MOST

    @property
    def crowded(self) -> bool:
        """Whether there is so little room left for questions that `forget` makes more."""
        state = self._state
        return (
            2 * state[_ASKED] > state[_ROOM]
            or 2 * state[_MASKED] > state[_MASK_ROOM]
            or 2 * max(state[_RANKED], state[_PICKED]) > state[_RANK_ROOM]
        )

    def drop(self) -> None:
        """Forget the last question noted: it was none."""
        self.asked -= 1

    def _append(self, words: tuple[int, ...]) -> None:
        """Write a node's words where machine code does not."""
        at = self._state[_AT]
        end = at + len(words)
        if end > self._state[_LIMIT]:
            self._grow(2 * end)
        self._buffer[at:end] = words
        self._state[_AT] = end

    def node(self, number: int, *words: int) -> int:
        """Write a node of a type with these words; returns its first handle."""
        first: int = self.next
        self.write((number | self.owner.value, *words))
        self.next = first + self.step
        return first

    def attend(self, callee: Callee, *lists: Sequence[Value]) -> list[Any]:
        """Write an attention node for each query, over the same values and keys; returns the results.

        `lists`: several values, as many keys, and the queries.
        """
        values, keys, queries = ([value.ref for value in each] for each in lists)
        number, first, step = callee.number, int(self.next), int(self.step)
        if self._state[_LIMIT]:
            several = lists_of(len(values), len(queries))
            self.write((number | self.owner.value, several, *values, *keys, *queries))
            self.next = first + len(queries) * step
        else:
            for query in queries:
                self.node(number, len(values), *values, *keys, query)
        made: list[Any] = [callee.outputs[0]() for _ in queries]
        for place, value in enumerate(made):
            value.ref = first + place * step + callee.added[0]
        return made

    @property
    def unread(self) -> int:
        """How many words are neither taken nor executed."""
        return self._state[_AT] - self._state[_BEGIN]

    def executed(self) -> Sequence[Piece]:
        """What a tape has executed since the last call, round by round; it executes no more by itself."""
        number = self._state[_ROUNDS]
        self._state[_ROUNDS] = self._state[_LEFT] = 0
        return Executed(self._buffer, self._arrays["cuts"][:number].copy()) if number else ()

    def take(self) -> Piece:
        """Return the words that nothing has executed or taken; the next run may overwrite them."""
        state, begun = self._state, self.begun
        begin, state[_BEGIN] = state[_BEGIN], state[_AT]
        self.begun = self.next
        return Piece(self._buffer[begin : state[_AT]], (self.next - begun) // self.step)

    def divert(self, write: Write) -> None:
        """Give the words of further calls to this function instead of the tape."""
        self._state[_LIMIT] = 0
        self.asking.value = CLOSED
        self.write = write

    def restore(self) -> None:
        """Write to the tape again, from its beginning."""
        self.write, state = self._append, self._state
        state[_AT] = state[_BEGIN] = state[_ROUNDS] = state[_LEFT] = 0
        state[_LIMIT] = len(self._buffer)
        self.forget()

    def value_class(self, net: Owner, shape: tuple[int, ...]) -> type[Value]:
        """A class for a net's values of a shape, whose methods ask in machine code.

        These do not hold this recorder, nor the net.
        """
        made = value_type()
        own: dict[str, object] = class_fields(net, shape)

        def asking(code: str, slow: Callable[..., Any], said: str, *size: int) -> Callable[..., Any]:
            return machine_function(code, code, FAST, said, (self.head, id(made), *size, id(slow)), slow)

        def argmax(self: Value, allowed: Sequence[bool] | None = None) -> Any:  # noqa: ANN401
            return ask(self, allowed)

        def above(self: Value, limit: float) -> Any:  # noqa: ANN401
            return compare(self, float(limit))

        argmax.__doc__, above.__doc__ = Value.argmax.__doc__, Value.above.__doc__
        if len(shape) == 1:
            ask = asking("ask", Value.argmax, "ask(value, given)", shape[0])
            own |= {
                "argmax": argmax,
                "_asked": ask,
                "_best": asking("pick", Value._best, "pick(values, k, plus)"),
            }
        if own["_size"] == 1:
            compare = asking("ask", Value.above, "ask(value, given)", 0)
            own["above"] = above
        for name, field in own.items():
            setattr(made, name, field)
        return made

    def callable_cell(self, callee: Callee, refuse: Refuse) -> Call:
        """The function that records a call of a cell, or hands it to `refuse`."""
        names = [name if _usable(name) else f"input_{i}" for i, (name, _) in enumerate(callee.inputs)]
        kinds = [kind for _, kind in callee.inputs]
        bind = eval(f"lambda {', '.join(names)}: ({''.join(f'{name}, ' for name in names)})")
        bind.__name__ = bind.__qualname__ = callee.name  # as errors say it

        def slow(*values: Any, **named: Any) -> Any:  # noqa: ANN401
            given = bind(*values, **named)
            if [value.__class__ for value in given] != kinds:
                return refuse(callee, given)
            return self._made(callee, [value.ref for value in given])

        return self._recording(callee, names, slow)

    def callable_cell_or(self, callee: Callee, other: Call) -> Call:
        """The function that records a call of a cell; `other` gets all calls with other values."""
        return self._recording(callee, [name for name, _ in callee.inputs], other)

    def callable_reduction(self, callee: Callee, refuse: Refuse) -> Call:
        """The function that records a reduction of a list of values, or hands it to `refuse`."""
        ((name, kind),) = callee.inputs

        def slow(values: Any) -> Any:  # noqa: ANN401
            several = values.__class__ in (list, tuple) and len(values) > 1
            if not several or any(value.__class__ is not kind for value in values):
                return refuse(callee, values)
            return self._made(callee, [len(values), *[value.ref for value in values]])

        program: list[tuple[str | int, ...]] = [
            ("values", 0, id(kind), 0, 2), ("reduce", callee.number, 0, 1, callee.added[0]),
            ("commit",), ("made", 1, id(callee.outputs[0])), ("return",),
        ]  # fmt: skip
        said = f"{callee.name}({name})"
        return self.callable_region(said, 1, program, (1, 2, 1), callee, slow)

    def callable_attention(self, callee: Callee, slow: Call) -> Call:
        """The function that records attention over lists of values and keys, by each of a list of queries.

        It gives a list. Other calls, and of a list of one value, are left to `slow`.
        """
        words: list[int | Table] = [self.head, callee.number, *(id(kind) for _, kind in callee.inputs)]
        words += [id(callee.outputs[0]), callee.added[0], id(slow)]
        said = "attend(values, keys, queries)"
        return machine_function("attend", "attend", FAST, said, words, (self, callee, slow))

    def callable_region(
        self,
        said: str,
        arguments: int,
        program: Iterable[tuple[str | int, ...]],
        rooms: tuple[int, int, int],
        held: object,
        other: Call,
    ) -> Call:
        """The function that records several calls by a list of instructions (see `machine_region`).

        `said`: its signature; `rooms`: how many registers, operands and objects for the result there are;
        `held`: what instructions have addresses of; `other` gets all other calls, and those that the tape has
        no room for.
        """
        sizes = rooms[0], 3 * rooms[1], rooms[2]
        tables = [Table((ctypes.c_int64 * size)()) for size in sizes]
        words: list[int | Table] = [self.head, arguments, id(other), *tables, *words_of(program), 0, 0, 0, 0]
        name, kept = said.partition("(")[0], (self, other, held)
        return machine_function(name, "region", FAST | BY_NAME, said, words, kept)

    def reader(self, kind: type[Value]) -> Callable[[Sequence[Value]], list[int]]:
        """What reads the handles of a list or tuple of values, at once if all are of a class."""
        program = [("values", 0, id(kind), 0, 1), ("commit",), ("handles", 0), ("return",)]
        return self.callable_region("handles(values)", 1, program, (1, 1, 1), kind, _handles)

    def _made(self, callee: Callee, words: Sequence[int]) -> Any:  # noqa: ANN401
        """Write a node; returns its values."""
        first = self.node(callee.number, *words)
        made: list[Any] = [kind() for kind in callee.outputs]
        for value, added in zip(made, callee.added, strict=True):
            value.ref = first + added
        return made[0] if len(made) == 1 else tuple(made)

    def _recording(self, callee: Callee, names: Sequence[str], slow: Call) -> Call:
        """The function of machine code; what it does not take is left to `slow`."""
        kinds = [id(kind) for _, kind in callee.inputs]
        words: list[int | Table] = [
            self.head,
            callee.number,
            len(kinds),
            len(callee.outputs),
            id(slow),
            *kinds,
        ]
        for kind, added in zip(callee.outputs, callee.added, strict=True):
            words += [id(kind), added]
        said = f"{callee.name}({', '.join(names)})"
        return machine_function(callee.name, "record", FAST | BY_NAME, said, words, (self, callee, slow))


def _handles(values: Sequence[Value]) -> list[int]:
    return [value.ref for value in values]


def _usable(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)
