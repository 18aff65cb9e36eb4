"""What batches cost on an executor, measured, and the mini-batch that `--batch auto` takes by that."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.progress import Progress
from abw.core.exec.interface import Executor, TooLargeError
from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, plan
from abw.core.policy.cost import Cost, cost_of
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.minibatches import planned, run_all
from abw.core.run.observing.footprint import Footprint, footprint, footprint_of
from abw.core.run.workload import Workload

# The largest mini-batch that is tried.
LARGEST = 1024
# Mini-batches of each size that are tried, at most, spread over the data.
WINDOWS = 8
# Repetitions of what precedes execution; the fastest counts.
REPEATS = 3
# A smaller mini-batch is taken if it loses no more than this share of the best rate.
GAIN = 0.05
# The share of the available memory that a mini-batch may take by default.
SHARE = 0.5
# Arenas are made larger than a plan needs by this factor, so that they need not grow each time.
ROOM = 1.5
# Rows of the batches whose cost is measured, batches that are timed together, and repetitions.
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BATCHES, TIMINGS = 32, 15

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class Tried:
    """A size of mini-batches, its predicted rate, and the bytes that one needs."""

    batch: int
    instances_per_second: float
    bytes: int

    def document(self) -> dict[str, Any]:
        """The document in a run's report."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def parse_bytes(text: str) -> int:
    """Parse a size such as 2G, 500M, 1.5GiB; K, M, G, T are powers of 1024. Errors: AbwError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise AbwError(f"'{text}' is not an amount of memory", hint="for example 500M or 2G", exit_code=2)
    return size


def try_sizes(workload: Workload, used: int, policy: Policy, executor: Executor) -> list[Tried]:
    """Predict the rate of mini-batches of 1, 2, 4, … instances, up to `used`.

    Construction, scheduling and planning are timed; execution is predicted from the schedules and the
    measured cost of launches and rows (`measure`); reading is not counted. An executor that leaves the
    processor free runs the mini-batches, and the longer of both times counts; sizes that do not fit its
    memory are left out.

    Errors: AbwError for an executor that does not run batches; TooLargeError if one instance does not fit.
    """
    if not executor.abilities.knows_batches:
        raise AbwError(f"the executor {executor.name} runs node by node: all sizes are equally fast")
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
    """Measure the rate of growing mini-batches of 1, 2, 4, … instances by running some of each size.

    (The cost of rounds cannot be predicted.) Stops when there are no more instances, when a size does not fit
    the executor's memory, or after two sizes without gain. Errors: InstanceError, TooLargeError.
    """
    clock = time.perf_counter if executor.abilities.overlaps else time.thread_time
    tried: list[Tried] = []
    for size in (1 << k for k in range(LARGEST.bit_length()) if 1 << k <= len(workload.instances)):
        data = replace(workload.model.data, batch=size)
        sized = replace(workload, model=replace(workload.model, data=data))
        count, most, fits, begun = 0, 0, True, clock()
        for batch, _ in islice(run_all(sized, policy, executor, leave_out=leave_out), WINDOWS):
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
    """Choose the smallest size that fits, within `GAIN` of the best rate. Errors: AbwError if none fits."""
    fit = [t for t in tried if t.bytes <= limit]
    if not fit:
        message = f"one instance needs {tried[0].bytes} bytes, more than the limit of {limit}"
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
    """Time a plan until its outputs are read, in seconds."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        result = executor.run(plan)
        for outputs in plan.graph.results:
            result.values(outputs.reference)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def needed_bytes(plan: Plan) -> int:
    """The bytes of a mini-batch, including the spare room of its arenas. O(arenas)."""
    return _with_room(footprint(plan))


def _with_room(found: Footprint) -> int:
    return int(ROOM * found.arenas) + found.graph + found.outputs


@dataclass(frozen=True, slots=True)
class Measured:
    """A type's cost in seconds, from `samples` (rows, seconds a batch); `error` is the mean relative one."""

    type: str
    launch: float
    row: float
    error: float
    samples: tuple[tuple[int, float], ...]


