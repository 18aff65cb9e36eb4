"""All pairs: few combinations of many options in which any two values of two options stand together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from random import Random

Pair = tuple[tuple[str, str], tuple[str, str]]


def all_pairs(options: Mapping[str, Sequence[str]], rng: Random, tries: int = 20) -> list[dict[str, str]]:
    """Rows with a value for each option; every pair of values of two options is in some row.

    Greedy: a row begins with a pair still missing, and of `tries` ways to fill it up at random the one with
    most missing pairs is taken.
    """
    missing: dict[Pair, None] = {
        ((a, x), (b, y)): None
        for a, b in combinations(options, 2)
        for x, y in product(options[a], options[b])
    }
    rows: list[dict[str, str]] = [] if len(options) != 1 else [{n: v} for n in options for v in options[n]]
    while missing:
        first = dict(next(iter(missing)))
        best: list[Pair] = []
        for _ in range(tries):
            row = {name: first.get(name) or rng.choice(values) for name, values in options.items()}
            new = [pair for pair in combinations(row.items(), 2) if pair in missing]
            if len(new) > len(best):
                best, chosen = new, row
        for pair in best:
            del missing[pair]
        rows.append(chosen)
    return rows
