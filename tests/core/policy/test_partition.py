"""The bound by groups of types: never above the optimum, and the graphs that it is made of."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.tightbounds import Paths, matching, partition_bound
from tests.core.policy import brute, graphs

SMALL = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 12),
    types=st.integers(1, 4),
    density=st.floats(0, 0.35),
)


@given(SMALL)
@settings(max_examples=100)
def test_the_bound_lies_between_the_papers_and_the_optimum(dag: Dag) -> None:
    bound = partition_bound(dag, width=20)
    assert lower_bound(dag).sum() <= bound.at_least <= brute.optimum(dag)
    named = [t for group in bound.groups for t in group.types]
    assert len(named) == len(set(named))


@given(st.lists(st.text("abcd", min_size=1, max_size=5), min_size=1, max_size=4), st.integers(1, 8))
@settings(max_examples=40)
def test_of_strings_too(words: list[str], width: int) -> None:
    dag = graphs.strings(words)
    assert lower_bound(dag).sum() <= partition_bound(dag, width).at_least <= brute.optimum(dag)


@given(SMALL, st.sets(st.integers(0, 3), min_size=1))
def test_between_keeps_what_waits_for_what(dag: Dag, types: set[int]) -> None:
    some = tuple(sorted(t for t in types if t < len(dag.types)))
    paths = Paths.of(dag)
    found, before = paths.between(some), brute.ancestors(dag)
    nodes = [v for v in paths.order.tolist() if dag.type[v] in some]
    assert [found.types[t] for t in found.type] == [dag.types[dag.type[v]] for v in nodes]
    for v, above in enumerate(brute.ancestors(found)):
        assert {nodes[u] for u in above} == before[nodes[v]].intersection(nodes)
    for v, producers in enumerate(brute.producers(found)):
        assert not any(u in brute.ancestors(found)[w] for u, w in itertools.permutations(producers, 2)), v


def test_types_in_each_others_way() -> None:
    """Two pairs of types, each needing a batch more than its chains have nodes."""
    dag = graphs.strings(["ab", "ba", "cd", "dc"])
    bound = partition_bound(dag)
    assert lower_bound(dag).sum() == 4
    assert bound.at_least == brute.optimum(dag) == 6
    assert sorted((group.types, group.at_least) for group in bound.groups) == [((0, 1), 3), ((2, 3), 3)]


def square(n: int) -> st.SearchStrategy[list[list[int]]]:
    """Rows of a table of n times n numbers."""
    return st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=n, max_size=n)


@given(st.integers(0, 6).flatmap(square))
def test_the_matching_gains_most(rows: list[list[int]]) -> None:
    gain = np.array(rows, np.int64).reshape(len(rows), len(rows))
    found = matching(gain)
    assert len({i for pair in found for i in pair}) == 2 * len(found)

    def best(left: tuple[int, ...]) -> int:
        if len(left) < 2:
            return 0
        first, *rest = left
        with_one = (rows[first][j] + best(tuple(k for k in rest if k != j)) for j in rest)
        return max(best(tuple(rest)), *with_one)

    assert sum(gain[pair] for pair in found) == best(tuple(range(len(rows))))
