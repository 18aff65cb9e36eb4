"""The compiled function that answers questions to computed values, all of one kind at once."""

from __future__ import annotations

from abw.core.exec.cpu.llvm.emit import number
from abw.core.exec.cpu.rounds.choices import argmax
from abw.core.exec.cpu.rounds.state import DONE, RUNNING, StateFunction
from abw.core.plan.arenas import Arenas

INFINITE = number(-float("inf"))


class Choose:
    """Writes what finds the largest element of each of some values, or whether it is above a limit.

    Words of the state: those of `Advance`; `asked` values, their `handles`, and room for as many `answers`;
    where not null, `masks`, a byte for each element of each value, which may be taken where that is not 0;
    `limits`, double numbers. `output` (T * W,) says the arena of each output, `size` where that comes in
    `sizes_of`, -1 where it has no place there. The function fails for a score that is not a number.
    """

    def __init__(self, f: StateFunction, arenas: Arenas, bits: int) -> None:
        self.f, self.bits = f, bits
        self.shift = arenas.output_arena.shape[1].bit_length() - 1
        self.sizes = sizes_of(arenas)

    def emit(self, how: str) -> None:
        """Write the whole function: `argmax` or `above`."""
        f = self.f
        f.set("status", RUNNING)
        f.each(0, f.get("asked"), self._largest if how == "argmax" else self._above)
        f.set("status", DONE)

    def _place(self, j: str) -> tuple[str, str]:
        """Value number j's address, and the place of its size."""
        f = self.f
        handle = f.i64("ashr", f.item("i64", f.address("handles"), j), self.bits)
        reference = f.i64("sub", handle, f.get("base"))
        f.fail(f.test("slt", reference, 0))  # a constant
        t = f.int_item(f.address("type"), f.i64("ashr", reference, self.shift))
        width = 1 << self.shift
        output = f.i64("add", f.i64("mul", t, width), f.i64("and", reference, width - 1))
        arena = f.int_item(f.address("output"), output)
        row = f.int_item(f.address("row"), reference)
        base = f.pointer_item(f.address("arena"), arena)
        place = f.at(base, f.i64("mul", row, f.item("i64", f.address("pitch"), arena)))
        return place, f.int_item(f.address("size"), output)

    def _above(self, j: str) -> None:
        f = self.f
        place, _ = self._place(j)
        score = f.item("float", place, 0)
        f.fail(f.let(f"fcmp uno float {score}, {score}"))
        wide = f.let(f"fpext float {score} to double")
        above = f.let(f"fcmp ogt double {wide}, {f.item('double', f.address('limits'), j)}")
        f.put_int(f.let(f"zext i1 {above} to i64"), f.address("answers"), j)

    def _largest(self, j: str) -> None:
        f = self.f
        place, size = self._place(j)
        f.fail(f.test("slt", size, 0))
        everything = f.let(f"icmp eq ptr {f.address('masks')}, null")

        def of_size(n: int) -> None:
            count = self.sizes[n]

            def all_allowed() -> None:
                f.put_int(argmax(f, place, count), f.address("answers"), j)

            f.when(everything, all_allowed, lambda: self._masked(j, place, count))

        f.cases(size, range(len(self.sizes)), of_size)

    def _masked(self, j: str, place: str, count: int) -> None:
        f = self.f
        mask = f.at(f.address("masks"), f.i64("mul", j, count))

        def compare(i: str, found: list[str]) -> list[str]:
            score, best = f.item("float", place, i), found[0]
            f.fail(f.let(f"fcmp uno float {score}, {score}"))
            first, larger = f.test("slt", found[1], 0), f.let(f"fcmp ogt float {score}, {best}")
            may = f.let(f"icmp ne i8 {f.item('i8', mask, i)}, 0")
            taken = f.both([may, f.let(f"or i1 {first}, {larger}")])
            return [f.let(f"select i1 {taken}, float {score}, float {best}"), f.either(taken, i, found[1])]

        _, chosen = f.loop(count, compare, [("float", INFINITE), ("i64", "-1")])
        f.put_int(chosen, f.address("answers"), j)


def sizes_of(arenas: Arenas) -> tuple[int, ...]:
    """The lengths of the vectors that types give, each once."""
    found = (arenas.shape[a] for a in sorted({*arenas.output_arena.ravel().tolist()} - {-1}))
    return tuple(dict.fromkeys(shape[0] for shape in found if len(shape) == 1))
