"""Growth by compiled rounds: room for new vertices, and threads that each grow instances of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu import partition
from abw.core.exec.cpu.llvm.best import compile_argmax, compile_best
from abw.core.exec.cpu.llvm.compiled import Code
from abw.core.exec.cpu.llvm.kernel import SLOT_WORDS
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.team import Team
from abw.core.exec.interface import Computed
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.result_guard import RunEpochs
from abw.core.graph.growing import state as at
from abw.core.graph.growing.batch import Batch
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import ValueColumn
from abw.core.graph.growing.share import Share
from abw.core.graph.growing.walk import GO_ON, do
from abw.core.ir.growth import Decision
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import Pointer, Table
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.plan import Plan

Ints = NDArray[np.int32]

# So long compiled rounds go on before Python looks for Ctrl-C.
SECONDS = 0.05
# So many vertices of an instance there is room for at first.
FIRST_GUESS = 64
# So many rounds are taken for granted where it is asked whether threads are worth their while.
USUAL_ROUNDS = 16


class CompiledRounds:
    """The rounds of one model, on a prepared executor's memory, kernels and threads."""

    def __init__(
        self,
        model: GrowthModel,
        target: Target,
        memory: ArenaMemory,
        tables: Mapping[str, Table],
        scratch: list[Pointer],
        team: Team | None,
        epochs: RunEpochs,
    ) -> None:
        """Compile what finds the best of long rows, or find it on disk. Cost: some 20 ms, from a file 5."""
        self.model, self.memory, self.tables = model, memory, tables
        self.team, self.epochs = team, epochs
        self.rounds: Callable[[NDArray[np.int64]], None] = _go_on
        self.arenas: Arenas = arenas_of(model.network)
        self.guess, self.quota = FIRST_GUESS, 1.0
        phases, growth = model.phases, model.growth
        self.wide = np.zeros(len(self.arenas.shape), np.int32)
        for t in phases.during:
            np.add.at(self.wide, self.arenas.output_arena[t, : int(self.arenas.outputs[t])], 1)
        self.written = np.flatnonzero(self.wide)
        self.lanes_flops = sum(int(self.arenas.product_flops[t]) for t in phases.during)
        self.starts = sum(kind.start is not None for kind in growth.kinds)
        self.most = sum(kind.most for kind in growth.kinds if not kind.given)
        self.read_before = np.full((len(model.network.types), model.network.width), -1, np.int32)
        for t, o in model.read_before:
            self.read_before[t, o] = model.columns[ValueColumn(t, o)]
        self._codes: list[Code] = []
        self.functions = np.array([self._function(d, target) for d in model.program.decisions], np.int64)
        # where rows of constants begin; of fields each mini-batch says it
        self.bases, self.fields = np.zeros(len(model.program.bases), np.int64), list[tuple[int, int]]()
        for k, (t, s, source) in enumerate(model.program.bases):
            number = model.constant(source, model.model.types[t].inputs[s])
            self.bases[k] = self.arenas.constant_row[self.arenas.slot_arena[t, s], number]
            if self.arenas.field_arena[number] >= 0:
                self.fields.append((k, number))
        self._scratch = scratch
        self.shares = [self.new_share(thread) for thread in range(len(scratch))]
        idle = self.shares[0].words  # there is no room: nothing is to do
        idle[at.FIRST], idle[at.LAST] = 0, idle[at.ENTRIES]
        self.rounds(idle)  # compiled now, not amid the first run

    def _function(self, decision: Decision, target: Target) -> tuple[int, int]:
        """What finds the best of a row of all scores, and the arena of these; see `run`."""
        t, output = decision.type, decision.output
        if t < 0:
            return 0, 0
        arena, address = int(self.arenas.output_arena[t, output]), 0
        (count,) = self.arenas.shape[arena] or (1,)
        if decision.allow is None and decision.how in ("argmax", "best"):
            best = decision.how == "best"
            code = compile_best(count, decision.width, target) if best else compile_argmax([count], target)
            self._codes.append(code)
            address = code.address("best" if best else f"argmax{count}")
        return address, arena

    def new_share(self, thread: int = 0) -> Share:
        """What one thread knows while it grows instances."""
        model, arenas = self.model, self.arenas
        share, slots = Share(model, sign=1), arenas.slot_arena.shape[1]
        share.bases[:], share.rows = self.bases, np.zeros((len(arenas.shape), 3), np.int64)
        share.rows[:, 2] = self.wide
        share.point(
            {
                at.SLOT_ARENA: np.ascontiguousarray(arenas.slot_arena).ravel(),
                at.OUTPUT_ARENA: np.ascontiguousarray(arenas.output_arena).ravel(),
                at.PITCH: self.memory.pitch,
                at.ROWS: share.rows,
                at.FRAME: np.zeros(SLOT_WORDS * slots + model.network.width, np.int64),
                at.FUNCTION: self.functions.ravel(),
                at.SCORES: np.empty(model.program.most_scores),
                at.KERNEL: self.tables["kernel"],
                at.CONSTANTS: self.tables["constants"],
                at.ARENA: self.tables["arena"],
            }
        )
        share.table.point(at.SCRATCH, self._scratch[thread].owner)
        share.words[at.SLOTS], share.words[at.SLOT_WORDS] = slots, SLOT_WORDS
        return share

    def room(self, instances: int, now: int | None = None) -> int:
        """For how many new vertices there should be room; so many (`now`) are the first round's, by default
        one more for each instance than it begins with.
        """
        now = instances * (self.starts + 1) if now is None else now
        return min(self.most, self.guess) * instances + 4 * self.model.most_added * now

    def grow(self, batch: Batch, before: Plan) -> Computed | None:
        """Add all vertices to the columns, each instance's as they come to be; None where a score or an input
        is wrong, which the rounds that the host drives tell. A vertex may be of no instance: then it does not
        count. `before` is the plan of what was computed before growth. Errors: TooLargeError.
        """
        return _Growth(self, batch, before).run()


