"""Noisy layout programs with a planted order: how near the planner comes to it, and in what time."""

from __future__ import annotations

import random
import time

from abw.bench.rows import Row, Rows
from abw.pqtree import declared_layout, plan_layout

# The bytes of a variable.
SIZE = 64


def planted_program(rng: random.Random, n: int, noise: float) -> tuple[list[int], list[list[list[int]]]]:
    """An order of n variables, and batches whose operands are contiguous in it but for a share of `noise`.

    A batch computes two to four neighbours from one or two such runs, in one order of lanes; an operand that
    is noise has random variables.
    """
    order = rng.sample(range(n), n)
    batches, at = [], 0
    while at < n:
        lanes = min(rng.randint(2, 4), n - at)
        permutation = rng.sample(range(lanes), lanes)
        begins = [at, *(rng.randrange(n - lanes + 1) for _ in range(rng.randint(1, 2)))]
        runs = [[order[begin + i] for i in permutation] for begin in begins]
        batches.append([rng.sample(range(n), lanes) if rng.random() < noise else run for run in runs])
        at += lanes
    return order, batches


def planted_rows(sizes: list[int], noise: float, seeds: int, time_limit: float) -> Rows:
    """For each number of variables: the planner's cost beside the planted order's, summed over `seeds`.

    `reached`: programs where it costs no more; `proven`: those known to be optimal; `longest`: of one.
    """
    plan_layout([SIZE] * 128, planted_program(random.Random(0), 128, 0.5)[1], time_limit=0)  # loads all code
    for n in sizes:
        costs, planted, seconds, bounds = [], [], [], []
        for seed in range(seeds):
            order, batches = planted_program(random.Random(1000 * n + seed), n, noise)
            begin = time.monotonic()
            layout = plan_layout([SIZE] * n, batches, time_limit=time_limit)
            seconds.append(time.monotonic() - begin)
            costs.append(layout.cost)
            bounds.append(layout.bound)
            planted.append(declared_layout([SIZE] * n, batches, order).cost)
        yield Row(
            "noisy programs",
            variables=n,
            noise_share=noise,
            programs=seeds,
            cost_bytes=sum(costs),
            planted_bytes=sum(planted),
            reached=sum(cost <= other for cost, other in zip(costs, planted, strict=True)),
            proven=sum(cost == bound for cost, bound in zip(costs, bounds, strict=True)),
            longest_seconds=max(seconds),
        )
