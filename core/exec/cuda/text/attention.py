"""The text of attention over lists of rows.

A thread computes a few neighbouring elements of one head of one lane. It goes through the list once: whenever
a score is above the level of the weights by more than RISE, what was summed is scaled to it. BLOCK rows are
added at a time, as `simple` adds those of a sum. Threads of a head compute the same scores.
"""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cuda.image import FRAME, SLOT
from abw.core.exec.cuda.text.rowwise import ZERO
from abw.core.exec.cuda.text.simple import Share, add_compensated, share_text
from abw.core.exec.cuda.text.text import Text, number, plus, times, u
from abw.core.exec.cuda.tiles import VECTOR
from abw.core.exec.lower.rows import BLOCK, RISE, columns, row_floats
from abw.core.ir.cell import Shape
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, Attention

LOWEST = number(-float("inf"))


def attention_text(attention: Attention, shapes: Sequence[Shape], threads: int) -> tuple[str, Share]:
    """An attention whose slots have these shapes."""
    part, values = (columns(shapes[s]) // attention.heads for s in (KEYS, VALUES))
    factor = number(attention.factor(columns(shapes[KEYS])))
    each = VECTOR if values % VECTOR == 0 else 1
    pieces = values // each
    share = Share(attention.heads * pieces, threads)

    def row(slot: int, lane: str) -> str:
        return f"row(words, frame + {u(FRAME + SLOT * slot)}, {lane})"

    def body(t: Text) -> None:
        t.let(f"lists = words[frame + {u(FRAME + SLOT * VALUES + SLOT - 1)}]")
        t.let("begin = words[lists + lane]", f"end = words[lists + lane + {u(1)}]")
        t.let(f"column = piece // {u(pieces)} * {u(part)}", f"element = piece * {u(each)}")
        t.let(f"query = {row(QUERY, 'begin')} + column")
        sums = ["total", *(f"s{e}" for e in range(each))]
        t.add(f"best = {LOWEST}", *(f"{x} = {ZERO}" for s in sums for x in (f"all_{s}", f"lost_{s}")))
        with t.block("while begin < end"):
            t.let(f"behind = begin + {u(BLOCK)}", "behind = end if behind > end else behind")
            t.add("before = best", *(f"{s} = {ZERO}" for s in sums))
            with t.count("i", "begin", "behind", u(1)):
                t.let(f"key = {row(KEYS, 'i')} + column", f"value = {row(VALUES, 'i')} + element")
                _score(t, part, attention.added)
                t.add(f"score = score * {factor}")
                t.add(f"above = score if score > best + {number(RISE)} else best")
                # as long as all scores are -inf the total stays 0
                t.add(f"level = {ZERO} if above == {LOWEST} else above")
                t.add("scale = exp(best - level)", "power = exp(score - level)", "best = above")
                t.add("total = total * scale + power")
                t.add(*(f"s{e} = s{e} * scale + power * floats[{plus('value', e)}]" for e in range(each)))
            t.add("scale = exp(before - level)")
            for s in sums:
                t.add(f"all_{s} *= scale", f"lost_{s} *= scale")
                add_compensated(t, f"all_{s}", s, f"lost_{s}")
            t.let("begin = behind")
        word = FRAME + SLOT * len(shapes)
        pitch = row_floats(shapes[VALUES], VECTOR)
        t.let(f"place = words[frame + {u(word)}] + {times('lane', pitch)} + element")
        t.add(*(f"floats[{plus('place', e)}] = all_s{e} / all_total" for e in range(each)))

    return share_text(share, body)


def _score(t: Text, part: int, added: bool) -> None:
    """The product of a head's query and key, or what they are together."""
    t.add(f"score = {ZERO}")
    step = VECTOR if part % VECTOR == 0 else 1
    with t.count("j", u(0), u(part), u(step)):
        if step == VECTOR:
            t.add("x0, x1, x2, x3 = ld4(floats, query + j)", "y0, y1, y2, y3 = ld4(floats, key + j)")
        else:
            t.add("x0 = floats[query + j]", "y0 = floats[key + j]")
        for e in range(step):
            if added:
                t.add(f"both = x{e} + y{e}", f"score += both if both > {ZERO} else both * {number(SLOPE)}")
            else:
                t.add(f"score += x{e} * y{e}")
