"""Mini-batches that grow: what is given is computed, then round after round what came to be, then the rest.

A round makes the nodes of new vertices, plans and executes these alone, decides, and adds vertices; values
stay where they are. The finished mini-batch is as any other: instances, their graph, its schedule and plan,
of which outputs need the instances alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError, Problem
from abw.core.base.progress import Clock
from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import FieldColumn, finished, order_of
from abw.core.exec.interface import Array, Executor, Result, Rounds
from abw.core.graph.bind import Binding, bind, only
from abw.core.graph.construct import construct
from abw.core.graph.graph import Graph
from abw.core.graph.growing.beam import PICK, Beam, Picks
from abw.core.graph.growing.decide import Chances, Grower, ScoreError, decide
from abw.core.graph.growing.finished import finished_nodes, noted
from abw.core.graph.growing.part import part
from abw.core.graph.growing.sprout import Ground
from abw.core.graph.growing.whose import NodeColumn, StandInColumn
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Schedule
from abw.core.run.tape import Tape

References = NDArray[np.integer[Any]]
Batched = Callable[[Graph], Schedule]
"""The batches of a graph, by the run's policy."""


@dataclass(frozen=True, eq=False)
class Grown:
    """A mini-batch that has grown to its end.

    `instances` are its own, with what grew; `number` (n,) says where their nodes are on the `tape`, `result`
    has all values. `rounds`: how many there were, `driven`: why by Python, None where they are compiled;
    `cut`: by kind, instances that had `most` of it and wanted more; `picks`: what a decision `best` picked.
    Outputs need no more; `graph`, `schedule` and `plan` are made when they are first asked for.
    """

    instances: Instances
    tape: Tape
    number: Ints
    result: Result
    rounds: int
    cut: dict[str, int]
    driven: str | None
    picks: Picks | None
    whole: Callable[[], Graph]

    @property
    def graph(self) -> Graph:
        """All nodes with their operands. Cost, the first time: finding names, and construction."""
        return self.whole()

    @cached_property
    def schedule(self) -> Schedule:
        """The batches as they were executed. Cost: linear in the nodes."""
        back = np.empty(len(self.number), np.int32)
        back[self.number] = np.arange(len(self.number), dtype=np.int32)
        return self.tape.schedule(back)

    @cached_property
    def plan(self) -> Plan:
        """What a single plan of that is. Cost: graph, schedule, and planning them."""
        return plan(self.graph, self.schedule)

    @property
    def pieces(self) -> tuple[Plan, ...]:
        """The plans that were executed; compiled rounds have none."""
        return tuple(self.tape.plans)


def grow(
    binding: Binding,
    ground: Ground,
    executor: Executor,
    batched: Batched,
    first: int,
    last: int,
    clock: Clock | None = None,
) -> Grown:
    """Grow instances `first` to `last` (exclusive) as one mini-batch.

    `binding` is of instances with room, `ground` of the same; `batched` schedules what is computed before and
    after growth. Errors: InstanceError where nothing feeds an input, or a score is not a number;
    TooLargeError. Cost beside the kernels: under 1 us a round where the executor has rounds of its own, else
    some 300.
    """
    clock = clock or Clock("construct", "schedule", "plan", "execute")
    rounds = executor.rounds(ground.sprouter)
    if not isinstance(rounds, str):
        made = _Growing(binding, ground, executor, batched, first, last, clock)
        if (grown := made.compiled(rounds)) is not None:
            return grown
        rounds = "what went wrong in them is told from here"
    return _Growing(binding, ground, executor, batched, first, last, clock).driven(rounds)


