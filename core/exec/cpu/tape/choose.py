"""The compiled function that answers questions to computed values, all of one kind at once."""

from __future__ import annotations

from abw.core.exec.cpu.llvm.emit import number
from abw.core.exec.cpu.rounds.choices import argmax
from abw.core.exec.cpu.rounds.state import DONE, RUNNING, StateFunction
from abw.core.plan.arenas import Arenas

INFINITE = number(-float("inf"))


class Choose:
    """Writes what finds the largest element of each of some values, or whether it is above a limit.

    Words of the state: those of `Advance`; `asked` questions, three words each in `asks`: 0 for the largest
    and 1 for above; a handle; where in `masks` there is a byte for each element, which may be taken where
    that is not 0 (-1: all may be), or the limit's bits as a double number; and room for as many `answers`.
    `output` (T * W,) says the arena of each output, `size` where that comes in `sizes_of`, -1 where it has no
    place there. The function fails for a score that is not a number.
    """

    def __init__(self, f: StateFunction, arenas: Arenas, bits: int) -> None:
        self.f, self.arenas, self.bits = f, arenas, bits
        self.sizes = sizes_of(arenas)

    def emit(self) -> None:
        """Write the whole function."""
        f = self.f
        f.set("status", RUNNING)
        f.each(0, f.get("asked"), self._answer)
        f.set("status", DONE)

    def _answer(self, j: str) -> None:
        f = self.f
        ask = f.at(f.address("asks"), f.i64("mul", j, 24))
        place, output = place_of(f, self.arenas, self.bits, f.item("i64", ask, 1))
        size = f.int_item(f.address("size"), output)
        largest = f.test("eq", f.item("i64", ask, 0), 0)
        f.when(largest, lambda: self._largest(j, ask, place, size), lambda: self._above(j, ask, place))

    def _above(self, j: str, ask: str, place: str) -> None:
        f = self.f
        score = f.item("float", place, 0)
        f.fail(f.let(f"fcmp uno float {score}, {score}"))
        wide = f.let(f"fpext float {score} to double")
        above = f.let(f"fcmp ogt double {wide}, {f.item('double', ask, 2)}")
        f.put_int(f.let(f"zext i1 {above} to i64"), f.address("answers"), j)

    def _largest(self, j: str, ask: str, place: str, size: str) -> None:
        f = self.f
        f.fail(f.test("slt", size, 0))
        mask = f.item("i64", ask, 2)
        everything = f.test("slt", mask, 0)

        def of_size(n: int) -> None:
            count = self.sizes[n]

            def all_allowed() -> None:
                f.put_int(argmax(f, place, count), f.address("answers"), j)

            f.when(everything, all_allowed, lambda: self._masked(j, place, mask, count))

        f.cases(size, range(len(self.sizes)), of_size)

    def _masked(self, j: str, place: str, begin: str, count: int) -> None:
        f = self.f
        mask = f.at(f.address("masks"), begin)

        def compare(i: str, found: list[str]) -> list[str]:
            score, best = f.item("float", place, i), found[0]
            f.fail(f.let(f"fcmp uno float {score}, {score}"))
            first, larger = f.test("slt", found[1], 0), f.let(f"fcmp ogt float {score}, {best}")
            may = f.let(f"icmp ne i8 {f.item('i8', mask, i)}, 0")
            taken = f.both([may, f.let(f"or i1 {first}, {larger}")])
            return [f.let(f"select i1 {taken}, float {score}, float {best}"), f.either(taken, i, found[1])]

        _, chosen = f.loop(count, compare, [("float", INFINITE), ("i64", "-1")])
        f.put_int(chosen, f.address("answers"), j)


def place_of(f: StateFunction, arenas: Arenas, bits: int, handle: str) -> tuple[str, str]:
    """A value's address, and its type's output as `output` (T * W,) numbers it.

    The function fails for a constant, and for a value of an earlier run.
    """
    width = arenas.output_arena.shape[1]
    reference = f.i64("sub", f.i64("ashr", handle, bits), f.get("base"))
    f.fail(f.test("slt", reference, 0))
    t = f.int_item(f.address("type"), f.i64("ashr", reference, width.bit_length() - 1))
    output = f.i64("add", f.i64("mul", t, width), f.i64("and", reference, width - 1))
    arena = f.int_item(f.address("output"), output)
    row = f.int_item(f.address("row"), reference)
    base = f.pointer_item(f.address("arena"), arena)
    return f.at(base, f.i64("mul", row, f.item("i64", f.address("pitch"), arena))), output


def sizes_of(arenas: Arenas) -> tuple[int, ...]:
    """The lengths of the vectors that types give, each once."""
    found = (arenas.shape[a] for a in sorted({*arenas.output_arena.ravel().tolist()} - {-1}))
    return tuple(dict.fromkeys(shape[0] for shape in found if len(shape) == 1))
