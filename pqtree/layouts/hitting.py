"""Minimum-weight hitting sets: the cheapest items that take one from each of some sets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence


def greedy_hitting_set(sets: Iterable[Collection[int]], weight: Sequence[int]) -> set[int]:
    """Take the item that hits the most for its weight, until all sets are hit."""
    taken: set[int] = set()
    left = list(sets)
    while left:
        hits = Counter(item for some in left for item in some)
        best = max(sorted(hits), key=lambda item: hits[item] / (weight[item] + 1))
        taken.add(best)
        left = [some for some in left if best not in some]
    return taken


def packing_bound(sets: Iterable[Collection[int]], weight: Sequence[int]) -> int:
    """Bound the weight of any hitting set from below: one item from each of some disjoint sets."""
    used: set[int] = set()
    total = 0
    for some in sorted(sets, key=len):
        if used.isdisjoint(some):
            used.update(some)
            total += min(weight[item] for item in some)
    return total


def hitting_set(
    sets: Sequence[Collection[int]],
    weight: Sequence[int],
    known: Collection[int],
    floor: int,
    deadline: float,
) -> tuple[set[int], bool]:
    """A cheapest set of items with one from each of `sets`, and whether that is proven.

    `known` is some such set; none weighs less than `floor`. Branch and bound: of a set not hit, one item
    after the other is taken, and then no more; the bound adds the cheapest items of sets that share none.
    Stops at `deadline` (time.thread_time) with the best so far.
    """
    items = sorted({item for some in sets for item in some}, key=lambda item: (weight[item], item))
    rank = {item: i for i, item in enumerate(items)}  # bit i is the i-th cheapest: the lowest bit is cheapest
    price = [weight[item] for item in items]
    masks = sorted({sum(1 << rank[item] for item in some) for some in sets}, key=int.bit_count)
    best = sum(1 << rank[item] for item in known if item in rank)
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
        stopped = stopped or time.thread_time() > deadline
        tightest = min([mask & ~banned for mask in left], key=int.bit_count)
        if stopped or best_price <= floor or not tightest or spent + bound(left, banned) >= best_price:
            return
        hits = {i: sum([mask >> i & 1 for mask in left]) for i in _bits(tightest)}
        for i in sorted(hits, key=lambda i: -hits[i] / (price[i] + 1)):
            branch([mask for mask in left if not mask >> i & 1], taken | 1 << i, spent + price[i], banned)
            banned |= 1 << i

    branch(masks, 0, 0, 0)
    return {items[i] for i in _bits(best)}, not stopped


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