class _Growth:
    """A mini-batch under way."""

    def __init__(self, made: CompiledRounds, batch: Batch, before: Plan) -> None:
        self.made, self.batch, self.before = made, batch, before
        self.limit = batch.given
        self.rows = before.rows.astype(np.int64)
        self.held = before.rows
        self.fields = _field_rows(before, made.arenas)
        self._note_values()
        self.shares = self._shared()

    def run(self) -> Computed | None:
        """Run round after round until no vertex is added."""
        self._place()
        going = [share for share in self.shares if share.start()]
        while going:
            self._call(going)
            if any(share.words[at.STATUS] == at.FAILED for share in going):
                return None
            full = [share for share in going if share.words[at.STATUS] == at.FULL]
            for share in full:
                self._extend(share)
            if full:
                self._place()
            going = [share for share in going if share.words[at.STATUS] != at.DONE]
        return self._computed()

    def _call(self, shares: Sequence[Share]) -> None:
        """Let each share grow for a while, on a thread of its own."""
        made, quota = self.made, max(1, int(self.made.quota))
        for share in shares:
            share.words[at.LEFT] = quota
        start = time.perf_counter()

        def work(thread: int) -> None:
            if thread < len(shares):
                made.rounds(shares[thread].words)

        if len(shares) > 1 and made.team is not None:
            made.team.share(work)
        else:
            work(0)
        done = max(quota - int(share.words[at.LEFT]) for share in shares)
        made.quota = min(16.0 * quota, max(1, done) * SECONDS / max(time.perf_counter() - start, 1e-9))

    def _shared(self) -> list[Share]:
        """The instances, shared out where that pays: to each thread some that follow each other."""
        made, count, start = self.made, len(self.batch), self.batch.start
        bounds = [0, count]
        if made.team is not None and count * made.lanes_flops * USUAL_ROUNDS >= partition.APART_FLOPS:
            wanted = min(len(made.shares), count)
            # an instance belongs where its middle lies
            middle = (start[:-1].astype(np.int64) + start[1:]) // 2
            part = np.minimum(middle * wanted // max(1, int(start[-1])), wanted - 1)
            bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), count]
        return [
            self._share(*each)
            for each in zip(made.shares, *zip(*pairwise(bounds), strict=True), strict=False)
        ]

    def _share(self, share: Share, first: int, last: int) -> Share:
        """The instances `first` to `last` (exclusive) of the mini-batch."""
        made, count, words = self.made, last - first, share.words
        share.begin(self.batch, first, last)
        for k, number in made.fields:
            share.bases[k] = self.fields[number]
        now = count * made.starts + int(words[at.GIVEN_LAST] - words[at.GIVEN_FIRST])
        vertices = made.room(count, now)
        self._give_vertices(share, vertices)
        self._give_rows(share, vertices)
        return share

    def _give_vertices(self, share: Share, count: int) -> None:
        """So many new vertices for a share, behind all others."""
        share.words[at.NEXT], share.words[at.END] = self.limit, self.limit + count
        self.limit += count

    def _give_rows(self, share: Share, vertices: int) -> None:
        """New rows for the nodes of so many vertices, behind all others."""
        share.rows[:, 0] = self.rows
        self.rows += vertices * self.made.wide
        share.rows[:, 1] = self.rows

    def _extend(self, share: Share) -> None:
        """More room for a share that has none for its next round."""
        words = share.words
        share.make_room()
        more = max(FIRST_GUESS, 2 * int(words[at.END] - self.batch.given), 4 * int(words[at.ADDING]))
        if words[at.NEXT] + words[at.ADDING] > words[at.END]:
            self._give_vertices(share, more)
        if (share.rows[:, 0] + words[at.NOW] * self.made.wide > share.rows[:, 1]).any():
            self._give_rows(share, more)

    def _place(self) -> None:
        """Have the memory for what the shares were given, and tell them where it lies."""
        made, rows = self.made, self.rows.astype(np.int32)
        made.epochs.go_on(rows, made.arenas)
        made.memory.reserve(rows, self.held)
        self.held = rows
        self.batch.columns.reserve(self.limit)
        for share in self.shares:
            share.columns_moved(self.batch)

    def _note_values(self) -> None:
        """Where the values lie that rounds read of what was computed before them."""
        made, columns, before = self.made, self.batch.columns, self.before
        given, model = self.batch.before, made.model
        stands = self.batch.stands if self.batch.looks else np.arange(len(given), dtype=np.int32)
        _note(columns.block, given.type_ptr, given.vertex, stands, before.row, made.read_before)
        for t, o in model.reduced:
            stored, arena = (
                columns[ValueColumn(t, o)][: self.batch.given],
                int(made.arenas.output_arena[t, o]),
            )
            columns.give(ValueColumn(t, o), _rows_of(stored, before, made.arenas, arena, self.fields))

    def _computed(self) -> Computed:
        """What has grown. Vertices that shares were given and did not need are of no instance."""
        made, columns = self.made, self.batch.columns
        rows = self.held.copy()
        taken = self.shares[0].rows[:, 0]
        for share in self.shares[1:]:
            taken = np.maximum(taken, share.rows[:, 0])
        rows[made.written] = taken[made.written]
        made.epochs.go_on(rows, made.arenas)
        launched, *others = sorted((share.launched for share in self.shares), key=len, reverse=True)
        for other in others:
            launched[: len(other)] |= other
        columns.count = max(int(share.words[at.NEXT]) for share in self.shares)
        # what mini-batches took of late
        grown = columns.count - self.batch.given
        made.guess = max(made.guess * 7 // 8, grown * 5 // (4 * len(self.batch)) + 1)
        count = max(int(share.words[at.ROUND]) for share in self.shares)
        read = made.epochs.placed(made.memory.views, self.before)
        return Computed(rows, count, int(np.count_nonzero(launched)), self.shares, read)


def _go_on(words: NDArray[np.int64]) -> None:
    """Let a share go on until it pauses."""
    do(words, GO_ON)


@njit
def _note(block: Ints, type_ptr: Ints, vertex: Ints, stands: Ints, row: Ints, into: Ints) -> None:
    """Note the rows of nodes' outputs at their vertices, in the columns `into` (T, W), -1 for none; those of
    what stands for each node.
    """
    for t in range(into.shape[0]):
        for o in range(into.shape[1]):
            if into[t, o] >= 0:
                for n in range(type_ptr[t], type_ptr[t + 1]):
                    block[into[t, o], vertex[n] + 1] = row[stands[n] * into.shape[1] + o]


def _field_rows(before: Plan, arenas: Arenas) -> dict[int, int]:
    """The first row of each constant that is a field of the vertices."""
    if not before.given:
        return {}
    numbers = [c for c in before.graph.network.given if arenas.field_arena[c] >= 0]
    return {c: row for c, (_, row, _) in zip(numbers, before.given, strict=True)}


def _rows_of(stored: Ints, before: Plan, arenas: Arenas, arena: int, fields: Mapping[int, int]) -> Ints:
    """The rows of encoded references, -1 for none."""
    found = np.full(len(stored), -1, np.int32)
    found[stored >= 0] = before.row[stored[stored >= 0]]
    number = -2 - stored
    for c, (first, end) in enumerate(zip(arenas.constant_first, arenas.constant_end, strict=True)):
        here = (stored < -1) & (first <= number) & (number < end)
        found[here] = fields.get(c, int(arenas.constant_row[arena, c])) + number[here] - first
    return found
