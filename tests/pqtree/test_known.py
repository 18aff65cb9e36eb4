"""Known answers: Tucker's matrices, interval graphs, real rows, and laws that any PQ-tree obeys."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.pqtree import PQTree
from abw.pqtree.table import VISITED
from tests.pqtree import oracle
from tests.pqtree.check import check_tree

Rows = list[list[int]]


def path(k: int) -> Rows:
    return [[i, i + 1] for i in range(k + 1)]


def tucker() -> Iterator[tuple[str, int, Rows]]:
    """The name, number of columns and rows of Tucker's matrices, written down from his figures."""
    for k in range(1, 6):
        yield f"M_I({k})", k + 2, [*path(k), [0, k + 1]]
        yield f"M_II({k})", k + 3, [*path(k), [*range(k + 1), k + 2], [*range(1, k + 2), k + 2]]
        yield f"M_III({k})", k + 3, [*path(k), [*range(1, k + 1), k + 2]]
    yield "M_IV", 6, [[0, 1], [2, 3], [4, 5], [0, 2, 4]]
    yield "M_V", 5, [[0, 1], [2, 3], [0, 1, 2, 3], [0, 2, 4]]


def accepts(n: int, rows: Sequence[Sequence[int]]) -> bool:
    return PQTree(n).reduce(*rows)


@pytest.mark.parametrize(
    ("name", "n", "rows"), list(tucker()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_tuckers_matrices_are_minimal(name: str, n: int, rows: Rows) -> None:
    del name
    assert not accepts(n, rows)
    for left_out in range(len(rows)):
        assert accepts(n, rows[:left_out] + rows[left_out + 1 :])
    for column in range(n):
        assert accepts(n, [[leaf for leaf in row if leaf != column] for row in rows])


def cliques(vertices: int, adjacent: set[tuple[int, int]]) -> list[set[int]]:
    """The maximal cliques of a small graph, by looking at all sets."""
    every = [
        set(some)
        for size in range(1, vertices + 1)
        for some in itertools.combinations(range(vertices), size)
        if all(pair in adjacent for pair in itertools.combinations(some, 2))
    ]
    return [some for some in every if not any(some < other for other in every)]


def graphs(vertices: int) -> Iterator[set[tuple[int, int]]]:
    """One graph of each isomorphism class: the first, and all its renumberings are struck out."""
    pairs = list(itertools.combinations(range(vertices), 2))
    number = {pair: i for i, pair in enumerate(pairs)}
    moved = np.array(
        [
            [number[(min(p[a], p[b]), max(p[a], p[b]))] for a, b in pairs]
            for p in itertools.permutations(range(vertices))
        ]
    )
    seen = bytearray(1 << len(pairs))
    flags = np.frombuffer(seen, np.uint8)
    for code in range(1 << len(pairs)):
        if seen[code]:
            continue
        bits = np.array([code >> i & 1 for i in range(len(pairs))], np.int64)
        flags[(bits << moved).sum(axis=1) if pairs else 0] = 1
        yield {pair for i, pair in enumerate(pairs) if code >> i & 1}


@pytest.mark.parametrize(("vertices", "expected"), list(enumerate([1, 2, 4, 10, 27, 92, 369], 1)))
def test_interval_graphs_are_counted(vertices: int, expected: int) -> None:
    """A graph is an interval graph if its maximal cliques can be ordered so that each vertex's are a run."""
    count = 0
    for adjacent in graphs(vertices):
        found = cliques(vertices, adjacent)
        rows = [[i for i, some in enumerate(found) if vertex in some] for vertex in range(vertices)]
        count += accepts(len(found), rows)
    assert count == expected


def read_rows(file: Path) -> tuple[int, Rows]:
    first, *rest = file.read_text().splitlines()
    return int(first.split()[0]), [[int(word) for word in line.split()[1:]] for line in rest]


@pytest.mark.parametrize("use_compiled", [False, True], ids=["plain", "compiled"])
def test_real_rows(shared_data: Path, use_compiled: bool) -> None:
    n, rows = read_rows(shared_data / "pq" / "anges-monocots.txt")
    tree = PQTree(n, use_compiled=use_compiled)
    accepted = np.array([tree.reduce(row) for row in rows])
    assert (len(rows), accepted.sum(), np.flatnonzero(~accepted)[0]) == (1688, 1682, 953)
    check_tree(tree)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 40))
@settings(max_examples=40, deadline=None)
def test_laws(seed: int, n: int) -> None:
    rng = random.Random(seed)
    rows, tree = oracle.random_rows(rng, n, 10, 6), PQTree(n)
    kept = [row for row in rows if tree.reduce(row)]
    text = tree.canonical()

    shuffled = PQTree(n)  # the order of the rows does not matter
    assert shuffled.reduce(*rng.sample(kept, len(kept)))
    assert shuffled.canonical() == text

    # what all orders have is there already
    assert all(tree.narrow(row) is False for row in [*kept, *tree.rows()])

    name = rng.sample(range(n), n)  # other numbers, the same tree
    renamed = PQTree(n)
    assert renamed.reduce(*([name[leaf] for leaf in row] for row in kept))
    assert renamed.count() == tree.count()

    assert PQTree.from_text(tree.to_text()).canonical() == text
    assert PQTree.from_text(text).canonical() == text


def test_visits_are_linear() -> None:
    """Nodes looked at for each leaf of a row, from a thousand leaves to a hundred thousand."""
    per_leaf = []
    for n in (1_000, 10_000, 100_000):
        rng = np.random.default_rng(n)
        hidden, sizes = rng.permutation(n), rng.integers(2, 11, n)
        begins = rng.integers(0, n - sizes)
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        indices = hidden[np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], sizes)]
        tree = PQTree(n)
        assert all(tree.reduce(row) for row in np.split(indices, indptr[1:-1]))
        per_leaf.append(int(tree._table[VISITED]) / len(indices))
    assert max(per_leaf) < 1.3 * min(per_leaf)


@pytest.mark.parametrize("shape", ["chain", "comb", "halves", "rejects"])
@pytest.mark.parametrize("use_compiled", [False, True], ids=["plain", "compiled"])
def test_adversarial_shapes(shape: str, use_compiled: bool) -> None:
    n = 120
    rows: Rows = {
        "chain": [[*range(size)] for size in range(2, n)] + [[0, n - 1], [n - 2, n - 1]],
        "comb": [[i, i + 1] for i in range(0, n, 2)] + [[*range(i, i + 4)] for i in range(0, n - 4, 2)],
        "halves": [[*range(i, n // 2 + i)] for i in range(n // 2)] + [[*range(0, n, 2)]],
        "rejects": [[i, i + 1] for i in range(n - 1)] + [[i, (i + 7) % n] for i in range(n)] + [[0, n - 1]],
    }[shape]
    tree, slow = PQTree(n, use_compiled=use_compiled), oracle.universal(n)
    for row in rows:
        try:
            slow, expected = oracle.reduce(slow, row), True
        except oracle.ImpossibleError:
            expected = False
        assert tree.reduce(row) == expected
    assert tree.canonical() == oracle.canonical(slow)
    check_tree(tree)
