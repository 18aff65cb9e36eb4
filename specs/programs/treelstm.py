"""A tree LSTM over binary trees (Tai et al., 2015) by recursion: what `../treelstm.yaml` says, in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import abw

net = abw.cells(Path(__file__).with_suffix(".yaml"), allow_outside=True)

# `(label, word)` of a leaf, `(label, left, right)` of others.
Tree = tuple[Any, ...]


def classify(tree: Tree) -> list[abw.Value]:
    """The scores of the classes at each node, those of children before their parent's."""
    scores: list[abw.Value] = []

    def state(node: Tree) -> tuple[abw.Value, abw.Value]:
        if len(node) == 2:
            h, c = net.leaf(net.words[node[1]])
        else:
            h, c = net.internal(*state(node[1]), *state(node[2]))
        scores.append(net.output(h))
        return h, c

    state(tree)
    return scores
