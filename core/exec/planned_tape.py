"""Nodes appended piece by piece: each piece is planned and executed alone, and all values stay in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Array, Executor
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Earlier, Plan, plan
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
References = NDArray[np.integer[Any]]
Read = Callable[[References], Array]


class Piece(NamedTuple):
    """Nodes executed together, from number `first` of the tape on; `read` takes references of the piece."""

    first: int
    schedule: Schedule
    counts: Counts
    read: Read


class PlannedTape:
    """An append-only tape whose pieces are executed by plans that go on from each other.

    There are `count` nodes; output o of node v has the reference `v * width + o`. `type[v]` is its type,
    `local[v]` its number in its piece, and its outputs lie in the rows
    `row[v * width:(v + 1) * width]`; these arrays have room for more nodes. `rows` (A,): rows taken of each
    arena, None before anything ran. `plans`: those of the pieces that were executed by one.
    """

    def __init__(self, network: Network, executor: Executor) -> None:
        self.network, self.executor = network, executor
        self.type, self.row, self.local = (np.zeros(0, np.int32) for _ in range(3))
        self.clear()

    def clear(self) -> None:
        """Begin again without nodes; the room stays."""
        self.count = 0
        self.rows: Ints | None = None
        self.plans: list[Plan] = []
        self.pieces: list[Piece] = []

    def plan(self, graph: Graph, schedule: Schedule, outer: References, *, fields: bool = True) -> Plan:
        """Plan the next piece. The i-th reference that its graph reads of earlier nodes is `outer[i]` here.

        `fields`: see `Earlier`.
        """
        earlier = None
        if self.rows is not None:
            node, output = np.divmod(outer, self.network.width)
            arena = arenas_of(self.network).output_arena[self.type[node], output]
            earlier = Earlier(self.rows, arena, self.row[outer], fields)
        return plan(graph, self.executor.arrange(graph, schedule), None, earlier)

    def run(
        self,
        made: Plan,
        types: Ints | None = None,
        local: Ints | None = None,
        same: Ints | None = None,
    ) -> None:
        """Execute the plan of the next nodes, which are of these types and have these numbers in its graph.

        Without, they are in the graph's order. A node with a number below zero is not in it: its values are
        those of the earlier node that `same` says. Errors: TooLargeError.
        """
        result, row = self.executor.run(made), made.row
        if local is not None:
            row = row.reshape(-1, self.network.width)[local].ravel()
        if local is not None and same is not None:
            row = np.where(np.repeat(local < 0, self.network.width), self._rows_of(len(local), same), row)
            local = np.maximum(local, 0)
        kind = made.graph.dag.type if types is None else types
        self.append(kind, row, made.rows, made.schedule, result.counts, result.read, local)
        self.plans.append(made)

    def _rows_of(self, more: int, same: Ints) -> Ints:
        """The rows of what stands for each of so many next nodes, where that is an earlier one."""
        earlier = np.minimum(same[self.count : self.count + more], max(0, self.count - 1))
        self.reserve(more)
        rows: Ints = self.row.reshape(-1, self.network.width)[earlier].ravel()
        return rows

    def refer(self, types: Ints, same: Ints) -> None:
        """Append nodes of which all values are those of earlier ones, which `same` says."""
        row = self._rows_of(len(types), same)
        begin, self.count = self.count, self.count + len(types)
        self.type[begin : self.count], self.local[begin : self.count] = types, 0
        self.row[begin * self.network.width : self.count * self.network.width] = row

    def append(
        self,
        types: Ints,
        row: Ints,
        rows: Ints,
        schedule: Schedule,
        counts: Counts,
        read: Read,
        local: Ints | None = None,
    ) -> None:
        """Append executed nodes of these types, of which output o of node i lies in `row[i * width + o]`."""
        self.reserve(len(types))
        self.pieces.append(Piece(self.count, schedule, counts, read))
        begin, self.count = self.count, self.count + len(types)
        self.type[begin : self.count] = types
        self.local[begin : self.count] = np.arange(len(types)) if local is None else local
        self.row[begin * self.network.width : self.count * self.network.width] = row
        self.rows = rows

    def reserve(self, more: int) -> bool:
        """Have room for so many more nodes; whether the arrays were replaced for that."""
        needed = self.count + more
        if needed <= len(self.type):
            return False
        room, width = max(2 * needed, 1024), self.network.width
        for name, each in (("type", 1), ("local", 1), ("row", width)):
            grown = np.zeros(room * each, np.int32)
            grown[: self.count * each] = getattr(self, name)[: self.count * each]
            setattr(self, name, grown)
        return True

    def values(self, references: References) -> Array:
        """The values of m references, all of one shape: (m, *shape)."""
        if not len(references) or not self.pieces:
            return np.empty(len(references), np.float32)
        width, computed = self.network.width, references >= 0
        node, output = np.divmod(np.where(computed, references, 0), width)
        local = np.where(computed, self.local[node].astype(np.int64) * width + output, references)
        firsts = [piece.first for piece in self.pieces]
        at = np.where(computed, np.searchsorted(firsts, node, side="right") - 1, 0)
        if (at == at[0]).all():
            return self.pieces[int(at[0])].read(local)
        found: Array | None = None
        for number in np.unique(at).tolist():
            here = np.flatnonzero(at == number)
            part = self.pieces[number].read(local[here])
            if found is None:
                found = np.empty((len(references), *part.shape[1:]), part.dtype)
            found[here] = part
        assert found is not None
        return found

    @property
    def counts(self) -> Counts:
        """What executing all pieces took."""
        if len(self.pieces) == 1:
            return self.pieces[0].counts
        return Counts(*(sum(getattr(p.counts, f.name) for p in self.pieces) for f in fields(Counts)))

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return sum(len(piece.schedule) for piece in self.pieces)

    @property
    def unseen(self) -> int:
        """How often a policy met a state that it had not seen."""
        return sum(piece.schedule.unseen for piece in self.pieces)

    def schedule(self, number: Ints) -> Schedule:
        """All pieces' batches in the order in which they ran; node v of the tape is called `number[v]`."""
        parts, nodes = [piece.schedule for piece in self.pieces], []
        for piece, end in zip(self.pieces, [*(p.first for p in self.pieces[1:]), self.count], strict=True):
            here = np.empty(end - piece.first, np.int32)
            here[self.local[piece.first : end]] = number[piece.first : end]
            nodes.append(here[piece.schedule.nodes])
        return joined_schedules(parts, nodes)


def joined_schedules(schedules: Sequence[Schedule], nodes: Sequence[Ints]) -> Schedule:
    """Schedules that follow each other as one; schedule i's nodes are called `nodes[i]` in that."""

    def together(parts: list[Ints]) -> Ints:
        return np.concatenate([np.zeros(0, np.int32), *parts])

    def ends(parts: list[Ints]) -> Ints:
        return np.append(0, np.cumsum(together([np.diff(part) for part in parts]))).astype(np.int32)

    return Schedule(
        together([made.type for made in schedules]),
        ends([made.ptr for made in schedules]),
        together([*nodes]),
        sum(made.unseen for made in schedules),
        ends([made.launches for made in schedules]),
    )
