"""The rules that weigh nodes, against an oracle in exact numbers."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.dag import Dag
from abw.core.policy.registry import get_policy
from abw.core.policy.rules.weight import SHARE, WEIGHT, Weight
from tests.core.policy import brute, graphs
from tests.core.policy.test_policies import RANDOM, batches


def weighs(dag: Dag) -> list[int]:
    """The fourth power of the longest path from each node."""

    @cache
    def length(v: int) -> int:
        below = dag.succ[dag.succ_ptr[v] : dag.succ_ptr[v + 1]].tolist()
        return 1 + max((length(w) for w in below), default=0)

    return [length(v) ** 4 for v in range(len(dag))]


@given(RANDOM, st.sampled_from((SHARE, WEIGHT)), st.booleans())
def test_the_heaviest_goes_first(dag: Dag, power: int, free: bool) -> None:
    weight = weighs(dag)
    height = [brute.height(dag, v) for v in range(len(dag))]
    done: set[int] = set()
    for a, nodes in batches(Weight(power, free).schedule(dag)):
        frontier = brute.ready(dag, frozenset(done), brute.producers(dag))
        assert frontier[a] == nodes
        value = {}
        for t, ready in frontier.items():
            left = [v for v in range(len(dag)) if dag.type[v] == t and v not in done]
            critical = {v for v in left if height[v] == max(height[u] for u in left)}
            here = sum(weight[v] for v in ready)
            worth = here * Fraction(here, sum(weight[v] for v in left)) ** power
            value[t] = (free and critical <= ready, worth)
        best = max(value.values())
        assert value[a][0] == best[0]
        assert float(value[a][1]) == pytest.approx(float(best[1]), rel=1e-9)  # ties are blurred by rounding
        done |= nodes


def test_on_what_the_names_stand_for() -> None:
    dag = graphs.random_dag(5, 200, 5, 0.02)
    for name, rule in (
        ("share", Weight(SHARE, free=False)),
        ("share-free", Weight(SHARE)),
        ("weight", Weight(free=False)),
        ("weight-free", Weight()),
    ):
        assert get_policy(name).schedule(dag).type.tolist() == rule.schedule(dag).type.tolist()
