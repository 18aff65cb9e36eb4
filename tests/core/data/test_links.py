"""Links made from other links, against following them one vertex at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.data.instances import Link
from abw.core.data.links import along


def naive(way: Link, index: int | None, v: int) -> list[int]:
    if way.indptr is None:
        return [int(way.target[v])] if way.target[v] >= 0 else []
    targets: list[int] = way.target[way.indptr[v] : way.indptr[v + 1]].tolist()
    if index is None:
        return targets
    return [targets[index]] if -len(targets) <= index < len(targets) else []


@st.composite
def links(draw: st.DrawFn) -> tuple[int, list[tuple[Link, int | None]]]:
    count = draw(st.integers(1, 5))
    ways: list[tuple[Link, int | None]] = []
    for many in draw(st.lists(st.booleans(), max_size=3)):
        if many:
            lists = draw(
                st.lists(st.lists(st.integers(0, count - 1), max_size=3), min_size=count, max_size=count)
            )
            indptr = np.cumsum([0, *map(len, lists)]).astype(np.int32)
            target = np.array([v for members in lists for v in members], np.int32)
            ways.append((Link(target, indptr), draw(st.sampled_from([None, 0, 1, -1, -2]))))
        else:
            single = draw(st.lists(st.integers(-1, count - 1), min_size=count, max_size=count))
            ways.append((Link(np.array(single, np.int32)), draw(st.sampled_from([None, 0]))))
    return count, ways


@given(links())
def test_a_link_along_others_leads_where_following_them_does(
    found: tuple[int, list[tuple[Link, int | None]]],
) -> None:
    count, ways = found
    made = along(ways, count)
    assert made.indptr is not None and made.indptr.dtype == made.target.dtype == np.int32
    assert len(made.indptr) == count + 1
    for v in range(count):
        at = [v]
        for way, index in ways:
            at = [w for u in at for w in naive(way, index, u)]
        assert made.target[made.indptr[v] : made.indptr[v + 1]].tolist() == at
