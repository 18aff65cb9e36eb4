"""Mini-batches that grow: what is given is computed, then round after round the new vertices, then the rest.

A round makes the nodes of new vertices, plans and executes these alone, decides, and adds vertices; values
stay where they are. The finished mini-batch is as any other: instances, their graph, its schedule and plan,
of which outputs need the instances alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError
from abw.core.base.progress import Clock
from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import Columns, Order, finished
from abw.core.exec.interface import Array, Computed, Executor, Result, Rounds
from abw.core.exec.planned_tape import PlannedTape
from abw.core.graph.bind import Binding, bind
from abw.core.graph.construct import construct
from abw.core.graph.graph import Graph, Nodes
from abw.core.graph.growing.batch import Batch, GrowthData, encoded
from abw.core.graph.growing.finished import finished_nodes, noted
from abw.core.graph.growing.names import ORIGIN, ROUND, NodeColumn, ValueColumn
from abw.core.graph.growing.picks import Picks, picks_of
from abw.core.graph.growing.rounds import Rounds as HostRounds
from abw.core.graph.growing.share import Share
from abw.core.graph.part import part
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Schedule

References = NDArray[np.integer[Any]]
# The batches of a graph, by the run's policy.
Batched = Callable[[Graph], Schedule]


@dataclass(frozen=True, eq=False)
class Grown:
    """A mini-batch that has grown to its end.

    `columns` say all of its vertices, `order` which of them finished instances have; `result` has all values.
    `rounds`: how many there were, `driven`: why by Python, None where they are compiled. By kind, `vertices`
    that came to be, and how many instances were `cut`: they had `most` of it and wanted more. `picks`: what a
    decision `best` picked. `batches`: how many there were; `unseen`: at how many steps a policy met a state
    that it had not seen. `rows` (A,): so many rows of each arena are taken. `pieces`: the plans that were
    executed; compiled rounds have none. Outputs need no more: the rest is made when it is first asked for.
    """

    columns: Columns
    order: Order
    result: Result
    rounds: int
    driven: str | None
    vertices: dict[str, int]
    cut: dict[str, int]
    picks: Picks | None
    batches: int
    unseen: int
    rows: Ints
    pieces: tuple[Plan, ...]
    finished: Callable[[], Instances]
    whole: Callable[[], Graph]
    executed: Callable[[], Schedule]

    @property
    def instances(self) -> Instances:
        """Its own, with what grew. Cost, the first time: some 50 us; their links and fields as asked for."""
        return self.finished()

    @property
    def graph(self) -> Graph:
        """All nodes with their operands. Cost, the first time: finding names, and construction."""
        return self.whole()

    @cached_property
    def schedule(self) -> Schedule:
        """The batches as they were executed. Cost: linear in the nodes."""
        return self.executed()

    @cached_property
    def plan(self) -> Plan:
        """What a single plan of that is. Cost: graph, schedule, and planning them."""
        return plan(self.graph, self.schedule)


def grow(
    binding: Binding,
    growing: GrowthData,
    executor: Executor,
    batched: Batched,
    first: int,
    last: int,
    clock: Clock | None = None,
) -> Grown:
    """Grow instances `first` to `last` (exclusive) as one mini-batch.

    `binding` is of instances with room, `growing` of the same; `batched` schedules what is computed before
    and after growth. Errors: InstanceError where nothing feeds an input, or a score is not a number;
    TooLargeError. Cost beside the kernels: under 1 us a round where the executor has rounds of its own, else
    some 300.
    """
    clock = clock or Clock("construct", "schedule", "plan", "execute")
    rounds = executor.rounds(growing.growth_model)
    if not isinstance(rounds, str):
        room = rounds.room(last - first)
        made = _Growing(binding, growing, executor, batched, first, last, clock, room)
        if (grown := made.compiled(rounds)) is not None:
            return grown
        rounds = "what went wrong in them is told from here"
    return _Growing(binding, growing, executor, batched, first, last, clock).driven(rounds)


@dataclass(frozen=True, slots=True)
class _End:
    """A mini-batch's vertices once growth has ended: see `Grown`."""

    order: Order
    rounds: int
    driven: str | None
    picks: Picks | None
    finished: Callable[[], Instances]
    whole: Callable[[], Graph]


