"""The recorder in machine code: calls of cells write to the tape without Python between, on CPython.

So do questions (`argmax`, `above`, `best`), on which a program waits then. All that is not a call with values
of the right classes is left to the function that `recorder.callable_cell` writes, or to `Value`'s.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import TRUE
from abw.core.jit.pointers import Table
from abw.core.program.recording.asks import ABOVE, ARGMAX, BEST, Answer, Ask, Asks, Picks
from abw.core.program.recording.machine_code import (
    BY_NAME,
    CLOSED,
    FAST,
    WORDS,
    available,
    is_machine_function,
    machine_function,
    value_type,
)
from abw.core.program.recording.recorder import (
    Call,
    Callee,
    Longs,
    Number,
    Piece,
    Recorder,
    Reduced,
    Refuse,
    RefuseValues,
    Write,
    callable_cell,
    callable_reduction,
)
from abw.core.program.recording.values import Owner, Value, class_fields

# The environment's variable that is `python` where calls are to be recorded by Python.
SWITCH = "ABW_RECORDER"
# So many words there is room for at first.
LEAST = 1 << 12
# So many rounds follow on each other at most.
ROUNDS = 1 << 12
MOST = 2**63 - 1
_AT, _BEGIN, _LIMIT, _OPEN = (WORDS[name] for name in ("at", "begin", "limit", "open"))
_NEXT, _STEP = (WORDS[name] for name in ("next", "step"))
_ASKED, _MASKED = (WORDS[name] for name in ("asked", "masked"))
_ROOM, _MASK_ROOM, _RANK_ROOM, _K = (WORDS[name] for name in ("room", "mask_room", "rank_room", "k"))
_PICKS, _RANKED, _LEAST, _MOST = (WORDS[name] for name in ("picks", "ranked", "least", "most"))


def new_recorder(width: int) -> Recorder:
    """Return the recorder in machine code, unless it is unavailable or switched off."""
    if os.environ.get(SWITCH) == "python" or not available():
        return Recorder(width)
    return MachineRecorder(width)


def is_cell(function: object) -> bool:
    """Whether a function is a cell of a net, whichever recorder it has."""
    if available() and is_machine_function(function):
        return True
    return getattr(getattr(function, "__code__", None), "co_filename", "").startswith("<cell ")


def _word(name: str) -> Any:  # noqa: ANN401 (a property that is a number)
    """An attribute that is a word of the recorder's state."""
    number = WORDS[name]

    def read(recorder: MachineRecorder) -> int:
        return recorder._state[number]

    def write(recorder: MachineRecorder, value: int) -> None:
        recorder._state[number] = value

    return property(read, write)


@dataclass(frozen=True, slots=True)
class Executed(Sequence[Piece]):
    """Pieces among the words of a tape, each from one to another number, of so many nodes: `cuts` (n, 3)."""

    words: Longs
    cuts: Longs

    def __len__(self) -> int:
        return len(self.cuts)

    def __getitem__(self, number: Any) -> Any:  # noqa: ANN401
        begin, end, nodes = self.cuts[number].tolist()
        return Piece(self.words[begin:end], nodes)


