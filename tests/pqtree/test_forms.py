"""Text, picture, and the checker itself."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from abw.pqtree import PQTree, table, tree_svg
from tests.pqtree.check import InvariantError, check_tree


def test_the_papers_example_as_text() -> None:
    tree = PQTree(8)
    assert tree.reduce([3, 4], [0, 2], [1, 0], [7, 5, 6], [2, 3, 4])
    assert tree.canonical() == "([1 0 2 (3 4)] (5 6 7))"
    assert tree.count() == 2 * 2 * 2 * 6


@pytest.mark.parametrize(
    "text",
    ["(0 1", "0)", "(0 1))", "(0)", "[0 1]", "(0 0 1)", "(0 2)", "0 1", "(0 x)", "(0 [1 2 3)]", "()"],
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        PQTree.from_text(text)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="2 names"):
        tree_svg(PQTree(3), ["a", "b"])


def test_picture_shows_every_node_once() -> None:
    tree = PQTree(7)
    assert tree.reduce([0, 1], [1, 2], [4, 5])
    picture = ElementTree.fromstring(tree_svg(tree, [f"<{i}&" for i in range(7)]))
    names = {"svg": "http://www.w3.org/2000/svg"}
    assert len(picture.findall("svg:rect", names)) == 1
    assert len(picture.findall("svg:circle", names)) == 2
    assert len(picture.findall("svg:line", names)) == 3 + 2 + 4
    texts = [text.text for text in picture.findall("svg:text", names)]
    assert sorted(text for text in texts if text and text != "P") == sorted(f"<{i}&" for i in range(7))
    assert ElementTree.fromstring(tree_svg(PQTree(0))).tag.endswith("svg")


def q_tree() -> PQTree:
    """Of a P-node above a Q-node that has absorbed another."""
    tree = PQTree(9)
    assert tree.reduce([0, 1], [1, 2], [4, 5], [5, 6], [2, 3, 4], [2, 3])
    return tree


def at(tree: PQTree, leaf: int) -> int:
    return table.WIDTH + leaf * table.HALF


def root_of(T: list[int]) -> int:
    return T[table.ROOT]


def side_of(T: list[int], x: int, neighbour: int) -> int:
    """Where x names its neighbour."""
    return x + (table.LEFT if T[x + table.LEFT] == neighbour else table.RIGHT)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("header", lambda t, T: table.LEAVES, 8),
        ("header", lambda t, T: table.END, 3),
        ("header", lambda t, T: table.UNION, 1),
        ("rows", lambda t, T: table.ROOT, 17),
        ("root", lambda t, T: root_of(T) + table.PARENT, 16),
        ("kinds", lambda t, T: at(t, 8) + table.KIND, table.P),
        ("kinds", lambda t, T: root_of(T) + table.KIND, 7),
        ("p-links", lambda t, T: at(t, 8) + table.LEFT, 16),
        ("p-links", lambda t, T: root_of(T) + table.LAST, 16),
        ("p-parents", lambda t, T: at(t, 8) + table.PARENT, 16),
        ("q-links", lambda t, T: side_of(T, T[at(t, 1) + table.RIGHT], at(t, 1)), 16),
        ("rows", lambda t, T: side_of(T, T[root_of(T) + table.LAST], 0), 99 * 80),
        ("rows", lambda t, T: root_of(T) + table.FIRST, -8),
        ("q-parents", lambda t, T: at(t, 1) + table.PARENT, 16),
        ("count", lambda t, T: root_of(T) + table.COUNT, 2),
        ("count", lambda t, T: root_of(T) + table.COUNT, 9),
    ],
)
def test_the_checker_finds_each_fault(
    name: str, place: Callable[[PQTree, list[int]], int], value: int
) -> None:
    tree = q_tree()
    check_tree(tree)
    tree._table[place(tree, tree._table)] = value
    with pytest.raises(InvariantError) as caught:
        check_tree(tree)
    assert caught.value.name == name


def test_the_checker_finds_nodes_with_too_few_children_or_two_places() -> None:
    tree = PQTree(3)
    root = tree._table[table.ROOT]
    tree._table[root + table.KIND] = table.Q
    tree._table[at(tree, 1) + table.RIGHT] = 0
    tree._table[root + table.LAST] = at(tree, 1)
    tree._table[root + table.COUNT] = 2
    with pytest.raises(InvariantError, match="arity"):
        check_tree(tree)
    tree = PQTree(3)
    tree._table[table.ROOT] = at(tree, 0)
    tree._table[at(tree, 0) + table.PARENT] = 0
    with pytest.raises(InvariantError, match="leaves: 2 are missing"):
        check_tree(tree)
