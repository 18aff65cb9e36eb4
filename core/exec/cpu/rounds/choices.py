"""Decisions as compiled code: what `abw.core.graph.growing.decide` does, a vertex at a time."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.data.vertices import INDEX, INSTANCE, KIND, FieldColumn
from abw.core.exec.cpu.llvm.emit import double, number, splat
from abw.core.exec.cpu.llvm.singles import across, masked, over
from abw.core.exec.cpu.rounds.feeds import ValueColumn
from abw.core.exec.cpu.rounds.launch import Launcher
from abw.core.exec.cpu.rounds.predicates import holds
from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.exec.lower.rows import padded
from abw.core.graph.growing.decide import GOLDEN, MIXERS, WORD, salt_of
from abw.core.ir.growth import Decision
from abw.core.plan.arenas import Arenas

INFINITE = number(-float("inf"))


class Choices:
    """Writes decisions into a function, which fails where a score is not a number."""

    def __init__(self, f: StateFunction, launcher: Launcher, arenas: Arenas, seed: int) -> None:
        self.f, self.launcher, self.arenas, self.seed = f, launcher, arenas, seed

    def decide(self, decision: Decision, vertices: str, count: str, scores: int) -> None:
        """Make a decision at `count` vertices, by so many scores each."""
        f = self.f

        def at(j: str) -> None:
            vertex = f.int_item(vertices, j)
            f.note(FieldColumn(decision.name), vertex, self._chosen(decision, vertex, scores))

        f.each(0, count, at)

    def _chosen(self, decision: Decision, vertex: str, count: int) -> str:
        f = self.f
        if decision.how == "chance":
            below = f.let(f"fcmp olt double {self._drawn(decision, vertex)}, {double(decision.limit)}")
            return f.let(f"zext i1 {below} to i64")
        arena = int(self.arenas.output_arena[decision.type, decision.output])
        x = self.launcher.place(arena, f.column(ValueColumn(decision.type, decision.output), vertex))
        if decision.how == "over":
            score = f.item("float", x, 0)
            f.fail(f.let(f"fcmp uno float {score}, {score}"))
            above = f.let(f"fcmp ogt float {score}, {number(decision.limit)}")
            return f.let(f"zext i1 {above} to i64")
        if decision.how == "argmax" and decision.allow is None:
            return argmax(f, x, count)
        if decision.allow is None:
            return self._sampled(decision, vertex, x, count)
        scores = [f.item("float", x, i) for i in range(count)]
        for score in scores:
            f.fail(f.let(f"fcmp uno float {score}, {score}"))
        may = [holds(f, tests, vertex) for tests in decision.allow]
        if decision.how == "argmax":
            return self._best(scores, may)
        some, first = "false", "-1"
        for i, (score, allowed) in reversed([*enumerate(zip(scores, may, strict=True))]):
            kept = f.let(f"select i1 {allowed}, float {score}, float {INFINITE}")
            f.put("double", f.let(f"fpext float {kept} to double"), f.address("shares"), i)
            above = f.let(f"fcmp ogt float {kept}, {INFINITE}")
            some, first = f.let(f"or i1 {some}, {above}"), f.either(allowed, str(i), first)
        return f.either(some, self._by_share(decision, vertex, count), first)

    def _best(self, scores: Sequence[str], may: Sequence[str]) -> str:
        """The first of the largest scores among those allowed, -1 where there is none."""
        f, found, best = self.f, "-1", INFINITE
        for i, (score, allowed) in enumerate(zip(scores, may, strict=True)):
            first, larger = f.test("slt", found, 0), f.let(f"fcmp ogt float {score}, {best}")
            taken = f.both([allowed, f.let(f"or i1 {first}, {larger}")])
            found = f.either(taken, str(i), found)
            best = f.let(f"select i1 {taken}, float {score}, float {best}")
        return found

    def _sampled(self, decision: Decision, vertex: str, x: str, count: int) -> str:
        f = self.f

        def widen(j: str) -> None:
            score = f.item("float", x, j)
            f.fail(f.let(f"fcmp uno float {score}, {score}"))
            f.put("double", f.let(f"fpext float {score} to double"), f.address("shares"), j)

        f.repeat(count, widen)
        return self._by_share(decision, vertex, count)

    def _by_share(self, decision: Decision, vertex: str, count: int) -> str:
        """The choice up to which the shares of the scores in `shares` add up to more than what is drawn."""
        f, shares = self.f, self.f.address("shares")
        least = double(-float("inf"))

        def larger(j: str, top: list[str]) -> list[str]:
            score = f.item("double", shares, j)
            more = f.let(f"fcmp ogt double {score}, {top[0]}")
            some = f.let(f"fcmp ogt double {score}, {least}")
            return [
                f.let(f"select i1 {more}, double {score}, double {top[0]}"),
                f.either(some, j, top[1]),
            ]

        top, last = f.loop(count, larger, [("double", least), ("i64", str(count - 1))])
        f.module.declare("double @exp(double)")

        def power(j: str, total: list[str]) -> list[str]:
            score = f.item("double", shares, j)
            equal = f.let(f"fcmp oeq double {score}, {top}")
            apart = f.let(f"fsub double {score}, {top}")
            shifted = f.let(f"select i1 {equal}, double {double(0.0)}, double {apart}")
            part = f.let(f"call double @exp(double {shifted})")
            total = [f.let(f"fadd double {total[0]}, {part}")]
            f.put("double", total[0], shares, j)
            return total

        (total,) = f.loop(count, power, [("double", double(0.0))])
        drawn = self._drawn(decision, vertex)

        def passed(j: str, found: list[str]) -> list[str]:
            end = f.let(f"fdiv double {f.item('double', shares, j)}, {total}")
            below = f.let(f"fcmp ole double {end}, {drawn}")
            return [f.i64("add", found[0], f.let(f"zext i1 {below} to i64"))]

        (found,) = f.loop(count, passed, [("i64", "0")])
        return f.least(found, last)

    def _drawn(self, decision: Decision, vertex: str) -> str:
        """A number from 0 to below 1, as `Chances.drawn` has it."""
        f = self.f
        whose = f.column(INSTANCE, vertex)
        x = f.i64("shl", f.item("i64", f.address("numbers"), whose), 32)
        x = f.i64("or", x, f.column(INDEX, vertex))
        x = f.i64("xor", x, f.i64("shl", f.column(KIND, vertex), 24))
        for constant in (salt_of(decision, self.seed), GOLDEN):
            x = f.i64("add", x, _signed(constant))
            for shift, factor in MIXERS:
                x = f.i64("xor", x, f.i64("lshr", x, shift))
                if factor != 1:
                    x = f.i64("mul", x, _signed(factor))
        top = f.let(f"uitofp i64 {f.i64('lshr', x, 11)} to double")
        return f.let(f"fmul double {top}, {double(2.0**-53)}")


def argmax(f: StateFunction, x: str, count: int) -> str:
    """The first of the largest of `count` scores, first of each lane, then of all; fails on what is none."""
    with f.several(padded(count, f.target.lanes)) as lanes:
        kind, flags, places = f.target.vector, f"<{lanes} x i1>", f.target.integers
        odd, none_yet = f"<{lanes // 2} x i1>", "zeroinitializer"

        def compare(place: str | int, mask: str | None, found: list[str]) -> list[str]:
            best, where, none = found
            value = masked(f, f.load(x, place), mask, -float("inf"))
            none = f.let(f"or {odd} {none}, {_odd(f, value)}")
            larger = f.let(f"fcmp ogt {kind} {value}, {best}")
            now = _spread_int(f, f.let(f"trunc i64 {place} to i32"))
            where = f.let(f"select {flags} {larger}, {places} {now}, {places} {where}")
            return [f.select(larger, value, best), where, none]

        start = [(kind, splat(-float("inf"))), (places, none_yet), (odd, none_yet)]
        best, where, none = over(f, count, compare, start)
        f.module.declare(f"i1 @llvm.vector.reduce.or.v{lanes // 2}i1({odd})")
        f.fail(f.let(f"call i1 @llvm.vector.reduce.or.v{lanes // 2}i1({odd} {none})"))
        largest = f.spread(across(f, "fmax", best))
        most = f.let(f"fcmp oeq {kind} {best}, {largest}")
        # where each lane's largest lies is known by the bytes before its vector
        lane = "<" + ", ".join(f"i32 {lane}" for lane in range(lanes)) + ">"
        where = f.let(f"lshr {places} {where}, splat (i32 2)")
        where = f.let(f"add {places} {where}, {lane}")
        where = f.let(f"select {flags} {most}, {places} {where}, {places} splat (i32 {2**31 - 1})")
        f.module.declare(f"i32 @llvm.vector.reduce.smin.v{lanes}i32({places})")
        found = f.let(f"call i32 @llvm.vector.reduce.smin.v{lanes}i32({places} {where})")
        return f.let(f"sext i32 {found} to i64")


def _odd(f: StateFunction, vector: str) -> str:
    """Where one of two numbers of a vector, in its first and second half, is none: half as many flags."""
    kind, half = f.target.vector, f.target.lanes // 2
    first, second = (", ".join(f"i32 {begin + lane}" for lane in range(half)) for begin in (0, half))
    low, high = (
        f.let(f"shufflevector {kind} {vector}, {kind} poison, <{half} x i32> <{lanes}>")
        for lanes in (first, second)
    )
    return f.let(f"fcmp uno <{half} x float> {low}, {high}")


def _spread_int(f: StateFunction, scalar: str) -> str:
    """A 32-bit number in every lane."""
    lanes, places = f.target.lanes, f.target.integers
    first = f.let(f"insertelement {places} poison, i32 {scalar}, i64 0")
    return f.let(f"shufflevector {places} {first}, {places} poison, <{lanes} x i32> zeroinitializer")


def _signed(value: int) -> int:
    """64 bits as LLVM's text has them."""
    value &= WORD
    return value - (1 << 64) if value >> 63 else value
