"""Growing by compiled rounds: room for what comes to be, threads that each grow instances of their own."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import INSTANCE, Columns
from abw.core.exec.cpu import partition
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.rounds.beam_result import Part, of_instances, take
from abw.core.exec.cpu.rounds.clauses import ORIGIN, ROUND
from abw.core.exec.cpu.rounds.emit import deciding, emit_rounds, most_added, noted, wide, width
from abw.core.exec.cpu.rounds.feeds import OwnColumn, ValueColumn
from abw.core.exec.cpu.rounds.share import Share
from abw.core.exec.cpu.rounds.state import DONE, FAILED, FULL
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.team import Team
from abw.core.exec.interface import Computed
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.result_guard import RunEpochs
from abw.core.graph.growing.beam import Beam
from abw.core.graph.growing.decide import Grower
from abw.core.graph.growing.growth_index import StandInColumn, Whose
from abw.core.graph.growing.round_graph import Sprouter
from abw.core.ir.model import NodeType
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import Pointer, Table
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.plan import Plan

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# So long compiled rounds go on before Python looks for Ctrl-C.
SECONDS = 0.05
# So many vertices of an instance there is room for at first.
FIRST_GUESS = 64
# So many vertices of a round there is room for at first.
LEAST_ROOM = 256
# So many rounds are taken for granted where it is asked whether threads are worth their while.
USUAL_ROUNDS = 16


class CompiledRounds:
    """The rounds of one model, on a prepared executor's memory, kernels and threads."""

    def __init__(
        self,
        sprouter: Sprouter,
        target: Target,
        memory: ArenaMemory,
        tables: Mapping[str, Table],
        scratch: list[Pointer],
        team: Team | None,
        epochs: RunEpochs,
    ) -> None:
        """Compile them, or find them on disk. Cost: some 50 ms, from a file 5."""
        self.sprouter, self.memory, self.tables = sprouter, memory, tables
        self.scratch, self.team, self.epochs = scratch, team, epochs
        self.arenas: Arenas = arenas_of(sprouter.network)
        emitted = emit_rounds(sprouter, self.arenas, target)
        emitted.words["column", ROUND]  # where no vertex comes to be, too
        self.words = emitted.words.place
        self._code: Code = compile_ir(emitted.text, target)
        pointer = ctypes.c_void_p
        self.begin = ctypes.CFUNCTYPE(None, pointer)(self._code.address("begin"))
        walk = ctypes.CFUNCTYPE(None, pointer, pointer)(self._code.address("rounds"))
        self.rounds: Callable[[int, int], None] = walk
        self.wide = wide(sprouter, self.arenas)
        self.added, self.width = most_added(sprouter), width(sprouter)
        self.guess = FIRST_GUESS
        self.quota = 1.0
        phases, growth, types = sprouter.phases, sprouter.growth, sprouter.model.types
        self.step = np.zeros((max(1, len(noted(sprouter))), len(types)), np.int32)
        for number, (t, origins) in enumerate(phases.steps):
            self.step[slice(None) if phases.ordered else sorted(origins), t] = number
        self.lanes_flops = sum(int(self.arenas.product_flops[t]) for t in phases.during)
        self.deciding = deciding(growth.kinds)
        self.starts = sum(kind.start is not None for kind in growth.kinds)
        self.most = sum(kind.most for kind in growth.kinds if not kind.given)
        self.scores = max(
            (
                types[d.type].outputs[d.output].shape[0]
                for kind in growth.kinds
                for d in kind.decisions
                if d.type >= 0
            ),
            default=1,
        )
        named = [(n[1], w) for n, w in self.words.items() if isinstance(n, tuple) and n[0] == "column"]
        self.columns = tuple(name for name, _ in named)
        self.column_words = np.array([word for _, word in named], np.int64)
        self.place: Mapping[Hashable, int] = {}
        self.places = np.zeros(0, np.int32)
        # words that all shares of a mini-batch have in common
        own = ("instances", "begin", "numbers", "count", "cut")
        asked = [
            n for n in self.words if isinstance(n, tuple) and n[0] in ("kind", "indptr", "target", "field")
        ]
        self.common = [name for name in own if name in self.words] + asked
        self.common_words = np.array([self.words[name] for name in self.common], np.int64)
        self.shares = [Share(self.words, tables, self.scores, self.width) for _ in scratch]
        self._number(types)

    def _number(self, types: Sequence[NodeType]) -> None:
        """Which columns (numbers among `columns`, -1 for none) say what of types and their outputs.

        `own` (T,): where nodes are; `row` (T, W): the rows of their outputs; `given` (T, W): the same of
        nodes before growth that rounds read. `reduced`: columns of what stands for reductions there.
        """
        self.own = np.full(len(types), -1, np.int32)
        self.row = np.full((len(types), self.sprouter.network.width), -1, np.int32)
        self.given, self.reduced = self.row.copy(), list[ValueColumn]()
        for number, name in enumerate(self.columns):
            match name:
                case OwnColumn(type=t):
                    self.own[t] = number
                case ValueColumn(type=t, output=o) if t in self.sprouter.phases.during:
                    self.row[t, o] = number
                    if o == 0 and types[t].reduction is None:
                        self.own[t] = number
                case ValueColumn(type=t, output=o) if types[t].reduction is None:
                    self.given[t, o] = number
                case ValueColumn():
                    self.reduced.append(name)

    def room(self, instances: int) -> int:
        """See `abw.core.exec.interface.Rounds`."""
        return min(self.most, self.guess) * instances + 4 * self.added * instances * (self.starts + 1)

    def grow(
        self,
        columns: Columns,
        whose: Whose,
        grower: Grower,
        beam: Beam | None,
        numbers: Longs,
        before: Plan,
    ) -> Computed | None:
        """See `abw.core.exec.interface.Rounds`."""
        growth = _Growth(self, columns, whose, grower, beam, numbers, before)
        try:
            return growth.run()
        finally:
            for share in growth.shares:
                share.end()


