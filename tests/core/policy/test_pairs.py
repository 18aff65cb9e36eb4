"""The bound by pairs of instances, and the components and parts that it is made of."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag, components, part
from abw.core.policy.tightbounds import pair_bound
from tests.core.policy import brute, graphs

SMALL = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 12),
    types=st.integers(1, 3),
    density=st.floats(0, 0.25),
)


def edges(dag: Dag) -> set[graphs.Edge]:
    return {(u, v) for v, above in enumerate(brute.producers(dag)) for u in above}


@given(SMALL)
def test_components(dag: Dag) -> None:
    group = list(range(len(dag)))  # by repeated spreading of the smallest number
    for _ in range(len(dag)):
        for u, v in edges(dag):
            group[u] = group[v] = min(group[u], group[v])
    firsts = sorted(set(group))
    assert components(dag).tolist() == [firsts.index(g) for g in group]


@given(SMALL, st.integers(0, 2**12 - 1))
def test_part(dag: Dag, mask: int) -> None:
    kept = [v for v in range(len(dag)) if mask >> v & 1]
    smaller = part(dag, np.isin(np.arange(len(dag)), kept))
    assert smaller.type.tolist() == dag.type[kept].tolist()
    assert {(kept[u], kept[v]) for u, v in edges(smaller)} == {
        (u, v) for u, v in edges(dag) if u in kept and v in kept
    }


@given(SMALL)
@settings(max_examples=60)
def test_the_bound_lies_between_the_papers_and_the_optimum(dag: Dag) -> None:
    bound = pair_bound(dag, width=50)
    assert lower_bound(dag).sum() <= bound.at_least <= brute.optimum(dag)


def test_two_strings_in_each_others_way() -> None:
    dag = graphs.strings(["ab", "ba", "ab"])
    assert lower_bound(dag).sum() == 2
    bound = pair_bound(dag)
    assert bound.at_least == brute.optimum(dag) == 3
    assert bound.components in {(0, 1), (1, 2)}
