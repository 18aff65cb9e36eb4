"""Beam search as compiled code: what `abw.core.graph.growing.beam` does, a hypothesis at a time."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.data.vertices import INSTANCE
from abw.core.exec.cpu.llvm.emit import double, number
from abw.core.exec.cpu.rounds.best import INFINITE, NAN, Best, insert, likeliest
from abw.core.exec.cpu.rounds.feeds import ValueColumn
from abw.core.exec.cpu.rounds.launch import Launcher
from abw.core.exec.cpu.rounds.predicates import holds
from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.exec.lower.rows import padded
from abw.core.graph.growing.beam import PICK
from abw.core.ir.growth import Decision, Tests
from abw.core.plan.arenas import Arenas


class Beams:
    """Writes a decision `best` into a function, which fails where a score is not a number.

    Words of the state: `(pick, …)`, all that was picked so far: `vertex`, `number`, `total` and `ended` of
    each pick, of which there are `next`, the round's own from `first` on. `(kept, …)`: which `pick` was kept
    in which `round`, `next` times. `(beam, …)`, by instance: in which `round` it was compared last, which
    `width` picks are `kept`, and its candidates, the best first: `total`, `vertex` (-1 of what has ended) and
    `number` (of such the pick).
    """

    def __init__(self, f: StateFunction, launcher: Launcher, arenas: Arenas, decision: Decision) -> None:
        self.f, self.launcher, self.decision, self.width = f, launcher, decision, decision.width
        self._arena = int(arenas.output_arena[decision.type, decision.output])

    def pick(self, vertices: str, count: str, scores: int) -> None:
        """Compare the hypotheses at `count` vertices, by so many scores each; keep the best."""
        f = self.f
        best = Best(f, scores, self.width)
        f.set(("pick", "first"), f.get(("pick", "next")))

        def compare(j: str) -> None:
            vertex = f.int_item(vertices, j)
            whose = f.column(INSTANCE, vertex)
            f.when(self._compared(whose), lambda: None, lambda: self._begin(whose))
            by = f.column(PICK, vertex)
            total = f.item("double", f.address(("pick", "total")), f.most(by, 0))
            before = f.let(f"select i1 {f.test('sge', by, 0)}, double {total}, double {double(0.0)}")
            row = f.column(ValueColumn(self.decision.type, self.decision.output), vertex)
            x, first = self.launcher.place(self._arena, row), "0"
            if self.decision.allow is not None:
                x, first = self._allowed(self.decision.allow, vertex, x)
            f.when(
                f.test("sge", first, 0),
                lambda: likeliest(
                    f, best, x, before, lambda *one: self._enter(whose, one[0], vertex, one[1]), first
                ),
                lambda: self._enter(whose, before, vertex, "-1"),
            )

        f.each(0, count, compare)
        f.each(f.get("instance_first"), f.get("instance_last"), self._keep)

    def picked(self) -> tuple[str, str]:
        """The vertices of the round's picks, and how many these are."""
        f = self.f
        first = f.get(("pick", "first"))
        vertices = f.let(f"getelementptr i32, ptr {f.address(('pick', 'vertex'))}, i64 {first}")
        return vertices, f.i64("sub", f.get(("pick", "next")), first)

    def _compared(self, whose: str) -> str:
        """Whether an instance is among those whose hypotheses are compared in this round."""
        f = self.f
        return f.test("eq", f.item("i64", f.address(("beam", "round")), whose), f.get("round"))

    def _of(self, name: str, whose: str, size: int = 4) -> str:
        """Where an instance's `width` entries of an array lie."""
        return self.f.at(self.f.address(("beam", name)), self.f.i64("mul", whose, size * self.width))

    def _begin(self, whose: str) -> None:
        """An instance's candidates are at first what it has kept and has ended."""
        f = self.f
        f.put("i64", f.get("round"), f.address(("beam", "round")), whose)
        totals, kept = self._of("total", whose, 8), self._of("kept", whose)
        f.repeat(self.width, lambda place: f.put("double", double(NAN), totals, place))

        def old(place: str) -> None:
            pick = f.int_item(kept, place)
            ended = f.item("i8", f.address(("pick", "ended")), f.most(pick, 0))
            total = f.item("double", f.address(("pick", "total")), f.most(pick, 0))
            there = f.both([f.test("sge", pick, 0), f.let(f"icmp ne i8 {ended}, 0")])
            f.when(there, lambda: self._enter(whose, total, "-1", pick))

        f.repeat(self.width, old)

    def _allowed(self, allow: Sequence[Tests], vertex: str, x: str) -> tuple[str, str]:
        """The scores, -inf where they are not allowed, and the first that is allowed, -1 for none."""
        f, first = self.f, "-1"
        room = f.room(padded(len(allow), f.target.lanes) // 2)
        for i, tests in reversed([*enumerate(allow)]):
            score = f.item("float", x, i)
            f.fail(f.let(f"fcmp uno float {score}, {score}"))
            may = holds(f, tests, vertex)
            f.put("float", f.let(f"select i1 {may}, float {score}, float {number(-INFINITE)}"), room, i)
            first = f.either(may, str(i), first)
        return room, first

    def _enter(self, whose: str, total: str, vertex: str, found: str) -> None:
        """A candidate of an instance."""
        others = [(self._of("vertex", whose), vertex), (self._of("number", whose), found)]
        insert(self.f, "double", self._of("total", whose, 8), self.width, total, others)

    def _keep(self, whose: str) -> None:
        """Keep an instance's best candidates; the first alone if it has ended."""
        f = self.f

        def keep() -> None:
            totals, kept = self._of("total", whose, 8), self._of("kept", whose)
            vertices, numbers = self._of("vertex", whose), self._of("number", whose)
            over = f.test("slt", f.int_item(vertices, 0), 0)

            def one(place: str) -> None:
                total, vertex, found = (
                    f.item("double", totals, place),
                    f.int_item(vertices, place),
                    f.int_item(numbers, place),
                )
                among = f.let(f"or i1 {f.test('eq', place, 0)}, {f.let(f'xor i1 {over}, true')}")
                there = f.both([f.let(f"fcmp ord double {total}, {total}"), among])

                def stays() -> None:
                    new = f.test("sge", vertex, 0)
                    f.when(new, lambda: self._note(total, vertex, found))
                    pick = f.either(new, f.i64("sub", f.get(("pick", "next")), 1), found)
                    f.put_int(pick, kept, place)
                    logged = f.get(("kept", "next"))
                    f.put_int(pick, f.address(("kept", "pick")), logged)
                    f.put_int(f.get("round"), f.address(("kept", "round")), logged)
                    f.set(("kept", "next"), f.i64("add", logged, 1))

                f.when(there, stays, lambda: f.put_int("-1", kept, place))

            f.repeat(self.width, one)

        f.when(self._compared(whose), keep)

    def _note(self, total: str, vertex: str, found: str) -> None:
        """A new pick: it has ended, unless a vertex of its kind comes to be by it."""
        f = self.f
        pick = f.get(("pick", "next"))
        f.put_int(vertex, f.address(("pick", "vertex")), pick)
        f.put_int(found, f.address(("pick", "number")), pick)
        f.put("double", total, f.address(("pick", "total")), pick)
        f.put("i8", "1", f.address(("pick", "ended")), pick)
        f.set(("pick", "next"), f.i64("add", pick, 1))
