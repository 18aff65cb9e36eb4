"""How a model grows, as a table of steps for `walk`: the same for all mini-batches, written once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.growing import walk as op
from abw.core.graph.growing.clauses import Base, Kinds, Scope, Writer
from abw.core.graph.growing.names import (
    GivenColumn,
    NodeColumn,
    RowColumn,
    ValueColumn,
    parted,
)
from abw.core.ir.growth import Decision, Growth
from abw.core.ir.model import (
    SPREADS,
    FieldSource,
    Input,
    Model,
    NodeSource,
    NodeType,
    Source,
    TableSource,
    ZeroSource,
)
from abw.core.ir.phases import Origins, Phases
from abw.core.ir.schema import Hop


@dataclass(frozen=True, slots=True)
class Bytecode:
    """The `steps` (n, `walk.FIELDS`) of a model's growth, whose `sections` begin there; the last one ends.

    `columns` by number; `roots` is the register of the vertices that instances begin at, of `registers`.
    `kinds`: those that decisions and types are for, `origins` (n, origins) those of vertices. `lists`: hops
    from given vertices to several. `bases`: the constants that steps name. `decisions`, and the register of
    each one's vertices; the most `operands` that a round has for each entry of a register; the `most_scores`
    of a decision. `needs`: the type and input that each step NEED is for.
    """

    steps: NDArray[np.int32]
    sections: tuple[int, ...]
    columns: Mapping[Hashable, int]
    registers: int
    roots: int
    kinds: tuple[Kinds, ...]
    origins: NDArray[np.uint8]
    lists: tuple[tuple[Hop, ...], ...]
    bases: tuple[Base, ...]
    decisions: tuple[Decision, ...]
    vertices: tuple[int, ...]
    operands: int
    most_scores: int
    needs: dict[int, tuple[int, Input]]


def program_of(
    model: Model,
    growth: Growth,
    phases: Phases,
    columns: Mapping[Hashable, int],
    lists: Sequence[tuple[Hop, ...]],
) -> Bytecode:
    """A model's program over these columns. Cost: linear in types, sources and clauses."""
    return _Writer(model, growth, phases, columns, lists).program()


