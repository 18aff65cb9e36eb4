"""Executes what was recorded, piece by piece: each piece is scheduled and planned alone, values stay."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Clock
from abw.core.exec.interface import Array, Executor, Result, Tape
from abw.core.exec.params import Params, constant_value
from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.jit.decorators import njit
from abw.core.plan.arenas import arenas_of
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Earlier, Plan, plan
from abw.core.policy.schedule import Policy, Schedule
from abw.core.program.recording.given import Floats, Given
from abw.core.program.recording.recorder import Ints, Longs, Piece, Recorder, Segment


class Engine(Protocol):
    """What a tape's nodes are executed by."""

    tape: Tape | None
    """What answers questions to values in compiled code; None where nothing does."""

    def begin(self, base: int) -> None:
        """A run begins: its first node is number `base` of all runs'. Values of earlier runs are lost."""

    def taped(self, piece: Piece) -> bool:
        """Compute the next nodes from the words that say them, if it can. Errors: TooLargeError."""

    def round(self, recorder: Recorder, asked: int) -> list[int] | None:
        """Compute what was recorded, where need be, and answer all questions that the recorder has noted,
        so many, if it can.
        """

    def advance(self, segment: Segment) -> None:
        """Compute the next nodes. Errors: TooLargeError."""

    def values(self, references: Longs) -> Array:
        """The values of m references, all of one shape (m, *shape); a copy."""


# Nodes of segments whose plans are kept.
MOST_KEPT = 1 << 20


@dataclass(frozen=True, slots=True)
class Planned:
    """A segment's plan, the number of each of its nodes there, and by their bytes the segments behind it."""

    plan: Plan
    local: Ints
    behind: dict[bytes, Planned]


