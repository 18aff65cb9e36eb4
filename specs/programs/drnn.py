"""Doubly recurrent networks (Alvarez-Melis and Jaakkola, 2017): a tree grown from its root, by recursion.

A node's first child and its next sibling do not wait for each other: they are branches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import abw

net = abw.cells(Path(__file__).with_suffix(".yaml"), allow_outside=True)
DEEPEST, WIDEST = 3, 4

# A label and the children.
Tree = tuple[int, list[Any]]
# What a recurrence goes on from: what it reads, its state before.
State = tuple[abw.Value, abw.Value]


def generate(word: str) -> Tree:
    """The tree that grows from a word."""
    zero = net.zeros("hidden")

    def siblings(above: State, before: State, depth: int, number: int) -> list[Tree]:
        """The tree of a node, then those of the siblings behind it."""
        down, across = net.down(*above), net.across(*before)
        scores, deeper, wider = net.predict(down, across)
        label = scores.argmax()
        name = net.names[label]
        todo: list[Callable[[], list[Tree]]] = [list, list]
        if deeper.above(0) and depth < DEEPEST:
            todo[0] = lambda: siblings((name, down), (net.first, zero), depth + 1, 1)
        if wider.above(0) and depth > 0 and number < WIDEST:
            todo[1] = lambda: siblings(above, (name, across), depth, number + 1)
        children, rest = abw.each(lambda grow: grow(), todo)
        return [(label, children), *rest]

    return siblings((net.roots[word], zero), (net.first, zero), 0, 1)[0]
