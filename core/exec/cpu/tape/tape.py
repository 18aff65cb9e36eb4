"""A run that goes on as long as nodes are appended, without plans: room for them, and the compiled calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.memory import ArenaMemory
from abw.core.exec.cpu.packing import address
from abw.core.exec.cpu.rounds.state import DONE, FAILED, FULL, PAUSED, StateFunction, Words
from abw.core.exec.cpu.tape import best
from abw.core.exec.cpu.tape.choose import Choose, sizes_of
from abw.core.exec.cpu.tape.emit import Advance, fields_of, taken_rows
from abw.core.exec.cpu.tape.round import Round
from abw.core.exec.cpu.target import Target
from abw.core.exec.epochs import RunEpochs
from abw.core.exec.interface import MOST_BEST, Advanced, Array, Picked
from abw.core.plan.arenas import Arenas

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

LEAST = 1 << 10
"""So many new nodes there is room for at first."""
_OF_NODES, _OF_WORDS = ("begin", "missing", "head", "path", "queue"), ("operand", "next", "owner")
_ENDS: dict[int, Advanced] = {DONE: "done", FAILED: "stale", PAUSED: "large"}


class CompiledTape:
    """See `abw.core.exec.interface.Tape`; on a prepared executor's memory and kernels, on one thread."""

    def __init__(
        self,
        arenas: Arenas,
        target: Target,
        memory: ArenaMemory,
        tables: Mapping[str, Longs],
        scratch: int,
        epochs: RunEpochs,
        bits: int,
        limit: int,
    ) -> None:
        """Compile it, or find it on disk. `limit`: the arithmetic from which on plans are better.

        Cost: some 50 ms, from a file 5.
        """
        self._arenas, self._memory, self._scratch, self._epochs = arenas, memory, scratch, epochs
        self._target, self._bits = target, bits
        self._width = arenas.output_arena.shape[1]
        module, words = Module(target), Words()
        f = StateFunction(module, "advance", words, ", ptr %scratch")
        Advance(f, arenas, bits).emit()
        module.add(f)
        f = StateFunction(module, "choose", words)
        Choose(f, arenas, bits).emit()
        module.add(f)
        f = StateFunction(module, "round", words, ", ptr %scratch, ptr %head")
        Round(f).emit()
        module.add(f)
        code = compile_ir(module.text(), target)
        self._codes = [code]
        pointer = ctypes.c_void_p
        advance = ctypes.CFUNCTYPE(None, pointer, pointer)(code.address("advance"))
        self._advance: Callable[[int, int], None] = advance
        choose = ctypes.CFUNCTYPE(None, pointer)(code.address("choose"))
        self._choose: Callable[[int], None] = choose
        once = ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(code.address("round"))
        self._once: Callable[[int, int, int], None] = once
        fields = fields_of(arenas)
        kept = {*taken_rows(arenas), *(int(arenas.field_arena[c]) for c in fields)}
        self._written = [(a, words["row", a], words["row_end", a]) for a in sorted(kept)]
        self._words, self._at = words, words.place
        self._bests: dict[tuple[int, int], Callable[[int], None]] = {}
        for name in (best.COUNT, *best.ARRAYS):
            words[name]
        self._state = (ctypes.c_int64 * len(words.place))()
        self._state_at = ctypes.addressof(self._state)
        output, sizes = np.ascontiguousarray(arenas.output_arena.ravel()), sizes_of(arenas)
        shapes = [arenas.shape[a] if a >= 0 else () for a in output.tolist()]
        size = [sizes.index(shape[0]) if len(shape) == 1 else -1 for shape in shapes]
        self._fixed: dict[str, NDArray[np.integer[Any]]] = {
            "flops": arenas.product_flops,
            "slots": arenas.slots,
            "output": output,
            "size": np.array(size, np.int32),
            "pitch": memory.pitch,
            **tables,
        }
        self._give(self._fixed)
        self._set("limit", limit)
        self._answers = np.empty(0, np.int32)
        self._reserve_answers(LEAST)
        self._given = {c: np.empty(LEAST, np.int32) for c in fields}
        self._room = self._room_of_words = 0
        self._status, self._first = words["status"], words["first"]

    def _set(self, name: str, value: int) -> None:
        if name in self._at:
            self._state[self._at[name]] = value

    def _give(self, arrays: Mapping[str, NDArray[np.integer[Any]]]) -> None:
        for name, values in arrays.items():
            self._set(name, address(values))

    def begin(self, base: int) -> None:
        """As in `Tape`."""
        self._epochs.start()
        self._set("base", base)
        self._set("batches", 0)
        for c, rows in self._given.items():
            self._state[self._at["brought", c]] = 0
            self._state[self._at["given", c]] = address(rows)
        self.take(self._arenas.head)
        self._read = self._epochs.guarded(self._values)

    def place(self, type: Ints, row: Ints) -> None:
        """As in `Tape`."""
        self._type, self._row = type, row
        self._give({"type": type, "row": row})
        self._set("held", len(type))

    def bring(self, constant: int, since: int, values: Floats) -> None:
        """As in `Tape`. Cost: some 10 us, and a copy."""
        if constant not in self._given:
            return
        arena = int(self._arenas.field_arena[constant])
        held, state, at = self._rows(), self._state, self._at
        first, before = int(held[arena]), state[at["brought", constant]]
        after = before + len(values)
        if first + len(values) > len(self._memory.views[arena]):
            self._have({arena: len(values)})
        self._memory.views[arena][first : first + len(values)] = values
        if after > len(self._given[constant]):
            self._given[constant] = np.resize(self._given[constant], 2 * after)
            state[at["given", constant]] = address(self._given[constant])
        self._given[constant][before:after] = np.arange(first, first + len(values))
        state[at["row", arena]] += len(values)
        state[at["brought", constant]], state[at["since", constant]] = after, since

    def advance(self, words: Longs, nodes: int, first: int) -> Advanced:
        """As in `Tape`. Cost: some 2 us beside the kernels, and 30 ns a node."""
        if nodes > self._room or len(words) > self._room_of_words:
            self._grow(nodes, len(words))
        state, at = self._state, self._at
        state[at["words"]], state[at["length"]] = address(words), len(words)
        state[at["first"]] = first
        self._advance(self._state_at, self._scratch)
        if state[at["status"]] == FULL:
            self._reserve()
            self._advance(self._state_at, self._scratch)
        return _ENDS[state[at["status"]]]

    def round(self, head: int, first: int, asked: int) -> list[int] | None:
        """As in `Tape`. Cost: some 1 us beside the kernels, 30 ns a node and a few a question."""
        self._reserve_answers(asked)
        self._state[self._first] = first
        self._once(self._state_at, self._scratch, head)
        if self._state[self._status] != DONE:
            return None
        found: list[int] = self._answers[:asked].tolist()
        return found

    def make_room(self, words: int) -> bool:
        """As in `Tape`."""
        if self._state[self._status] != FULL:
            return False
        if words > min(self._room, self._room_of_words):
            self._grow(words, words)
        else:
            self._reserve()
        return True

    def _reserve_answers(self, count: int) -> None:
        if count > len(self._answers):
            self._answers = np.empty(2 * count, np.int32)
            self._set("answers", address(self._answers))

    def _grow(self, nodes: int, length: int) -> None:
        """Buffers for so many new nodes, said by so many words."""
        self._room = max(LEAST, 2 * nodes, self._room)
        self._room_of_words = max(4 * LEAST, 2 * length, self._room_of_words)
        self._buffers = {name: np.empty(self._room, np.int32) for name in _OF_NODES}
        self._buffers |= {name: np.empty(self._room_of_words, np.int32) for name in _OF_WORDS}
        self._give(self._buffers)
        self._set("room", min(self._room, self._room_of_words))
        slots = range(int(self._arenas.slots.max(initial=0)))
        self._indices = [np.empty(self._room, np.int32) for _ in slots]
        for s in slots:
            self._state[self._at["index", s]] = address(self._indices[s])

    def _reserve(self) -> None:
        """Memory for the nodes that there was no room for."""
        self._have({a: self._state[self._at["need", a]] for a in taken_rows(self._arenas)})

    def _have(self, more: Mapping[int, int]) -> None:
        """Memory for so many rows more of each arena."""
        held = self._rows()
        wanted = held.copy()
        for arena, rows in more.items():
            wanted[arena] += rows
        self._epochs.go_on(wanted, self._arenas)
        self._memory.reserve(wanted, held)
        self.take(held)

    def leave(self) -> Ints:
        """As in `Tape`."""
        rows = self._rows()
        self._epochs.go_on(rows, self._arenas)
        return rows

    def _rows(self) -> Ints:
        found = self._arenas.head.copy()
        for arena, row, _ in self._written:
            found[arena] = self._state[row]
        return found

    def take(self, rows: Ints) -> None:
        """As in `Tape`."""
        for arena, row, end in self._written:
            self._state[row] = int(rows[arena])
            self._state[end] = len(self._memory.views[arena])

    @property
    def batches(self) -> int:
        """As in `Tape`."""
        return int(self._state[self._at["batches"]])

    def values(self, references: Longs) -> Array:
        """As in `Tape`."""
        return self._read(references)

    def _values(self, references: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        node, output = references // self._width, references % self._width
        arenas, rows = self._arenas.output_arena[self._type[node], output], self._row[references]
        one = int(arenas[0])
        found: NDArray[np.float32]
        if (arenas == one).all():
            found = self._memory.views[one][rows]
            return found
        found = np.empty((len(references), *self._arenas.shape[one]), np.float32)
        for a in np.unique(arenas).tolist():
            here = arenas == a
            found[here] = self._memory.views[a][rows[here]]
        return found

    def choose(self, asks: Longs, masks: NDArray[np.uint8], count: int) -> list[int] | None:
        """As in `Tape`. Cost: some 2 us, and a few ns a question."""
        self._reserve_answers(count)
        state, at = self._state, self._at
        state[at["asks"]], state[at["masks"]], state[at["asked"]] = address(asks), address(masks), count
        self._choose(self._state_at)
        found: list[int] | None = self._answers[:count].tolist() if state[at["status"]] == DONE else None
        return found

    def best(self, k: int, handles: Longs, ptr: Longs, plus: Doubles) -> list[list[Picked]] | None:
        """As in `Tape`. Cost: some 10 us, two passes over the values, and 0.5 us a question; the first time
        of a k and a size some 50 ms, from a file 5.
        """
        state, at, asked = self._state, self._at, len(ptr) - 1
        reference = (int(handles[0]) >> self._bits) - state[at["base"]]
        if reference < 0 or k > MOST_BEST:
            return None
        node, output = divmod(reference, self._width)
        shape = self._arenas.shape[self._arenas.output_arena[self._type[node], output]]
        if len(shape) != 1:
            return None
        which, element = (np.empty(asked * k, np.int32) for _ in range(2))
        total = np.empty(asked * k)
        state[at[best.COUNT]] = asked
        arrays: tuple[NDArray[Any], ...] = (ptr, handles, plus, which, element, total)
        for name, array in zip(best.ARRAYS, arrays, strict=True):
            state[at[name]] = address(array)
        self._best_of(shape[0], k)(self._state_at)
        if state[self._status] != DONE:
            return None
        found = [*zip(which.tolist(), element.tolist(), total.tolist(), strict=True)]
        return [
            found[place : place + min((end - begin) * shape[0], k)]
            for place, (begin, end) in zip(count(0, k), pairwise(ptr.tolist()), strict=False)
        ]

    def _best_of(self, size: int, k: int) -> Callable[[int], None]:
        """The compiled function that finds the k best of vectors of a size."""
        if (size, k) not in self._bests:
            module = Module(self._target)
            f = StateFunction(module, "best", self._words)
            best.Bests(f, self._arenas, self._bits, size, k).emit()
            module.add(f)
            code = compile_ir(module.text(), self._target)
            self._bests[size, k] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("best"))
            self._codes.append(code)
        return self._bests[size, k]
