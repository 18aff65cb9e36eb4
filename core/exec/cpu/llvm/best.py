"""The best of a row of scores, and what a softmax divides them by, as compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module, double, number, splat, splat_double
from abw.core.exec.cpu.llvm.singles import across, lanewise, masked, over
from abw.core.exec.cpu.target import Target
from abw.core.exec.lower.rows import padded
from abw.core.graph.growing.choices import IN_UNITS, LEAST, LOG2_E, NEAREST, POWERS, UNIT
from abw.core.graph.growing.state import FAILED, LANE, LARGEST, PLUS, STATUS

NAN, INFINITE = float("nan"), float("inf")
MOST = number(float(np.finfo(np.float32).max))


class ScoresFunction(Function):
    """A function of `ptr %state`, words of which the first are named in `abw.core.graph.growing.state`."""

    def __init__(self, module: Module, name: str, params: str = "") -> None:
        super().__init__(module, name, f"ptr %state{params}", public=True)

    def put_int(self, value: str, pointer: str, index: str | int) -> None:
        """Write element `index` of an array of 32-bit integers."""
        self.put("i32", self.let(f"trunc i64 {value} to i32"), pointer, index)

    def test(self, comparison: str, a: str, b: str | int) -> str:
        """Whether two numbers compare so (`sge`, `eq`, …)."""
        return self.let(f"icmp {comparison} i64 {a}, {b}")

    def either(self, condition: str, yes: str, no: str) -> str:
        """One of two numbers."""
        return self.let(f"select i1 {condition}, i64 {yes}, i64 {no}")

    def fail(self, condition: str) -> None:
        """Return as failed where a condition holds."""

        def leave() -> None:
            self.put("i64", str(FAILED), "%state", STATUS)
            self.leave()

        self.when(condition, leave)


def emit_argmax(module: Module, size: int) -> None:
    """`argmax{size}(ptr %state, ptr %x)`: the word LARGEST becomes the number of x's largest element, of
    equals the first; STATUS becomes FAILED where one is not a number.
    """
    f = ScoresFunction(module, f"argmax{size}", ", ptr %x")
    f.put("i64", _argmax(f, "%x", size), "%state", LARGEST)
    module.add(f)


def emit_best(module: Module, size: int, width: int) -> None:
    """`best(ptr %state, ptr %x, ptr %totals, ptr %which, ptr %element, i64 %first)`: put the best elements of
    x among the `width` best of several vectors, sorted, the largest first, of equals those that came first.

    A score is the word PLUS and the logarithm of the element's share, as
    `abw.core.graph.growing.beam.log_shares` has it. With it go the word LANE and the element's number. Where
    none has a share, element `first` is taken, -1 for none. STATUS becomes FAILED where an element is not a
    number.
    """
    f = ScoresFunction(module, "best", ", ptr %x, ptr %totals, ptr %which, ptr %element, i64 %first")
    lane, before = f.item("i64", "%state", LANE), f.item("double", "%state", PLUS)
    best = Best(f, size, width)
    top = best.find("%x")
    divisor = whole(f, "%x", size, top)

    def one(place: str) -> None:
        found = best.number(place)
        found = f.either(f.test("sge", found, 0), found, f.either(f.test("eq", place, 0), "%first", "-1"))

        def share() -> None:
            score = f.item("float", "%x", found)
            apart, largest = (f.let(f"fpext float {value} to double") for value in (score, top))
            apart = f.let(f"fsub double {apart}, {largest}")
            equal = f.let(f"fcmp oeq float {score}, {top}")
            apart = f.let(f"select i1 {equal}, double {double(0.0)}, double {apart}")
            share = f.let(f"fsub double {apart}, {divisor}")
            share = f.let(f"fadd double {share}, {double(IN_UNITS)}")
            share = f.let(f"fsub double {share}, {double(IN_UNITS)}")
            total = f.let(f"fadd double {before}, {share}")
            insert(f, "double", "%totals", width, total, [("%which", lane), ("%element", found)])

        f.when(f.test("sge", found, 0), share)

    f.repeat(best.width, one)
    module.add(f)


def _argmax(f: ScoresFunction, x: str, count: int) -> str:
    """The first of the largest of `count` scores, first of each lane, then of all; fails on what is none."""
    with f.several(padded(count, f.target.lanes)) as lanes:
        kind, flags, places = f.target.vector, f"<{lanes} x i1>", f.target.integers
        odd, none_yet = f"<{lanes // 2} x i1>", "zeroinitializer"

        def compare(place: str | int, mask: str | None, found: list[str]) -> list[str]:
            best, where, none = found
            value = masked(f, f.load(x, place), mask, -float("inf"))
            none = f.let(f"or {odd} {none}, {_odd(f, value)}")
            larger = f.let(f"fcmp ogt {kind} {value}, {best}")
            now = f.spread(f.let(f"trunc i64 {place} to i32"), "i32")
            where = f.let(f"select {flags} {larger}, {places} {now}, {places} {where}")
            return [f.select(larger, value, best), where, none]

        start = [(kind, splat(-float("inf"))), (places, none_yet), (odd, none_yet)]
        best, where, none = over(f, count, compare, start)
        f.fail(f.call("i1", f"llvm.vector.reduce.or.v{lanes // 2}i1", (odd, none)))
        largest = f.spread(across(f, "fmax", best))
        most = f.let(f"fcmp oeq {kind} {best}, {largest}")
        # where each lane's largest lies is known by the bytes before its vector
        lane = "<" + ", ".join(f"i32 {lane}" for lane in range(lanes)) + ">"
        where = f.let(f"lshr {places} {where}, splat (i32 2)")
        where = f.let(f"add {places} {where}, {lane}")
        where = f.let(f"select {flags} {most}, {places} {where}, {places} splat (i32 {2**31 - 1})")
        found = f.call("i32", f"llvm.vector.reduce.smin.v{lanes}i32", (places, where))
        return f.let(f"sext i32 {found} to i64")


def _odd(f: ScoresFunction, vector: str) -> str:
    """Where one of two numbers of a vector, in its first and second half, is none: half as many flags."""
    kind, half = f.target.vector, f.target.lanes // 2
    first, second = (", ".join(f"i32 {begin + lane}" for lane in range(half)) for begin in (0, half))
    low, high = (
        f.let(f"shufflevector {kind} {vector}, {kind} poison, <{half} x i32> <{lanes}>")
        for lanes in (first, second)
    )
    return f.let(f"fcmp uno <{half} x float> {low}, {high}")


def insert(
    f: ScoresFunction, kind: str, keys: str, width: int, key: str, others: Sequence[tuple[str, str]]
) -> None:
    """Put a key among `width` that are sorted, the largest first, behind equal ones; the last falls out.

    A key that is not a number stands for none: it is behind all. `others`: arrays of 32-bit integers that go
    with the keys, and what goes with this one.
    """

    moves, flags = ", ".join(f"i32 {lane}" for lane in (width, *range(width - 1))), f"<{width} x i1>"
    numbers = [(array, "i32", f.let(f"trunc i64 {value} to i32")) for array, value in others]
    above = behind = ""
    for array, of, value in [(keys, kind, key), *numbers]:
        vector = f"<{width} x {of}>"
        held, now = f.let(f"load {vector}, ptr {array}, align 4"), f.spread(value, of, width)
        first = "poison" if above else f"splat ({kind} {double(INFINITE)})"
        before = f.let(f"shufflevector {vector} {held}, {vector} {first}, <{width} x i32> <{moves}>")
        if not above:  # what the new key is above, and what it is not next to
            above, behind = (f.let(f"fcmp ugt {vector} {now}, {each}") for each in (held, before))
        moved = f.let(f"select {flags} {behind}, {vector} {before}, {vector} {now}")
        left = f.let(f"select {flags} {above}, {vector} {moved}, {vector} {held}")
        f.do(f"store {vector} {left}, ptr {array}, align 4")


class Best:
    """Writes the choice of the `width` largest of `count` scores; of equals the first.

    They are on the stack: one is to be made where the function begins.
    """

    def __init__(self, f: ScoresFunction, count: int, width: int) -> None:
        self.f, self.count, self.width = f, count, min(count, width)
        self._scores, self._numbers = (
            f.let(f"alloca {kind}, i64 {self.width}, align 8") for kind in ("float", "i32")
        )

    def find(self, x: str) -> str:
        """Find those of a row; what is less than all numbers is none of them. Gives the largest.

        The function fails where a score is not a number. Cost: two passes over the row, and some 10 ns for
        each score that may be among the best.
        """
        f = self.f

        def empty(place: str) -> None:
            f.put("float", number(NAN), self._scores, place)
            f.put_int("-1", self._numbers, place)

        f.repeat(self.width, empty)
        with f.several(padded(self.count, f.target.lanes)):
            most, odd = lanewise(f, x, self.count)
            f.fail(odd)
            top = across(f, "fmax", most)
            self._scan(x, self._below(most, top))
        return top

    def _below(self, most: str, top: str) -> str:
        """A score that all of the best are above: so many lanes have one above it."""
        f, kind = self.f, self.f.target.vector
        if self.width > f.target.lanes:
            return number(-INFINITE)

        def without(_: str, left: list[str]) -> list[str]:
            equal = f.let(f"fcmp oeq {kind} {left[0]}, {f.spread(left[1])}")
            rest = f.select(equal, splat(-INFINITE), left[0])
            return [rest, across(f, "fmax", rest)]

        if self.width > 1:
            _, top = f.loop(self.width - 1, without, [(kind, most), ("float", top)])
        top = f.let(f"select i1 {f.let(f'fcmp olt float {top}, {MOST}')}, float {top}, float {MOST}")
        size = f.let(f"fmul float {f.call('float', 'llvm.fabs.f32', ('float', top))}, {number(2.0**-20)}")
        return f.let(f"fsub float {top}, {f.let(f'fadd float {size}, {number(1e-30)}')}")

    def _scan(self, x: str, below: str) -> None:
        """Look at all that is above `below`, and above the last of as many as are wanted."""
        f, lanes, flags = self.f, self.f.target.lanes, f"<{self.f.target.lanes} x i1>"
        last = f.let(f"getelementptr float, ptr {self._scores}, i64 {self.width - 1}")

        def limit() -> str:
            held = f.item("float", last, 0)
            there = f.let(f"fcmp ord float {held}, {held}")
            return f.let(f"select i1 {there}, float {held}, float {below}")

        def look(place: str | int, mask: str | None, _: list[str]) -> list[str]:
            value = masked(f, f.load(x, place), mask, -INFINITE)
            above = f.let(f"fcmp ogt {f.target.vector} {value}, {f.spread(limit())}")
            bits = f.let(f"bitcast {flags} {above} to i{lanes}")
            bits = f.let(f"zext i{lanes} {bits} to i64") if lanes < 64 else bits
            first = f.i64("lshr", place, 2)

            def one(_: str, left: list[str]) -> list[str]:
                lowest = f.call("i64", "llvm.cttz.i64", ("i64", left[0]), ("i1", "true"))
                at = f.i64("add", first, lowest)
                score = f.item("float", x, at)
                still = f.let(f"fcmp ogt float {score}, {limit()}")
                numbers = [(self._numbers, at)]
                f.when(still, lambda: insert(f, "float", self._scores, self.width, score, numbers))
                return [f.i64("and", left[0], f.i64("sub", left[0], 1))]

            def some() -> None:
                f.loop(f.call("i64", "llvm.ctpop.i64", ("i64", bits)), one, [("i64", bits)])

            f.when(f.test("ne", bits, 0), some)
            return []

        over(f, self.count, look, [])

    def number(self, place: str | int) -> str:
        """The number of one of those found, -1 for none."""
        return self.f.int_item(self._numbers, place)


def whole(f: ScoresFunction, x: str, count: int, top: str) -> str:
    """The logarithm of the sum of `count` scores' exponentials beside that of the largest, `top`.

    As `abw.core.graph.growing.beam.log_shares` has it, to the bit.
    """
    lanes, kind, wide = f.target.lanes, f.target.vector, f.target.wide
    ints, tops = f"<{lanes} x i64>", f.spread(top)
    wide_tops = f.widened(tops)

    def do(operation: str, a: str, b: str | float) -> str:
        return f.let(f"{operation} {wide} {a}, {splat_double(b) if isinstance(b, float) else b}")

    def cast(before: str, value: str, after: str) -> str:
        return f.let(f"bitcast {before} {value} to {after}")

    def add(place: str | int, mask: str | None, total: list[str]) -> list[str]:
        value = f.load(x, place)
        apart = do("fsub", f.widened(value), wide_tops)
        equal = f.let(f"fcmp oeq {kind} {value}, {tops}")  # also where both are infinite
        near = f.let(f"fcmp ogt {wide} {apart}, {splat_double(LEAST)}")
        apart = f.let(f"select <{lanes} x i1> {near}, {wide} {apart}, {wide} {splat_double(LEAST)}")
        apart = f.let(f"select <{lanes} x i1> {equal}, {wide} {splat_double(0.0)}, {wide} {apart}")
        turned = do("fmul", apart, LOG2_E)
        nearest = do("fadd", turned, NEAREST)
        turned = do("fsub", turned, do("fsub", nearest, NEAREST))
        power = splat_double(POWERS[-1])
        for coefficient in POWERS[-2::-1]:
            power = do("fadd", do("fmul", power, turned), coefficient)
        shift = f.let(f"shl {ints} {cast(wide, nearest, ints)}, splat (i64 52)")
        scaled = f.let(f"add {ints} {cast(wide, power, ints)}, {shift}")
        units = cast(wide, do("fadd", cast(ints, scaled, wide), IN_UNITS), ints)
        if mask is not None:
            units = f.let(f"select <{lanes} x i1> {mask}, {ints} {units}, {ints} zeroinitializer")
        return [f.let(f"add {ints} {total[0]}, {units}")]

    (total,) = over(f, count, add, [(ints, "zeroinitializer")])
    total = f.call("i64", f"llvm.vector.reduce.add.v{lanes}i64", (ints, total))
    total = f.i64("sub", total, f.i64("mul", count, int(np.float64(IN_UNITS).view(np.int64))))
    total = f.let(f"fmul double {f.let(f'sitofp i64 {total} to double')}, {double(UNIT)}")
    return f.call("double", "log", ("double", total))


def compile_argmax(sizes: Iterable[int], target: Target) -> Code:
    """Functions for each size: see `emit_argmax`."""
    module = Module(target)
    for size in sizes:
        emit_argmax(module, size)
    return compile_ir(module.text(), target)


def compile_best(size: int, width: int, target: Target) -> Code:
    """A function for vectors of a size: see `emit_best`."""
    module = Module(target)
    emit_best(module, size, width)
    return compile_ir(module.text(), target)
