"""Executes what was recorded, piece by piece: each piece is scheduled and planned alone, values stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit
from abw.core.exec.interface import Array, Executor, Result, Tape
from abw.core.exec.params import Params, constant_value
from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Earlier, Plan, plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Policy
from abw.core.program.recorder import Ints, Longs, Piece, Segment, segment
from abw.core.program.values import BITS


class Engine(Protocol):
    """What a tape's nodes are executed by."""

    def begin(self, base: int) -> None:
        """A run begins: its first node is number `base` of all runs'. Values of earlier runs are lost."""

    def advance(self, piece: Piece) -> None:
        """Compute the next nodes. Errors: StaleError, TooLargeError."""

    def values(self, references: Longs) -> Array:
        """The values of m references, all of one shape (m, *shape); a copy."""

    tape: Tape | None
    """What answers questions to values in compiled code; None where nothing does."""


MOST_KEPT = 1 << 20
"""Nodes of segments whose plans are kept."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A segment's plan, the number of each of its nodes there, and by their bytes the segments behind it."""

    plan: Plan
    local: Ints
    behind: dict[bytes, Planned]


class BatchEngine:
    """Executes each piece by the executor's own tape; where that has none, or is told another policy than the
    critical rule, or finds a piece too large for one thread, it is scheduled and planned.

    A run that begins as one before it, node for node, finds the plans of that again: looking for them takes
    some nanoseconds a node. `batches` counts those executed in this run, `segments` are its segments.
    """

    def __init__(self, network: Network, params: Params, executor: Executor, policy: Policy) -> None:
        self._network, self._params = network, params
        self._executor, self._policy = executor, policy
        self._names = tuple(t.name for t in network.types)
        self._slots = np.array([len(t.slots) for t in network.types], np.int32)
        self._first: dict[bytes, Planned] = {}
        self._kept = 0
        self._type, self._row, self._local = (np.zeros(0, np.int32) for _ in range(3))
        self.begin(0)

    def begin(self, base: int) -> None:
        """As in `Engine`."""
        if self._kept > MOST_KEPT:
            self._first, self._kept = {}, 0
        self._next = self._first
        self._base, self._count, self._planned_batches = base, 0, 0
        self._pieces: list[tuple[Piece, int]] = []
        self._last: Plan | None = None
        self._results: list[Result] = []
        self._firsts: list[int] = []
        self.tape = self._executor.tape(BITS) if isinstance(self._policy, Critical) else None
        if self.tape is not None:
            self.tape.begin()
            self.tape.place(self._type, self._row)

    @property
    def batches(self) -> int:
        """How many batches were executed in this run."""
        return self._planned_batches + (0 if self.tape is None else self.tape.batches)

    @property
    def segments(self) -> list[Segment]:
        """All that was recorded in this run."""
        return [self._segment(piece, first) for piece, first in self._pieces]

    def advance(self, piece: Piece) -> None:
        """As in `Engine`. Cost: that of `Tape.advance`; with a plan some 150 us, and 100 ns a node."""
        if not piece.nodes:
            return
        first = self._count
        self._reserve(piece.nodes)
        if self.tape is not None:
            end = self.tape.advance(piece.words, piece.nodes, first, self._base * self._network.width)
        if self.tape is None or end != "done":
            self._run(self._segment(piece, first))
        self._pieces.append((piece, first))
        self._count += piece.nodes

    def _segment(self, piece: Piece, first: int) -> Segment:
        return segment(piece, self._slots, self._network.width, self._base, first)

    def _run(self, segment: Segment) -> None:
        """Schedule, plan and execute."""
        width = self._network.width
        rows = self._last.rows if self._last is not None else None
        if self.tape is not None:
            rows = self.tape.leave()
        made, local = self._found(segment, rows)
        result = self._executor.run(made)
        new = slice(segment.first, segment.first + len(segment))
        self._type[new] = segment.type
        places = made.row.reshape(len(segment), width)[local]
        self._row[new.start * width : new.stop * width] = places.ravel()
        self._planned_batches += len(made.schedule)
        self._last = made
        if self.tape is not None:
            self.tape.take(made.rows)
        else:
            self._local[new] = local
            self._results.append(result)
            self._firsts.append(segment.first)

    def _found(self, segment: Segment, rows: Ints | None) -> tuple[Plan, Ints]:
        """A segment's plan, and the number of each of its nodes there; `rows` (A,) are taken before it."""
        if self.tape is not None and self._pieces:  # which rows a plan goes on from is the tape's matter
            return self._planned(segment, rows)
        key = b"".join(part.tobytes() for part in (segment.type, segment.operand, segment.instance))
        found = self._next.get(key)
        if found is None:
            self._next[key] = found = Planned(*self._planned(segment, rows), {})
            self._kept += len(segment)
        self._next = found.behind
        return found.plan, found.local

    def _planned(self, segment: Segment, rows: Ints | None) -> tuple[Plan, Ints]:
        graph, outer, local = self.graph(segment)
        earlier = None
        if rows is not None:
            width = self._network.width
            arena = arenas_of(self._network).output_arena[self._type[outer // width], outer % width]
            earlier = Earlier(rows, arena, self._row[outer])
        schedule = self._policy.schedule(graph.dag)
        return plan(graph, self._executor.arrange(graph, schedule), None, earlier), local

    def values(self, references: Longs) -> Array:
        """As in `Engine`."""
        width = self._network.width
        if references[0] < 0 or (references < 0).any():
            each = [
                self._constant(r) if r < 0 else self.values(np.array([r]))[0] for r in references.tolist()
            ]
            return np.stack(each)
        if self.tape is not None:
            return self.tape.values(references)
        node, output = np.divmod(references, width)
        local = self._local[node].astype(np.int64) * width + output
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
        return constant_value(self._network, self._params, reference)

    def graph(self, segment: Segment) -> tuple[Graph, Longs, Ints]:
        """A segment as a graph, whose nodes are in the order of their types; the references that it reads of
        earlier nodes; the number of each of its nodes there.
        """
        n, width = len(segment), self._network.width
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
            self._network,
            type_ptr,
            order.astype(np.int32) + np.int32(segment.first),
            segment.instance[order],
            (),
            int(segment.instance.max(initial=0)) + 1,
            dag,
            operand_ptr,
            operand,
        )
        return graph, outer[:read].copy(), local

    def _reserve(self, more: int) -> None:
        """Room for more nodes."""
        needed = self._count + more
        if needed > len(self._type):
            room, width = max(2 * needed, 1024), self._network.width
            for name, each in (("_type", 1), ("_local", 1), ("_row", width)):
                grown = np.zeros(room * each, np.int32)
                before = getattr(self, name)[: self._count * each]
                grown[: len(before)] = before
                setattr(self, name, grown)
            if self.tape is not None:
                self.tape.place(self._type, self._row)


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
