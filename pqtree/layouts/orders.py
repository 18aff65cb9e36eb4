"""All orders of few variables: which operands the best of them keeps free of copies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.pqtree.layouts.problem import Item

# So many variables, at most, have all their orders tried: 5,040, which takes some milliseconds.
FEW = 7


def heaviest(n: int, items: Sequence[Item]) -> tuple[int, ...]:
    """The items of most weight that can be free of copies at once, found by trying all orders of n variables.

    In an order, an item can be kept if its variables lie next to each other; of a batch's items, those with
    one order of lanes. Some milliseconds for seven variables.
    """
    place = _places(n)
    batches: dict[int, list[int]] = {}
    for i, item in enumerate(items):
        batches.setdefault(item.key[0], []).append(i)
    total = np.zeros(len(place), np.int64)
    choices = []
    for members in batches.values():
        lanes = np.array([_lanes(place, items[i].lanes) for i in members])
        agree = (lanes[:, None] == lanes[None, :]) & (lanes >= 0)
        weight = np.array([items[i].weight for i in members], np.int64)
        gain = np.einsum("ijp,j->ip", agree, weight)  # by the item whose order of lanes is taken
        choices.append((members, agree, gain.argmax(axis=0)))
        total += gain.max(axis=0)
    best = int(total.argmax())
    kept = [
        i
        for members, agree, leader in choices
        for i, kept in zip(members, agree[leader[best], :, best], strict=True)
        if kept
    ]
    return tuple(sorted(kept))


@cache
def _places(n: int) -> NDArray[np.int64]:
    """(n!, n): where each variable lies, in every order."""
    return np.array(list(itertools.permutations(range(n))), np.int64).reshape(-1, n)


def _lanes(place: NDArray[np.int64], lanes: Sequence[int]) -> NDArray[np.int64]:
    """A number for the order in which lanes lie in each of the orders, -1 where others lie between them."""
    at = place[:, list(lanes)]
    at = at - at.min(axis=1, keepdims=True)
    code = at @ (len(lanes) ** np.arange(len(lanes)))
    return np.where(at.max(axis=1) < len(lanes), code, -1)
