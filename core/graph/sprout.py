"""The nodes of vertices that have just come to be: one round of a growing mini-batch.

The same as construction (`abw.core.graph.construct`) for vertices that are not in order of their instances,
where cells alone are computed: of a whole mini-batch both give the same nodes and operands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError, Problem
from abw.core.data.derive import field, floats
from abw.core.data.instances import Instances, Ints
from abw.core.data.lookup import trained_ids, word_rows
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns, FieldColumn, given_link
from abw.core.graph.bind import COMPARE
from abw.core.graph.cells import constant_number
from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.ir.growth import GrowingKind, Growth, Number, clause_places, places_of
from abw.core.ir.model import (
    FieldSource,
    Input,
    Model,
    NodeSource,
    ParamSource,
    Source,
    TableSource,
    ZeroSource,
)
from abw.core.ir.network import Network
from abw.core.ir.paths import Hop
from abw.core.ir.phases import Phases

Given = tuple[NDArray[np.float32], ...]
MISSING = -(2**31)


@dataclass(frozen=True, slots=True)
class RowColumn:
    """The name of a column: the row of a table that a field of words means."""

    table: int
    field: str


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """The name of a column: the row of a vertex among the mini-batch's values of a field of floats."""

    field: str


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """The name of a column: the number on the tape of a vertex's node of a type."""

    type: int


