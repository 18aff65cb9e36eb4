"""Growing by compiled rounds: room for what comes to be, threads that each grow instances of their own."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import INSTANCE, Columns
from abw.core.exec.cpu import parts
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.memory import ArenaMemory
from abw.core.exec.cpu.packing import address
from abw.core.exec.cpu.rounds.clauses import ROUND, STAGE
from abw.core.exec.cpu.rounds.emit import emit_rounds, most_added, stages, wide, width
from abw.core.exec.cpu.rounds.feeds import OwnColumn, ValueColumn
from abw.core.exec.cpu.rounds.picked import Part, of_instances, take
from abw.core.exec.cpu.rounds.share import Share
from abw.core.exec.cpu.rounds.state import DONE, FAILED, FULL
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.team import Team
from abw.core.exec.epochs import Read, RunEpochs
from abw.core.exec.interface import Computed
from abw.core.graph.growing.beam import Beam
from abw.core.graph.growing.decide import Grower
from abw.core.graph.growing.sprout import Sprouter
from abw.core.graph.growing.whose import NodeColumn, StandInColumn, Whose
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.plan import Plan

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

SECONDS = 0.05
"""So long compiled rounds go on before Python looks for Ctrl-C."""
FIRST_GUESS = 64
"""So many vertices of an instance there is room for at first."""
LEAST_ROOM = 256
"""So many vertices of a round there is room for at first."""
USUAL_ROUNDS = 16
"""So many rounds are taken for granted where it is asked whether threads are worth their while."""


class CompiledRounds:
    """The rounds of one model, on a prepared executor's memory, kernels and threads."""

    def __init__(
        self,
        sprouter: Sprouter,
        target: Target,
        memory: ArenaMemory,
        tables: Mapping[str, Longs],
        scratch: list[int],
        team: Team | None,
        epochs: RunEpochs,
    ) -> None:
        """Compile them, or find them on disk. Cost: some 50 ms, from a file 5."""
        self.sprouter, self.memory, self.tables = sprouter, memory, tables
        self.scratch, self.team, self.epochs = scratch, team, epochs
        self.arenas: Arenas = arenas_of(sprouter.network)
        emitted = emit_rounds(sprouter, self.arenas, target)
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
        self.lanes_flops = sum(int(self.arenas.product_flops[t]) for t in sprouter.phases.during)

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
        return _Growth(self, columns, whose, grower, beam, numbers, before).run()


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
        self.made, self.sprouter = rounds, rounds.sprouter
        self.columns, self.whose, self.grower, self.beam = columns, whose, grower, beam
        self.of_instances = of_instances(whose.count, rounds.width) if beam else {}
        self.given = self.limit = columns.count
        self.rows, self.held = before.rows.astype(np.int64), before.rows
        self.numbers = np.ascontiguousarray(numbers)
        self.ways = {}
        for hops, way in whose.ways.items():
            assert way.indptr is not None
            self.ways[hops] = way.indptr, way.target
        begin, end = whose.begin, whose.begin + self.given
        degrees = [np.diff(indptr[begin : end + 1]).max(initial=1) for indptr, _ in self.ways.values()]
        self.widest = int(max(degrees, default=1))
        types = self.sprouter.model.types
        self.scores = max(
            (
                types[d.type].outputs[d.output].shape[0]
                for kind in self.sprouter.growth.kinds
                for d in kind.decisions
                if d.type >= 0
            ),
            default=1,
        )
        self.fields = _field_rows(before, rounds.arenas)
        # all columns that compiled code reads or writes are there from now on
        self.named = [(n, w) for n, w in rounds.words.items() if isinstance(n, tuple) and n[0] == "column"]
        columns.make(name[1] for name, _ in self.named)
        self._note_values(before)
        self.shares = self._shared()

    def run(self) -> Computed | None:
        """Round after round until nothing comes to be."""
        made = self.made
        self._place()
        for share in self.shares:
            first = share["next"]
            made.begin(address(share.state))
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
                made.rounds(address(shares[thread].state), made.scratch[thread])

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
        start = (start - start[0]).astype(np.int64)
        parts_wanted = 1
        if made.team is not None and count * made.lanes_flops * USUAL_ROUNDS >= parts.APART_FLOPS:
            parts_wanted = min(len(made.scratch), count)
        # an instance belongs where its middle lies
        middle = (start[:-1] + start[1:]) // 2
        part = np.minimum(middle * parts_wanted // max(1, int(start[-1])), parts_wanted - 1)
        bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), count]
        return [self._share(start, *pair) for pair in pairwise(bounds)]

    def _share(self, start: Longs, first: int, last: int) -> Share:
        """The instances `first` to `last` (exclusive) of the mini-batch."""
        made, growth = self.made, self.sprouter.growth
        share = Share(made.words, start[first:last].astype(np.int32))
        count = last - first
        share["root_count"] = count
        share["roots"] = address(share.roots)
        share["instances"] = self.whose.count
        share["begin"] = self.whose.begin
        for name in made.words:
            match name:
                case ("kind", str(kind)):
                    share[name] = self.whose.instances.schema.kinds.index(kind)
                case ("indptr" | "target" as part, tuple(hops)):
                    share[name] = address(self.ways[hops][part == "target"])
                case "arena" | "kernel" | "constants":
                    share[name] = address(made.tables[name])
                case ("field", int(number)):
                    share[name] = self.fields[number]
        share["numbers"] = address(self.numbers)
        share["count"], share["cut"] = address(self.grower.count), address(self.grower.cut)
        share["instance_first"], share["instance_last"] = first, last
        share.point(self.of_instances)
        deciding = frozenset().union(*(kind.kinds for kind in growth.kinds if kind.given))
        given = np.arange(start[first], start[last], dtype=np.int32)
        own = self.whose.of_kinds(deciding, self.columns, given)
        if len(own):
            share["given_first"], share["given_last"] = int(start[first]), int(start[last])
        starts = sum(kind.start is not None for kind in growth.kinds)
        now = count * starts + share["given_last"] - share["given_first"]
        most = count * sum(kind.most for kind in growth.kinds if not kind.given)
        vertices = min(most, made.guess * count) + 4 * now * made.added
        share.reserve(max(LEAST_ROOM, 2 * now), self.widest, made.width, self.scores)
        if self.beam:
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
            share["row", arena] = int(self.rows[arena])
            self.rows[arena] += vertices * times
            share["row_end", arena] = int(self.rows[arena])

    def _extend(self, share: Share) -> None:
        """More room for a share that has none for its next round."""
        made, now = self.made, share["wanted"]
        if now > share["room"]:
            share.reserve(2 * now, self.widest, made.width, self.scores)
        share.used *= 2
        share.used = max(share.used, 4 * now * made.added, FIRST_GUESS)
        if self.beam and share["kept", "next"] + now * made.width > share["kept", "end"]:
            share.hold(2 * share["kept", "end"] + now * made.width)
        if share["next"] + now * made.added > share["end"]:
            self._give_vertices(share, share.used)
        if any(share["row", a] + now * n > share["row_end", a] for a, n in made.wide.items()):
            self._give_rows(share, share.used)

    def _place(self) -> None:
        """Have the memory for what the shares were given, and tell them where it lies."""
        made = self.made
        rows = self.rows.astype(np.int32)
        made.epochs.go_on(rows, made.arenas)
        made.memory.reserve(rows, self.held)
        self.held = rows
        self.columns.reserve(self.limit)
        for name, word in self.named:
            at = address(self.columns[name[1]])
            for share in self.shares:
                share.state[word] = at

    def _note_values(self, before: Plan) -> None:
        """Where the values lie that rounds read of what was computed before them."""
        arenas, width = self.made.arenas, self.sprouter.network.width
        types = self.sprouter.model.types
        for name in self.made.words:
            match name:
                case ("column", ValueColumn(type=t, output=o)) if t in self.sprouter.phases.before:
                    if types[t].reduction is None:
                        node = self.columns[NodeColumn(t)][: self.given]
                        rows = np.full(self.given, -1, np.int32)
                        rows[node >= 0] = before.row[node[node >= 0] * width + o]
                    else:
                        stored = self.columns[StandInColumn(t, o)][: self.given]
                        rows = _rows_of(stored, before, arenas, int(arenas.output_arena[t, o]), self.fields)
                    self.columns.give(name[1], rows)

    def _computed(self) -> Computed:
        """What has grown; vertices are numbered without gaps from now on."""
        made, columns, given = self.made, self.columns, self.given
        rows = self.held.copy()
        for arena in made.wide:
            rows[arena] = max(share["row", arena] for share in self.shares)
        made.epochs.go_on(rows, made.arenas)
        if len(self.shares) == 1 and self.limit == self.shares[0]["end"] and not self.shares[0].used:
            columns.count = self.shares[0]["next"]
        else:
            there = np.flatnonzero(columns[INSTANCE][: self.limit] >= 0).astype(np.int32)
            columns.keep(there)
            for share in self.shares if self.beam else ():
                vertices = share.picks["pick", "vertex"]
                vertices[:] = np.searchsorted(there, vertices)
        if self.beam:
            self._take(self.beam)
        made.guess = max(made.guess, 2 * (columns.count - given) // self.whose.count)
        phases, types = self.sprouter.phases, self.sprouter.model.types
        found, keys = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for place, t in enumerate(phases.during):
            own = OwnColumn(t) if types[t].reduction is not None else ValueColumn(t, 0)
            here = np.flatnonzero(columns[own][given : columns.count] >= 0).astype(np.int32) + np.int32(given)
            found.append(here)
            keys.append(self._step(here) * np.int32(len(phases.during)) + np.int32(place))
        key = np.concatenate(keys)
        order = np.argsort(key, kind="stable")
        vertex: Ints = np.concatenate(found)[order]
        type_of: Ints = np.array(phases.during, np.int32)[key[order] % max(1, len(phases.during))]
        row = np.full((self.sprouter.network.width, len(vertex)), -1, np.int32)
        for t in phases.during:
            own_nodes = type_of == t
            for o in range(int(made.arenas.outputs[t])):
                row[o, own_nodes] = columns[ValueColumn(t, o)][vertex[own_nodes]]
        read = made.epochs.guarded(self._reader(type_of, row))
        rounds = max(share["round"] for share in self.shares)
        return Computed(type_of, vertex, self._step(vertex), row, rows, rounds, read)

    def _step(self, vertices: Ints) -> Ints:
        """The number of the round, or of the stage in all of them, that each vertex was computed in."""
        if self.sprouter.phases.ordered:
            return self.columns[ROUND][vertices]
        stage = self.columns[STAGE][vertices]
        return self.columns[ROUND][vertices] * np.int32(stages(self.sprouter)) + stage

    def _take(self, beam: Beam) -> None:
        """Tell what was picked."""
        parts = [
            Part(s["instance_first"], s.picks, s["pick", "next"], s["kept", "next"]) for s in self.shares
        ]
        kinds = self.sprouter.growth.beam
        assert kinds is not None
        vertices = np.arange(self.columns.count, dtype=np.int32)
        compared = self.whose.of_kinds(kinds[0].kinds, self.columns, vertices)
        take(beam, self.columns, parts, self.of_instances, compared)

    def _reader(self, type_of: Ints, row: Ints) -> Read:
        """What reads the values of nodes of these types that lie in these rows."""
        arenas, views = self.made.arenas, self.made.memory.views

        def read(references: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
            output, node = references % len(row), references // len(row)
            arena, place = arenas.output_arena[type_of[node], output], row[output, node]
            values = np.empty((len(references), *arenas.shape[int(arena[0])]), np.float32)
            for a in np.unique(arena).tolist():
                here = arena == a
                values[here] = views[a][place[here]]
            return values

        return read


def _field_rows(before: Plan, arenas: Arenas) -> dict[int, int]:
    """The first row of each constant that is a field of the vertices."""
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
