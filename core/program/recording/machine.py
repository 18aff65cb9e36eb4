"""The recorder in machine code: calls of cells write to the tape without Python between, on CPython.

So do questions (`argmax`, `above`), on which a program waits then. All that is not a call with values of the
right classes is left to the function that `recorder.callable_cell` writes, or to `Value`'s.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from abw.core.jit.pointers import Table
from abw.core.program.recording.asks import ABOVE, ARGMAX, BEST, Ask, Asks, Picks
from abw.core.program.recording.machine_code import WORDS
from abw.core.program.recording.machine_types import (
    BY_NAME,
    FAST,
    available,
    is_machine_function,
    machine_function,
    value_type,
)
from abw.core.program.recording.recorder import (
    CLOSED,
    Call,
    Callee,
    Longs,
    Piece,
    Recorder,
    Refuse,
    Write,
    callable_cell,
)
from abw.core.program.recording.values import Owner, Value, class_fields

# The environment's variable that is `python` where calls are to be recorded by Python.
SWITCH = "ABW_RECORDER"
# So many words there is room for at first.
LEAST = 1 << 12
MOST = 2**63 - 1
_AT, _LIMIT, _NEXT, _STEP, _OPEN = (WORDS[name] for name in ("at", "limit", "next", "step", "open"))
_BEGIN, _BEGUN = WORDS["begin"], WORDS["begun"]
_ASKED, _ABOVES, _MASKED = (WORDS[name] for name in ("asked", "aboves", "masked"))
_PICKS, _RANKED, _LEAST, _MOST = (WORDS[name] for name in ("picks", "ranked", "least", "most"))


def new_recorder(width: int) -> Recorder:
    """The recorder in machine code where that can be had, and is not switched off."""
    if os.environ.get(SWITCH) == "python" or not available():
        return Recorder(width)
    return MachineRecorder(width)


def is_cell(function: object) -> bool:
    """Whether a function is a cell of a net, by whatever its calls are recorded."""
    if available() and is_machine_function(function):
        return True
    return getattr(getattr(function, "__code__", None), "co_filename", "").startswith("<cell ")


class MachineRecorder(Recorder):
    """As `Recorder`; the tape is memory that machine code writes to."""

    __slots__ = (
        *("_asks", "_buffer", "_ends", "_from", "_handles", "_kept", "_masks", "_plus", "_state"),
        *("head", "resume"),
    )
    _buffer: Longs
    _state: ctypes.Array[ctypes.c_int64]

    def __init__(self, width: int) -> None:
        self.head = Table((ctypes.c_int64 * len(WORDS))())
        self._state = self.head.words
        self._from = 0
        self._grow(LEAST)
        self._make_room(LEAST, 4 * LEAST)
        self._make_rank_room(LEAST)
        self.forget()
        self._kept: object = None
        said = "resume(calls, answers, whose, stops, first)"
        self.resume = machine_function("resume", "resume", FAST, said, (self.head,))
        for name, ask in (("argmax", ARGMAX), ("above", ABOVE), ("best", BEST)):
            self._state[WORDS[name]] = id(ask)
        super().__init__(width)
        self.whose, self.asking = (
            ctypes.c_int64.from_buffer(self._state, ctypes.sizeof(ctypes.c_int64) * word)
            for word in (WORDS["whose"], WORDS["asking"])
        )

    def _grow(self, room: int) -> None:
        """Room for so many words; those that there are stay."""
        at = self._state[_AT]
        buffer = np.empty(room, np.int64)
        buffer[:at] = self._buffer[:at] if at else 0
        self._buffer = buffer
        self.head.point(WORDS["words"], buffer)
        self._state[_LIMIT] = room

    def _make_room(self, asks: int, masks: int) -> None:
        """Room for so many questions, and for so many bytes of what is allowed; there are none now."""
        self._asks, self._masks = np.empty((asks, 3), np.int64), np.empty(masks, np.uint8)
        self.head.point(WORDS["asks"], self._asks)
        self.head.point(WORDS["masks"], self._masks)
        self._state[WORDS["room"]], self._state[WORDS["mask_room"]] = asks, masks

    def _make_rank_room(self, values: int) -> None:
        """Room for questions to so many values together; there are none now."""
        self._ends, self._handles = np.zeros(values + 1, np.int64), np.empty(values, np.int64)
        self._plus = np.empty(values)
        for name, array in (("ends", self._ends), ("handles", self._handles), ("plus", self._plus)):
            self.head.point(WORDS[name], array)
        self._state[WORDS["rank_room"]] = values

    @property
    def next(self) -> int:
        """As of `Recorder`."""
        return self._state[_NEXT]

    @next.setter
    def next(self, handle: int) -> None:
        self._state[_NEXT] = handle

    @property
    def step(self) -> int:
        """As of `Recorder`."""
        return self._state[_STEP]

    @step.setter
    def step(self, step: int) -> None:
        self._state[_STEP] = step

    @property
    def noted(self) -> tuple[int, int, int]:
        """As of `Recorder`."""
        state = self._state
        return state[_ASKED], state[_ABOVES], state[_PICKS]

    @property
    def resumed(self) -> int:
        """As of `Recorder`."""
        return self._state[WORDS["resumed"]]

    @property
    def sent(self) -> int:
        """As of `Recorder`."""
        return self._state[WORDS["sent"]]

    @property
    def mixed(self) -> bool:
        """As of `Recorder`."""
        return self._state[_LEAST] < self.begun <= self._state[_MOST]

    def wait_by(self, switch: Callable[[Ask], Any]) -> None:
        """As of `Recorder`."""
        self._kept, self._state[WORDS["switch"]] = switch, id(switch)

    def asks(self) -> Asks:
        """As of `Recorder`."""
        state = self._state
        return Asks(self._asks, self._masks[: state[_MASKED]], state[_ASKED])

    def picked(self) -> Picks:
        """As of `Recorder`."""
        state = self._state
        ranked = state[_RANKED]
        ptr = self._ends[: state[_PICKS] + 1]
        return Picks(state[WORDS["k"]], self._handles[:ranked], ptr, self._plus[:ranked])

    def forget(self) -> None:
        """As of `Recorder`."""
        state = self._state
        if 2 * state[_RANKED] > len(self._handles):
            self._make_rank_room(2 * len(self._handles))
        state[_PICKS] = state[_RANKED] = 0
        if 2 * state[_ASKED] > len(self._asks) or 2 * state[_MASKED] > len(self._masks):
            self._make_room(2 * len(self._asks), 2 * len(self._masks))
        state[_ASKED] = state[_MASKED] = state[_ABOVES] = 0
        state[_LEAST], state[_MOST] = MOST, -MOST

    def drop(self) -> None:
        """As of `Recorder`."""
        self._state[_ABOVES] -= int(self._asks[self._state[_ASKED] - 1, 0])
        self._state[_ASKED] -= 1

    def _append(self, words: tuple[int, ...]) -> None:
        """Write a node's words where machine code does not."""
        at = self._state[_AT]
        end = at + len(words)
        if end > self._state[_LIMIT]:
            self._grow(2 * end)
        self._buffer[at:end] = words
        self._state[_AT] = end

    def take(self) -> Piece:
        """As of `Recorder`."""
        state, first, begin = self._state, self._from, self.begun
        at = state[_BEGIN] = self._from = state[_AT]
        end = state[_BEGUN] = self.begun = state[_NEXT]
        return Piece(self._buffer[first:at], (end - begin) // state[_STEP])

    @property
    def unread(self) -> int:
        """As of `Recorder`."""
        return self._state[_AT] - self._state[_BEGIN]

    @property
    def executed(self) -> bool:
        """As of `Recorder`."""
        return self._state[_BEGIN] != self._from

    def divert(self, write: Write) -> None:
        """As of `Recorder`."""
        self._state[_OPEN] = 0
        self.asking.value = CLOSED
        self.write = write

    def restore(self) -> None:
        """As of `Recorder`."""
        self.write = self._append
        self._state[_AT] = self._state[_BEGIN] = self._from = 0
        self._state[_BEGUN] = self.begun
        self._state[_OPEN] = 1

    def value_class(self, net: Owner, shape: tuple[int, ...]) -> type[Value]:
        """As of `Recorder`."""
        made = value_type()
        own: dict[str, object] = class_fields(net, shape)
        if len(shape) == 1:
            own["argmax"] = _asking_argmax(self._ask(made, shape[0], Value.argmax))
            own["_best"] = self._pick(made)
        if own["_size"] == 1:
            own["above"] = _asking_above(self._ask(made, 0, Value.above))
        for name, given in own.items():
            setattr(made, name, given)
        return made

    def _ask(self, kind: type[Value], size: int, slow: Callable[..., Any]) -> Callable[..., Any]:
        """What asks values of a class: see `machine_code`. It does not hold this recorder, nor its net."""
        words = (self.head, id(kind), size, id(slow))
        return machine_function("ask", "ask", FAST, "ask(value, given)", words, slow)

    def _pick(self, kind: type[Value]) -> Callable[..., Any]:
        """What asks for the best of several values of a class."""
        slow = Value._best
        words = (self.head, id(kind), id(slow))
        return machine_function("best", "pick", FAST, "best(values, k, plus)", words, slow)

    def callable_cell(self, callee: Callee, refuse: Refuse) -> Call:
        """As of `Recorder`."""
        slow = callable_cell(callee, self, refuse)
        sizes = len(callee.inputs), len(callee.outputs)
        words: list[int | Table] = [self.head, callee.number, *sizes, id(slow)]
        words += [id(kind) for _, kind in callee.inputs]
        for kind, added in zip(callee.outputs, callee.added, strict=True):
            words += [id(kind), added]
        said = f"{callee.name}({', '.join(name for name, _ in callee.inputs)})"
        return machine_function(callee.name, "record", FAST | BY_NAME, said, words, (self, callee, slow))


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