class Sprouter:
    """What a growing model's rounds are made of, found once for all mini-batches."""

    def __init__(self, model: Model, growth: Growth, network: Network, phases: Phases) -> None:
        self.model, self.growth, self.network, self.phases = model, growth, network, phases
        self._reads = {
            wanted: self._sources(wanted) for t in phases.during for wanted in model.types[t].inputs
        }

    def _sources(self, wanted: Input) -> tuple[tuple[Source, int], ...]:
        """An input's sources, each with the first reference of the constant that it is."""
        found = []
        for source in wanted.sources:
            first = 0
            if not isinstance(source, NodeSource):
                number = constant_number(self.network.constants, self.network.fields, source, wanted.shape)
                first = -1 - self.network.constants[number].first
            found.append((source, first))
        return tuple(found)

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
        for t in self.phases.during:
            yield from (FieldColumn(condition.field) for condition in self.model.types[t].where)
            for wanted in self.model.types[t].inputs:
                for source in wanted.sources:
                    if isinstance(source, NodeSource | TableSource | FieldSource):
                        yield from source.hops
                    if isinstance(source, FieldSource):
                        yield GivenColumn(source.field)
                    if isinstance(source, TableSource):
                        text = self.model.schema.fields[source.field].text
                        yield RowColumn(source.table, source.field) if text else FieldColumn(source.field)

    def graph(
        self, columns: Columns, new: Ints, taken: int, whose: Whose, given: Given
    ) -> tuple[Graph, Ints]:
        """The graph of new vertices' nodes, which are numbered from `taken` on the tape.

        And the references on the tape that it reads of earlier nodes: its own reference `n * width + i` is
        the i-th of these. `whose` says for messages which instances they are, `given` are these' fields of
        floats (see `Graph`). Errors: InstanceError
        where nothing feeds an input.
        """
        types, width = self.model.types, self.network.width
        heads: list[Ints] = []
        sizes = np.zeros(len(types), np.int32)
        for t in sorted(self.phases.during):
            here = whose.of_kinds(types[t].kinds, columns, new)
            for condition in types[t].where:
                values = self.field(columns, condition.field)[here]
                here = here[COMPARE[condition.comparison](values, condition.value)]
            sizes[t] = len(here)
            columns[NodeColumn(t)][here] = taken + sum(map(len, heads)) + np.arange(len(here))
            heads.append(here)
        blocks = [
            np.stack([self._feed(columns, t, wanted, here, whose) for wanted in types[t].inputs], axis=1)
            for t, here in zip(sorted(self.phases.during), heads, strict=True)
            if len(here) and types[t].inputs
        ]
        slots = np.repeat(np.array([len(t.inputs) for t in types], np.int32), sizes)
        vertex = np.concatenate([np.zeros(0, np.int32), *heads])
        operand = np.concatenate([np.zeros(0, np.int32), *(block.ravel() for block in blocks)])
        own = len(vertex) * width
        earlier = (operand >= 0) & (operand < taken * width)
        outer, number = np.unique(operand[earlier], return_inverse=True)
        operand[operand >= taken * width] -= taken * width
        operand[earlier] = own + number
        ptr = np.append(0, np.cumsum(slots)).astype(np.int32)
        target = np.repeat(np.arange(len(vertex), dtype=np.int32), slots)
        inside = (operand >= 0) & (operand < own)
        type_of = np.repeat(np.arange(len(types), dtype=np.int32), sizes)
        dag = build_dag(tuple(t.name for t in types), type_of, operand[inside] // width, target[inside])
        type_ptr = np.append(0, np.cumsum(sizes)).astype(np.int32)
        owner = columns[INSTANCE][vertex]
        graph = Graph(self.network, dag, type_ptr, vertex, owner, ptr, operand, (), whose.count, given=given)
        return graph, outer.astype(np.int32)

    def field(self, columns: Columns, name: str) -> Ints:
        """A field of numbers as a column."""
        return columns[INDEX] if name == "index" else columns[FieldColumn(name)]

    def _feed(self, columns: Columns, t: int, wanted: Input, here: Ints, whose: Whose) -> Ints:
        """What an input reads at each vertex: references on the tape, or of constants."""
        found = np.full(len(here), MISSING, np.int32)
        width = self.network.width
        for source, first in self._reads[wanted]:
            left = np.flatnonzero(found == MISSING)
            if not len(left):
                return found
            if isinstance(source, NodeSource):
                at = columns.follow(here[left], source.hops)
                for p, output in source.producers:
                    node = columns[NodeColumn(p)][at]
                    there = node >= 0
                    found[left[there]] = node[there] * width + output
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


@dataclass(frozen=True, slots=True)
class Whose:
    """Of which instances a mini-batch is: `count` of them from number `first` on."""

    instances: Instances
    first: int
    count: int

    def of_kinds(self, kinds: frozenset[str], columns: Columns, vertices: Ints) -> Ints:
        """Those of the vertices that are of these kinds."""
        names = self.instances.schema.kinds
        wanted = np.array([name in kinds for name in names])
        found: Ints = vertices[wanted[columns[KIND][vertices]]]
        return found

    def number(self, columns: Columns, vertex: int) -> int:
        """The number of a vertex's instance among `instances`."""
        return self.first + int(columns[INSTANCE][vertex])

    def instance(self, columns: Columns, vertex: int) -> str:
        """A vertex's instance in words: its number, its id where it has one, file and line."""
        number, found = self.number(columns, vertex), self.instances
        name = f" '{found.names[number]}'" if found.names else ""
        return f"instance {int(found.numbers[number])}{name} ({found.source}:{int(found.lines[number])})"

    def vertex(self, columns: Columns, vertex: int) -> str:
        """A vertex in words: its kind, its number there, its instance."""
        kind = self.instances.schema.kinds[int(columns[KIND][vertex])]
        return f"{kind} {int(columns[INDEX][vertex])} of {self.instance(columns, vertex)}"


class Ground:
    """The columns of given instances, found once for all their mini-batches. `instances` have room."""

    def __init__(self, sprouter: Sprouter, instances: Instances) -> None:
        self.sprouter, self.instances = sprouter, instances
        model = sprouter.model
        self._columns: dict[Hashable, Ints] = {}
        for name in dict.fromkeys(sprouter.names()):
            if isinstance(name, Hop):
                if name.link not in sprouter.growth.grown:
                    self._columns[name] = given_link(instances, name)
            elif isinstance(name, FieldColumn) and name.name != "index":
                self._columns[name] = field(instances, name.name, model.data.seed)
            elif isinstance(name, GivenColumn):
                vertices = floats(instances, name.field).vertex
                self._columns[name] = np.full(len(instances.kind), -1, np.int32)
                self._columns[name][vertices] = np.arange(len(vertices))
            elif isinstance(name, RowColumn):
                self._columns[name] = _word_rows(model, instances, name)

    def columns(self, first: int, last: int) -> Columns:
        """The columns of instances `first` to `last` (exclusive), vertices counted from the first of them."""
        instances = self.instances
        begin, end = int(instances.start[first]), int(instances.start[last])
        found = Columns(end - begin)
        for name, values in self._columns.items():
            part = values[begin:end]
            if isinstance(name, GivenColumn):
                there = part[part >= 0]
                part = np.where(part >= 0, part - there[0], -1) if len(there) else part
            found.give(name, np.where(part >= 0, part - begin, -1) if isinstance(name, Hop) else part)
        found.give(KIND, instances.kind[begin:end])
        owner = np.repeat(np.arange(last - first), np.diff(instances.start[first : last + 1]))
        found.give(INSTANCE, owner)
        found.give(INDEX, field(instances, "index")[begin:end])
        return found


def _word_rows(model: Model, instances: Instances, name: RowColumn) -> Ints:
    """The row of a table for each vertex's word, -1 for none."""
    table = model.tables[name.table]
    ids = field(instances, name.field)
    if model.weights.file:
        ids = trained_ids(instances, name.field, ids, table)
    rows = word_rows(instances, name.field, table)
    return np.where(ids >= 0, np.append(rows, -1)[ids], -1).astype(np.int32)