class _Writer(Writer):
    """A program while it is written."""

    def program(self) -> Bytecode:
        """Write it."""
        sections = []
        self.roots = self._new()
        for write in (self._start, self._room, self._feed, self._decide, self._grow):
            sections.append(len(self.steps))
            write()
        origins = np.zeros((len(self.origins), max(1, len(self.origin))), np.uint8)
        for row, some in zip(origins, self.origins, strict=True):
            row[sorted(some)] = 1
        decisions = [(d, kind) for kind in self.growth.kinds for d in kind.decisions]
        slots = [len(self.model.types[t].inputs) for t, _ in self.phases.steps]
        return Bytecode(
            np.array(self.steps, np.int32).reshape(-1, op.FIELDS),
            (*sections, len(self.steps)),
            self.columns,
            self.registers,
            self.roots,
            tuple(self.kinds),
            origins,
            tuple(self.lists),
            tuple(self.bases),
            tuple(d for d, _ in decisions),
            tuple(self.made[kind.kinds, None] for _, kind in decisions),
            sum(slots) + 1,
            self.most_scores,
            self.needs,
        )

    @contextmanager
    def _unless_filled(self, step: int) -> Iterator[None]:
        """Steps that are passed over where the last one of a register's, this one, leaves nothing missing."""
        made, begin = self.made.copy(), len(self.steps)
        yield
        self.made = made
        self.steps[step][op.OTHERWISE] = len(self.steps) - begin

    # what instances begin with

    def _start(self) -> None:
        for kind in self.growth.kinds:
            if kind.start is not None:
                with self._scope():
                    self._add(kind, kind.start, -1, Scope(self.roots), -1)

    # lists, the round's vertices by groups, and room

    def _room(self) -> None:
        closed = {name: of for name, of in self.growth.reversed.items() if name in self.growth.closed}
        for name, of in closed.items():
            ends = self._ends(name)
            self._step(op.LIST, self.columns[Hop(of)], 0, *ends)
            for hop, column in self.columns.items():
                if isinstance(hop, Hop) and hop.link == name and hop.index is not None:
                    self._step(op.MEMBER, column, 0, *ends, hop.index)
        for t, origins in self.phases.steps:
            group = self._group(self.model.types[t].kinds, None if self.phases.ordered else origins)
            node_type = self.model.types[t]
            if node_type.reduction is not None:
                with self._scope():
                    before, behind = self._reduced(node_type)
                    self._step(op.COUNT, 0, self._follow(group, before), *self._range(behind), 0)
        for kind in self.growth.kinds:
            group = self._group(kind.kinds, None)
            for clause in kind.clauses:
                if clause.each:
                    with self._scope():
                        begin = self._follow(group, clause.each[:-1])
                        more = kind.best.width if kind.best else 1
                        self._step(op.COUNT, 0, begin, *self._range(clause.each[-1:]), more)

    def _group(self, kinds: Kinds, origins: Origins | None) -> int:
        """The register of a group of the round's vertices."""
        if (kinds, origins) not in self.made:
            self.made[kinds, origins] = self._new()
            number, given = self.kinds.setdefault(kinds, len(self.kinds)), not kinds <= self.growth.grown
            some = -1
            if origins is not None:
                some = len(self.origins) * len(self.origin)
                self.origins.append(origins)
            self._step(op.SELECT, self.made[kinds, origins], 0, number, some, given)
        return self.made[kinds, origins]

    # nodes

    def _feed(self) -> None:
        with self._scope():
            self._nodes()

    def _nodes(self) -> None:
        for number, (t, origins) in enumerate(self.phases.steps):
            node_type = self.model.types[t]
            vertices = self._group(node_type.kinds, None if self.phases.ordered else origins)
            for c in node_type.where:
                key = vertices, (c.field, c.comparison, c.value)
                if key not in self.made:
                    self.made[key] = self._new()
                    column, code = self._number_column(c.field), op.TESTS[c.comparison]
                    self._step(op.FILTER, self.made[key], vertices, column, code, c.value)
                vertices = self.made[key]
            if node_type.reduction is not None:
                self._reduction(t, node_type, vertices, number)
                continue
            for s, wanted in enumerate(node_type.inputs):
                self._input(s, t, s, wanted, wanted.sources, vertices)
            self._step(op.LAUNCH, t, vertices, -1, -1, number)

    def _reduced(self, node_type: NodeType) -> tuple[tuple[Hop, ...], tuple[Hop, ...]]:
        """The hops to what has a reduction's list, and from there on."""
        source = node_type.inputs[0].sources[0]
        assert isinstance(source, NodeSource)
        return parted(source.hops, self.model.schema)

    def _reduction(self, t: int, node_type: NodeType, vertices: int, number: int) -> None:
        """The lists of a reduction, what stands for its outputs, and its nodes."""
        before, behind = self._reduced(node_type)
        outputs = len(node_type.outputs)
        members, owner = self._members(vertices, before, behind)
        there = members if behind in self.lists else self._follow(members, behind[1:])
        for s, wanted in enumerate(node_type.inputs[: node_type.listed]):
            source = wanted.sources[0]
            assert isinstance(source, NodeSource)
            self._values(s, there, (), source, fresh=True)
        nodes = self._new(2 + outputs)
        several = node_type.reduction in SPREADS
        self._step(op.REDUCE, nodes, vertices, owner, several, node_type.listed, outputs)
        with self._unless_filled(len(self.steps) - 1):
            for o, wanted in enumerate(node_type.inputs[:outputs]):
                rest = wanted.sources[1:] or (ZeroSource(),)
                self._input(nodes + 2 + o, t, o, wanted, rest, vertices, fresh=False)
        for o in range(outputs):
            self._step(op.SET, self.columns[ValueColumn(t, o)], vertices, nodes + 2 + o)
        for s, wanted in enumerate(node_type.inputs[node_type.listed :], node_type.listed):
            each = self._new()
            self._input(each, t, s, wanted, wanted.sources, nodes)
            self._step(op.SPREAD, s, each, nodes + 1)
        self._step(op.LAUNCH, t, nodes, nodes + 1, self.columns[NodeColumn(t)], number)

    def _values(
        self, to: int, vertices: int, hops: tuple[Hop, ...], source: NodeSource, *, fresh: bool
    ) -> None:
        """Fill a register with what the first producer that is there gives, where hops lead from vertices."""
        link = -1
        if len(hops) == 1 and (vertices, hops) not in self.made:
            link = self.columns[hops[0]]
        else:
            vertices = self._follow(vertices, hops)
        for t, output in source.producers:
            column = self.columns[ValueColumn(t, output)]
            self._step(op.FILL_VALUES, to, vertices, link, column, fresh)
            fresh = False

    def _input(
        self,
        to: int,
        t: int,
        s: int,
        wanted: Input,
        sources: Sequence[Source],
        vertices: int,
        *,
        fresh: bool = True,
    ) -> None:
        """Fill a register with what an input reads, from the first source on that is there."""
        source, *rest = sources
        if isinstance(source, NodeSource):
            self._values(to, vertices, source.hops, source, fresh=fresh)
        else:
            base = self.bases.setdefault((t, s, source), len(self.bases))
            if not isinstance(source, TableSource | FieldSource):
                self._step(op.FILL_CONSTANT, to, vertices, base, fresh)
                return
            column, limit = self._rows(source)
            self._step(op.FILL_ROWS, to, self._follow(vertices, source.hops), column, fresh, base, limit)
        last = len(self.steps) - 1
        if rest:
            with self._unless_filled(last):
                self._input(to, t, s, wanted, rest, vertices, fresh=False)
        else:
            self.needs[last] = t, wanted
            self.steps[last][op.OTHERWISE] = -1 - vertices

    def _rows(self, source: TableSource | FieldSource) -> tuple[int, int]:
        """The column of a constant's rows, and what is done with these: see `walk._fill_rows`."""
        if isinstance(source, FieldSource):
            return self.columns[GivenColumn(source.field)], 0
        if self.model.schema.fields[source.field].text:
            return self.columns[RowColumn(source.table, source.field)], 0
        rows = self.model.tables[source.table].rows
        return self._number_column(source.field), -rows if self.model.weights.file else rows