class _Growing:
    """A mini-batch under way."""

    def __init__(
        self,
        binding: Binding,
        growing: GrowthData,
        executor: Executor,
        batched: Batched,
        first: int,
        last: int,
        clock: Clock,
        room: int = 0,
    ) -> None:
        self.binding, self.growing, self.batched, self.clock = binding, growing, batched, clock
        self.growth_model = growing.growth_model
        self.first, self.last = first, last
        self.tape = PlannedTape(binding.network, executor)
        with clock("construct"):
            self.batch = Batch(growing, first, last, room)
        self.columns = self.batch.columns

    def driven(self, why: str) -> Grown:
        """Grow round after round from here. Errors: InstanceError, TooLargeError."""
        graph = self._before()
        self._number(graph)
        width = self.binding.network.width
        for t, o in self.growth_model.read_before:
            nodes = np.arange(*graph.type_ptr[t : t + 2].tolist(), dtype=np.int32)
            self.columns[ValueColumn(t, o)][graph.vertex[nodes]] = nodes * width + o
        with self.clock("construct"):
            rounds = HostRounds(self.batch)
        while rounds.open():
            with self.clock("construct"):
                now, outer = rounds.graph(self.tape.count, graph.given)
            self._advance(now, outer, self._round_schedule)
            with self.clock("construct"):
                rounds.decide(self.tape.values)
                rounds.grow()
        for t in self.growth_model.phases.during:
            if self.growth_model.own[t] >= 0 and self.binding.model.types[t].reduction is None:
                values = self.columns[ValueColumn(t, 0)]
                self.columns[NodeColumn(t)][:] = np.where(values >= 0, values // width, -1)
        return self._after(self._end([rounds.share], rounds.count, why))

    def compiled(self, rounds: Rounds) -> Grown | None:
        """Grow by rounds of the executor's own; None where a score or an input is wrong. Errors: as above."""
        graph = self._before()
        before = self.tape.plans[-1]
        with self.clock("execute"):
            made = rounds.grow(self.batch, before)
        if made is None:
            return None
        end = self._end(made.shares, made.rounds, None)
        if noted(self.growth_model):
            return self._noted(end, made, before)
        self._number(graph)
        self._take(made)
        return self._after(end)

    def _before(self) -> Graph:
        """What is given and needs nothing that grows: its graph, executed."""
        with self.clock("construct"):
            graph = construct(self.growing.before(self.binding), self.first, self.last)
            for (t, o), refs in zip(self.growth_model.reduced, graph.results, strict=True):
                self.columns[ValueColumn(t, o)][refs.vertex] = encoded(refs.reference)
        self._advance(graph, np.zeros(0, np.int32), self.batched)
        return graph

    def _number(self, graph: Graph) -> None:
        """Note the nodes of what is computed before growth, the first ones on the tape."""
        for t in self.growth_model.phases.before:
            nodes = np.arange(*graph.type_ptr[t : t + 2].tolist(), dtype=np.int32)
            self.columns[NodeColumn(t)][graph.vertex[nodes]] = nodes

    def _advance(self, graph: Graph, outer: Ints, batched: Batched) -> None:
        with self.clock("schedule"):
            schedule = batched(graph)
        if self.tape.plans and not len(graph):  # decisions alone, of what is given
            return
        with self.clock("plan"):
            made = self.tape.plan(graph, schedule, outer)
        with self.clock("execute"):
            self.tape.run(made)

    def _take(self, made: Computed) -> None:
        """Nodes that the executor's rounds have computed, onto the tape behind those before growth."""
        columns, model, phases = self.columns, self.growth_model, self.growth_model.phases
        rows, keys = [], []
        if not phases.during:  # decisions alone
            return
        sizes, first = np.zeros(len(model.own) + 1, np.int32), self.tape.count
        for t in sorted(phases.during):
            here = np.flatnonzero(columns.block[model.own[t], 1 : 1 + columns.count] >= 0).astype(np.int32)
            columns[NodeColumn(t)][here] = np.arange(first, first + len(here))
            first += len(here)
            sizes[t + 1] = len(here)
            rows.append(columns.block[model.values[t][:, None], here + 1])
            origin = 0 if phases.ordered else columns[ORIGIN][here]
            keys.append(np.maximum(columns[ROUND][here], 0) * len(phases.steps) + model.step[origin, t])
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

    def _end(self, shares: Sequence[Share], rounds: int, driven: str | None) -> _End:
        """Collect the vertices once growth has ended."""
        with self.clock("construct"):
            order = self.columns.ordered(self.last - self.first)
            picks = picks_of(self.batch, shares, order)
            of = self.binding.instances, self.first, self.last, self.columns, self.growth_model.growth, order
            made = cache(partial(finished, *of))
            return _End(order, rounds, driven, picks, made, cache(partial(self._whole, made)))

    def _grown(
        self, end: _End, result: Result, batches: int, rows: Ints, executed: Callable[[], Schedule]
    ) -> Grown:
        """All of it, once nodes are computed, too."""
        kinds, tape = self.binding.instances.schema.kinds, self.tape
        added, cut = (
            {name: count for name, count in zip(kinds, of.sum(axis=1).tolist(), strict=True) if count}
            for of in (self.batch.count, self.batch.cut)
        )
        return Grown(
            self.columns, end.order, result, end.rounds, end.driven, added, cut, end.picks,
            batches, tape.unseen, rows, tuple(tape.plans), end.finished, end.whole, executed,
        )  # fmt: skip

    def _noted(self, end: _End, made: Computed, before: Plan) -> Grown:
        """The mini-batch as compiled rounds have noted it in columns: nothing is left to compute."""
        network, phases = self.binding.network, self.growth_model.phases
        with self.clock("construct"):
            most = len(before.graph) + int((made.rows - before.rows).sum())
            seen = np.zeros((made.rounds + 1) * len(phases.steps), np.bool_)
            model = self.growth_model
            of = model.own, model.values, most, (seen, before.graph)
            nodes, row = finished_nodes(model, self.columns, end.order, *of)
            for t in phases.before:
                ours, theirs = (slice(*g.type_ptr[t : t + 2].tolist()) for g in (nodes, before.graph))
                row[ours] = before.row.reshape(-1, network.width)[theirs]
            batches = self.tape.batches + int(np.count_nonzero(seen))
            counts = replace(self.tape.counts, batches=batches, launches=batches)
            result = Result(nodes, counts, partial(made.read, nodes.type_ptr, row.ravel()))

            def executed() -> Schedule:
                self._number(before.graph)
                self._take(made)
                return self._executed(self._numbers(end)[1])

            return self._grown(end, result, batches, made.rows, executed)

    def _after(self, end: _End) -> Grown:
        """What is left to compute of the finished instances, and all of it as one mini-batch."""
        width, tape = self.binding.network.width, self.tape
        with self.clock("construct"):
            nodes, number = self._numbers(end)
        if (missing := number < 0).any():
            with self.clock("construct"):
                rest, outer = part(end.whole(), missing)
                node, output = np.divmod(outer, width)
                outer = number[node] * width + output
                number[missing] = np.arange(tape.count, tape.count + len(rest))
            self._advance(rest, outer.astype(np.int32), self.batched)
        if tape.count != len(nodes):
            raise ValueError(f"{tape.count} nodes grew, and the finished instances have {len(nodes)}")
        result = Result(nodes, tape.counts, _reader(tape, number, width))
        assert tape.rows is not None
        return self._grown(end, result, tape.batches, tape.rows, partial(self._executed, number))

    def _numbers(self, end: _End) -> tuple[Nodes, Ints]:
        """The nodes of the finished instances, and their numbers on the tape; -1 where not computed yet."""
        columns, order = self.columns, end.order
        if noted(self.growth_model):
            types = range(len(self.binding.model.types))
            own = np.array([columns.place[NodeColumn(t)] for t in types], np.int32)
            nodes, found = finished_nodes(
                self.growth_model, columns, order, own, own[:, None], self.tape.count
            )
            return nodes, found[:, 0]
        graph, phases = end.whole(), self.growth_model.phases
        vertex = order.vertex[graph.vertex]
        number = np.full(len(graph), -1, np.int32)
        for t in (*phases.before, *phases.during):
            here = slice(*graph.type_ptr[t : t + 2].tolist())
            number[here] = columns[NodeColumn(t)][vertex[here]]
        return graph, number

    def _executed(self, number: Ints) -> Schedule:
        """The batches as they were executed, where nodes have these numbers on the tape."""
        back = np.empty(len(number), np.int32)
        back[number] = np.arange(len(number), dtype=np.int32)
        return self.tape.schedule(back)

    def _whole(self, made: Callable[[], Instances]) -> Graph:
        """The graph of the finished instances. Errors: InstanceError."""
        instances = made()
        bound = bind(self.binding.model, self.binding.network, self.binding.program, instances)
        try:
            return construct(bound, 0, len(instances))
        except InstanceError as error:
            raise InstanceError(error.problems[0], self.first + error.instance) from None


def _reader(tape: PlannedTape, number: Ints, width: int) -> Callable[[References], Array]:
    """What reads values of the finished graph, whose nodes have these numbers on the tape."""

    def read(references: References) -> Array:
        node, output = np.divmod(references, width)
        inside = references >= 0
        there = number[np.where(inside, node, 0)].astype(np.int64) * width + output
        return tape.values(np.where(inside, there, references))

    return read