class _Growth:
    """A mini-batch under way."""

    def __init__(
        self,
        rounds: CompiledRounds,
        columns: Columns,
        whose: Whose,
        grower: Grower,
        beam: Beam | None,
        numbers: Longs,
        before: Plan,
    ) -> None:
        self.made, self.columns, self.whose, self.grower, self.beam = rounds, columns, whose, grower, beam
        self.of_instances = of_instances(whose.count, rounds.width) if beam else {}
        self.before = before
        self.given = self.limit = columns.count
        self.rows: list[int] = before.rows.tolist()
        self.held = before.rows
        self.numbers = np.ascontiguousarray(numbers)
        self.fields = _field_rows(before, rounds.arenas)
        # all columns that compiled code reads or writes are there from now on
        if columns.place is not rounds.place:
            columns.make(rounds.columns)
            rounds.place = columns.place
            # where those of `rounds.columns` are, and -1 for none
            rounds.places = np.array([*(columns.place[name] for name in rounds.columns), -1], np.int32)
        self.places = rounds.places
        self._note_values(before)
        self.shares = self._shared()

    def run(self) -> Computed | None:
        """Round after round until nothing comes to be."""
        made = self.made
        self._place()
        for share in self.shares:
            first = share["next"]
            made.begin(share.state.at)
            share["first"], share["last"] = first, share["next"]
        going = [s for s in self.shares if s["last"] > s["first"] or s["given_last"] > s["given_first"]]
        while going:
            self._call(going)
            if any(share["status"] == FAILED for share in going):
                return None
            full = [share for share in going if share["status"] == FULL]
            for share in full:
                self._extend(share)
            if full:
                self._place()
            going = [share for share in going if share["status"] != DONE]
        return self._computed()

    def _call(self, shares: list[Share]) -> None:
        """Let each share grow for a while, on a thread of its own."""
        made, quota = self.made, max(1, int(self.made.quota))
        for share in shares:
            share["left"] = quota
        start = time.perf_counter()

        def work(thread: int) -> None:
            if thread < len(shares):
                made.rounds(shares[thread].state.at, made.scratch[thread].at)

        if len(shares) > 1 and made.team is not None:
            made.team.share(work)
        else:
            work(0)
        done = max(quota - share["left"] for share in shares)
        made.quota = min(16.0 * quota, max(1, done) * SECONDS / max(time.perf_counter() - start, 1e-9))

    def _shared(self) -> list[Share]:
        """The instances, shared out where that pays: to each thread some that follow each other."""
        made, count = self.made, self.whose.count
        start = self.whose.instances.start[self.whose.first : self.whose.first + count + 1]
        start = (start - start[0]).astype(np.int32)
        bounds = [0, count]
        if made.team is not None and count * made.lanes_flops * USUAL_ROUNDS >= partition.APART_FLOPS:
            wanted = min(len(made.scratch), count)
            # an instance belongs where its middle lies
            middle = (start[:-1].astype(np.int64) + start[1:]) // 2
            part = np.minimum(middle * wanted // max(1, int(start[-1])), wanted - 1)
            bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), count]
        common, widest = self._common()
        pairs = zip(made.shares, pairwise(bounds), strict=False)
        return [self._share(share, start, *pair, common, widest) for share, pair in pairs]

    def _common(self) -> tuple[Table, int]:
        """The words that shares have in common, and how many values a list has at most."""
        whose, widest = self.whose, 1
        common = Table(np.zeros(len(self.made.common), np.int64))
        starts = {hops: way.indptr for hops, way in whose.ways.items() if way.indptr is not None}
        for indptr in starts.values():
            sizes = np.diff(indptr[whose.begin : whose.begin + self.given + 1])
            widest = max(widest, int(sizes.max(initial=1)))
        for place, name in enumerate(self.made.common):
            match name:
                case "instances":
                    common.words[place] = whose.count
                case "begin":
                    common.words[place] = whose.begin
                case "numbers":
                    common.point(place, self.numbers)
                case "count":
                    common.point(place, self.grower.count)
                case "cut":
                    common.point(place, self.grower.cut)
                case ("kind", str(kind)):
                    common.words[place] = whose.instances.schema.kinds.index(kind)
                case ("indptr", tuple(hops)):
                    common.point(place, starts[hops])
                case ("target", tuple(hops)):
                    common.point(place, whose.ways[hops].target)
                case ("field", int(number)):
                    common.words[place] = self.fields[number]
                case _:
                    raise ValueError(f"no word is called {name}")
        return common, widest

    def _share(self, share: Share, start: Ints, first: int, last: int, common: Table, widest: int) -> Share:
        """The instances `first` to `last` (exclusive) of the mini-batch."""
        made, count = self.made, last - first
        given = 0
        if made.deciding:
            own = np.arange(start[first], start[last], dtype=np.int32)
            if len(self.whose.of_kinds(made.deciding, self.columns, own)):
                given = len(own)
        now = count * made.starts + given
        share.begin(start[first:last], max(LEAST_ROOM, 2 * now), widest)
        share.state.copy(made.common_words, common)
        if given:
            share["given_first"], share["given_last"] = int(start[first]), int(start[last])
        vertices = min(made.most, made.guess) * count + 4 * now * made.added
        if self.beam:
            share["instance_first"], share["instance_last"] = first, last
            share.point(self.of_instances)
            share.hold(vertices + now * made.width)
        self._give_vertices(share, vertices)
        self._give_rows(share, vertices)
        return share

    def _give_vertices(self, share: Share, count: int) -> None:
        """So many new vertices for a share, behind all others."""
        share["next"], share["end"] = self.limit, self.limit + count
        self.limit += count

    def _give_rows(self, share: Share, vertices: int) -> None:
        """New rows for the nodes of so many vertices, behind all others."""
        for arena, times in self.made.wide.items():
            share["row", arena] = self.rows[arena]
            self.rows[arena] += vertices * times
            share["row_end", arena] = self.rows[arena]

    def _extend(self, share: Share) -> None:
        """More room for a share that has none for its next round."""
        made, now = self.made, share["wanted"]
        if now > share["room"]:
            share.reserve(2 * now)
        if share["longest"] > share["widest"]:
            share.reserve(now, 2 * share["longest"])
        share.used = max(2 * share.used, 4 * share["adding"], FIRST_GUESS)
        if self.beam and share["kept", "next"] + now * made.width > share["kept", "end"]:
            share.hold(2 * share["kept", "end"] + now * made.width)
        if share["next"] + share["adding"] > share["end"]:
            self._give_vertices(share, share.used)
        if any(share["row", a] + now * n > share["row_end", a] for a, n in made.wide.items()):
            self._give_rows(share, share.used)

    def _place(self) -> None:
        """Have the memory for what the shares were given, and tell them where it lies."""
        made = self.made
        rows = np.array(self.rows, np.int32)
        made.epochs.go_on(rows, made.arenas)
        made.memory.reserve(rows, self.held)
        self.held = rows
        self.columns.reserve(self.limit)
        block = self.columns.block
        offsets = block.itemsize + block.strides[0] * self.places[:-1].astype(np.int64)
        for share in self.shares:
            share.state.spread(made.column_words, block, offsets)

    def _note_values(self, before: Plan) -> None:
        """Where the values lie that rounds read of what was computed before them."""
        made, columns, graph = self.made, self.columns, before.graph
        _note(columns.block, graph.type_ptr, graph.vertex, before.row, self.places[made.given])
        for name in made.reduced:
            stored = columns[StandInColumn(name.type, name.output)][: self.given]
            arena = int(made.arenas.output_arena[name.type, name.output])
            columns.give(name, _rows_of(stored, before, made.arenas, arena, self.fields))

    def _computed(self) -> Computed:
        """What has grown. Vertices that shares were given and did not need are of no instance."""
        made, columns = self.made, self.columns
        rows = self.held.copy()
        for arena in made.wide:
            rows[arena] = max(share["row", arena] for share in self.shares)
        made.epochs.go_on(rows, made.arenas)
        columns.count = max(share["next"] for share in self.shares)
        if self.beam:
            self._take(self.beam)
        # what mini-batches took of late
        made.guess = max(made.guess * 7 // 8, (columns.count - self.given) * 5 // (4 * self.whose.count) + 1)
        rounds = max(share["round"] for share in self.shares)
        read = made.epochs.placed(made.memory.views, self.before)
        steps = made.sprouter.phases.steps
        origin = -1 if made.sprouter.phases.ordered else columns.place[ORIGIN]
        when = columns.place[ROUND], origin, made.step, len(steps)
        return Computed(self.places[made.own], self.places[made.row], *when, rows, rounds, read)

    def _take(self, beam: Beam) -> None:
        """Tell what was picked."""
        parts = [
            Part(s["instance_first"], s.picks, s["pick", "next"], s["kept", "next"]) for s in self.shares
        ]
        kinds, columns = self.made.sprouter.growth.beam, self.columns
        assert kinds is not None
        vertices = np.flatnonzero(columns[INSTANCE][: columns.count] >= 0).astype(np.int32)
        take(beam, columns, parts, self.of_instances, self.whose.of_kinds(kinds[0].kinds, columns, vertices))


@njit
def _note(block: Ints, type_ptr: Ints, vertex: Ints, row: Ints, into: Ints) -> None:
    """Note the rows of nodes' outputs at their vertices, in the columns `into` (T, W), -1 for none."""
    for t in range(into.shape[0]):
        for o in range(into.shape[1]):
            if into[t, o] >= 0:
                for n in range(type_ptr[t], type_ptr[t + 1]):
                    block[into[t, o], vertex[n] + 1] = row[n * into.shape[1] + o]


def _field_rows(before: Plan, arenas: Arenas) -> dict[int, int]:
    """The first row of each constant that is a field of the vertices."""
    if not before.given:
        return {}
    numbers = [c for c in before.graph.network.given if arenas.field_arena[c] >= 0]
    return {c: row for c, (_, row, _) in zip(numbers, before.given, strict=True)}


def _rows_of(stored: Ints, before: Plan, arenas: Arenas, arena: int, fields: Mapping[int, int]) -> Ints:
    """The rows of what stands for reductions (see `StandInColumn`), -1 for none."""
    found = np.full(len(stored), -1, np.int32)
    found[stored >= 0] = before.row[stored[stored >= 0]]
    number = -2 - stored
    for c, (first, end) in enumerate(zip(arenas.constant_first, arenas.constant_end, strict=True)):
        here = (stored < -1) & (first <= number) & (number < end)
        found[here] = fields.get(c, int(arenas.constant_row[arena, c])) + number[here] - first
    return found