class BatchEngine:
    """Schedules and plans each segment by abw's policies and plans, for any executor.

    A run that begins as one before it, node for node, finds the plans of that again: looking for them takes
    some nanoseconds a node. `segments` are those of this run, of so many `nodes`, `plans` their plans,
    `counts` what they took; `clock` counts the seconds of all runs. `network` is that of their nodes.
    """

    tape: Tape | None = None

    def __init__(
        self, network: Network, params: Params, executor: Executor, policy: Policy, given: Given
    ) -> None:
        self.network, self._params, self._given = network, params, given
        self._executor, self._policy = executor, policy
        self._names = tuple(t.name for t in network.types)
        self._first: dict[bytes, Planned] = {}
        self._kept = 0
        self.clock = Clock("schedule", "plan", "execute")
        self._type, self._row, self._local = (np.zeros(0, np.int32) for _ in range(3))
        self.begin(0)

    def taped(self, piece: Piece) -> bool:
        """As in `Engine`: never."""
        return False

    def round(self, recorder: Recorder, asked: int) -> list[int] | None:
        """As in `Engine`: never."""
        return None

    def begin(self, base: int) -> None:
        """As in `Engine`."""
        if self._kept > MOST_KEPT:
            self._first, self._kept = {}, 0
        self._next = self._first
        self._segments: list[Segment] = []
        self.plans: list[Plan] = []
        self._results: list[Result] = []
        self._firsts: list[int] = []
        self.nodes = 0

    def advance(self, segment: Segment) -> None:
        """As in `Engine`. Cost: some 150 us beside the kernels, and 100 ns a node."""
        if not len(segment):
            return
        width = self.network.width
        own, given = self._given.split(self.network, segment) if self._given else (segment, ())
        key = b"".join(part.tobytes() for part in (own.type, own.operand, own.instance))
        found = self._next.get(key)
        if found is None:
            self._next[key] = found = self._planned(own, given)
            self._kept += len(segment)
        made, local = found.plan, found.local
        if given:
            made = with_given(made, given)
        self._next = found.behind
        self._segments.append(segment)
        with self.clock("execute"):
            self._results.append(self._executor.run(made))
        self._firsts.append(segment.first)
        self._reserve(len(segment))
        new = slice(segment.first, segment.first + len(segment))
        self._type[new] = segment.type
        self._local[new] = local
        rows = made.row.reshape(len(segment), width)[local]
        self._row[new.start * width : new.stop * width] = rows.ravel()
        self.plans.append(made)
        self.nodes = new.stop

    def _planned(self, segment: Segment, given: tuple[Floats, ...]) -> Planned:
        width = self.network.width
        graph, outer, local = self._graph(segment, given)
        rows, earlier = self._taken(), None
        if rows is not None:
            arena = arenas_of(self.network).output_arena[self._type[outer // width], outer % width]
            earlier = Earlier(rows, arena, self._row[outer], fields=False)
        with self.clock("schedule"):
            schedule = self._scheduled(graph, segment, local)
        with self.clock("plan"):
            return Planned(plan(graph, self._executor.arrange(graph, schedule), None, earlier), local, {})

    def _taken(self) -> Ints | None:
        """How many rows of each arena the run has taken; None before its first piece."""
        return self.plans[-1].rows if self.plans else None

    def _scheduled(self, graph: Graph, segment: Segment, local: Ints) -> Schedule:
        """The schedule of a segment's graph, whose nodes have the numbers `local` there."""
        return self._policy.schedule(graph.dag)

    @property
    def segments(self) -> list[Segment]:
        """All that was recorded in this run."""
        return self._segments

    @property
    def pieces(self) -> list[tuple[Graph, Schedule]]:
        """Each piece of this run, and the schedule by which it was executed."""
        return [(made.graph, made.schedule) for made in self.plans]

    @property
    def batches(self) -> int:
        """How many batches were executed in this run."""
        return sum(len(made.schedule) for made in self.plans)

    @property
    def counts(self) -> Counts:
        """What executing this run's pieces took."""
        return Counts(*(sum(getattr(r.counts, f.name) for r in self._results) for f in fields(Counts)))

    def values(self, references: Longs) -> Array:
        """As in `Engine`."""
        if references[0] < 0 or (references < 0).any():
            each = [
                self._constant(r) if r < 0 else self._computed(np.array([r]))[0] for r in references.tolist()
            ]
            return np.stack(each)
        return self._computed(references)

    def _computed(self, references: Longs) -> Array:
        """The values of nodes, as they are recorded."""
        return self.computed(references)

    def computed(self, references: Longs) -> Array:
        """The values of nodes, as they are executed: of m references (m, *shape)."""
        node, output = np.divmod(references, self.network.width)
        local = self._local[node].astype(np.int64) * self.network.width + output
        piece = np.searchsorted(self._firsts, node, side="right") - 1
        if (piece == piece[0]).all():
            return self._results[int(piece[0])].values(local)
        found: Array | None = None
        for p in np.unique(piece).tolist():
            here = np.flatnonzero(piece == p)
            part = self._results[p].values(local[here])
            if found is None:
                found = np.empty((len(references), *part.shape[1:]), part.dtype)
            found[here] = part
        assert found is not None
        return found

    def _constant(self, reference: int) -> NDArray[np.float32]:
        given = self._given.row(self.network, reference)
        return constant_value(self.network, self._params, reference) if given is None else given

    def graph(self, segment: Segment) -> tuple[Graph, Longs, Ints]:
        """A segment as a graph, whose nodes are in the order of their types; the references that it reads of
        earlier nodes; the number of each of its nodes there.
        """
        return self._graph(*self._given.split(self.network, segment))

    def _graph(self, segment: Segment, given: tuple[Floats, ...]) -> tuple[Graph, Longs, Ints]:
        """The same of one that numbers the rows that are `given`."""
        n, width = len(segment), self.network.width
        counts = np.bincount(segment.type, minlength=len(self._names))
        order = np.argsort(segment.type, kind="stable")
        local = np.empty(n, np.int32)
        local[order] = np.arange(n)
        operand_ptr, operand = np.zeros(n + 1, np.int32), np.empty(len(segment.operand), np.int32)
        edges = np.empty((2, len(operand)), np.int32)
        outer = np.empty(len(operand), np.int64)
        seen = np.full(segment.first * width, -1, np.int32)
        read, linked = _localise(
            (segment.operand_ptr, segment.operand), segment.first * width, width, order, local,
            (operand_ptr, operand), edges, outer, seen,
        )  # fmt: skip
        dag = build_dag(self._names, segment.type[order], edges[0, :linked], edges[1, :linked])
        type_ptr = np.append(0, np.cumsum(counts)).astype(np.int32)
        graph = Graph(
            self.network,
            type_ptr,
            order.astype(np.int32) + np.int32(segment.first),
            segment.instance[order],
            (),
            int(segment.instance.max(initial=0)) + 1,
            dag,
            operand_ptr,
            operand,
            given=given,
        )
        return graph, outer[:read].copy(), local

    def _reserve(self, more: int) -> None:
        """Room for more nodes."""
        needed = self.nodes + more
        if needed > len(self._type):
            room, width = max(2 * needed, 1024), self.network.width
            for name, each in (("_type", 1), ("_local", 1), ("_row", width)):
                grown = np.zeros(room * each, np.int32)
                held = self.nodes * each
                grown[:held] = getattr(self, name)[:held]
                setattr(self, name, grown)


def with_given(made: Plan, given: tuple[Floats, ...]) -> Plan:
    """A plan for other rows of fields, as many as it was made for."""
    held = {id(old): new for old, new in zip(made.graph.given, given, strict=True)}
    places = tuple((arena, row, held[id(old)]) for arena, row, old in made.given)
    return replace(made, graph=replace(made.graph, given=given), given=places)


@njit
def _localise(
    segment: tuple[Ints, Ints],
    own: int,
    width: int,
    order: NDArray[Any],
    local: Ints,
    operands: tuple[Ints, Ints],
    edges: Ints,
    outer: Longs,
    seen: Ints,
) -> tuple[int, int]:
    """A segment's operands in the order of its graph's nodes, and the edges among these.

    References from `own` on are its own nodes'. What it reads of earlier ones is numbered behind those as it
    is met, in `outer`; `seen` is all -1. How many these are, and how many edges.
    """
    ptr, references = segment
    operand_ptr, operand = operands
    n = len(local)
    at, read, linked = 0, 0, 0
    for i in range(n):
        v = order[i]
        for k in range(ptr[v], ptr[v + 1]):
            reference = references[k]
            if reference >= own:
                node = (reference - own) // width
                producer = local[node]
                operand[at] = producer * width + (reference - own) % width
                edges[0, linked], edges[1, linked] = producer, i
                linked += 1
            elif reference >= 0:
                if seen[reference] < 0:
                    seen[reference] = read
                    outer[read] = reference
                    read += 1
                operand[at] = n * width + seen[reference]
            else:
                operand[at] = reference
            at += 1
        operand_ptr[i + 1] = at
    return read, linked
