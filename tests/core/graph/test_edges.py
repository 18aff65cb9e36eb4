"""Edges of nodes by their operands: those that `build_dag` makes of pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.dag import build_dag
from abw.core.graph.edges import successors
from abw.core.ir.network import LISTED

SHIFT = 2


@st.composite
def reads(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """What each node reads: earlier values, constants, lists, and values of nodes that are not there."""
    n = draw(st.integers(0, 8))
    value = st.integers(-3, (n + 2 << SHIFT) - 1)
    lists = draw(st.lists(st.lists(value, max_size=4), max_size=3))
    one = st.one_of(value, st.integers(0, len(lists) - 1).map(lambda i: LISTED - i)) if lists else value
    return draw(st.lists(st.lists(one, max_size=4), min_size=n, max_size=n)), lists


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, rows)], dtype=np.int32), np.array(
        [r for row in rows for r in row], np.int32
    )


@given(reads())
def test_edges_are_those_of_pairs(drawn: tuple[list[list[int]], list[list[int]]]) -> None:
    nodes, lists = drawn
    members = [[m for r in row for m in (lists[LISTED - r] if r <= LISTED else [r])] for row in nodes]
    pairs = [(m >> SHIFT, v) for v, row in enumerate(members) for m in row if 0 <= m >> SHIFT < len(nodes)]
    source, target = (np.array([p[i] for p in pairs], np.int32) for i in (0, 1))
    wanted = build_dag(("a",), np.zeros(len(nodes), np.int32), source, target).edges
    found = successors(*flat(nodes), SHIFT, *flat(lists))
    assert [a.tolist() for a in found] == [a.tolist() for a in wanted]
