"""What a network says of its types alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.ir.network import NetType, Network, Slot, loops_of, order_of


def network(feeds: list[set[int]]) -> Network:
    """Type t is fed by `feeds[t]`."""
    slots = [(Slot("x", (), tuple((p, 0) for p in sorted(some)), ()),) for some in feeds]
    types = tuple(NetType(str(t), None, "sum", slot, (), ()) for t, slot in enumerate(slots))
    return Network("any", "cell", types, (), (), (), (), 1)


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.sets(st.integers(0, n - 1)), min_size=n, max_size=n)))
def test_types_have_an_order_where_none_feeds_itself(feeds: list[set[int]]) -> None:
    found = network(feeds)
    order = order_of(found)
    assert (order is None) == bool((loops_of(found) >= 0).any())
    if order is None:
        return
    assert sorted(order.tolist()) == list(range(len(feeds)))
    place = np.argsort(order)
    assert all(place[p] < place[t] for t, some in enumerate(feeds) for p in some)


def test_an_order_is_lost_with_one_loop() -> None:
    chain = network([set(), {0}, {1}])
    assert order_of(chain) is not None
    back = replace(chain.types[0], slots=(Slot("x", (), ((2, 0),), ()),))
    assert order_of(replace(chain, types=(back, *chain.types[1:]))) is None
