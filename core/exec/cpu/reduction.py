"""The kernel of a reduction: lists of rows summed, averaged or compared in registers, read where they lie."""

from __future__ import annotations

from abw.core.exec.cpu.emit import Function, Module, splat
from abw.core.exec.cpu.functions import maximum
from abw.core.exec.cpu.kernel import PARAMS, SLOT_WORDS, share
from abw.core.exec.rows import row_floats
from abw.core.spec.cell import Shape
from abw.core.spec.model import Reduction

VECTORS_AT_ONCE = 8


def emit_reduction(module: Module, name: str, reduction: Reduction, shapes: tuple[Shape, ...]) -> None:
    """Write the kernel of a reduction with an output for each slot of these shapes."""
    f = Function(module, name, PARAMS, public=True)
    lists = f.pointer_item("%frame", 0)

    def lane(i: str) -> None:
        begin, end = f.int_item(lists, i), f.int_item(lists, f.i64("add", i, 1))
        for s, shape in enumerate(shapes):
            _reduce(f, reduction, shape, s, len(shapes), i, (begin, end))

    first, last = share(f, "%first", "%last")
    f.when(f.let(f"icmp slt i64 {first}, {last}"), lambda: f.repeat(last, lane, first=first))
    module.add(f)


def _reduce(
    f: Function, reduction: Reduction, shape: Shape, slot: int, slots: int, lane: str, list_: tuple[str, str]
) -> None:
    lanes, vector = f.target.lanes, f.target.vector
    pitch = 4 * row_floats(shape, lanes)
    vectors = pitch // (4 * lanes)
    units = max(u for u in range(1, VECTORS_AT_ONCE + 1) if vectors % u == 0)
    begin, end = list_
    base, index = (f.pointer_item("%frame", 1 + SLOT_WORDS * slot + k) for k in (0, 1))
    out = f.at(f.pointer_item("%frame", 1 + SLOT_WORDS * slots + slot), f.i64("mul", lane, pitch))
    start = splat(-float("inf") if reduction == "max" else 0.0)

    def block(j: str) -> None:
        column = f.i64("mul", j, 4 * lanes * units)

        def take(k: str, held: list[str]) -> list[str]:
            row = f.at(base, f.i64("add", f.i64("mul", f.int_item(index, k), pitch), column))
            values = [f.load(row, 4 * lanes * u) for u in range(units)]
            if reduction == "max":
                return [maximum(f, a, b) for a, b in zip(held, values, strict=True)]
            return [f.vec("fadd", a, b) for a, b in zip(held, values, strict=True)]

        found = f.loop(end, take, [(vector, start)] * units, first=begin)
        if reduction == "mean":
            count = f.let(f"sitofp i64 {f.i64('sub', end, begin)} to float")
            divisor = f.spread(count)
            found = [f.vec("fdiv", a, divisor) for a in found]
        for u, value in enumerate(found):
            f.store(value, out, f.i64("add", column, 4 * lanes * u))

    f.repeat(vectors // units, block)
