"""The mini-batch that `--batch auto` takes: by what its batches cost, and by the memory it needs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor, TooLargeError
from abw.core.plan.plan import Plan
from abw.core.policy.cost import Cost, cost_of
from abw.core.policy.schedule import Policy
from abw.core.run.footprint import Footprint, footprint, footprint_of
from abw.core.run.measure import measure
from abw.core.run.minibatches import planned, run_all
from abw.core.run.workload import Workload

# The largest mini-batch that is tried.
LARGEST = 1024

# From so many places of the data mini-batches of a size are taken, at most.
WINDOWS = 8

# So often is what precedes execution timed; the fastest counts.
REPEATS = 3

# A smaller mini-batch is taken if it loses no more than this share of the best rate.
GAIN = 0.05

# The share of the memory available that a mini-batch may take where no limit is given.
SHARE = 0.5

# Arenas are made larger than a plan needs by this, so that they need not grow each time.
ROOM = 1.5

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class Tried:
    """A size of mini-batches: the rate predicted for it, and the bytes that one needs."""

    batch: int
    instances_per_second: float
    bytes: int

    def document(self) -> dict[str, Any]:
        """As it stands in a run's report."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def parse_bytes(text: str) -> int:
    """A size as people write it: 2G, 500M, 1.5GiB; K, M, G, T are powers of 1024. Errors: AbwError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise AbwError(f"'{text}' is no amount of memory", hint="as in 500M or 2G", exit_code=2)
    return size


def try_sizes(workload: Workload, used: int, policy: Policy, executor: Executor) -> list[Tried]:
    """Predict the rate of mini-batches of 1, 2, 4, … instances, as far as `used` instances reach.

    The executor's time is that of the schedules by the cost of a launch and a row, which are measured
    (see `measure`); reading is left out; construction, scheduling and planning are timed as they are. An
    executor that leaves the processor free runs the mini-batches, and the longer of both times counts; where
    one does not fit its memory larger sizes are left out. Errors: AbwError for an executor that knows no
    batches; TooLargeError where one instance alone does not fit.
    """
    if not executor.abilities.knows_batches:
        raise AbwError(f"the executor {executor.name} knows no batches: no mini-batch is better than another")
    cost = None if executor.abilities.overlaps else _cost(workload, used, executor)
    tried: list[Tried] = []
    for size in (1 << k for k in range(LARGEST.bit_length()) if 1 << k <= used):
        try:
            tried.append(_try(workload, size, used, policy, executor, cost))
        except TooLargeError:
            if not tried:
                raise
            break
    return tried


def try_growing(
    workload: Workload, policy: Policy, executor: Executor, leave_out: Callable[[InstanceError], None] | None
) -> list[Tried]:
    """Measure the rate of mini-batches of 1, 2, 4, … instances that grow: each size grows some of them.

    What a round costs beside what is in it is known only then. Sizes end with the instances, where one does
    not fit the executor's memory, or after two that were no better. Errors: InstanceError, TooLargeError.
    """
    clock = time.perf_counter if executor.abilities.overlaps else time.thread_time
    tried: list[Tried] = []
    for size in (1 << k for k in range(LARGEST.bit_length()) if 1 << k <= len(workload.instances)):
        data = replace(workload.model.data, batch=size)
        sized = replace(workload, model=replace(workload.model, data=data))
        phases = Clock("construct", "schedule", "plan", "execute")
        count, most, fits, begun = 0, 0, True, clock()
        for batch, _ in islice(run_all(sized, policy, executor, phases, leave_out), WINDOWS):
            count += batch.last - batch.first
            most = max(most, _with_room(footprint_of(batch)))
            fits &= not batch.piece
        if fits or not tried:
            tried.append(Tried(size, count / max(clock() - begun, 1e-9), most))
        best = max((t.instances_per_second for t in tried[:-2]), default=0.0)
        if not fits or (best and max(t.instances_per_second for t in tried[-2:]) < (1 + GAIN) * best):
            break
    return tried


def choose(tried: Sequence[Tried], limit: int) -> int:
    """The smallest mini-batch within `GAIN` of the best rate of those that fit. Errors: AbwError if none."""
    fit = [t for t in tried if t.bytes <= limit]
    if not fit:
        message = f"one instance alone needs {tried[0].bytes} bytes, and {limit} may be used"
        raise AbwError(message, hint="raise --memory")
    best = max(t.instances_per_second for t in fit)
    return next(t.batch for t in fit if t.instances_per_second >= (1 - GAIN) * best)


def _cost(workload: Workload, used: int, executor: Executor) -> Cost:
    graph = workload.graph(0, used)
    found = {m.type: m for m in measure(graph, executor, skip_absent=True)}
    launch, row = (
        np.array([getattr(found[t], what) if t in found else 0.0 for t in graph.dag.types])
        for what in ("launch", "row")
    )
    return Cost(launch, row, np.ones(len(launch), np.int32))


def _try(
    workload: Workload, size: int, used: int, policy: Policy, executor: Executor, cost: Cost | None
) -> Tried:
    seconds, most = 0.0, 0
    starts = np.linspace(0, used - size, min(WINDOWS, used // size)).astype(int).tolist()
    for first in starts:
        taken = []
        for _ in range(REPEATS):
            begun = time.thread_time()
            made = planned(workload, policy, executor, first, first + size)
            taken.append(time.thread_time() - begun)
        if cost is None:
            seconds += max(min(taken), _executed(made.plan, executor))
        else:
            seconds += min(taken) + cost_of(workload.networks.launched(made.graph, made.schedule), cost)
        most = max(most, needed_bytes(made.plan))
    return Tried(size, size * len(starts) / seconds, most)


def _executed(plan: Plan, executor: Executor) -> float:
    """The seconds from a plan to its outputs."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        result = executor.run(plan)
        for outputs in plan.graph.results:
            result.values(outputs.reference)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def needed_bytes(plan: Plan) -> int:
    """What a mini-batch takes, with the room that arenas have to grow. O(arenas)."""
    return _with_room(footprint(plan))


def _with_room(found: Footprint) -> int:
    return int(ROOM * found.arenas) + found.graph + found.outputs