def measure(
    graph: Graph,
    executor: Executor,
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None,
    skip_absent: bool = False,
) -> list[Measured]:
    """Measure each type's cost on its widest batch, cut into batches of 1, 2, 4, ... rows.

    The cost of a run without batches is subtracted. Errors: AbwError for a type without nodes in the graph,
    unless `skip_absent` leaves such types out.
    """
    schedule = Critical().schedule(graph.dag)
    width = np.diff(schedule.ptr)
    costs = []
    for t, name in enumerate(graph.dag.types):
        of_type = np.flatnonzero(schedule.type == t)
        if len(of_type) == 0 and skip_absent:
            continue
        if len(of_type) == 0:
            raise AbwError(
                f"no node of type {name} is in the data: its cost cannot be measured",
                hint="give data that has some (--data, --limit)",
            )
        widest = int(of_type[np.argmax(width[of_type])])
        samples = []
        for rows in (size for size in SIZES if size <= width[widest]):
            batches = min(BATCHES, int(width[widest]) // rows)
            planned = plan(graph, cut(schedule, widest, rows, batches))
            executor.run(planned)  # so that what the batches read is there
            alone = section(planned, widest, widest + batches)
            seconds = _fastest(executor, alone, clock) - _fastest(executor, section(planned, 0, 0), clock)
            samples.append((rows, max(seconds, 1e-9) / batches))
        launch, row, error = fit(*(np.array(column, np.float64) for column in zip(*samples, strict=True)))
        costs.append(Measured(name, launch, row, error, tuple(samples)))
        if progress:
            progress.reached(t + 1)
    return costs


def cut(schedule: Schedule, batch: int, rows: int, batches: int) -> Schedule:
    """Cut one batch of a schedule into `batches` of `rows` rows each, and one of the remaining rows."""
    first, last = schedule.ptr[batch : batch + 2].tolist()
    inner = [k for k in range(first + rows, first + batches * rows + 1, rows) if k < last]
    ptr = np.insert(schedule.ptr, batch + 1, inner).astype(np.int32)
    type = np.insert(schedule.type, batch, [schedule.type[batch]] * len(inner)).astype(np.int32)
    return Schedule(type, ptr, schedule.nodes)


def section(whole: Plan, first: int, last: int) -> Plan:
    """Take batches `first` to `last` (exclusive) of a plan; they read what an earlier run of it computed."""
    schedule = whole.schedule
    some = Schedule(schedule.type[first:last], schedule.ptr[first : last + 1], schedule.nodes)
    return replace(
        whole,
        schedule=some,
        base=whole.base[first:last],
        operand_ptr=whole.operand_ptr[first : last + 1],
        launch_ptr=some.launches,
    )


def _fastest(executor: Executor, planned: Plan, clock: Callable[[], float]) -> float:
    taken = []
    for _ in range(TIMINGS):
        begun = clock()
        executor.run(planned)
        taken.append(clock() - begun)
    return min(taken)


def fit(rows: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[float, float, float]:
    """Fit the costs of a launch and a row (`fit_terms`); returns them and the error.

    Batches of a single size determine only the sum, which is attributed to the launch.
    """
    found, error = fit_terms(np.stack([np.ones(len(rows)), rows], axis=1)[:, : len(rows)], seconds)
    return float(found[0]), float(found[1]) if len(rows) > 1 else 0.0, error


def fit_terms(terms: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Fit non-negative costs of k terms (n, k) by least squares of the relative errors of the sums.

    Returns the costs (k,) and the mean error. All subsets of the terms are tried: for small k.
    """
    relative = terms / seconds[:, None]
    best, least = np.zeros(terms.shape[1]), np.inf
    for chosen in product((True, False), repeat=terms.shape[1]):
        found = np.zeros(terms.shape[1])
        columns = list(chosen)
        found[columns] = np.linalg.lstsq(relative[:, columns], np.ones(len(seconds)), rcond=None)[0]
        squares = float(((relative @ found - 1.0) ** 2).sum())
        if found.min() >= 0 and squares < least:
            best, least = found, squares
    return best, float(np.abs(relative @ best - 1.0).mean())
