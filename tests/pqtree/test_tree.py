"""PQTree against enumeration, against the slow tree of `oracle.py`, and against itself."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.pqtree import PQTree, shape, table
from tests.pqtree import oracle
from tests.pqtree.check import check_tree

# The long run, of about a minute: ABW_PQ_SEQUENCES=10000 pytest tests/pqtree/test_tree.py
SEQUENCES = int(os.environ.get("ABW_PQ_SEQUENCES", "500"))
BOTH = pytest.mark.parametrize("use_compiled", [False, True], ids=["plain", "compiled"])


@st.composite
def row_lists(draw: st.DrawFn, most: int = 6) -> tuple[int, list[list[int]]]:
    n = draw(st.integers(1, most))
    row = st.lists(st.integers(0, n - 1), max_size=n + 1)  # may repeat a leaf, be empty, be all
    return n, draw(st.lists(row, max_size=8))


@BOTH
@given(case=row_lists())
@settings(max_examples=60, deadline=None)
def test_it_is_the_set_of_orders(use_compiled: bool, case: tuple[int, list[list[int]]]) -> None:
    n, rows = case
    tree, orders = PQTree(n, use_compiled=use_compiled), oracle.permutations(n)
    for row in rows:
        left = orders[oracle.consecutive(orders, row)] if row else orders
        expected = len(left) > 0
        before = tree.canonical()
        assert tree.reduce(row) == expected
        check_tree(tree)
        if not expected:
            assert tree.canonical() == before
            continue
        orders = left
        assert tree.count() == len(orders)
        assert sorted(oracle.orders(tree.code())) == sorted(map(tuple, orders.tolist()))


@pytest.mark.parametrize("n", [7, 8])
def test_it_is_the_set_of_orders_of_more_leaves(n: int) -> None:
    rng, every = random.Random(n), oracle.permutations(n)
    for _ in range(6):
        tree, orders = PQTree(n), every
        for row in oracle.random_rows(rng, n, 10, 5):
            left = orders[oracle.consecutive(orders, row)]
            assert tree.reduce(row) == (len(left) > 0)
            orders = left if len(left) else orders
            assert tree.count() == len(orders)
        assert {tuple(order) for order in oracle.orders(tree.code())} == set(map(tuple, orders.tolist()))


@BOTH
def test_it_equals_the_slow_tree_after_every_row(use_compiled: bool) -> None:
    rng = random.Random(2023)
    rejected = accepted = 0
    for _ in range(SEQUENCES):
        n = rng.choice([3, 5, 8, 12, 20, 40])
        tree, slow = PQTree(n, use_compiled=use_compiled), oracle.universal(n)
        for row in oracle.random_rows(rng, n, rng.randint(1, 12), rng.choice([3, 6, n])):
            try:
                slow = oracle.reduce(slow, row)
                expected = True
            except oracle.ImpossibleError:
                expected = False
            assert tree.reduce(row) == expected
            assert tree.canonical() == oracle.canonical(slow)
            check_tree(tree)
            rejected += not expected
            accepted += expected
    assert min(rejected, accepted) > SEQUENCES // 2  # both ways were tried


@pytest.mark.parametrize("n", [10, 63, 64, 300])
def test_compiled_and_plain_agree(n: int) -> None:
    rows = oracle.random_rows(random.Random(n), n, 3 * n, 12)
    one_by_one = PQTree(n)
    expected = [one_by_one.reduce(row) for row in rows]
    assert any(expected)
    assert not all(expected)
    for use_compiled in (False, True):
        tree = PQTree(n, use_compiled=use_compiled)
        assert [tree.reduce(row) for row in rows] == expected
        assert tree.canonical() == one_by_one.canonical()
        check_tree(tree)


@BOTH
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_rollback_restores_and_release_keeps(use_compiled: bool, data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 9))
    tree, open_ = PQTree(n, use_compiled=use_compiled), []
    for _ in range(data.draw(st.integers(1, 14))):
        action = data.draw(st.sampled_from(["reduce", "reduce", "checkpoint", "rollback", "release"]))
        if action == "reduce":
            tree.reduce(data.draw(st.lists(st.integers(0, n - 1), max_size=n)))
        elif action == "checkpoint":
            open_.append((tree.checkpoint(), tree.canonical()))
        elif open_:
            at = data.draw(st.integers(0, len(open_) - 1))
            (mark, before), open_[at:] = open_[at], []
            now = tree.canonical()
            (tree.rollback if action == "rollback" else tree.release)(mark)
            assert tree.canonical() == (before if action == "rollback" else now)
        check_tree(tree)
    with pytest.raises(ValueError, match="closed already"):
        tree.release(len(open_))


@BOTH
def test_table_and_journal_grow_as_needed(use_compiled: bool) -> None:
    n = 400
    rows = oracle.random_rows(random.Random(1), n, 300, 60)
    tree, other = PQTree(n, use_compiled=use_compiled), PQTree(n)
    end = int(tree._table[table.END])
    tree._table = tree._table[:end]  # no room for a node more
    empty = tree.canonical()
    mark = tree.checkpoint()
    assert [tree.reduce(row) for row in rows] == [other.reduce(row) for row in rows]
    assert tree.canonical() == other.canonical() != empty
    assert len(tree._table) > end
    assert len(tree._journal) > 1024
    check_tree(tree)
    tree.rollback(mark)
    assert tree.canonical() == empty
    check_tree(tree)


@BOTH
@given(case=row_lists(5))
@settings(max_examples=40, deadline=None)
def test_what_is_below_a_row(use_compiled: bool, case: tuple[int, list[list[int]]]) -> None:
    n, rows = case
    tree = PQTree(n, use_compiled=use_compiled)
    for row in rows:
        tree.reduce(row)
    whole, names = tree.places()
    assert tuple(whole) == tree.code()
    orders = np.array(list(oracle.orders(tree.code())))
    for size in range(1, n + 1):
        for row in map(list, itertools.combinations(range(n), size)):
            if not oracle.consecutive(orders, row).all():
                with pytest.raises(ValueError, match="not always"):
                    tree.below(row)
                continue
            code, nodes = tree.below(row)
            assert shape.canonical(shape.prune(code, row)) == shape.canonical(shape.prune(whole, row))
            assert set(nodes) <= set(names)
            assert all(names[whole.index(leaf)] == nodes[code.index(leaf)] for leaf in row)
    for wrong in ([], [0, 0], [n], [-1]):
        with pytest.raises(ValueError, match="not different leaves"):
            tree.below(wrong)


@BOTH
def test_several_rows_at_once_are_all_or_nothing(use_compiled: bool) -> None:
    tree = PQTree(6, use_compiled=use_compiled)
    assert tree.reduce([0, 1], [1, 2])
    before = tree.canonical()
    assert not tree.reduce([3, 4], [0, 2])
    assert tree.canonical() == before
    with pytest.raises(ValueError, match=r"not in 0\.\.5"):
        tree.reduce([4, 5], [6, 1])
    assert tree.canonical() == before
    assert tree.narrow([0, 1, 2]) is False
    assert tree.narrow([2, 3]) is True
    assert tree.narrow([1, 3]) is None


@BOTH
def test_what_is_no_leaf_is_refused(use_compiled: bool) -> None:
    tree = PQTree(70, use_compiled=use_compiled)
    for row in ([0, 70], [-1, 3]):
        with pytest.raises(ValueError, match=r"not in 0\.\.69"):
            tree.reduce(row)
    assert tree.canonical() == PQTree(70).canonical()


def test_few_leaves() -> None:
    assert (PQTree(0).count(), PQTree(0).canonical()) == (1, "")
    assert (PQTree(1).count(), PQTree(1).canonical()) == (1, "0")
    assert (PQTree(2).count(), PQTree(2).canonical()) == (2, "(0 1)")
    assert PQTree(1).reduce([0])
    for n in range(3):
        check_tree(PQTree(n))
    with pytest.raises(ValueError, match="-1 leaves"):
        PQTree(-1)


def test_a_deep_tree_needs_no_recursion() -> None:
    n = 3000
    tree = PQTree(n)
    for size in range(2, n):
        assert tree.reduce(range(size)) if size < 40 else tree.reduce([*range(size)])
    assert tree.count() == 2 ** (n - 1)
    assert PQTree.from_text("(0 (1 2))").canonical() == "(0 (1 2))"
    assert len(tree.canonical()) > n
    check_tree(tree)
