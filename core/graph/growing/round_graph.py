"""The nodes of vertices that have just come to be: one round of a growing mini-batch.

The same as construction (`abw.core.graph.construct`) for vertices that are not in the order of their
instances: of a whole mini-batch both give the same nodes and operands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError, Problem
from abw.core.data.derive import field, floats, link
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.links import along
from abw.core.data.lookup import trained_ids, word_rows
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns, FieldColumn, one_edge
from abw.core.graph.bind import Binding, only, passes
from abw.core.graph.cells import constant_number
from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.graph.growing.growth_index import GivenColumn, NodeColumn, RowColumn, StandInColumn, Whose
from abw.core.graph.growing.lists import GrownLists
from abw.core.ir.growth import GrowingKind, Growth, Number, clause_places, places_of
from abw.core.ir.model import (
    FieldSource,
    Input,
    Model,
    NodeSource,
    NodeType,
    ParamSource,
    Source,
    TableSource,
    ZeroSource,
)
from abw.core.ir.network import Network
from abw.core.ir.phases import Phases
from abw.core.ir.schema import Hop, Schema

Given = tuple[NDArray[np.float32], ...]
MISSING = -(2**31)


@dataclass(frozen=True, slots=True)
class Runs:
    """What a reduction reads at the vertices `here` (n,): `sizes` (n,) values of each slot in `values`."""

    here: Ints
    sizes: Ints
    values: tuple[Ints, ...]


def parted(hops: tuple[Hop, ...], schema: Schema) -> tuple[tuple[Hop, ...], tuple[Hop, ...]]:
    """The hops before the first that leads to several vertices, and the others."""
    first = next((n for n, hop in enumerate(hops) if schema.links[hop.link].many and hop.index is None), 0)
    return hops[:first], hops[first:]


class Sprouter:
    """What a growing model's rounds are made of, found once for all mini-batches."""

    def __init__(self, model: Model, growth: Growth, network: Network, phases: Phases) -> None:
        self.model, self.growth, self.network, self.phases = model, growth, network, phases
        self.kinds = {kind.name: kind for kind in growth.kinds}
        self._reads = {
            wanted: self._sources(wanted, n < model.types[t].listed)
            for t in phases.during
            for n, wanted in enumerate(model.types[t].inputs)
        }
        # columns of which the data says what there is in them, those first that lead to vertices
        own = [name for name in dict.fromkeys(self.names()) if self._given(name)]
        self.hops = [name for name in own if isinstance(name, Hop)]
        self.rows = [name for name in own if isinstance(name, GivenColumn)]
        self.rest = [name for name in own if isinstance(name, FieldColumn | RowColumn)]
        self.columns: tuple[Hashable, ...] = (INSTANCE, *self.hops, *self.rows, KIND, INDEX, *self.rest)
        self._place: tuple[tuple[Hashable, ...], dict[Hashable, int]] = (), {}
        # outputs of reductions before growth: what stands for them comes as results do
        self.reduced = tuple(
            (t, o)
            for t in phases.before
            if model.types[t].reduction is not None
            for o in range(len(model.types[t].outputs))
        )
        self._schemas: tuple[Schema, Schema] = growth.given, growth.extended(growth.given)

    def extended(self, schema: Schema) -> Schema:
        """The schema of data with what grows; that of the same schema is made once."""
        if schema is not self._schemas[0]:
            self._schemas = schema, self.growth.extended(schema)
        return self._schemas[1]

    def place(self, also: tuple[Hashable, ...]) -> dict[Hashable, int]:
        """The place of each of `columns`, and of others behind them; found once for the same tuple."""
        if also is not self._place[0] or not self._place[1]:
            names = dict.fromkeys((*self.columns, *also))
            self._place = also, {name: number for number, name in enumerate(names)}
        return self._place[1]

    def _given(self, name: Hashable) -> bool:
        """Whether the data says what there is in a column; of `index` all instances have one anyway."""
        if isinstance(name, Hop):
            return name.link not in self.growth.grown
        return not isinstance(name, FieldColumn) or name.name != "index"

    def _sources(self, wanted: Input, reduced: bool) -> tuple[tuple[Source, int], ...]:
        """An input's sources, each with the first reference of the constant that it is."""
        found = []
        sources = wanted.sources
        if reduced and len(sources) == 1:
            sources = (*sources, ZeroSource())
        for source in sources:
            first = 0
            if not isinstance(source, NodeSource):
                first = -1 - self.network.constants[self.constant(source, wanted)].first
            found.append((source, first))
        return tuple(found)

    def constant(self, source: Source, wanted: Input) -> int:
        """The number of the network's constant that a source of an input is."""
        return constant_number(self.network.constants, self.network.fields, source, wanted.shape)

    def names(self) -> Iterator[Hop | FieldColumn | RowColumn | GivenColumn]:
        """The columns that growth reads or writes, beside those of nodes."""
        yield Hop("instance")
        for kind in self.growth.kinds:
            yield from (Hop(name) for name in kind.links)
            yield from (FieldColumn(name) for name in kind.fields)
            yield from (FieldColumn(decision.name) for decision in kind.decisions)
            places = [*places_of(kind), *(clause_places(kind.start) if kind.start else ())]
            yield from (hop for place in places for hop in place.hops)
            yield from (FieldColumn(name) for name in _fields(kind))
            yield from (hop for clause in kind.clauses for hop in clause.each[:-1])
        for t in self.phases.during:
            yield from (FieldColumn(condition.field) for condition in self.model.types[t].where)
            for n, wanted in enumerate(self.model.types[t].inputs):
                for m, source in enumerate(wanted.sources):
                    if isinstance(source, NodeSource | TableSource | FieldSource):
                        listed = m == 0 and n < self.model.types[t].listed
                        yield from self._single(source.hops) if listed else source.hops
                    if isinstance(source, FieldSource):
                        yield GivenColumn(source.field)
                    if isinstance(source, TableSource):
                        text = self.model.schema.fields[source.field].text
                        yield RowColumn(source.table, source.field) if text else FieldColumn(source.field)

    def _single(self, hops: tuple[Hop, ...]) -> Iterator[Hop]:
        """The hops on the way to a list that lead to one vertex by columns."""
        before, behind = parted(hops, self.model.schema)
        yield from before
        if behind[0].link in self.growth.closed:
            yield from behind[1:]

    def lists(self) -> Iterator[tuple[Hop, ...]]:
        """The ways from given vertices to several that reductions and clauses follow."""
        ways = [clause.each[-1:] for kind in self.growth.kinds for clause in kind.clauses if clause.each]
        for t in self.phases.during:
            if self.model.types[t].reduction is not None:
                source = self.model.types[t].inputs[0].sources[0]
                assert isinstance(source, NodeSource)
                ways.append(parted(source.hops, self.model.schema)[1])
        yield from (way for way in ways if way[0].link not in self.growth.closed)

    def graph(
        self, columns: Columns, new: Ints, taken: int, whose: Whose, given: Given
    ) -> tuple[Graph, Ints]:
        """The graph of new vertices' nodes, which are numbered from `taken` on the tape.

        And the references on the tape that it reads of earlier nodes: its own reference `n * width + i` is
        the i-th of these. `whose` says which instances they are, `given` are these' fields of floats (see
        `Graph`). Errors: InstanceError where nothing feeds an input.
        """
        types, width = self.model.types, self.network.width
        whose.lists.note(columns, new)
        during = sorted(self.phases.during)
        heads: dict[int, Ints] = {}
        runs: dict[int, Runs] = {}
        count = taken
        for t in during:
            here = whose.of_kinds(types[t].kinds, columns, new)
            for condition in types[t].where:
                values = self.field(columns, condition.field)[here]
                here = here[passes(condition.comparison, values, condition.value)]
            if types[t].reduction is not None:
                runs[t] = self._runs(columns, types[t], here, whose)
                here = here[runs[t].sizes > 1]
            heads[t] = here
            columns[NodeColumn(t)][here] = np.arange(count, count + len(here))
            count += len(here)
        for t in self.phases.during:
            if t in runs:
                self._stand_in(columns, t, runs[t], whose)
        blocks, sizes = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for t in during:
            slots = len(types[t].inputs)
            if t in runs:
                blocks.append(self._lists(columns, t, runs[t], whose))
                sizes.append(slots * runs[t].sizes[runs[t].sizes > 1])
            else:
                fed = [self._feed(columns, t, wanted, heads[t], whose) for wanted in types[t].inputs]
                blocks += [np.stack(fed, axis=1).ravel()] if fed else []
                sizes.append(np.full(len(heads[t]), slots, np.int32))
        vertex = np.concatenate([np.zeros(0, np.int32), *(heads[t] for t in during)])
        ptr = np.append(0, np.cumsum(np.concatenate(sizes))).astype(np.int32)
        operand = np.concatenate(blocks)
        own = len(vertex) * width
        earlier = (operand >= 0) & (operand < taken * width)
        outer, number = np.unique(operand[earlier], return_inverse=True)
        operand[operand >= taken * width] -= taken * width
        operand[earlier] = own + number
        target = np.repeat(np.arange(len(vertex), dtype=np.int32), np.diff(ptr))
        inside = (operand >= 0) & (operand < own)
        counts = [len(heads[t]) if t in heads else 0 for t in range(len(types))]
        type_of = np.repeat(np.arange(len(types), dtype=np.int32), counts)
        dag = build_dag(tuple(t.name for t in types), type_of, operand[inside] // width, target[inside])
        type_ptr = np.append(0, np.cumsum(counts)).astype(np.int32)
        owner = columns[INSTANCE][vertex]
        graph = Graph(self.network, type_ptr, vertex, owner, (), whose.count, dag, ptr, operand, given=given)
        return graph, outer.astype(np.int32)

    def field(self, columns: Columns, name: str) -> Ints:
        """A field of numbers as a column."""
        return columns[INDEX] if name == "index" else columns[FieldColumn(name)]

    def _values(self, columns: Columns, producers: tuple[tuple[int, int], ...], at: Ints) -> Ints:
        """What the first of the producers that is there gives on each vertex: references, or MISSING."""
        found = np.full(len(at), MISSING, np.int32)
        for p, output in producers:
            if self.model.types[p].reduction is not None:
                stored = columns[StandInColumn(p, output)][at]
                there = stored != -1
                found[there] = np.where(stored >= 0, stored, stored + 1)[there]
            else:
                node = columns[NodeColumn(p)][at]
                there = node >= 0
                found[there] = node[there] * self.network.width + output
        return found

    def _runs(self, columns: Columns, node_type: NodeType, here: Ints, whose: Whose) -> Runs:
        """What a reduction reads at each vertex, slot by slot of those that follow its link."""
        inputs = node_type.inputs[: node_type.listed]
        sources = [i.sources[0] for i in inputs if isinstance(i.sources[0], NodeSource)]
        before, behind = parted(sources[0].hops, self.model.schema)
        at = columns.follow(here, before)
        counts, members = whose.reached(columns, behind, at)
        owner = np.repeat(np.arange(len(here)), counts)
        found = [self._values(columns, source.producers, members) for source in sources]
        there = found[0] != MISSING
        sizes = np.bincount(owner[there], minlength=len(here)).astype(np.int32)
        return Runs(here, sizes, tuple(values[there] for values in found))

    def _stand_in(self, columns: Columns, t: int, runs: Runs, whose: Whose) -> None:
        """Note what stands for a reduction's outputs: its node, the one value that it reads, its default."""
        node_type, width = self.model.types[t], self.network.width
        first = np.append(0, np.cumsum(runs.sizes)).astype(np.int64)
        one, none = np.flatnonzero(runs.sizes == 1), np.flatnonzero(runs.sizes == 0)
        for o, wanted in enumerate(node_type.inputs[: len(node_type.outputs)]):
            value = columns[NodeColumn(t)][runs.here] * np.int32(width) + np.int32(o)
            value[one] = runs.values[o][first[one]]
            value[none] = self._feed(columns, t, wanted, runs.here[none], whose, 1)
            columns[StandInColumn(t, o)][runs.here] = np.where(value >= 0, value, value - 1)

    def _lists(self, columns: Columns, t: int, runs: Runs, whose: Whose) -> Ints:
        """The operands of a reduction's nodes: of each a run a slot (see `Graph`)."""
        node_type = self.model.types[t]
        several = runs.sizes > 1
        size = runs.sizes[several].astype(np.int64)
        start = np.append(0, np.cumsum(size))[:-1]
        node = np.repeat(np.arange(len(size)), size)
        within = np.arange(len(node)) - start[node]
        slots = len(node_type.inputs)
        found = np.empty(slots * len(node), np.int32)
        for s, wanted in enumerate(node_type.inputs):
            place = slots * start[node] + s * size[node] + within
            if s < node_type.listed:
                found[place] = runs.values[s][np.repeat(several, runs.sizes)]
            else:
                found[place] = self._feed(columns, t, wanted, runs.here[several], whose)[node]
        return found

    def _feed(
        self, columns: Columns, t: int, wanted: Input, here: Ints, whose: Whose, skipped: int = 0
    ) -> Ints:
        """What an input reads at each vertex: references on the tape, or of constants.

        The first sources may be `skipped`; where none is left, zeros.
        """
        found = np.full(len(here), MISSING, np.int32)
        for source, first in self._reads[wanted][skipped:]:
            left = np.flatnonzero(found == MISSING)
            if not len(left):
                return found
            if isinstance(source, NodeSource):
                at = columns.follow(here[left], source.hops)
                found[left] = self._values(columns, source.producers, at)
            elif isinstance(source, TableSource):
                rows = self._rows(columns, source, columns.follow(here[left], source.hops))
                found[left] = np.where(rows >= 0, first - rows, MISSING)
            elif isinstance(source, FieldSource):
                rows = columns[GivenColumn(source.field)][columns.follow(here[left], source.hops)]
                found[left] = np.where(rows >= 0, first - rows, MISSING)
            elif isinstance(source, ZeroSource | ParamSource):
                found[left] = first
            else:
                assert_never(source)
        left = np.flatnonzero(found == MISSING)
        if len(left):
            vertex = int(here[left[0]])
            message = f"nothing feeds input '{wanted.name}' of type '{self.model.types[t].name}' at "
            hint = "say what to use there, as in `... or zeros`"
            problem = Problem(message + whose.vertex(columns, vertex), wanted.where, hint)
            raise InstanceError(problem, whose.number(columns, vertex))
        return found

    def _rows(self, columns: Columns, source: TableSource, at: Ints) -> Ints:
        """The row of a table for each vertex, -1 for none."""
        if self.model.schema.fields[source.field].text:
            return columns[RowColumn(source.table, source.field)][at]
        numbers, rows = self.field(columns, source.field)[at], self.model.tables[source.table].rows
        if self.model.weights.file:
            return np.where(numbers < rows, numbers, np.int32(-1))
        return np.where(numbers >= 0, numbers % rows, np.int32(-1))


def _fields(kind: GrowingKind) -> Iterator[str]:
    """The fields that a kind's clauses read."""
    clauses = [*kind.clauses, *([kind.start] if kind.start else [])]
    allowed = [tests for decision in kind.decisions for tests in decision.allow or ()]
    for tests in (*allowed, *(c.when for c in clauses), *(c.unless for c in clauses)):
        yield from (test.value.field for test in tests if isinstance(test.value, Number))
    for clause in clauses:
        yield from (value.field for _, value in clause.fields if isinstance(value, Number))


class Ground:
    """The columns of given instances, found once for all their mini-batches. `instances` have room."""

    def __init__(self, sprouter: Sprouter, instances: Instances) -> None:
        self.sprouter, self.instances = sprouter, instances
        model, count = sprouter.model, len(instances.kind)
        self._before: Binding | None = None
        found: dict[str, Link] = {}

        def way(name: str) -> Link:
            if name not in found:
                found[name] = link(instances, name)
            return found[name]

        self.ways = {
            hops: along([(way(hop.link), hop.index) for hop in hops], count) for hops in sprouter.lists()
        }
        self._values = [floats(instances, name.field, model.data.seed).vertex for name in sprouter.rows]
        self._block = np.full((len(sprouter.columns), count), -1, np.int32)
        columns = dict(zip(sprouter.columns, self._block, strict=True))
        columns[INSTANCE][:] = np.repeat(np.arange(len(instances)), np.diff(instances.start))
        columns[KIND][:], columns[INDEX][:] = instances.kind, field(instances, "index")
        for hop in sprouter.hops:
            columns[hop][:] = one_edge(way(hop.link), hop)
        for name, vertices in zip(sprouter.rows, self._values, strict=True):
            columns[name][vertices] = np.arange(len(vertices))
        for other in sprouter.rest:
            if isinstance(other, FieldColumn):
                columns[other][:] = field(instances, other.name, model.data.seed)
            else:
                columns[other][:] = _word_rows(model, instances, other)

    def before(self, binding: Binding) -> Binding:
        """The instances' binding of types before growth alone, which gives back `reduced`; made once."""
        if self._before is None:
            types = self.sprouter.model.types
            asked = tuple((types[t].name, ((t, o),)) for t, o in self.sprouter.reduced)
            self._before = only(binding, self.sprouter.phases.before, asked)
        return self._before

    def whose(self, first: int, last: int) -> Whose:
        """The mini-batch of instances `first` to `last` (exclusive)."""
        growth = self.sprouter.growth
        closed = {name: of for name, of in growth.reversed.items() if name in growth.closed}
        lists = GrownLists(closed, self.sprouter.hops)
        return Whose(self.instances, self.ways, lists, first, last - first)

    def columns(self, first: int, last: int, also: tuple[Hashable, ...] = (), room: int = 0) -> Columns:
        """The columns of instances `first` to `last` (exclusive), vertices counted from the first of them.

        There are those named `also`, in which nothing is known yet, and `room` for so many new vertices.
        """
        begin, end = int(self.instances.start[first]), int(self.instances.start[last])
        found = Columns(end - begin, self.sprouter.place(also), end - begin + room)
        part = found.block[: len(self.sprouter.columns), 1 : 1 + end - begin]
        part[:] = self._block[:, begin:end]
        rows = (np.searchsorted(vertices, begin) for vertices in self._values)
        since = np.array([first, *[begin] * len(self.sprouter.hops), *rows], np.int32)
        moved = part[: len(since)]
        moved -= since[:, None]
        np.maximum(moved, -1, out=moved)
        return found


def _word_rows(model: Model, instances: Instances, name: RowColumn) -> Ints:
    """The row of a table for each vertex's word, -1 for none."""
    table = model.tables[name.table]
    ids = field(instances, name.field)
    if model.weights.file:
        ids = trained_ids(instances, name.field, ids, table)
    rows = word_rows(instances, name.field, table)
    return np.where(ids >= 0, np.append(rows, -1)[ids], -1).astype(np.int32)
