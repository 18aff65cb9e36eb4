"""The text by which a block brings the weights that it holds into shared memory."""

from __future__ import annotations

from abw.core.exec.cuda.stationary_weights import HeldColumn
from abw.core.exec.cuda.text.rowwise import block_of
from abw.core.exec.cuda.text.text import Text, plus, times, u
from abw.core.exec.cuda.tiles import VECTOR

# Vectors of weights that a thread loads before it stores them.
AT_ONCE = 8


def hold_text(column: HeldColumn, threads: int) -> str:
    """The function that brings a block's column into shared memory, from float `held` on.

    `first`: where the step's packed weights begin.
    """
    t, weights = Text(), column.weights
    quads, block = column.quads, weights.block
    with t.block("def hold(weights, first, held, shared)"):
        t.let(
            "thread = cuda.threadIdx.x", f"unit0 = cuda.blockIdx.x % {u(column.columns)} * {u(column.units)}"
        )
        t.let(f"block = {block_of(weights, 'unit0')}")
        t.add(f"got = cuda.local.array({AT_ONCE * VECTOR}, float32)")
        before = 0
        for segment, begin in zip(weights.segments, weights.begins, strict=True):
            count, fed = segment.length * quads, len(segment.fed)
            with t.count("base", "thread", u(count), u(AT_ONCE * threads)):
                for body in ("load", "store"):
                    with t.block(f"for j in range({AT_ONCE})"):
                        t.let(f"v = base + uint32(j) * {u(threads)}")
                        with t.block(f"if v < {u(count)}"):
                            t.let(f"element = v // {u(quads)}", f"quad = v % {u(quads)}")
                            if body == "load":
                                line = f"(element * {u(fed)} + quad // {u(column.across)}) * {u(block)}"
                                place = f"{plus('block', begin)} + {line}"
                                unit = f"quad % {u(column.across)} * {u(VECTOR)}"
                                t.add(f"m0, m1, m2, m3 = ld4(weights, {place} + {unit})")
                                t.add(*(f"got[{VECTOR} * j + {e}] = m{e}" for e in range(VECTOR)))
                            else:
                                t.let(
                                    f"element = {plus('element', before)}", f"four = element // {u(VECTOR)}"
                                )
                                line = f"four // {u(column.split)} * {u(VECTOR)} + element % {u(VECTOR)}"
                                place = f"({line}) * {u(column.split)} + four % {u(column.split)}"
                                place = f"held + {times(f'({place}) * {u(quads)} + quad', VECTOR)}"
                                names = ", ".join(f"got[{VECTOR} * j + {e}]" for e in range(VECTOR))
                                t.add(f"st4(shared, {place}, {names})")
            before += segment.length
    return str(t)
