"""Conditions that can never hold together, against all that they could be asked of."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import Span
from abw.core.graph.bind import passes
from abw.core.ir.growth import Clause, Number, Place
from abw.core.ir.growth import Test as Condition
from abw.core.ir.schema import Comparison, Hop
from abw.core.spec.models.growing.never import never

TOP = Place((Hop("top"),))
DEPTH = Number(Place(()), "depth")
SIGNS: tuple[Comparison, ...] = ("==", "!=", "<", "<=", ">", ">=")
compared = st.builds(Condition, st.just(DEPTH), st.sampled_from(SIGNS), st.integers(0, 3), st.booleans())
alone = st.builds(Condition, st.sampled_from([TOP, DEPTH]), negated=st.booleans())
conditions = st.lists(compared | alone, max_size=4).map(tuple)


def holds(test: Condition, there: bool, depth: int) -> bool:
    if test.value == TOP:
        outcome = there
    elif test.comparison is None:
        outcome = depth > 0
    else:
        outcome = bool(passes(test.comparison, np.array([depth], np.int32), test.against)[0])
    return outcome != test.negated


@given(when=conditions, unless=conditions, needed=conditions)
def test_what_is_refused_can_never_hold(
    when: tuple[Condition, ...], unless: tuple[Condition, ...], needed: tuple[Condition, ...]
) -> None:
    where = Span("test", 1)
    clauses = (
        Clause("a", needed, (), (), (), (), where),
        Clause("a", when, unless, (0,), (), (), where),
    )
    possible = any(
        all(holds(test, there, depth) for test in (*when, *needed))
        and not (unless and all(holds(test, there, depth) for test in unless))
        for there, depth in product((False, True), range(-1, 6))
    )
    refused = never(1, clauses)
    assert not (refused and possible), refused
    if len(unless) < 2:
        assert bool(refused) != possible
