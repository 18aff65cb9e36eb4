"""How a model grows, as a table of steps for `walk`: the same for all mini-batches, written once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import INDEX, FieldColumn
from abw.core.graph.growing import choices
from abw.core.graph.growing import walk as op
from abw.core.graph.growing.names import (
    PICK,
    EndsColumn,
    GivenColumn,
    MembersColumn,
    NodeColumn,
    RowColumn,
    ValueColumn,
    parted,
)
from abw.core.ir.growth import MEMBER, Clause, Decision, GrowingKind, Growth, Number, Place, Test, Tests
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
from abw.core.ir.phases import Origins, Phases, origins_of
from abw.core.ir.schema import Hop

Kinds = frozenset[str]
# Vertices of some kinds, and of some origins; None: of all.
Group = tuple[Kinds, Origins | None]
# A constant as an input reads it: number of the type, of the slot, and the source.
Base = tuple[int, int, Source]


@dataclass(frozen=True, slots=True)
class Bytecode:
    """The `steps` (n, `walk.FIELDS`) of a model's growth, whose `sections` begin there; the last one ends.

    `columns` by number; `roots` is the register of the vertices that instances begin at, of `registers`.
    `kinds`: those that decisions and types are for, `origins` (n, origins) those of vertices. `lists`: hops
    from given vertices to several. `bases`: the constants that steps name. `decisions`, and the register of
    each one's vertices; the most `operands` that a round has for each entry of a register; the `most_scores`
    of a decision. `needs`: the type and input that each step NEED is for.
    """

    steps: NDArray[np.int64]
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


@dataclass(slots=True)
class _Scope:
    """What a clause's places and numbers begin at: registers of the deciding vertices, of what was picked
    there and by which picks, of what earlier clauses added (by their numbers), of a list's members; and of
    where all decisions are made.
    """

    this: int
    number: int = -1
    by: int = -1
    may: int = -1
    added: dict[int, int] = field(default_factory=dict)


class _Writer:
    """A program while it is written."""

    def __init__(
        self,
        model: Model,
        growth: Growth,
        phases: Phases,
        columns: Mapping[Hashable, int],
        lists: Sequence[tuple[Hop, ...]],
    ) -> None:
        self.model, self.growth, self.phases, self.columns = model, growth, phases, columns
        self.lists = {hops: number for number, hops in enumerate(lists)}
        self.steps: list[list[int]] = []
        self.kinds: dict[Kinds, int] = {}
        self.origins: list[Origins] = []
        self.bases: dict[Base, int] = {}
        self.needs: dict[int, tuple[int, Input]] = {}
        self.made: dict[Hashable, int] = {}  # registers that the steps so far have filled
        self.free = max((len(model.types[t].inputs) for t in phases.during), default=0)
        self.registers = self.free
        self.beam, self.most_scores = growth.beam is not None, 1
        names = [kind.name for kind in growth.kinds]
        self.grown = {name: number for number, name in enumerate(names)}
        noted = () if phases.ordered else origins_of(growth)
        self.origin = {(origin.kind, origin.number): o for o, origin in enumerate(noted)}

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
            np.array(self.steps, np.int64).reshape(-1, op.FIELDS),
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

    def _step(self, *step: int) -> None:
        self.steps.append([*step, *[0] * (op.FIELDS - len(step))])

    def _new(self, count: int = 1) -> int:
        """The first of so many registers."""
        first = self.free
        self.free += count
        self.registers = max(self.registers, self.free)
        return first

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """Steps whose registers others may use afterwards: what these hold is there for them alone."""
        free, made = self.free, self.made.copy()
        yield
        self.free, self.made = free, made

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
                    self._add(kind, kind.start, -1, _Scope(self.roots), -1)

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

    def _ends(self, name: str) -> tuple[int, int, int]:
        """The columns of a grown list: where it begins, where it ends, its members."""
        names = EndsColumn(name, False), EndsColumn(name, True), MembersColumn(name)
        low, high, members = (self.columns[n] for n in names)
        return low, high, members

    def _range(self, hops: tuple[Hop, ...]) -> tuple[int, int, int]:
        """A list as steps name it: its number, or -1 and two columns."""
        if hops in self.lists:
            return self.lists[hops], 0, 0
        return -1, *self._ends(hops[0].link)[:2]

    def _members(self, vertices: int, before: tuple[Hop, ...], hops: tuple[Hop, ...]) -> tuple[int, int]:
        """The registers of lists' members, and of the entries that have the lists."""
        who, members, owner = self._follow(vertices, before), self._new(), self._new()
        grown = 0 if hops in self.lists else self._ends(hops[0].link)[2]
        self._step(op.MEMBERS, members, who, owner, *self._range(hops), grown)
        return members, owner

    def _follow(self, register: int, hops: tuple[Hop, ...]) -> int:
        """The register of where hops lead from the vertices in another."""
        for hop in hops:
            key = register, hop
            if key not in self.made:
                self.made[key] = self._new()
                self._step(op.FOLLOW, self.made[key], register, self.columns[hop])
            register = self.made[key]
        return register

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
        if hops and (vertices, hops[0]) not in self.made and len(hops) == 1:
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

    def _number_column(self, name: str) -> int:
        return self.columns[INDEX if name == "index" else FieldColumn(name)]

    # decisions

    def _decide(self) -> None:
        number = 0
        for kind in self.growth.kinds:
            vertices = self.made[kind.kinds, None]
            for decision in kind.decisions:
                with self._scope():
                    scope, allowed = _Scope(vertices), -1
                    if decision.allow is not None:
                        allowed = self._new(len(decision.allow))
                        for i, tests in enumerate(decision.allow):
                            self._tests(tests, scope, -1, allowed + i)
                    t, values, count = decision.type, 0, 0
                    if t >= 0:
                        values = self.columns[ValueColumn(t, decision.output)]
                        count = int(np.prod(self.model.types[t].outputs[decision.output].shape))
                        self.most_scores = max(self.most_scores, count)
                    how = choices.HOWS.index(decision.how)
                    column = self.columns[FieldColumn(decision.name)]
                    self._step(op.CHOOSE, number, vertices, allowed, how, column, values, count)
                number += 1

    # clauses

    def _grow(self) -> None:
        for kind in self.growth.kinds:
            if kind.clauses:
                with self._scope():
                    self._clauses(kind)

    def _clauses(self, kind: GrowingKind) -> None:
        scope = _Scope(self.made[kind.kinds, None])
        if kind.best:
            scope.this, scope.number, scope.by = self._new(), self._new(), self._new()
            self._step(op.PICKED, scope.this, 0, scope.number, scope.by)
        elif self.beam:
            scope.by = self._new()
            self._step(op.FOLLOW, scope.by, scope.this, self.columns[PICK])
        for decision in kind.decisions:
            scope.may = self._tests(
                (Test(Number(Place(()), decision.name), ">=", 0),), scope, scope.may, best=kind.best
            )
        for number, clause in enumerate(kind.clauses):
            new = self._new()
            with self._scope():
                self._clause(kind, number, clause, scope, new)
            scope.added[number] = new

    def _clause(self, kind: GrowingKind, number: int, clause: Clause, all_scope: _Scope, new: int) -> None:
        """A clause at all vertices of its kind, or at all members of these's lists."""
        scope = replace(all_scope, added={n: all_scope.added[n] for n in clause.needs})
        if clause.each:
            members, owner = self._members(scope.this, clause.each[:-1], clause.each[-1:])
            this, number_of, by, may = (
                self._gather(r, owner) for r in (scope.this, scope.number, scope.by, scope.may)
            )
            scope = _Scope(this, number_of, by, may)
            scope.added = {n: self._gather(all_scope.added[n], owner) for n in clause.needs}
            scope.added[MEMBER] = members
        best, mask = kind.best, scope.may
        for needed in clause.needs:
            mask = self._test(scope.added[needed], op.THERE, 0, negated=False, also=mask)
        mask = self._tests(clause.when, scope, mask, best=best)
        if clause.unless:
            refused = self._tests(clause.unless, scope, -1, best=best)
            mask = self._test(refused, op.POSITIVE, 0, negated=True, also=mask)
        self._add(kind, clause, number, scope, mask, new)

    def _gather(self, register: int, owner: int) -> int:
        """The entries of a register by the vertices that members are of; -1 for none."""
        if register < 0:
            return -1
        found = self._new()
        self._step(op.GATHER, found, owner, register)
        return found

    def _add(
        self, kind: GrowingKind, clause: Clause, number: int, scope: _Scope, mask: int, new: int | None = None
    ) -> None:
        """New vertices, with their links and fields."""
        new = self._new() if new is None else new
        goes_on = kind.best is not None and clause.adds == kind.name
        origin, grown = self.origin.get((kind.name, number), -1), self.grown[clause.adds]
        self._step(op.ADD, new, scope.this, mask, grown, scope.by, goes_on, origin)
        for name, place in clause.links:
            self._step(op.SET, self.columns[Hop(name)], new, self._place(place, scope))
        for name, value in clause.fields:
            column = self.columns[FieldColumn(name)]
            if not isinstance(value, Number):
                self._step(op.SET_NUMBER, column, new, value)
            elif self._picked(value, kind.best):
                self._step(op.SET, column, new, self._number(value, scope))
            else:
                vertices, numbers = self._place(value.place, scope), self._number_column(value.field)
                self._step(op.SET_FIELD, column, new, vertices, numbers, value.plus)

    def _place(self, place: Place, scope: _Scope) -> int:
        """The register of a place."""
        return self._follow(scope.this if place.added is None else scope.added[place.added], place.hops)

    def _number(self, number: Number, scope: _Scope, *, picked: bool = True) -> int:
        """The register of a number; of what was `picked`, or what a column says."""
        found = self._new()
        if picked:
            self._step(op.FIELD, found, scope.number, -1, number.plus)
        else:
            column = self._number_column(number.field)
            self._step(op.FIELD, found, self._place(number.place, scope), column, number.plus)
        return found

    def _picked(self, number: Number, best: Decision | None) -> bool:
        """Whether a number is what was picked, of which there may be several at a vertex."""
        return best is not None and number.field == best.name and number.place == Place(())

    def _tests(
        self, tests: Tests, scope: _Scope, also: int, to: int | None = None, best: Decision | None = None
    ) -> int:
        """The register of where all tests hold, and what it says already; `to`: which one."""
        for n, test in enumerate(tests):
            out, column = to if n == len(tests) - 1 else None, -1
            if isinstance(test.value, Place):
                values, code = self._place(test.value, scope), op.THERE
            elif test.value.plus or self._picked(test.value, best):
                picked = self._picked(test.value, best)
                values, code = self._number(test.value, scope, picked=picked), op.POSITIVE
            else:
                values, code = self._place(test.value.place, scope), op.POSITIVE
                column = self._number_column(test.value.field)
            if test.comparison is not None:
                code = op.TESTS[test.comparison]
            negated = test.negated
            also = self._test(values, code, test.against, negated=negated, also=also, to=out, column=column)
        if not tests and to is not None:
            also = self._test(scope.this, op.ALWAYS, 0, negated=False, also=also, to=to)
        return also

    def _test(
        self,
        values: int,
        code: int,
        against: int,
        *,
        negated: bool,
        also: int,
        to: int | None = None,
        column: int = -1,
    ) -> int:
        out = self._new() if to is None else to
        self._step(op.TEST, out, values, code, against, negated, also, column)
        return out
