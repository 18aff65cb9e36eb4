"""Executes recorded calls, piece by piece; values stay in the executor's memory until the next run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Clock
from abw.core.exec.interface import Array, Executor
from abw.core.exec.params import Params, constant_value
from abw.core.exec.planned_tape import PlannedTape
from abw.core.graph.equal.consing import LEAST_NODES, Consing, DedupMode, Patience, distinct, worth
from abw.core.graph.graph import Graph
from abw.core.graph.part import appended, unified
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Policy, Schedule
from abw.core.program.recording.inputs import Floats, InputRows
from abw.core.program.recording.recorder import ROUNDS, Executed, Recorder
from abw.core.program.recording.segments import (
    Ints,
    Longs,
    Piece,
    Segment,
    joined,
    reads_of,
    segment,
)
from abw.core.program.recording.values import BITS

if TYPE_CHECKING:
    from abw.core.exec.cpu.tape.tape import CompiledTape


class Planning(NamedTuple):
    """A segment, and the plan by which it was executed: none where all of its nodes equal earlier ones, or it
    was `taped`: the executor's tape did.
    """

    segment: Segment
    made: Plan | None = None
    taped: bool = False


class Engine:
    """Executes recorded calls of cells as nodes of `network`.

    The executor's own tape runs them without plans, if it has one, the policy is the critical rule, and the
    engine allows it (`by_tape`). Otherwise, and for pieces too large for one thread, each piece is scheduled
    and planned. `clock` counts the seconds of all runs.
    """

    by_tape = True
    looks_for_equal = True

    def __init__(
        self,
        cells: Network,
        params: Params,
        executor: Executor,
        threads: int | None,
        policy: Policy,
        inputs: InputRows,
        dedup: DedupMode = "off",
    ) -> None:
        """Take a network and its parameters; the executor is prepared when something is to be computed.

        `dedup`: whether equal calls are one node ("on", "off"), or where that pays ("auto").
        """
        self._inputs, self._policy, self._executor, self._threads = inputs, policy, executor, threads
        self._patience = Patience(dedup if self.looks_for_equal else "off")
        self._may_look = self._looking = False
        self._last, self._planned_last = 0, False
        self.clock = Clock("schedule", "plan", "execute")
        self._base = 0
        # what the tape executed in one go, and segments with the plan of what was executed of them
        self._recorded: list[Sequence[Piece] | Planning] = []
        self.rounds = 0
        self.tape: PlannedTape
        self._compiled: CompiledTape | None
        self.extend(cells, params)

    def extend(self, cells: Network, params: Params) -> None:
        """Continue with a network that has further types, of the same `width`.

        What the run has computed is computed again, once something else is to be.
        """
        self.cells, self.params, self.network = cells, params, self._executed_network(cells)
        self._reads = reads_of(cells)
        self.tape, self._compiled = PlannedTape(self.network, self._executor), None
        self.equal = Consing(self.network)
        self._prepared = self._outdated = False
        self._may_look, self._looking = self._may_look or self._looking, False

    def update(self, params: Params) -> None:
        """Use other values of the parameters from the next run on."""
        self.params, self._outdated = params, True

    def _executed_network(self, cells: Network) -> Network:
        """The network whose nodes calls of cells become."""
        return cells

    @property
    def taped(self) -> bool:
        """Whether the executor's own tape may run the calls."""
        return self.by_tape and isinstance(self._policy, Critical) and self._executor.abilities.tapes

    def begin(self, base: int) -> None:
        """Begin a run, whose first node is number `base` of all runs'. Values of earlier runs are lost."""
        if self._looking and self._patience.mode == "auto":
            self._patience.learn(paid=worth(self.tape.count, *self._spared()))
        self._last, self._planned_last = self.tape.count, bool(self.tape.pieces)
        self._base, self._recorded, self.rounds = base, [], 0
        self._may_look, self._looking = self._patience.begin(), False
        if self._prepared:
            self._start()

    def _spared(self) -> tuple[int, int]:
        """How many nodes were not executed, since they equal others, and their arithmetic."""
        arenas, types = arenas_of(self.network), self.tape.type[: self.tape.count]
        return self.equal.spared(types, arenas.product_flops, arenas.other_flops)

    def _look(self, nodes: int) -> None:
        """Begin to look for equal nodes, if so many more are the run's first ones, and it is worth while.

        Amid a run it is too late: nodes that read what was not looked at equal no others. Where several
        threads share pieces by instances, as may be seen from the last run, equal nodes of other instances
        would be in their way.
        """
        if not self._may_look:
            return
        self._may_look = False
        shared = self._executor.threads > 1 and (self._planned_last or not self._last)
        many = max(nodes, self._last) >= LEAST_NODES
        if self._patience.mode == "on" or (many and not shared):
            self._looking = True
            self.equal.begin()
            if self._compiled is not None:
                self._compiled.look(self.equal)

    def _start(self) -> None:
        """Begin a run on the prepared executor."""
        self._may_look, self._looking = self._may_look or self._looking, False
        self._compiled = self._executor.tape(BITS) if self.taped else None
        if self._compiled is None:
            self.tape.clear()
        else:
            self.tape = self._compiled
            self._compiled.begin(self._base * self.network.width)

    def prepare(self) -> None:
        """Prepare the executor, or pass it changed parameters, if necessary.

        What the run has computed before `extend` is computed again. Errors: AbwError.
        """
        if self._prepared and not self._outdated:
            return
        self._prepare_executor()
        self._prepared, self._outdated = True, False
        self._start()
        again, self._recorded = self._recorded, []
        self._inputs.rewind()
        for held in again:
            if isinstance(held, Planning):
                self._execute(held.segment)
                continue
            for piece in held:
                self.compute(piece)

    def _prepare_executor(self) -> None:
        if self._prepared:
            self._executor.update(self.params)
        else:
            self._executor.prepare(self.network, self.params, self._threads)

    def compute(self, piece: Piece) -> None:
        """Compute the next nodes. Errors: StaleError, TooLargeError."""
        if self._compiled is not None:
            self.clock.seconds["execute"] += self._compiled.seconds()  # of rounds so far
        if not piece.nodes:
            return
        self.prepare()
        self._look(piece.nodes)
        if self._compiled is not None:
            self._bring(self._compiled)
            self._reserve(piece.nodes, len(piece.words))
            with self.clock("execute"):
                done = self._compiled.advance(piece.words, piece.nodes)
            if done:
                self._recorded.append([piece])
                return
        self.advance(self.segment(piece))

    def segment(self, piece: Piece) -> Segment:
        """The next nodes as arrays. Errors: StaleError, MisreadError."""
        if self._recorded:  # after `extend` they are counted again when they are computed again
            self.prepare()
        return self._segment(piece, self.recorded)

    def _segment(self, piece: Piece, first: int) -> Segment:
        return segment(piece, self._reads, self.cells.width, self._base, first)

    def round(self, recorder: Recorder) -> bool:
        """Compute what was recorded, where need be, and answer the questions that the recorder has noted, if
        the executor's tape can. Cost: see `CompiledTape.round`.
        """
        self.prepare()
        tape = self._compiled
        if tape is None:
            return False
        if recorder.rounds == ROUNDS:
            self.catch_up(recorder)
        self._look((recorder.next - recorder.begun) // recorder.step)
        self._bring(tape)
        while not (done := tape.round(recorder.head)) and tape.make_room(recorder.unread):
            self._reserve(recorder.unread, recorder.unread)
        return done

    def catch_up(self, recorder: Recorder) -> None:
        """Take note of what the tape has executed by itself."""
        if found := recorder.executed():
            self.rounds += len(found)
            self._recorded.append(found)

    def _bring(self, tape: CompiledTape) -> None:
        if self._inputs:
            for constant, since, values in self._inputs.fresh(self.network):
                tape.bring(constant, since, values)

    def _reserve(self, more: int, words: int) -> None:
        """Have room for more nodes, of so many words."""
        self.tape.reserve(more)
        if self._looking and self.equal.reserve(self.tape.count, more, words) and self._compiled is not None:
            self._compiled.look(self.equal)

    def advance(self, segment: Segment) -> None:
        """Compute the next nodes by a plan. Errors: TooLargeError.

        Cost: some 150 us beside the kernels, and 100 ns a node.
        """
        self.prepare()
        self._execute(segment)

    def _execute(self, segment: Segment) -> None:
        """Compute nodes of the executed network by a plan."""
        if not len(segment):
            return
        self._look(len(segment))
        kept, local = segment, None
        self._reserve(len(segment), len(segment.operand))
        if self._looking:
            operand = segment.operand.copy()
            self.equal.number(segment.first, segment.type, segment.operand_ptr, operand)
            kept, local = self._kept(replace(segment, operand=operand))
        own, given = self._inputs.split(self.network, kept)
        if not len(own):
            self._recorded.append(Planning(segment))
            self.tape.refer(segment.type, self.equal.same)
            return
        graph, outer, number = self.graph(own, given)
        with self.clock("schedule"):
            schedule = self._schedule(graph, own, number)
        with self.clock("plan"):
            made = self.tape.plan(graph, schedule, outer, fields=False)
        self._recorded.append(Planning(segment, made))
        if local is not None:
            number = np.where(local >= 0, number[local], -1).astype(np.int32)
        with self.clock("execute"):
            self.tape.run(made, segment.type, number, self.equal.same if self._looking else None)

    def _kept(self, segment: Segment) -> tuple[Segment, Ints]:
        """The nodes of a segment that stand for themselves, numbered on from its first; of each node the
        number of that which stands for it among these, below zero where that is an earlier one.

        Its operands are values of nodes that stand for themselves.
        """
        first, width = segment.first, self.network.width
        same = self.equal.same[first : first + len(segment)]
        kept, position = distinct(same, first)
        ptr, operand = segment.operands(np.flatnonzero(kept))
        inside = operand >= first * width
        node, output = np.divmod(operand[inside], width)
        operand[inside] = (first + position[node - first]) * width + output
        local = np.where(same >= first, position[np.maximum(same - first, 0)], -1).astype(np.int32)
        return Segment(first, segment.type[kept], segment.instance[kept], ptr, operand), local

    def _distinct_graph(self, segment: Segment) -> Graph:
        """An executed segment as a graph of the nodes that stand for themselves."""
        kept = segment
        if self._looking:
            operand = segment.operand.copy()
            computed = operand >= 0
            operand[computed] = self.equal.stands(operand[computed].astype(np.int64))
            kept, _ = self._kept(replace(segment, operand=operand))
        return self._named(self.graph(kept)[0], segment)

    def _named(self, graph: Graph, segment: Segment) -> Graph:
        """The graph of the nodes of a segment that were kept, whose vertices are their numbers in the run."""
        if not self._looking:
            return graph
        first = segment.first
        kept, _ = distinct(self.equal.same[first : first + len(segment)], first)
        numbers = (first + np.flatnonzero(kept)).astype(np.int32)
        return replace(graph, vertex=numbers[graph.vertex - first])

    @property
    def whole(self) -> Graph:
        """All that was recorded; node v's `vertex` is its number in the order of recording.

        Of equal nodes it has the one that was executed: see `Graph.distinct`.
        """
        graph, _, local = self.graph(self.whole_segment)
        return unified(graph, local[self.equal.same[graph.vertex]]) if self._looking else graph

    def _schedule(self, graph: Graph, segment: Segment, local: Ints) -> Schedule:
        """The schedule of a segment's graph, whose nodes have the numbers `local` there."""
        return self._policy.schedule(graph.dag)

    @property
    def recorded(self) -> int:
        """How many calls of cells this run has computed."""
        return self.tape.count

    @property
    def nodes(self) -> int:
        """How many nodes this run has, with those that equal others."""
        return self.tape.count

    @property
    def equal_nodes(self) -> int:
        """How many of these were not executed, since they equal others."""
        return self._spared()[0] if self._looking else 0

    @property
    def segments(self) -> list[Segment]:
        """Return everything that was recorded in this run, piece by piece."""
        return [each.segment for each in self._parsed()]

    @property
    def whole_segment(self) -> Segment:
        """Return everything that was recorded in this run."""
        return joined([each.segment for each in self._parsed(together=True)])

    def _parsed(self, *, together: bool = False) -> Iterator[Planning]:
        """All that was recorded, piece by piece, or those together that follow one another."""
        first = 0
        for held in self._recorded:
            if isinstance(held, Planning):
                yield held
                first += len(held.segment)
                continue
            for piece in [held.together] if together and isinstance(held, Executed) else held:
                yield Planning(self._segment(piece, first), taped=True)
                first += piece.nodes

    @property
    def pieces(self) -> list[tuple[Graph, Schedule]]:
        """Each piece of this run, and the schedule by which it was executed.

        Those of the executor's tape are made now, by the rule that it follows: the same batches, whose lanes
        it may have had in another order.
        """
        found = []
        for own, made, taped in self._parsed():
            if made is not None:
                found.append((self._named(made.graph, own), made.schedule))
            elif taped and len(graph := self._distinct_graph(own)):
                found.append((graph, self._policy.schedule(graph.dag)))
        return found

    def stands(self, nodes: int) -> Ints:
        """The number of the node that stands for each of the run's first so many."""
        return self.equal.same[:nodes] if self._looking else np.arange(nodes, dtype=np.int32)

    def values(self, references: Longs, constants: int = 0) -> Array:
        """The values of m references, so many of them `constants`, all of one shape (m, *shape); a copy."""
        if constants:
            every = references.tolist()
            return np.stack([self.constant(r) if r < 0 else self.values(np.array([r]))[0] for r in every])
        return self.computed(self._executed(references))

    def _executed(self, references: Longs) -> Longs:
        """The references of executed nodes for those of recorded calls."""
        return references

    def computed(self, references: Longs) -> Array:
        """The values of m references to executed nodes, all of one shape (m, *shape)."""
        self.prepare()
        if self._looking:
            references = self.equal.stands(references)
        return self.tape.values(references)

    def constant(self, reference: int) -> NDArray[np.float32]:
        """The value of a constant's reference. Errors: AbwError for an input of an earlier run."""
        given = self._inputs.row(self.network, reference)
        return constant_value(self.network, self.params, reference) if given is None else given

    def graph(
        self, segment: Segment, given: tuple[Floats, ...] | None = None, network: Network | None = None
    ) -> tuple[Graph, Longs, Ints]:
        """A segment as a graph, whose nodes are in the order of their types; the references that it reads of
        earlier nodes; the number of each of its nodes there.

        `given`: the rows that it numbers; None: it numbers those of the run. `network`: the graph's, None for
        that which is executed. Linear in nodes and operands.
        """
        network = network or self.network
        if given is None:
            segment, given = self._inputs.split(network, segment)
        vertex = np.arange(segment.first, segment.first + len(segment), dtype=np.int32)
        nodes = segment.type, vertex, segment.instance, segment.operand_ptr, segment.operand
        instances = int(segment.instance.max(initial=0)) + 1
        graph, outer, local = appended(network, nodes, segment.first, instances, given)
        return graph, outer.astype(np.int64), local


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A node's output that holds `value`: its type and output by name, and the indices, in the mini-batch, of
    all instances that it is of. What the node reads is finite.
    """

    type: str
    output: str
    instances: tuple[int, ...]
    value: float


def not_finite(engine: Engine) -> NotFinite | None:
    """Find the first node of the run, in the order of recording, with an output that is not finite.

    Cost: reading all values.
    """
    network, segment = engine.network, engine.whole_segment
    first = len(segment)
    found: NotFinite | None = None
    for t in np.unique(segment.type).tolist():
        nodes = np.flatnonzero(segment.type == t)
        for o, port in enumerate(network.types[t].outputs):
            values = engine.computed(nodes * network.width + o).reshape(len(nodes), -1)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad) and nodes[bad[0]] < first:
                first, value = int(nodes[bad[0]]), values[bad[0]]
                odd = float(value[~np.isfinite(value)][0])
                found = NotFinite(network.types[t].name, port.name, (), odd)
    if found is None:
        return None
    same = engine.stands(len(segment))
    return replace(found, instances=tuple(np.unique(segment.instance[same == same[first]]).tolist()))
