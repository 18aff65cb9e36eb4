"""What a batch costs: a launch, and its rows in tiles; of a schedule, of what remains, of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import fragment, njit
from abw.core.policy.schedule import Schedule

Floats = NDArray[np.float64]


class Cost(NamedTuple):
    """By type, (T,) each: `launch` a batch, `row` a row, in any unit; rows are paid in whole tiles of `tile`.

    A batch of r rows costs launch + row * tile * ceil(r / tile). With tiles of one row, the rows of a graph
    cost the same in every schedule, and only the launches differ.
    """

    launch: Floats
    row: Floats
    tile: NDArray[np.int32]


def counting(types: int) -> Cost:
    """The cost that is the number of batches."""
    return Cost(np.ones(types), np.zeros(types), np.ones(types, np.int32))


def relative(cost: Cost) -> Cost:
    """This cost in units of the mean launch, where that is not 0."""
    unit = float(cost.launch.mean()) or 1.0
    return Cost(cost.launch / unit, cost.row / unit, cost.tile)


def cost_of(schedule: Schedule, cost: Cost) -> float:
    """What a schedule costs. O(batches)."""
    return sum_cost(cost, schedule.type, schedule.ptr)


def sum_cost(cost: Cost, type: NDArray[np.int32], ptr: NDArray[np.int32]) -> float:
    """What batches cost: of types `type` (B,), with `ptr[b + 1] - ptr[b]` rows (B + 1,)."""
    tile = cost.tile[type]
    padded = -(-np.diff(ptr) // tile) * tile
    return float((cost.launch[type] + cost.row[type] * padded).sum())


def least_cost(dag: Dag, cost: Cost) -> float:
    """No schedule of the dag costs less: see `rest`. O(n + m), about 20 ns a node."""
    rows = np.bincount(dag.type, minlength=len(dag.types))
    chains = lower_bound(dag)
    padded = np.maximum(-(-rows // cost.tile), chains) * cost.tile
    return float((cost.launch * chains + cost.row * padded).sum())


@fragment
def batch_cost(cost: Cost, t: int, rows: int) -> float:
    """The cost of a batch of some rows of type t."""
    return float(cost.launch[t] + cost.row[t] * cost.tile[t] * _tiles(cost, t, rows))


@fragment
def overhead(cost: Cost, t: int, rows: int) -> float:
    """What that batch costs beyond its rows: the launch, and what is wasted of the last tile."""
    return float(cost.launch[t] + cost.row[t] * (cost.tile[t] * _tiles(cost, t, rows) - rows))


@njit
def rest(cost: Cost, t: int, rows: int, batches: int) -> float:
    """The least that `rows` rows of type t can cost in `batches` batches or more.

    With as many batches as the longest chain of the type's remaining nodes, this is admissible: every batch
    has a launch and at least one tile.
    """
    return float(cost.launch[t] * batches + cost.row[t] * cost.tile[t] * max(_tiles(cost, t, rows), batches))


@njit
def regret(cost: Cost, t: int, ready: int, rows: int, batches: int, free: bool) -> float:
    """By how much a batch of the `ready` of `rows` remaining rows of type t raises cost so far plus rest.

    `batches` is the longest chain that remains, `free` whether the batch shortens it. Exactly 0 where it is
    free and wastes no tile; never less.
    """
    after = max(_tiles(cost, t, rows - ready), batches - free)
    wasted = _tiles(cost, t, ready) + after - max(_tiles(cost, t, rows), batches)
    return float(cost.launch[t] * (1 - free) + cost.row[t] * cost.tile[t] * wasted)


@fragment
def _tiles(cost: Cost, t: int, rows: int) -> int:
    tile = cost.tile[t]
    return int(rows if tile == 1 else (rows + tile - 1) // tile)  # a division takes as long as the rest
