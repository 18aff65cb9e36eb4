"""Recorded nodes as arrays, beside loops over them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.program.recording.segments import Segment, reaching

WIDTH = 4


@st.composite
def runs(draw: st.DrawFn) -> tuple[Segment, list[int]]:
    """A run's nodes, each of which reads constants and earlier ones; and some of them."""
    reads = [
        draw(st.lists(st.integers(-3, WIDTH * number - 1), max_size=3))
        for number in range(draw(st.integers(0, 12)))
    ]
    count = len(reads)
    ptr = np.cumsum([0, *map(len, reads)]).astype(np.int32)
    types, operand = np.arange(count, dtype=np.int32), np.array([r for one in reads for r in one], np.int32)
    some = draw(st.lists(st.integers(0, count - 1), max_size=3)) if count else []
    return Segment(0, types, types + 100, ptr, operand), some


@given(runs())
def test_what_some_nodes_are_made_of(drawn: tuple[Segment, list[int]]) -> None:
    whole, some = drawn
    found, kept = reaching(whole, np.array(some, np.int64), WIDTH)
    wanted, waiting = set(some), list(some)
    while waiting:
        v = waiting.pop()
        for reference in whole.operand[whole.operand_ptr[v] : whole.operand_ptr[v + 1]].tolist():
            if reference >= 0 and reference // WIDTH not in wanted:
                wanted.add(reference // WIDTH)
                waiting.append(reference // WIDTH)
    numbers = sorted(wanted)
    assert kept.tolist() == found.type.tolist() == numbers
    assert found.instance.tolist() == [100 + v for v in numbers]
    for place, v in enumerate(numbers):
        was = whole.operand[whole.operand_ptr[v] : whole.operand_ptr[v + 1]].tolist()
        now = found.operand[found.operand_ptr[place] : found.operand_ptr[place + 1]].tolist()
        assert [r if r < 0 else numbers[r // WIDTH] * WIDTH + r % WIDTH for r in now] == was
