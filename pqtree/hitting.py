"""Minimum-weight hitting sets: the cheapest items that take one from each of some sets."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence


def hitting_set(
    sets: Sequence[Collection[int]], weight: Sequence[int], deadline: float, floor: int = 0
) -> tuple[set[int], int, bool]:
    """A cheapest set of items with one from each of `sets`, its weight, and whether that is proven.

    Branch and bound: of a set not hit, one item after the other is taken, and then no more; the bound adds
    the cheapest items of sets that share none. Stops at `deadline` (time.monotonic) with the best so far, and
    as soon as that is no heavier than `floor`, a weight that none is below.
    """
    items = sorted({item for some in sets for item in some}, key=lambda item: (weight[item], item))
    rank = {item: i for i, item in enumerate(items)}  # bit i is the i-th cheapest: the lowest bit is cheapest
    price = [weight[item] for item in items]
    masks = sorted({sum(1 << rank[item] for item in some) for some in sets}, key=int.bit_count)
    best = _greedy(masks, price)
    best_price = sum(price[i] for i in _bits(best))
    stopped = False

    def bound(left: list[int], banned: int) -> int:
        total = used = 0
        for mask in left:
            if not mask & used:
                used |= mask
                allowed = mask & ~banned
                total += price[(allowed & -allowed).bit_length() - 1]
        return total

    def branch(left: list[int], taken: int, spent: int, banned: int) -> None:
        nonlocal best, best_price, stopped
        if not left:
            if spent < best_price:
                best, best_price = taken, spent
            return
        stopped = stopped or time.monotonic() > deadline
        tightest = min([mask & ~banned for mask in left], key=int.bit_count)
        if stopped or best_price <= floor or not tightest or spent + bound(left, banned) >= best_price:
            return
        hits = {i: sum([mask >> i & 1 for mask in left]) for i in _bits(tightest)}
        for i in sorted(hits, key=lambda i: -hits[i] / (price[i] + 1)):
            branch([mask for mask in left if not mask >> i & 1], taken | 1 << i, spent + price[i], banned)
            banned |= 1 << i

    branch(masks, 0, 0, 0)
    return {items[i] for i in _bits(best)}, best_price, not stopped


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _greedy(masks: list[int], price: list[int]) -> int:
    """Take what hits the most for its price, until all are hit."""
    taken, left = 0, masks
    while left:
        i = max(range(len(price)), key=lambda i: sum(mask >> i & 1 for mask in left) / (price[i] + 1))
        taken |= 1 << i
        left = [mask for mask in left if not mask >> i & 1]
    return taken
