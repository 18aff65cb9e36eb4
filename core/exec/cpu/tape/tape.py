"""A run that goes on as long as nodes are appended, without plans: room for them, and the compiled calls."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.best import compile_argmax, compile_best
from abw.core.exec.cpu.llvm.kernel import SLOT_WORDS
from abw.core.exec.cpu.tape import state as at
from abw.core.exec.cpu.tape.advance import advance
from abw.core.exec.cpu.tape.answer import answer_round
from abw.core.exec.cpu.tape.state import fields_of, known_of, sizes_of
from abw.core.exec.cpu.target import Target
from abw.core.exec.interface import HEAD, Array, Executor
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.planned_tape import PlannedTape, References
from abw.core.exec.result_guard import RunEpochs
from abw.core.exec.values import gathered
from abw.core.graph.equal.consing import Consing
from abw.core.graph.growing.state import DONE, FULL
from abw.core.ir.network import Network
from abw.core.jit.decorators import address_of_code, ask_code, njit
from abw.core.jit.pointers import Pointer, Table, address
from abw.core.plan.arenas import arenas_of
from abw.core.plan.counts import Counts

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_TAPE, _ROUND = HEAD.index("tape"), HEAD.index("round")
# So many new nodes there is room for at first.
LEAST = 1 << 10
_OF_NODES = (at.BEGIN, at.MISSING, at.HEAD, at.PATH, at.QUEUE)
_OF_WORDS = (at.OPERAND, at.NEXT, at.OWNER)
_CLOCK = getattr(ctypes.pythonapi, "clock_gettime", None)


class CompiledTape(PlannedTape):
    """A tape that executes nodes also without plans, on one thread.

    Nodes are words as a `Piece` has them, whose handles are references shifted to the left by `bits`, which
    count on from run to run. Types are scheduled by the critical rule.
    """

    def __init__(
        self,
        network: Network,
        executor: Executor,
        target: Target,
        memory: ArenaMemory,
        tables: Mapping[str, Table],
        scratch: Pointer,
        epochs: RunEpochs,
        bits: int,
        limit: int,
    ) -> None:
        """Compile it, or find it on disk. `limit`: the arithmetic from which on plans are better.

        Cost: some 10 ms where it is on disk, else a second or two, once on a machine.
        """
        self._arenas = arenas = arenas_of(network)
        self._memory, self._epochs, self._target = memory, epochs, target
        self._width = arenas.output_arena.shape[1]
        self._table = Table(np.zeros(at.WORDS, np.int64))
        self._table.point(at.SCRATCH, scratch.owner)
        self._words: Longs = self._table.words
        for word, number in (
            (at.LIMIT, limit),
            (at.BITS, bits),
            (at.SHIFT, self._width.bit_length() - 1),
            (at.SLOTS, arenas.slot_arena.shape[1]),
            (at.WIDTH, self._width),
            (at.CLOCK, ctypes.cast(_CLOCK, ctypes.c_void_p).value if _CLOCK else 0),
            (at.CLOCK_NUMBER, getattr(time, "CLOCK_MONOTONIC", 0)),
        ):
            self._words[word] = number
        self._rows = np.zeros((3, len(arenas.shape)), np.int64)
        super().__init__(network, executor)
        constants, fields = fields_of(arenas)
        self._fields = Table(fields.ravel())
        self._field = {c: at.OF_FIELD * number for number, c in enumerate(constants)}
        known_ptr, known = known_of(arenas)
        sizes = sizes_of(arenas)
        code = compile_argmax(sorted({*sizes.tolist()} - {0}), target)
        functions = [code.address(f"argmax{size}") if size else 0 for size in sizes.tolist()]
        arrays: dict[int, NDArray[Any] | Table] = {
            at.TYPE_SLOTS: arenas.slots,
            at.TYPE_OUTPUTS: arenas.outputs,
            at.SLOT_ARENA: np.ascontiguousarray(arenas.slot_arena),
            at.OUTPUT_ARENA: np.ascontiguousarray(arenas.output_arena),
            at.LISTED: np.array([t.lists for t in network.types], np.int32),
            at.FLOPS: arenas.product_flops,
            at.KERNEL: tables["kernel"],
            at.CONSTANTS: tables["constants"],
            at.ARENA: tables["arena"],
            at.PITCH: memory.pitch,
            at.ROWS: self._rows,
            at.KNOWN_PTR: known_ptr,
            at.KNOWN: known,
            at.FIELDS: self._fields,
            at.READY: np.zeros((4, len(arenas.slots)), np.int32),
            at.FRAME: np.zeros(SLOT_WORDS * arenas.slot_arena.shape[1] + self._width, np.int64),
            at.SIZE: sizes,
            at.ARGMAX: Table(np.array(functions, np.int64), code),
        }
        for word, array in arrays.items():
            self._table.name(word, array)
        self._bests = Table(np.zeros(0, np.int64))
        self._looked: dict[int, NDArray[Any]] = {}
        self._given = {c: np.empty(LEAST, np.int32) for c in self._field}
        for c, rows in self._given.items():
            self._fields.point(self._field[c] + at.GIVEN, rows)
        self._room = self._room_of_words = 0
        self._grow(0, 0)
        self._status = DONE
        # compiled now, not amid the first run
        self._round = address_of_code(answer_round)
        advance(self._words, 0, 0)

    def begin(self, base: int) -> None:
        """Begin a run, whose first reference is `base`, and forget the values of earlier ones."""
        self.clear()
        self._epochs.start()
        self._words[at.LOOKS] = 0
        self._words[at.BASE], self._words[at.BATCHES] = base, 0
        self._fields.words[at.BROUGHT :: at.OF_FIELD] = 0
        self._read = self._epochs.guarded(self._values)

    def reserve(self, more: int) -> bool:
        """Have room for so many more nodes: see `PlannedTape.reserve`."""
        if replaced := super().reserve(more):
            self._table.name(at.TYPE, self.type)
            self._table.name(at.ROW, self.row)
        return replaced

    def look(self, equal: Consing | None) -> None:
        """Execute no nodes that equal earlier ones from now on: they have the rows of those.

        They are noted in these arrays, which have room for all that comes. None, as after `begin`: all are.
        """
        self._words[at.LOOKS] = equal is not None
        if equal is not None:
            for word, array in (
                (at.SAME, equal.same),
                (at.AT, equal.begins),
                (at.KEYS, equal.keys),
                (at.USED, equal.used),
                (at.TABLE, equal.table),
                (at.PAIRS, equal.pairs),
            ):
                if self._looked.get(word) is not array:
                    self._looked[word] = array
                    self._table.name(word, array)

    def bring(self, constant: int, since: int, values: Floats) -> None:
        """Append rows of a field (n, *shape), the network's constant number `constant`, to those of this run,
        whose first is row `since`. Cost: some 10 us, and a copy.
        """
        if constant not in self._given:
            return
        field, fields = self._field[constant], self._fields.words
        arena, before = int(fields[field + at.FIELD_ARENA]), int(fields[field + at.BROUGHT])
        first, after = int(self._rows[0, arena]), before + len(values)
        if first + len(values) > len(self._memory.views[arena]):
            self._have(np.bincount([arena], [len(values)], self._rows.shape[1]))
        self._memory.views[arena][first : first + len(values)] = values
        if after > len(self._given[constant]):
            self._given[constant] = np.resize(self._given[constant], 2 * after)
            self._fields.point(field + at.GIVEN, self._given[constant])
        self._given[constant][before:after] = np.arange(first, first + len(values))
        self._rows[0, arena] += len(values)
        fields[field + at.BROUGHT], fields[field + at.SINCE] = after, since

    def advance(self, words: Longs, nodes: int) -> bool:
        """Execute the nodes that words name, behind those of the run so far. Errors: TooLargeError.

        False where nothing was: a node reads a value of an earlier run, or they are so many that a plan is
        better. Cost: 2 us besides the kernels, and 30 ns a node.
        """
        if nodes > self._room or len(words) > self._room_of_words:
            self._grow(nodes, len(words))
        status = advance(self._words, address(words), len(words))
        if status == FULL:
            self._have(self._rows[2])
            status = advance(self._words, address(words), len(words))
        return bool(status == DONE)

    def round(self, head: Table) -> bool:
        """Execute what a recorder has noted since the last time, where what is asked is of that, and answer
        all questions, which are forgotten.

        `head`: the recorder's `HEAD`, which says afterwards what was executed, and by what machine code does
        the next rounds itself. False where that cannot be done so, or not yet: see `make_room`. Cost: 0.5 us
        besides the kernels, 30 ns a node.
        """
        if head.words[_ROUND] != self._round or head.words[_TAPE] != self._table.at:
            head.point(_TAPE, self._table)
            head.words[_ROUND] = self._round
        self._status = ask_code(self._round, head.at)
        return self._status == DONE

    def make_room(self, words: int) -> bool:
        """Make room for so many words if `round` lacked it."""
        if self._status != FULL:
            return False
        size, wanted = self._words[[at.LENGTH, at.WANTED]].tolist()
        if wanted:
            code, held = compile_best(size, wanted, self._target), self._bests
            row = [size, wanted, code.address("best")]
            self._bests = Table(np.append(held.words, row), (held, code))
            self._table.name(at.BESTS, self._bests)
            self._words[at.WANTED] = 0
            return True
        if words > min(self._room, self._room_of_words):
            self._grow(words, words)
        else:
            self._have(self._rows[2])
        return True

    def _grow(self, nodes: int, length: int) -> None:
        """Buffers for so many new nodes, said by so many words."""
        self._room = max(LEAST, 2 * nodes, self._room)
        self._room_of_words = max(4 * LEAST, 2 * length, self._room_of_words)
        for word in _OF_NODES:
            self._table.name(word, np.empty(self._room, np.int32))
        for word in _OF_WORDS:
            self._table.name(word, np.empty(self._room_of_words, np.int32))
        slots = self._arenas.slot_arena.shape[1]
        self._table.name(at.INDEX, np.empty(max(slots * self._room, self._room_of_words), np.int32))
        self._table.name(at.LISTS, np.empty(self._room + 1, np.int32))

    def _have(self, more: NDArray[Any]) -> None:
        """Memory for so many rows more of each arena (A,), and for the rows that the last nodes read."""
        if self._words[at.ITEMS] > self._words[at.INDEX + 1]:
            self._table.name(at.INDEX, np.empty(5 * self._words[at.ITEMS] // 4, np.int32))
        held: Ints = self._rows[0].astype(np.int32)
        wanted: Ints = (held + more).astype(np.int32)
        self._epochs.go_on(wanted, self._arenas)
        self._memory.reserve(wanted, held)
        self.rows = held

    @property
    def rows(self) -> Ints:
        """How many rows of each arena are taken (A,)."""
        found: Ints = self._rows[0].astype(np.int32)
        self._epochs.go_on(found, self._arenas)
        return found

    @rows.setter
    def rows(self, rows: Ints | None) -> None:
        self._rows[0] = self._arenas.head if rows is None else rows
        if rows is not None:  # a run begins with room for no fewer than before
            self._rows[1] = [len(view) for view in self._memory.views]

    @property
    def count(self) -> int:
        """How many nodes the run has."""
        return int(self._words[at.COUNT])

    @count.setter
    def count(self, count: int) -> None:
        self._words[at.COUNT] = count

    def seconds(self) -> float:
        """How long rounds took since the last call, where there is such a clock."""
        if taken := int(self._words[at.NANOSECONDS]):
            self._words[at.NANOSECONDS] = 0
        return 1e-9 * taken

    @property
    def own_batches(self) -> int:
        """The number of batches that were run without plans since `begin`."""
        return int(self._words[at.BATCHES])

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return super().batches + self.own_batches

    @property
    def counts(self) -> Counts:
        """What executing all pieces took."""
        found, own = super().counts, self.own_batches
        return replace(found, batches=found.batches + own, launches=found.launches + own)

    def values(self, references: References) -> Array:
        """Copy the values of m references of one shape (m, *shape)."""
        return self._read(references)

    def _values(self, references: References) -> NDArray[np.float32]:
        views, wanted = self._memory.views, np.asarray(references, np.int64)
        arena, rows = np.empty((2, len(wanted)), np.int32)
        if _locate(wanted, self.type, self.row, self._arenas.output_arena, arena, rows):
            found: Floats = views[arena[0]][rows]
            return found
        return gathered(views, arena, rows)


@njit
def _locate(references: Longs, types: Ints, row: Ints, output_arena: Ints, arena: Ints, rows: Ints) -> bool:
    """Write in which arena and row each value lies; whether all are in one arena."""
    width, together = output_arena.shape[1], True
    for i in range(len(references)):
        node = references[i] // width
        arena[i], rows[i] = output_arena[types[node], references[i] - node * width], row[references[i]]
        together &= arena[i] == arena[0]
    return together
