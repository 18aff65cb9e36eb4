"""A growing model's columns and program, which all mini-batches share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from abw.core.data.vertices import INDEX, INSTANCE, KIND, FieldColumn
from abw.core.graph.cells import constant_number
from abw.core.graph.growing.bytecode import program_of
from abw.core.graph.growing.names import (
    ORIGIN,
    PICK,
    ROUND,
    EndsColumn,
    GivenColumn,
    MembersColumn,
    NodeColumn,
    RowColumn,
    ValueColumn,
    parted,
)
from abw.core.ir.formats import COMMON
from abw.core.ir.growth import GrowingKind, Growth, Number, clause_places, places_of
from abw.core.ir.model import FieldSource, Input, Model, NodeSource, Source, TableSource
from abw.core.ir.network import Network
from abw.core.ir.phases import Phases, origins_of
from abw.core.ir.schema import Hop, Schema


class GrowthModel:
    """What a growing model's rounds are made of, found once for all mini-batches.

    `columns` are all that rounds read or write, those first of which the data says what there is in them, and
    of these those that lead to vertices; `hops`, `rows` and `rest` are these by kind. `reduced`: outputs of
    reductions before growth that rounds read.
    """

    def __init__(self, model: Model, growth: Growth, network: Network, phases: Phases) -> None:
        self.model, self.growth, self.network, self.phases = model, growth, network, phases
        every = dict.fromkeys(self._names())
        names = [name for name in every if self._given(name)]
        self.hops = [name for name in names if isinstance(name, Hop)]
        self.rows = [name for name in names if isinstance(name, GivenColumn)]
        self.rest = [name for name in names if isinstance(name, FieldColumn | RowColumn)]
        given = (INSTANCE, *self.hops, *self.rows, KIND, INDEX, *self.rest)
        self.given = len(given)
        self.columns: Mapping[Hashable, int] = {
            name: number for number, name in enumerate(dict.fromkeys((*given, *every, *self._noted())))
        }
        read = [
            (name.type, name.output)
            for name in self.columns
            if isinstance(name, ValueColumn) and name.type in phases.before
        ]
        self.reduced = tuple(pair for pair in read if model.types[pair[0]].reduction is not None)
        self.read_before = tuple(pair for pair in read if model.types[pair[0]].reduction is None)
        types = range(len(network.types))
        self.own = np.full(len(types), -1, np.int32)
        for t in phases.during:
            name = NodeColumn(t) if model.types[t].reduction is not None else ValueColumn(t, 0)
            self.own[t] = self.columns[name]
        self.values = np.array(
            [
                [
                    self.columns.get(ValueColumn(t, o), -1) if t in phases.during else -1
                    for o in range(network.width)
                ]
                for t in types
            ],
            np.int32,
        ).reshape(len(types), network.width)
        origins = () if phases.ordered else origins_of(growth)
        self.step = np.zeros((max(1, len(origins)), len(types)), np.int32)
        for number, (t, some) in enumerate(phases.steps):
            self.step[slice(None) if phases.ordered else sorted(some), t] = number
        self.width = growth.beam[1].width if growth.beam else 1
        self.most_added = max(len(k.clauses) * (k.best.width if k.best else 1) for k in growth.kinds)
        self.deciding = frozenset[str]().union(*(kind.kinds for kind in growth.kinds if kind.given))
        self.lists = tuple(dict.fromkeys(self._lists()))
        self.program = program_of(model, growth, phases, self.columns, self.lists)
        self._schemas: tuple[Schema, Schema] = growth.given, growth.extended(growth.given)

    def extended(self, schema: Schema) -> Schema:
        """The schema of data with what grows; that of the same schema is made once."""
        if schema is not self._schemas[0]:
            self._schemas = schema, self.growth.extended(schema)
        return self._schemas[1]

    def _given(self, name: Hashable) -> bool:
        """Whether the data says what there is in a column; of `index` all instances have one anyway."""
        if isinstance(name, Hop):
            return name.link not in self.growth.grown
        return not isinstance(name, FieldColumn) or name.name != "index"

    def constant(self, source: Source, wanted: Input) -> int:
        """The number of the network's constant that a source of an input is."""
        return constant_number(self.network.constants, self.network.fields, source, wanted.shape)

    def _names(self) -> Iterator[Hop | FieldColumn | RowColumn | GivenColumn]:
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
        for t in (*self.phases.during, *self.phases.after):
            after = t in self.phases.after
            yield from self._field_columns(
                after, *(condition.field for condition in self.model.types[t].where)
            )
            for n, wanted in enumerate(self.model.types[t].inputs):
                for m, source in enumerate(wanted.sources):
                    if not isinstance(source, NodeSource | TableSource | FieldSource):
                        continue
                    listed = m == 0 and n < self.model.types[t].listed
                    if after:
                        yield from (Hop(name) for name in self._single_links(source.hops))
                    else:
                        yield from self._single(source.hops) if listed else source.hops
                    if isinstance(source, FieldSource):
                        yield GivenColumn(source.field)
                    elif isinstance(source, TableSource) and self.model.schema.fields[source.field].text:
                        yield RowColumn(source.table, source.field)
                    elif isinstance(source, TableSource):
                        yield from self._field_columns(after, source.field)

    def _field_columns(self, after: bool, *names: str) -> Iterator[FieldColumn]:
        """The columns of fields; those that all vertices have are found anew after growth."""
        yield from (FieldColumn(name) for name in names if not (after and name in COMMON))

    def _single_links(self, hops: tuple[Hop, ...]) -> Iterator[str]:
        """The links to one vertex that lead along hops, those that lists are made of in place of these."""
        schema = self.model.schema
        for hop in hops:
            name = schema.inverse_of(hop.link) or hop.link
            if name in schema.links and not schema.links[name].many:
                yield name

    def _noted(self) -> Iterator[Hashable]:
        """The columns that rounds fill, beside links and fields."""
        types, during = self.model.types, self.phases.during
        yield ROUND
        if self.growth.beam:
            yield PICK
        if not self.phases.ordered:
            yield ORIGIN
        for name in self.growth.closed:
            yield from (EndsColumn(name, False), EndsColumn(name, True), MembersColumn(name))
        for t in during:
            yield from (ValueColumn(t, o) for o in range(len(types[t].outputs)))
            if types[t].reduction is not None:
                yield NodeColumn(t)
        for t in (*during, *self.phases.after):
            for source in (source for wanted in types[t].inputs for source in wanted.sources):
                if isinstance(source, NodeSource):
                    late = self.phases.after
                    yield from (ValueColumn(p, o) for p, o in source.producers if p not in late)
        for kind in self.growth.kinds:
            yield from (ValueColumn(d.type, d.output) for d in kind.decisions if d.type >= 0)

    def _single(self, hops: tuple[Hop, ...]) -> Iterator[Hop]:
        """The hops on the way to a list that lead to one vertex by columns."""
        before, behind = parted(hops, self.model.schema)
        yield from before
        if behind[0].link in self.growth.closed:
            yield from behind[1:]

    def _lists(self) -> Iterator[tuple[Hop, ...]]:
        """The ways from given vertices to several that reductions and clauses follow."""
        ways = [clause.each[-1:] for kind in self.growth.kinds for clause in kind.clauses if clause.each]
        for t in self.phases.during:
            if self.model.types[t].reduction is not None:
                source = self.model.types[t].inputs[0].sources[0]
                assert isinstance(source, NodeSource)
                ways.append(parted(source.hops, self.model.schema)[1])
        yield from (way for way in ways if way[0].link not in self.growth.closed)


def _fields(kind: GrowingKind) -> Iterator[str]:
    """The fields that a kind's clauses read."""
    clauses = [*kind.clauses, *([kind.start] if kind.start else [])]
    allowed = [tests for decision in kind.decisions for tests in decision.allow or ()]
    for tests in (*allowed, *(c.when for c in clauses), *(c.unless for c in clauses)):
        yield from (test.value.field for test in tests if isinstance(test.value, Number))
    for clause in clauses:
        yield from (value.field for _, value in clause.fields if isinstance(value, Number))
