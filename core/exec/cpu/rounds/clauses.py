"""Clauses as compiled code: which vertices come to be behind decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from abw.core.data.vertices import INDEX, INSTANCE, KIND, FieldColumn
from abw.core.exec.cpu.rounds.members import Members
from abw.core.exec.cpu.rounds.predicates import evaluate, holds
from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.graph.growing.beam import PICK
from abw.core.ir.growth import Clause, GrowingKind, Number
from abw.core.ir.schema import Hop
from abw.core.ir.steps import Origin

# Columns: the number of the round that a vertex is computed in, and of its origin where steps ask for it.
ROUND, ORIGIN = "round", "origin"


class Clauses:
    """Writes what `abw.core.graph.growing.decide.Grower` does into a function, a vertex at a time."""

    def __init__(
        self, f: StateFunction, members: Members, kinds: Mapping[str, GrowingKind], origins: Sequence[Origin]
    ) -> None:
        """`origins`: by whose numbers is noted where vertices come from; there may be none."""
        self.f, self.members, self.kinds = f, members, kinds
        self._origins = {(origin.kind, origin.number): o for o, origin in enumerate(origins)}
        self.beam = any(kind.best for kind in kinds.values())

    def start(self, clause: Clause, roots: str, count: str) -> None:
        """What `count` instances begin with; `roots` are their own vertices."""
        f = self.f

        def note(new: str) -> None:
            self._note_origin(new, clause.adds, -1)

        f.each(0, count, lambda j: self._add(clause, f.int_item(roots, j), note, []))

    def grow(self, kind: GrowingKind, vertices: str, count: str) -> None:
        """Do a kind's clauses at `count` vertices, whose decisions are made; or at those of picks."""
        named = {needed for clause in kind.clauses for needed in clause.needs}
        for number, clause in enumerate(kind.clauses):
            self._clause(kind, clause, number, vertices, count, named=number in named)

    def _clause(
        self, kind: GrowingKind, clause: Clause, number: int, vertices: str, count: str, *, named: bool
    ) -> None:
        f = self.f

        def at(j: str) -> None:
            vertex = f.int_item(vertices, j)
            by = self._pick(kind, vertex, j)
            # of clauses that are not needed nothing is asked
            added = {i: f.int_item(f.address(("added", i)), j) for i in clause.needs}
            known = [added.get(i, "-1") for i in range(len(kind.clauses))]
            conditions = [f.test("sge", f.column(FieldColumn(d.name), vertex), 0) for d in kind.decisions]
            conditions += [f.test("sge", vertex, 0) for vertex in added.values()]
            if named:
                f.put_int("-1", f.address(("added", number)), j)

            def note(new: str) -> None:
                self._note_origin(new, kind.name, number)
                if named:
                    f.put_int(new, f.address(("added", number)), j)
                if by is not None:
                    f.note(PICK, new, by)
                if by is not None and kind.best and clause.adds == kind.name:
                    f.put("i8", "0", f.address(("pick", "ended")), by)

            def do(known: list[str]) -> None:
                when = [*conditions, holds(f, clause.when, vertex, known)]
                if clause.unless:
                    when.append(f.let(f"xor i1 {holds(f, clause.unless, vertex, known)}, true"))
                f.when(f.both(when), lambda: self._add(clause, vertex, note, known))

            if clause.each:
                begin = f.follow(vertex, clause.each[:-1])
                # the last of those known is what `MEMBER` names
                self.members.each(clause.each[-1:], begin, lambda member: do([*known, member]))
            else:
                do(known)

        f.each(0, count, at)

    def _note_origin(self, new: str, kind: str, number: int) -> None:
        """Note by which clause of a kind a vertex came to be."""
        if self._origins:
            self.f.note(ORIGIN, new, str(self._origins[kind, number]))

    def _pick(self, kind: GrowingKind, vertex: str, j: str) -> str | None:
        """The pick by which clauses are done, or by which a vertex came to be; None where nothing is picked.

        What it has picked is the decision until the next.
        """
        f = self.f
        if kind.best is None:
            return f.column(PICK, vertex) if self.beam else None
        pick = f.i64("add", f.get(("pick", "first")), j)
        f.note(FieldColumn(kind.best.name), vertex, f.int_item(f.address(("pick", "number")), pick))
        return pick

    def _add(self, clause: Clause, vertex: str, note: Callable[[str], None], added: list[str]) -> None:
        """A new vertex where there is room for it, of which something else is to `note`."""
        f = self.f
        whose, kind = f.column(INSTANCE, vertex), f.get(("kind", clause.adds))
        place = f.i64("add", f.i64("mul", kind, f.get("instances")), whose)
        index = f.item("i64", f.address("count"), place)

        def create() -> None:
            new = f.get("next")
            f.set("next", f.i64("add", new, 1))
            f.put("i64", f.i64("add", index, 1), f.address("count"), place)
            for name, to in clause.links:
                f.note(Hop(name), new, evaluate(f, to, vertex, added))
            for name, value in clause.fields:
                found = evaluate(f, value, vertex, added) if isinstance(value, Number) else str(value)
                f.note(FieldColumn(name), new, found)
            f.note(KIND, new, kind)
            f.note(INSTANCE, new, whose)
            f.note(INDEX, new, index)
            f.note(ROUND, new, f.get("round"))
            home = f.column(Hop("instance"), vertex)
            f.note(Hop("instance"), new, f.either(f.test("sge", home, 0), home, vertex))
            note(new)

        def cut() -> None:
            f.put("i8", "1", f.address("cut"), place)

        f.when(f.test("slt", index, self.kinds[clause.adds].most), create, cut)
