"""The compiled function that finds the best elements of several values together, by log softmax."""

from __future__ import annotations

from abw.core.exec.cpu.llvm.emit import double
from abw.core.exec.cpu.rounds.best import INFINITE, NAN, Best, insert, likeliest
from abw.core.exec.cpu.rounds.state import DONE, RUNNING, StateFunction
from abw.core.exec.cpu.tape.choose import place_of
from abw.core.plan.arenas import Arenas

COUNT = ("best", "count")
ARRAYS = tuple(("best", name) for name in ("ptr", "handles", "plus", "which", "element", "total"))
"""The words of the state that only this function has: see `Bests`."""
PTR, HANDLES, PLUS, WHICH, ELEMENT, TOTAL = ARRAYS


class Bests:
    """Writes what finds, for each of `count` questions, the `width` best elements of some vectors of `size`.

    Words of the state: those of `Choose`; question j is to the values of `handles` from `ptr[j]` to
    `ptr[j + 1]`, whose scores begin with `plus`; `which` of them, which `element`, and the `total`, all
    (count, width), the largest first, of equals the first. The function fails for a score that is not a
    number, and where there are elements, but fewer than wanted with a share: of the others not all were seen.
    """

    def __init__(self, f: StateFunction, arenas: Arenas, bits: int, size: int, width: int) -> None:
        self.f, self.arenas, self.bits = f, arenas, bits
        self.size, self.width = size, width

    def emit(self) -> None:
        """Write the whole function."""
        f = self.f
        f.set("status", RUNNING)
        best = Best(f, self.size, self.width)

        def answer(j: str) -> None:
            begin, end = (f.item("i64", f.address(PTR), at) for at in (j, f.i64("add", j, 1)))
            first = f.i64("mul", j, self.width)
            totals = f.at(f.address(TOTAL), f.i64("shl", first, 3))
            which, element = (f.at(f.address(name), f.i64("shl", first, 2)) for name in (WHICH, ELEMENT))
            f.repeat(self.width, lambda place: f.put("double", double(NAN), totals, place))

            def look(i: str) -> None:
                x, _ = place_of(f, self.arenas, self.bits, f.item("i64", f.address(HANDLES), i))
                own = f.i64("sub", i, begin)

                def enter(total: str, found: str) -> None:
                    insert(f, "double", totals, self.width, total, [(which, own), (element, found)])

                likeliest(f, best, x, f.item("double", f.address(PLUS), i), enter)

            f.each(begin, end, look)
            wanted = f.least(f.i64("mul", f.i64("sub", end, begin), self.size), self.width)
            last = f.item("double", totals, f.i64("sub", wanted, 1))
            f.fail(f.let(f"fcmp ule double {last}, {double(-INFINITE)}"))

        f.each(0, f.get(COUNT), answer)
        f.set("status", DONE)
