"""Mini-batches that grow: what is given is computed, then round after round the new vertices, then the rest.

A round makes the nodes of new vertices, plans and executes these alone, decides, and adds vertices; values
stay where they are. The finished mini-batch is as any other: instances, their graph, its schedule and plan,
of which outputs need the instances alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError
from abw.core.base.progress import Times, uncounted
from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import Order, finished
from abw.core.exec.interface import Array, Computed, Executor, Result
from abw.core.exec.planned_tape import PlannedTape
from abw.core.graph.bind import Binding, bind
from abw.core.graph.construct import construct
from abw.core.graph.equal.consing import GROWN
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.graph import Graph, Nodes
from abw.core.graph.growing.batch import Batch, GrowthData, encoded
from abw.core.graph.growing.finished import finished_nodes, noted
from abw.core.graph.growing.history.picks import Picks, picks_of
from abw.core.graph.growing.names import ORIGIN, ROUND, NodeColumn, ValueColumn
from abw.core.graph.growing.rounds import Round
from abw.core.graph.growing.rounds import Rounds as HostRounds
from abw.core.graph.growing.share import Share
from abw.core.graph.part import part, unified
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Schedule
from abw.core.run.dedup import Deduplicator
from abw.core.run.growing.grown import Grown

if TYPE_CHECKING:
    from abw.core.exec.cpu.rounds.rounds import CompiledRounds

References = NDArray[np.integer[Any]]
# The batches of a graph, by the run's policy.
Batched = Callable[[Graph], Schedule]


def grow(
    binding: Binding,
    growing: GrowthData,
    executor: Executor,
    batched: Batched,
    first: int,
    last: int,
    clock: Times = uncounted,
    equal: Deduplicator | None = None,
) -> Grown:
    """Grow instances `first` to `last` (exclusive) as one mini-batch.

    `binding` is of instances with room, `growing` of the same; `batched` schedules what is computed before
    and after growth. `equal`: leaves out nodes that equal others. Errors: InstanceError where nothing feeds
    an input, or a score is not a number; TooLargeError. Cost beside the kernels: under 1 us a round where the
    executor has rounds of its own, else some 300.
    """
    looking = equal if equal is not None and equal.begin() else None
    of = binding, growing, executor, batched, first, last, clock, looking
    rounds = executor.rounds(growing.growth_model)
    if not isinstance(rounds, str):
        under_way = _Growing(*of, rounds.room(last - first))
        if (grown := under_way.compiled(rounds)) is not None:
            return under_way.learned(grown, equal)
        rounds = "what went wrong in them is told from here"
    under_way = _Growing(*of)
    return under_way.learned(under_way.driven(rounds), equal)


class _Growing:
    """A mini-batch under way.

    Of each node on the tape `where` has the vertex; `spared` (T,): how many nodes were left out. Once growth
    has ended, there are the `order` and `picks` of the finished instances, these, and their `whole` graph.
    """

    order: Order
    picks: Picks | None
    finished: Callable[[], Instances]
    whole: Callable[[], Graph]

    def __init__(
        self,
        binding: Binding,
        growing: GrowthData,
        executor: Executor,
        batched: Batched,
        first: int,
        last: int,
        clock: Times,
        equal: Deduplicator | None,
        room: int = 0,
    ) -> None:
        self.binding, self.growing, self.batched, self.clock = binding, growing, batched, clock
        self.growth_model = growing.growth_model
        self.first, self.last, self.equal = first, last, equal
        self.tape = PlannedTape(binding.network, executor)
        self.where: list[Ints] = []
        self.spared = np.zeros(len(binding.network.types), np.int64)
        with clock("construct"):
            self.batch = Batch(growing, first, last, room)
        self.columns = self.batch.columns

    def driven(self, why: str) -> Grown:
        """Grow round after round from here. Errors: InstanceError, TooLargeError."""
        graph = self._before()
        self._number()
        width = self.binding.network.width
        for t, o in self.growth_model.read_before:
            vertices = self._before_of(t)[0]
            self.columns[ValueColumn(t, o)][vertices] = self.columns[NodeColumn(t)][vertices] * width + o
        with self.clock("construct"):
            rounds = HostRounds(self.batch)
        while rounds.open():
            with self.clock("construct"):
                now = rounds.nodes(self.tape.count, graph.given)
            self._advance(now.graph, now.outer, self._round_schedule, now.vertex, now)
            with self.clock("construct"):
                rounds.decide(self.tape.values)
                rounds.grow()
        for t in self.growth_model.phases.during:
            if self.growth_model.own[t] >= 0 and self.binding.model.types[t].reduction is None:
                values = self.columns[ValueColumn(t, 0)]
                self.columns[NodeColumn(t)][:] = np.where(values >= 0, values // width, -1)
        self._end([rounds.share])
        return self._after(rounds.count, why)

    def compiled(self, rounds: CompiledRounds) -> Grown | None:
        """Grow by rounds of the executor's own; None where a score or an input is wrong. Errors: as above."""
        self._before()
        before = self.tape.plans[-1]
        with self.clock("execute"):
            made = rounds.grow(self.batch, before)
        if made is None:
            return None
        self._end(made.shares)
        if noted(self.growth_model):
            return self._noted(made, before)
        self._number()
        self._take(made)
        return self._after(made.rounds, None)

    @property
    def left_out(self) -> int:
        """How many nodes were left out so far, as they equal others."""
        return int(self.spared.sum()) if self.batch.looks else 0

    def learned(self, grown: Grown, equal: Deduplicator | None) -> Grown:
        """What has grown, once it is known whether looking for equal nodes has paid."""
        if equal is not None:
            equal.grown = len(grown.result.nodes)
            if self.batch.looks:
                equal.note(equal.grown, self.spared, GROWN + equal.by_steps)
        return grown

    def _before(self) -> Graph:
        """What is given and needs nothing that grows: its graph, executed."""
        batch, executor = self.batch, self.tape.executor
        with self.clock("construct"):
            batch.before = graph = construct(self.growing.before(self.binding), self.first, self.last)
            if self.equal is not None and max(len(graph), self.equal.grown) >= self.equal.least(looks=True):
                batch.look()
                graph = dedup(graph, self.equal.keys, part=executor.divide(graph))
                assert graph.distinct
                batch.stands = graph.distinct.nodes(graph.type_ptr)
                self.spared += batch.before.type_sizes - graph.type_sizes
            for (t, o), refs in zip(self.growth_model.reduced, graph.results, strict=True):
                self.columns[ValueColumn(t, o)][refs.vertex] = encoded(refs.reference)
        self._advance(graph, np.zeros(0, np.int32), self.batched, graph.vertex)
        return graph

    def _before_of(self, t: int) -> tuple[Ints, Ints]:
        """The vertices of a type's nodes before growth, and the nodes on the tape that stand for these."""
        batch, here = self.batch, slice(*self.batch.before.type_ptr[t : t + 2].tolist())
        nodes = batch.stands[here] if batch.looks else np.arange(here.start, here.stop, dtype=np.int32)
        return batch.before.vertex[here], nodes

    def _number(self) -> None:
        """Note the nodes of what is computed before growth, the first ones on the tape."""
        for t in self.growth_model.phases.before:
            vertices, nodes = self._before_of(t)
            self.columns[NodeColumn(t)][vertices] = nodes

    def _advance(
        self, graph: Graph, outer: Ints, batched: Batched, where: Ints, round: Round | None = None
    ) -> None:
        """Execute a graph's nodes, perhaps of a round; on the tape they are on the vertices `where`."""
        with self.clock("schedule"):
            schedule = batched(graph)
        if self.tape.plans and not len(graph):  # decisions alone, of what is given
            return
        with self.clock("plan"):
            made = self.tape.plan(graph, schedule, outer)
        with self.clock("execute"):
            self.tape.run(made, *((round.types, round.local) if round else ()))
        self.where.append(where)

    def _take(self, made: Computed) -> None:
        """Nodes that the executor's rounds have computed, onto the tape behind those before growth."""
        columns, model, phases = self.columns, self.growth_model, self.growth_model.phases
        rows, keys = [], []
        if not phases.during:  # decisions alone
            return
        sizes, first = np.zeros(len(model.own) + 1, np.int32), self.tape.count
        for t in sorted(phases.during):
            here = np.flatnonzero(columns.block[model.own[t], 1 : 1 + columns.count] >= 0).astype(np.int32)
            row = columns.block[model.values[t][:, None], here + 1]
            origin = 0 if phases.ordered else columns[ORIGIN][here]
            key = np.maximum(columns[ROUND][here], 0) * len(phases.steps) + model.step[origin, t]
            number = np.arange(len(here), dtype=np.int32)
            if self.batch.looks:
                kept, number = _once(row[0], key)
                columns[NodeColumn(t)][here] = first + number
                here, row, key = here[kept], row[:, kept], key[kept]
            else:
                columns[NodeColumn(t)][here] = first + number
            first += len(here)
            sizes[t + 1] = len(here)
            rows.append(row)
            keys.append(key)
            self.where.append(here)
        type_ptr = np.cumsum(sizes, dtype=np.int32)
        type_of = np.repeat(np.arange(len(model.own), dtype=np.int32), sizes[1:])
        row = np.concatenate(rows, axis=1).T.ravel()
        key = np.concatenate(keys)
        nodes = np.argsort(key, kind="stable").astype(np.int32)
        begins = np.flatnonzero(np.diff(key[nodes], prepend=-1))
        ptr = np.append(begins, len(nodes)).astype(np.int32)
        schedule = Schedule(type_of[nodes[begins]], ptr, nodes)
        counts = Counts(len(schedule), len(schedule), 0, 0)
        self.tape.append(type_of, row, made.rows, schedule, counts, partial(made.read, type_ptr, row))

    def _round_schedule(self, graph: Graph) -> Schedule:
        """A batch a type in the order that does in all rounds; else by the critical path."""
        phases = self.growth_model.phases
        if not phases.ordered:
            return Critical().schedule(graph.dag)
        sizes = graph.type_sizes
        types = np.array([t for t in phases.during if sizes[t]], np.int32)
        nodes = [np.arange(*graph.type_ptr[t : t + 2].tolist(), dtype=np.int32) for t in types.tolist()]
        ptr = np.append(0, np.cumsum(sizes[types])).astype(np.int32)
        return Schedule(types, ptr, np.concatenate([np.zeros(0, np.int32), *nodes]))

    def _end(self, shares: Sequence[Share]) -> None:
        """Collect the vertices once growth has ended."""
        if self.batch.looks:
            self.spared += np.sum([share.spared for share in shares], axis=0)
        with self.clock("construct"):
            binding, first, growth = self.binding, self.first, self.growth_model.growth
            self.order = order = self.columns.ordered(self.last - first)
            self.picks = picks_of(self.batch, shares, order)
            made = partial(finished, binding.instances, first, self.last, self.columns, growth, order)
            self.finished = cache(made)
            self.whole = cache(partial(_whole, binding, first, self.finished))

    def _grown(
        self,
        rounds: int,
        driven: str | None,
        result: Result,
        batches: int,
        rows: Ints,
        executed: Callable[[], tuple[Graph, Schedule]],
    ) -> Grown:
        """All of it, once nodes are computed, too."""
        kinds, tape = self.binding.instances.schema.kinds, self.tape
        added, cut = (
            {name: count for name, count in zip(kinds, of.sum(axis=1).tolist(), strict=True) if count}
            for of in (self.batch.count, self.batch.cut > 0)
        )
        return Grown(
            self.columns, self.order, result, rounds, driven, added, cut, self.batch.cut, self.picks, batches,
            tape.unseen, rows, tuple(tape.plans), self.left_out, self.finished, self.whole, executed,
        )  # fmt: skip

    def _noted(self, made: Computed, before: Plan) -> Grown:
        """The mini-batch as compiled rounds have noted it in columns: nothing is left to compute."""
        network, model, given = self.binding.network, self.growth_model, self.batch.before
        with self.clock("construct"):
            most = len(given) + int((made.rows - before.rows).sum()) + self.left_out
            nodes, row = finished_nodes(model, self.columns, self.order, model.own, model.values, most, given)
            for t in model.phases.before:
                ours = slice(*nodes.type_ptr[t : t + 2].tolist())
                row[ours] = before.row.reshape(-1, network.width)[self._before_of(t)[1]]
            batches = self.tape.batches + made.batches
            counts = replace(self.tape.counts, batches=batches, launches=batches)
            result = Result(nodes, counts, partial(made.read, nodes.type_ptr, row.ravel()))

            def executed() -> tuple[Graph, Schedule]:
                self._number()
                self._take(made)
                return self._executed(self._numbers()[1])

            return self._grown(made.rounds, None, result, batches, made.rows, executed)

    def _after(self, rounds: int, driven: str | None) -> Grown:
        """What is left to compute of the finished instances, and all of it as one mini-batch."""
        tape = self.tape
        with self.clock("construct"):
            nodes, number = self._numbers()
        if (number < 0).any():
            number = self._rest(number)
        if tape.count + self.left_out != len(nodes):
            raise ValueError(f"{tape.count} nodes grew, and the finished instances have {len(nodes)}")
        result = Result(nodes, tape.counts, _reader(tape, number, self.binding.network.width))
        assert tape.rows is not None
        executed = partial(self._executed, number)
        return self._grown(rounds, driven, result, tape.batches, tape.rows, executed)

    def _rest(self, number: Ints) -> Ints:
        """Compute the nodes that have no number on the tape yet; all their numbers."""
        width, tape = self.binding.network.width, self.tape
        with self.clock("construct"):
            graph, stands = self.whole(), np.arange(len(number), dtype=np.int32)
            sizes = graph.type_sizes
            if self.batch.looks and self.equal is not None:
                graph = dedup(graph, self.equal.keys, part=tape.executor.divide(graph))
                assert graph.distinct
                stands = graph.distinct.nodes(graph.type_ptr)
            there = np.full(len(graph), -1, np.int32)
            np.maximum.at(there, stands, number)
            missing = there < 0
            rest, outer = part(graph, missing)
            node, output = np.divmod(outer, width)
            outer = there[node] * width + output
            there[missing] = np.arange(tape.count, tape.count + len(rest))
            left = np.bincount(self.whole().dag.type[number < 0], minlength=len(sizes))
            self.spared += left - rest.type_sizes
        self._advance(rest, outer.astype(np.int32), self.batched, self.order.vertex[rest.vertex])
        return np.where(number < 0, there[stands], number)

    def _numbers(self) -> tuple[Nodes, Ints]:
        """The nodes of the finished instances, and their numbers on the tape; -1 where not computed yet."""
        columns, order = self.columns, self.order
        if noted(self.growth_model):
            types = range(len(self.binding.model.types))
            own = np.array([columns.place[NodeColumn(t)] for t in types], np.int32)
            most = self.tape.count + self.left_out
            nodes, found = finished_nodes(self.growth_model, columns, order, own, own[:, None], most)
            return nodes, found[:, 0]
        graph, phases = self.whole(), self.growth_model.phases
        vertex = order.vertex[graph.vertex]
        number = np.full(len(graph), -1, np.int32)
        for t in (*phases.before, *phases.during):
            here = slice(*graph.type_ptr[t : t + 2].tolist())
            number[here] = columns[NodeColumn(t)][vertex[here]]
        return graph, number

    def _executed(self, number: Ints) -> tuple[Graph, Schedule]:
        """The nodes that were executed, and the batches in which they were; `number` is on the tape."""
        graph, back = self.whole(), np.empty(self.tape.count, np.int32)
        if not self.batch.looks:
            back[number] = np.arange(len(number), dtype=np.int32)
            return graph, self.tape.schedule(back)
        own = np.flatnonzero(self.order.vertex[graph.vertex] == np.concatenate(self.where)[number])
        stands = np.empty(self.tape.count, np.int32)
        stands[number[own]], back[number[own]] = own, np.arange(len(own))
        return unified(graph, stands[number]), self.tape.schedule(back)