class _Growing:
    """A mini-batch under way."""

    def __init__(
        self,
        binding: Binding,
        ground: Ground,
        executor: Executor,
        batched: Batched,
        first: int,
        last: int,
        clock: Clock,
    ) -> None:
        self.binding, self.ground, self.batched, self.clock = binding, ground, batched, clock
        self.sprouter = ground.sprouter
        self.first, self.last = first, last
        self.tape = Tape(binding.network, executor)
        self.whose = ground.whose(first, last)
        instances = binding.instances
        self.kinds = {kind.name: kind for kind in self.sprouter.growth.kinds}
        self.numbers = {name: number for number, name in enumerate(instances.schema.kinds)}
        with clock("construct"):
            self.columns = ground.columns(first, last)
        self.grower = Grower(self.kinds, self.numbers, self.whose)
        numbers = instances.numbers[first:last]
        self.chances = Chances(binding.model.data.seed, numbers)
        beam = self.sprouter.growth.beam
        self.beam = Beam(beam[1]) if beam else None

    def driven(self, why: str) -> Grown:
        """Grow round after round from here. Errors: InstanceError, TooLargeError."""
        self._before()
        return self._after(self._rounds(), why)

    def compiled(self, rounds: Rounds) -> Grown | None:
        """Grow by rounds of the executor's own; None where a score or an input is wrong. Errors: as above."""
        self._before()
        count = self._compiled_rounds(rounds)
        return None if count is None else self._after(count, None)

    def _before(self) -> None:
        """What is given and needs nothing that grows."""
        with self.clock("construct"):
            types, network = self.binding.model.types, self.binding.network
            reduced = [
                (t, o)
                for t in self.sprouter.phases.before
                if types[t].reduction is not None
                for o in range(len(types[t].outputs))
            ]
            # what stands for the reductions' outputs comes as results do
            asked = replace(network, outputs=tuple((types[t].name, ((t, o),)) for t, o in reduced))
            binding = replace(only(self.binding, self.sprouter.phases.before), network=asked)
            found = construct(binding, self.first, self.last)
            graph = replace(found, network=network, results=())
            self.given = graph.given
            for t in self.sprouter.phases.before:
                nodes = np.arange(*graph.type_ptr[t : t + 2].tolist(), dtype=np.int32)
                self.columns[NodeColumn(t)][graph.vertex[nodes]] = nodes
            for (t, o), refs in zip(reduced, found.results, strict=True):
                stored = np.where(refs.reference >= 0, refs.reference, refs.reference - 1)
                self.columns[StandInColumn(t, o)][refs.vertex] = stored
        self._advance(graph, np.zeros(0, np.int32), self.batched)

    def _advance(self, graph: Graph, outer: Ints, batched: Batched) -> None:
        with self.clock("schedule"):
            schedule = batched(graph)
        self.tape.advance(graph, outer, schedule, self.clock)

    def _rounds(self) -> int:
        """Round after round until nothing comes to be; how many there were."""
        columns, given = self.columns, self.columns.count
        start = self.binding.instances.start
        with self.clock("construct"):
            self.grower.start(columns, (start[self.first : self.last] - start[self.first]).astype(np.int32))
            new = np.arange(given, columns.count, dtype=np.int32)
            # given vertices that decide do so in the first round
            deciding = frozenset().union(*(kind.kinds for kind in self.kinds.values() if kind.given))
            own = self.whose.of_kinds(deciding, columns, np.arange(given, dtype=np.int32))
        rounds, now = 0, np.concatenate([own, new])
        while len(now):
            rounds += 1
            with self.clock("construct"):
                graph, outer = self.sprouter.graph(columns, now, len(self.tape), self.whose, self.given)
            self._advance(graph, outer, self._round_schedule)
            with self.clock("construct"):
                first = columns.count
                self._grow(now)
                now = np.arange(first, columns.count, dtype=np.int32)
        return rounds

    def _compiled_rounds(self, compiled: Rounds) -> int | None:
        """The same by the executor; None where a score or an input is wrong."""
        with self.clock("execute"):
            before, numbers = self.tape.plans[-1], self.chances.numbers
            made = compiled.grow(self.columns, self.whose, self.grower, self.beam, numbers, before)
        if made is None:
            return None
        with self.clock("plan"):
            number = np.arange(len(self.tape), len(self.tape) + len(made.type), dtype=np.int32)
            for t in self.sprouter.phases.during:
                here = made.type == t
                self.columns[NodeColumn(t)][made.vertex[here]] = number[here]
            self.tape.take(made)
        return made.rounds

    def _round_schedule(self, graph: Graph) -> Schedule:
        """A batch a type in the order that does in all rounds; else by the critical path."""
        phases = self.sprouter.phases
        if not phases.ordered:
            return Critical().schedule(graph.dag)
        sizes = graph.type_sizes
        types = np.array([t for t in phases.during if sizes[t]], np.int32)
        nodes = [np.arange(*graph.type_ptr[t : t + 2].tolist(), dtype=np.int32) for t in types.tolist()]
        ptr = np.append(0, np.cumsum(sizes[types])).astype(np.int32)
        return Schedule(types, ptr, np.concatenate([np.zeros(0, np.int32), *nodes]))

    def _grow(self, now: Ints) -> None:
        """Make the decisions of vertices whose nodes are computed, and do the clauses of their kinds.

        Errors: InstanceError.
        """
        columns, vertices = self.columns, {}
        picked = picks = np.zeros(0, np.int32)
        for name, kind in self.kinds.items():
            vertices[name] = at = self.whose.of_kinds(kind.kinds, columns, now)
            for decision in kind.decisions if len(at) else ():
                try:
                    if self.beam and decision.how == "best":
                        vertices[name], picked, picks = self.beam.pick(columns, at, self._read)
                    else:
                        chosen = decide(decision, columns, at, self._read, self.chances)
                        columns[FieldColumn(decision.name)][at] = chosen
                except ScoreError as error:
                    self._refuse(error)
        for name, kind in self.kinds.items():
            at, best = vertices[name], kind.best
            added = self.grower.grow(kind, columns, at, {best.name: picked} if best else {})
            if self.beam:
                self.beam.follow(columns, kind, picks if best else columns[PICK][at], added)

    def _read(self, t: int, output: int, vertices: Ints) -> Array:
        node = self.columns[NodeColumn(t)][vertices].astype(np.int64)
        return self.tape.values(node * self.binding.network.width + output)

    def _refuse(self, error: ScoreError) -> NoReturn:
        decision = error.decision
        node_type = self.binding.model.types[decision.type]
        scores = f"{node_type.name}.{node_type.outputs[decision.output].name}"
        place = self.whose.vertex(self.columns, error.vertex)
        message = f"{scores} is not a number at {place}: nothing can be chosen"
        hint = "--check-finite says where the first such number comes from, where the weights hold one"
        problem = Problem(message, decision.span, hint)
        raise InstanceError(problem, self.whose.number(self.columns, error.vertex))

    def _after(self, rounds: int, driven: str | None) -> Grown:
        """The finished instances, what is left to compute of them, and all of it as one mini-batch."""
        growth, network = self.sprouter.growth, self.binding.network
        with self.clock("construct"):
            order = order_of(self.columns)
            place = np.empty(len(order), np.int32)
            place[order] = np.arange(len(order), dtype=np.int32)
            picks = self.beam.close(self.columns, place) if self.beam else None
            instances = finished(self.binding.instances, self.first, self.last, self.columns, growth)
            whole = cache(partial(self._whole, instances))
            if noted(self.sprouter):
                nodes, number = finished_nodes(self.sprouter, self.columns, order, len(instances))
            else:
                nodes, number = whole(), self._numbers_on_tape(whole(), order)
        if (missing := number < 0).any():
            with self.clock("construct"):
                rest, outer = part(whole(), missing)
                node, output = np.divmod(outer, network.width)
                first = len(self.tape)
                outer = number[node] * network.width + output
                number[missing] = np.arange(first, first + len(rest))
            self._advance(rest, outer.astype(np.int32), self.batched)
        if len(self.tape) != len(nodes):
            raise ValueError(f"{len(self.tape)} nodes grew, and the finished instances have {len(nodes)}")
        names = instances.schema.kinds
        cut = {names[k]: int(row.sum()) for k, row in enumerate(self.grower.cut) if row.any()}
        result = Result(nodes, self.tape.counts, _reader(self.tape, number, network.width))
        return Grown(instances, self.tape, number, result, rounds, cut, driven, picks, whole)

    def _whole(self, instances: Instances) -> Graph:
        """The graph of the finished instances. Errors: InstanceError."""
        bound = bind(self.binding.model, self.binding.network, self.binding.program, instances)
        try:
            return construct(bound, 0, len(instances))
        except InstanceError as error:
            raise InstanceError(error.problems[0], self.first + error.instance) from None

    def _numbers_on_tape(self, graph: Graph, order: Ints) -> Ints:
        """For each node of the finished graph its number on the tape; -1 where it is not computed yet.

        `order` says how its vertices are numbered among the columns.
        """
        vertex = order[graph.vertex]
        number = np.full(len(graph), -1, np.int32)
        phases = self.sprouter.phases
        for t in (*phases.before, *phases.during):
            here = slice(*graph.type_ptr[t : t + 2].tolist())
            number[here] = self.columns[NodeColumn(t)][vertex[here]]
        return number


def _reader(tape: Tape, number: Ints, width: int) -> Callable[[References], Array]:
    """What reads values of the finished graph, whose nodes have these numbers on the tape."""

    def read(references: References) -> Array:
        node, output = np.divmod(references, width)
        inside = references >= 0
        there = number[np.where(inside, node, 0)].astype(np.int64) * width + output
        return tape.values(np.where(inside, there, references))

    return read
