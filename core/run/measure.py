"""What a launch and a row of each type cost on an executor, measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress
from abw.core.exec.interface import Executor
from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Schedule

# Rows of the batches that are timed.
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# So many batches are timed together, at most, and so often; the fastest counts.
BATCHES, REPEATS = 32, 15


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
    """Each type's cost, on its widest batch cut into batches of 1, 2, 4, ... rows.

    What a run takes beside its batches is measured apart, and left out. Errors: AbwError for a type that has
    no node in the graph; with `skip_absent` such types are left out.
    """
    schedule = Critical().schedule(graph.dag)
    width = np.diff(schedule.ptr)
    costs = []
    for t, name in enumerate(graph.dag.types):
        own = np.flatnonzero(schedule.type == t)
        if len(own) == 0 and skip_absent:
            continue
        if len(own) == 0:
            raise AbwError(
                f"no node of type {name} is in the data: its cost cannot be measured",
                hint="give data that has some (--data, --limit)",
            )
        widest = int(own[np.argmax(width[own])])
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
    """The schedule with one batch cut into `batches` of `rows` rows each, and one of what is left, if any."""
    first, last = schedule.ptr[batch : batch + 2].tolist()
    inner = [k for k in range(first + rows, first + batches * rows + 1, rows) if k < last]
    ptr = np.insert(schedule.ptr, batch + 1, inner).astype(np.int32)
    type = np.insert(schedule.type, batch, [schedule.type[batch]] * len(inner)).astype(np.int32)
    return Schedule(type, ptr, schedule.nodes)


def section(whole: Plan, first: int, last: int) -> Plan:
    """Batches `first` to `last` (exclusive) of a plan, which read what an earlier run of it computed."""
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
    for _ in range(REPEATS):
        begun = clock()
        executor.run(planned)
        taken.append(clock() - begun)
    return min(taken)


def fit(rows: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[float, float, float]:
    """Launch and row cost as `fit_terms` finds them, and the error.

    Batches of one size tell only their sum: the launch gets it all.
    """
    found, error = fit_terms(np.stack([np.ones(len(rows)), rows], axis=1)[:, : len(rows)], seconds)
    return float(found[0]), float(found[1]) if len(rows) > 1 else 0.0, error


def fit_terms(terms: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """What each of k terms (n, k) costs, none below 0, by least squares of the relative errors of the sums;
    the mean of these errors. For few terms: all choices among them are tried.
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