def _whole(binding: Binding, first: int, made: Callable[[], Instances]) -> Graph:
    """The graph of finished instances, of which the first is number `first`. Errors: InstanceError."""
    instances = made()
    bound = bind(binding.model, binding.network, binding.program, instances)
    try:
        return construct(bound, 0, len(instances))
    except InstanceError as error:
        raise InstanceError(error.problems[0], first + error.instance) from None


def _once(row: Ints, key: Ints) -> tuple[Ints, Ints]:
    """Of nodes whose values lie in these rows the first of each row by a key (k,), ascending, and for each
    node (n,) which of these it is.
    """
    order = np.lexsort((key, row))
    begins = np.diff(row[order], prepend=-1) > 0
    firsts = order[begins]
    kept = np.sort(firsts)
    number = np.empty(len(row), np.int32)
    number[order] = np.searchsorted(kept, firsts)[np.cumsum(begins) - 1]
    return kept.astype(np.int32), number


def _reader(tape: PlannedTape, number: Ints, width: int) -> Callable[[References], Array]:
    """What reads values of the finished graph, whose nodes have these numbers on the tape."""

    def read(references: References) -> Array:
        node, output = np.divmod(references, width)
        inside = references >= 0
        there = number[np.where(inside, node, 0)].astype(np.int64) * width + output
        return tape.values(np.where(inside, there, references))

    return read