class MachineRecorder(Recorder):
    """A recorder whose tape is memory that machine code writes to; it can note questions, too.

    `asking` says how questions are asked now. Those for an argmax or whether a number is above (`asks`) are
    answered by an executor's tape from what lies at `head`; those for the best of several values are
    `picked`. The programs that asked go on by `resume(calls, owners, stops, first)`: from number `first` on,
    each of what `Fiber.going` gave goes on with its answer (see `give`), as the instance that `owners` says;
    what it stops with is written to `stops`. Where all have asked what the tape can answer, that does, and
    they go on again, for as many rounds as are `left`. It returns the index of the first that stops otherwise
    than by a question that is noted, or how many there are, and raises what a generator raises. `resumed` is
    the index of the program that went on last; `sent` says how that stopped, if it is a generator: 1 by
    yielding, 0 at its end.
    """

    __slots__ = ("_arrays", "_buffer", "_given", "_state", "_switch", "asking", "head", "resume")
    _buffer: Longs
    _state: ctypes.Array[ctypes.c_int64]
    next, begun, step = _word("next"), _word("begun"), _word("step")
    resumed, sent, left = _word("resumed"), _word("sent"), _word("left")

    def __init__(self, width: int) -> None:
        self.head = Table((ctypes.c_int64 * len(WORDS))())
        self._state = self.head.words
        self._arrays: dict[str, NDArray[Any]] = {}
        self._switch: object = None
        self._given: Sequence[Answer] | None = None
        self._point(cuts=np.empty((ROUNDS, 3), np.int64))
        self._grow(LEAST)
        self._make_room(LEAST, 4 * LEAST)
        self._make_rank_room(LEAST)
        said = "resume(calls, owners, stops, first)"
        self.resume = machine_function("resume", "resume", FAST, said, (self.head,))
        for name, ask in (("argmax", ARGMAX), ("above", ABOVE), ("best", BEST)):
            self._state[WORDS[name]] = id(ask)
        super().__init__(width)
        owner, self.asking = (
            ctypes.c_int64.from_buffer(self._state, ctypes.sizeof(ctypes.c_int64) * WORDS[name])
            for name in ("owner", "asking")
        )
        self.owner = cast(Number, owner)

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

    def _make_room(self, asks: int, masks: int) -> None:
        """Have room for so many questions, and for so many bytes of what is allowed; there are none now."""
        self._point(asks=np.empty((asks, 3), np.int64), masks=np.empty(masks, np.uint8))
        self._point(answers=np.empty(asks, np.int64))
        self._state[_ROOM], self._state[_MASK_ROOM] = asks, masks

    def _make_rank_room(self, values: int) -> None:
        """Have room for questions to so many values together; there are none now."""
        ends, handles = np.zeros(values + 1, np.int64), np.empty(values, np.int64)
        self._point(ends=ends, handles=handles, plus=np.empty(values))
        self._state[_RANK_ROOM] = values

    @property
    def noted(self) -> tuple[int, int]:
        """The numbers of questions in `asks`, and of those in `picked`."""
        return self._state[_ASKED], self._state[_PICKS]

    @property
    def mixed(self) -> bool:
        """Whether only some of the noted questions are about nodes that were taken already."""
        return bool(self._state[_LEAST] < self.begun <= self._state[_MOST])

    def wait_by(self, switch: Callable[[Ask], Any] | None) -> None:
        """Set the function by which asking greenlets wait; it is given `ARGMAX`, `ABOVE` or `BEST`."""
        self._switch, self._state[WORDS["switch"]] = switch, id(switch)

    def asks(self) -> Asks:
        """The questions noted; overwritten by those after `forget`."""
        state, held = self._state, self._arrays
        return Asks(held["asks"], held["masks"][: state[_MASKED]], state[_ASKED])

    def give(self, answers: Sequence[Answer] | None) -> None:
        """Let programs go on with these answers; None: with those of the tape."""
        self._given = answers
        self._state[WORDS["listed"]] = 0 if answers is None else id(answers)

    def answers(self, count: int) -> list[Answer]:
        """The tape's answers to so many questions."""
        return [one if one >= 0 else one == TRUE for one in self._arrays["answers"][:count].tolist()]

    def picked(self) -> Picks:
        """The questions for the best; overwritten by those after `forget`."""
        state, held = self._state, self._arrays
        ranked, ptr = state[_RANKED], held["ends"][: state[_PICKS] + 1]
        return Picks(state[_K], held["handles"][:ranked], ptr, held["plus"][:ranked])

    def forget(self) -> None:
        """Forget the noted questions, which have been answered."""
        state = self._state
        asks, masks, values = state[_ROOM], state[_MASK_ROOM], state[_RANK_ROOM]
        if 2 * state[_RANKED] > values:
            self._make_rank_room(2 * values)
        if 2 * state[_ASKED] > asks or 2 * state[_MASKED] > masks:
            self._make_room(2 * asks, 2 * masks)
        state[_PICKS] = state[_RANKED] = state[_ASKED] = state[_MASKED] = 0
        state[_LEAST], state[_MOST] = MOST, -MOST

    def drop(self) -> None:
        """Forget the last question noted: it was none."""
        self._state[_ASKED] -= 1

    def _append(self, words: tuple[int, ...]) -> None:
        """Write a node's words where machine code does not."""
        at = self._state[_AT]
        end = at + len(words)
        if end > self._state[_LIMIT]:
            self._grow(2 * end)
        self._buffer[at:end] = words
        self._state[_AT] = end

    def nodes(self, number: int, words: Longs) -> int:
        """See `Recorder.nodes`."""
        state, (m, w) = self._state, words.shape
        if not state[_OPEN]:
            return super().nodes(number, words)
        at, first, step = state[_AT], state[_NEXT], state[_STEP]
        end = at + m * (w + 1)
        if end > state[_LIMIT]:
            self._grow(2 * end)
        rows = self._buffer[at:end].reshape(m, w + 1)
        rows[:, 0], rows[:, 1:] = number | self.owner.value, words
        state[_AT], state[_NEXT] = end, first + m * step
        return first

    @property
    def unread(self) -> int:
        """How many words are neither taken nor executed."""
        return self._state[_AT] - self._state[_BEGIN]

    def executed(self) -> Sequence[Piece]:
        """What a tape has executed since the last call, round by round; it executes no more by itself."""
        number = self._state[WORDS["rounds"]]
        self._state[WORDS["rounds"]] = self.left = 0
        return Executed(self._buffer, self._arrays["cuts"][:number].copy()) if number else ()

    def take(self) -> Piece:
        """Return the words that nothing has executed or taken; the next run may overwrite them."""
        state, begun = self._state, self.begun
        begin, state[_BEGIN] = state[_BEGIN], state[_AT]
        self.begun = self.next
        return Piece(self._buffer[begin : state[_AT]], (self.next - begun) // state[_STEP])

    def divert(self, write: Write) -> None:
        """Give the words of further calls to this function instead of the tape."""
        self._state[_OPEN] = 0
        self.asking.value = CLOSED
        self.write = write

    def restore(self) -> None:
        """Write to the tape again, from its beginning."""
        self.write = self._append
        self._state[_AT] = self._state[_BEGIN] = 0
        self._state[_OPEN] = 1
        self.executed()
        self.forget()

    def value_class(self, net: Owner, shape: tuple[int, ...]) -> type[Value]:
        """A class for a net's values of a shape, whose methods ask in machine code.

        These do not hold this recorder, nor the net.
        """
        made = value_type()
        own: dict[str, object] = class_fields(net, shape)

        def asking(code: str, slow: Callable[..., Any], said: str, *size: int) -> Callable[..., Any]:
            return machine_function(code, code, FAST, said, (self.head, id(made), *size, id(slow)), slow)

        if len(shape) == 1:
            own["argmax"] = _asking_argmax(asking("ask", Value.argmax, "ask(value, given)", shape[0]))
            own["_best"] = asking("pick", Value._best, "pick(values, k, plus)")
        if own["_size"] == 1:
            own["above"] = _asking_above(asking("ask", Value.above, "ask(value, given)", 0))
        for name, field in own.items():
            setattr(made, name, field)
        return made

    def callable_cell(self, callee: Callee, refuse: Refuse) -> Call:
        """The function that records a call of a cell, or hands it to `refuse`."""
        slow = callable_cell(callee, self, refuse)
        sizes = len(callee.inputs), len(callee.outputs)
        words: list[int | Table] = [self.head, callee.number, *sizes, id(slow)]
        words += [id(kind) for _, kind in callee.inputs]
        for kind, added in zip(callee.outputs, callee.added, strict=True):
            words += [id(kind), added]
        said = f"{callee.name}({', '.join(name for name, _ in callee.inputs)})"
        return machine_function(callee.name, "record", FAST | BY_NAME, said, words, (self, callee, slow))

    def callable_reduction(self, made: Reduced, refuse: RefuseValues) -> Call:
        """The function that records a reduction of a list of values, or hands it to `refuse`."""
        slow = callable_reduction(made, self, refuse)
        words = (self.head, made.number, id(made.input), id(slow), id(made.output), made.added)
        return machine_function(made.name, "reduce", FAST, f"{made.name}(values)", words, (self, made, slow))


def _asking_argmax(ask: Callable[..., Any]) -> Callable[..., int]:
    def argmax(self: Value, allowed: Sequence[bool] | None = None) -> int:
        found: int = ask(self, allowed)
        return found

    argmax.__doc__ = Value.argmax.__doc__
    return argmax


def _asking_above(ask: Callable[..., Any]) -> Callable[..., bool]:
    def above(self: Value, limit: float) -> bool:
        found: bool = ask(self, float(limit))
        return found

    above.__doc__ = Value.above.__doc__
    return above
