"""Writes what growth decides and adds: the steps of decisions and clauses, over registers and lists."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from abw.core.data.vertices import INDEX, FieldColumn
from abw.core.graph.growing import choices
from abw.core.graph.growing import walk as op
from abw.core.graph.growing.names import PICK, EndsColumn, MembersColumn, ValueColumn
from abw.core.ir.growth import MEMBER, Clause, Decision, GrowingKind, Growth, Number, Place, Test, Tests
from abw.core.ir.model import Input, Model, Source
from abw.core.ir.phases import Origins, Phases, origins_of
from abw.core.ir.schema import Hop

Kinds = frozenset[str]
# Vertices of some kinds, and of some origins; None: of all.
Group = tuple[Kinds, Origins | None]
# A constant as an input reads it: number of the type, of the slot, and the source.
Base = tuple[int, int, Source]


@dataclass(slots=True)
class Scope:
    """What a clause's places and numbers begin at: registers of the deciding vertices, of what was picked
    there and by which picks, of what earlier clauses added (by their numbers), of a list's members; and of
    where all decisions are made.
    """

    this: int
    number: int = -1
    by: int = -1
    may: int = -1
    added: dict[int, int] = field(default_factory=dict)


class Writer:
    """Steps while they are written."""

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
        """The register of where hops lead from the vertices in another: two at once where no step has asked
        for what is between.
        """
        while hops:
            count = 1 if (register, hops[:1]) in self.made else 2
            key, columns = (register, hops[:count]), [self.columns[hop] for hop in hops[:count]]
            if key not in self.made:
                self.made[key] = self._new()
                self._step(op.FOLLOW, self.made[key], register, *columns, *[-1] * (2 - len(columns)))
            register, hops = self.made[key], hops[count:]
        return register

    def _number_column(self, name: str) -> int:
        return self.columns[INDEX if name == "index" else FieldColumn(name)]

    # decisions

    def _decide(self) -> None:
        number = 0
        for kind in self.growth.kinds:
            vertices = self.made[kind.kinds, None]
            for decision in kind.decisions:
                with self._scope():
                    scope, allowed = Scope(vertices), -1
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
        scope = Scope(self.made[kind.kinds, None])
        if kind.best:
            scope.this, scope.number, scope.by = self._new(), self._new(), self._new()
            self._step(op.PICKED, scope.this, 0, scope.number, scope.by)
        elif self.beam:
            scope.by = self._new()
            self._step(op.FOLLOW, scope.by, scope.this, self.columns[PICK], -1)
        made = tuple(Test(Number(Place(()), decision.name), ">=", 0) for decision in kind.decisions)
        if len(kind.clauses) > 1:  # one alone tests that behind what may take no step
            scope.may, made = self._tests(made, scope, -1, best=kind.best), ()
        for number, clause in enumerate(kind.clauses):
            new = self._new()
            with self._scope():
                self._clause(kind, number, replace(clause, when=(*clause.when, *made)), scope, new)
            scope.added[number] = new

    def _clause(self, kind: GrowingKind, number: int, clause: Clause, all_scope: Scope, new: int) -> None:
        """A clause at all vertices of its kind, or at all members of these's lists."""
        scope = replace(all_scope, added={n: all_scope.added[n] for n in clause.needs})
        if clause.each:
            members, owner = self._members(scope.this, clause.each[:-1], clause.each[-1:])
            this, number_of, by, may = (
                self._gather(r, owner) for r in (scope.this, scope.number, scope.by, scope.may)
            )
            scope = Scope(this, number_of, by, may)
            scope.added = {n: self._gather(all_scope.added[n], owner) for n in clause.needs}
            scope.added[MEMBER] = members
        best, mask = kind.best, scope.may
        for needed in clause.needs:
            mask = self._test(scope.added[needed], op.THERE, 0, negated=False, also=mask)
        mask = self._tests(clause.when, scope, mask, best=best)
        if clause.unless:
            refused = self._tests(clause.unless, scope, -1, best=best)
            mask = self._test(refused, op.THERE, 0, negated=True, also=mask)
        self._add(kind, clause, number, scope, mask, new)

    def _gather(self, register: int, owner: int) -> int:
        """The entries of a register by the vertices that members are of; -1 for none."""
        if register < 0:
            return -1
        found = self._new()
        self._step(op.GATHER, found, owner, register)
        return found

    def _add(
        self, kind: GrowingKind, clause: Clause, number: int, scope: Scope, mask: int, new: int | None = None
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

    def _place(self, place: Place, scope: Scope) -> int:
        """The register of a place."""
        return self._follow(scope.this if place.added is None else scope.added[place.added], place.hops)

    def _number(self, number: Number, scope: Scope, *, picked: bool = True) -> int:
        """The register of a number; of what was `picked`, or what a column says."""
        if picked and number.plus == 0:
            return scope.number
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
        self, tests: Tests, scope: Scope, also: int, to: int | None = None, best: Decision | None = None
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
        if (code, against, negated, also, to, column) == (op.THERE, 0, False, -1, None, -1):
            return values
        out = self._new() if to is None else to
        self._step(op.TEST, out, values, code, against, negated, also, column)
        return out
