"""Slow and simple answers to compare with: orders by enumeration, and a recursive tree of immutable nodes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from abw.pqtree import shape

Tree: TypeAlias = "int | tuple[str, tuple[Tree, ...]]"  # a leaf, or ("P" or "Q", children)


class ImpossibleError(Exception):
    """The set cannot be made consecutive."""


def leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [leaf for child in tree[1] for leaf in leaves(child)]


def p_node(children: Iterable[Tree]) -> Tree:
    kids = tuple(children)
    return kids[0] if len(kids) == 1 else ("P", kids)


def q_node(children: Iterable[Tree]) -> Tree:
    kids = tuple(children)
    return p_node(kids) if len(kids) < 3 else ("Q", kids)


def inside(tree: Tree, row: frozenset[int]) -> int:
    """0: no leaf of the tree is in the row, 2: all are, 1: some."""
    below = leaves(tree)
    hits = sum(leaf in row for leaf in below)
    return 0 if hits == 0 else 2 if hits == len(below) else 1


def to_one_end(tree: Tree, row: frozenset[int]) -> list[Tree]:
    """The subtree cut into pieces that must stand in this sequence: outside the row, then in it."""
    if isinstance(tree, int) or inside(tree, row) != 1:
        return [tree]
    kind, kids = tree
    if kind == "P":
        out, part, full = ([kid for kid in kids if inside(kid, row) == state] for state in (0, 1, 2))
        if len(part) > 1:
            raise ImpossibleError
        middle = to_one_end(part[0], row) if part else []
        return [*([p_node(out)] if out else []), *middle, *([p_node(full)] if full else [])]
    states = [inside(kid, row) for kid in kids]
    if states != sorted(states):
        kids, states = kids[::-1], states[::-1]
    if states != sorted(states) or states.count(1) > 1:
        raise ImpossibleError
    return [piece for kid in kids for piece in to_one_end(kid, row)]


def reduce(tree: Tree, members: Iterable[int]) -> Tree:
    """The tree in which the members are consecutive too. Raises ImpossibleError."""
    row = frozenset(members)
    if isinstance(tree, int) or len(row) < 2:
        return tree
    kind, kids = tree
    states = [inside(kid, row) for kid in kids]
    touched = [i for i, state in enumerate(states) if state]
    if len(touched) == 1:
        at = touched[0]
        return (kind, (*kids[:at], reduce(kids[at], row), *kids[at + 1 :])) if states[at] == 1 else tree
    if kind == "P":
        out, part, full = (
            [kid for kid, s in zip(kids, states, strict=True) if s == state] for state in (0, 1, 2)
        )
        if len(part) > 2:
            raise ImpossibleError
        middle = [p_node(full)] if full else []
        if part:
            left = to_one_end(part[0], row)
            right = to_one_end(part[1], row)[::-1] if len(part) == 2 else []
            middle = [q_node([*left, *middle, *right])]
        return p_node([*out, *middle])
    begin, end = touched[0], touched[-1]
    if any(state != 2 for state in states[begin + 1 : end]):
        raise ImpossibleError
    return q_node(
        [
            *kids[:begin],
            *to_one_end(kids[begin], row),
            *kids[begin + 1 : end],
            *to_one_end(kids[end], row)[::-1],
            *kids[end + 1 :],
        ]
    )


def canonical(tree: Tree) -> str:
    """The text that `PQTree.canonical` should give."""

    def go(node: Tree) -> tuple[int, str]:
        if isinstance(node, int):
            return node, str(node)
        kids = [go(kid) for kid in node[1]]
        if node[0] == "P":
            kids.sort()
        elif kids[0] > kids[-1]:
            kids.reverse()
        text = " ".join(kid[1] for kid in kids)
        return min(kid[0] for kid in kids), f"({text})" if node[0] == "P" else f"[{text}]"

    return go(tree)[1]


def universal(n: int) -> Tree:
    return p_node(range(n))


def permutations(n: int) -> NDArray[np.int64]:
    """All n! orders, one a row."""
    return np.array(list(itertools.permutations(range(n))))


def orders(code: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All orders, one at a time, none twice."""
    if not code:
        yield ()
        return
    children = shape.children_of(code)

    def arrangements(at: int) -> Iterator[Sequence[int]]:
        kids = children[at]
        return iter((kids, kids[::-1])) if shape.is_q(code[at]) else itertools.permutations(kids)

    wheels = {at: arrangements(at) for at in children}
    now = {at: list(next(wheel)) for at, wheel in wheels.items()}
    turned = True
    while turned:
        yield tuple([code[at] for at in shape.walk(now) if code[at] >= 0])
        turned = False
        for at in wheels:  # an odometer: the first wheel that can turns, those before it begin anew
            arrangement = next(wheels[at], None)
            if arrangement is not None:
                now[at] = list(arrangement)
                turned = True
                break
            wheels[at] = arrangements(at)
            now[at] = list(next(wheels[at]))


def consecutive(orders: NDArray[np.int64], row: Sequence[int]) -> NDArray[np.bool_]:
    """In which of the orders the row is consecutive."""
    place = np.argsort(orders, axis=1)[:, sorted(set(row))]
    spread: NDArray[np.bool_] = place.max(axis=1) - place.min(axis=1) == place.shape[1] - 1
    return spread


def random_rows(rng: random.Random, n: int, rows: int, longest: int) -> list[list[int]]:
    """Random sets, half of them intervals of a hidden order, so that many can be accepted."""
    hidden = rng.sample(range(n), n)
    made = []
    for _ in range(rows):
        size = rng.randint(1, min(n, longest))
        begin = rng.randint(0, n - size)
        made.append(rng.sample(range(n), size) if rng.random() < 0.5 else hidden[begin : begin + size])
    return made
