"""What a launch and a row cost on an executor, measured by type: what `abw calibrate` says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError
from abw.core.exec.interface import Executor
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.graph import Graph
from abw.core.graph.network import Granularity
from abw.core.plan.plan import Plan, plan
from abw.core.policy.cost import Cost
from abw.core.policy.costfile import cost_text
from abw.core.policy.critical import Critical
from abw.core.policy.schedule import Schedule
from abw.core.progress import Progress, Quiet
from abw.core.spec.load import Overrides
from abw.core.store.files import write_text
from abw.core.workload import load_workload, open_model

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Rows of the batches that are timed."""

INSTANCES = 256
"""So many instances make the mini-batch they are taken from, at most."""

BATCHES, REPEATS = 32, 15
"""So many batches are timed together, at most, and so often; the fastest counts."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A type's cost in seconds, from `samples` (rows, seconds a batch); `error` is the mean relative one."""

    type: str
    launch: float
    row: float
    error: float
    samples: tuple[tuple[int, float], ...]


def calibrate(
    spec: Path,
    overrides: Overrides,
    output: Path,
    *,
    executor: str = "blas",
    granularity: Granularity = "cell",
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure every type and write the file of costs; returns the document of `abw calibrate --json`.

    Errors: SpecError, DataError; AbwError for an executor that knows no batches, for a type without nodes in
    the data, where the file cannot be written.
    """
    if executor == "reference":
        raise AbwError("the executor reference knows no batches: their cost cannot be measured on it")
    if executor == "cuda":
        raise AbwError(
            "the executor cuda runs batches side by side: one alone has no cost",
            hint="without a spec the GPU is measured: abw calibrate --device cuda",
            exit_code=2,
        )
    progress = progress or Quiet()
    model = open_model(spec, overrides)
    workload = load_workload(model, granularity)
    chosen = get_executor(executor)
    chosen.prepare(workload.network, init_params(workload.network, overrides.seed or 0), threads)
    instances = min(INSTANCES, len(workload.instances))
    graph = workload.graph(0, instances)
    progress.phase("measure", len(graph.dag.types))
    found = measure(graph, chosen, progress=progress)
    cost = Cost(
        np.array([m.launch for m in found]), np.array([m.row for m in found]), np.ones(len(found), np.int32)
    )
    heading = f"seconds a launch and a row: {model.name} on executor {executor}, threads: {threads}"
    write_text(output, cost_text(cost, graph.dag.types, heading))
    return {
        "schema_version": 1,
        "model": model.name,
        "spec": str(model.files[0]),
        "data": str(model.data.path),
        "dims": dict(model.dims),
        "executor": executor,
        "granularity": granularity,
        "threads": threads,
        "instances": instances,
        "types": [
            {
                "type": m.type,
                "launch": m.launch,
                "row": m.row,
                "error": m.error,
                "samples": [list(sample) for sample in m.samples],
            }
            for m in found
        ],
        "path": str(output),
    }


def calibrate_gpu() -> dict[str, Any]:
    """Measure this machine's first GPU and keep that; the document of `abw calibrate --device cuda --json`.

    Errors: AbwError where there is none, or the folder cannot be written.
    """
    from abw.core.exec.cuda.available import open_device
    from abw.core.exec.cuda.costs import keep_costs
    from abw.core.exec.cuda.probe import measure as measure_gpu

    device = open_device()
    limits = measure_gpu(device)
    try:
        costs = keep_costs(device.traits, limits)
    except OSError as error:
        raise AbwError(f"cannot keep what was measured: {error.strerror}", hint="set ABW_HOME") from error
    return {"schema_version": 1, "gpu": device.traits.name, **asdict(limits), "path": str(costs.path)}


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
    found = []
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
        found.append(Measured(name, launch, row, error, tuple(samples)))
        if progress:
            progress.reached(t + 1)
    return found


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
    """Launch and row cost, neither below 0, by least squares of the relative errors; the mean of these.

    Batches of one size tell only their sum: the launch gets it all.
    """
    line = np.stack([1.0 / seconds, rows / seconds], axis=1)

    def solved(columns: list[int]) -> NDArray[np.float64]:
        both = np.zeros(2)
        both[columns] = np.linalg.lstsq(line[:, columns], np.ones(len(rows)), rcond=None)[0]
        return both

    def squares(found: NDArray[np.float64]) -> float:
        return float(((line @ found - 1.0) ** 2).sum())

    best = solved([0, 1] if len(rows) > 1 else [0])
    if best.min() < 0:
        best = min(solved([0]), solved([1]), key=squares)
    return float(best[0]), float(best[1]), float(np.abs(line @ best - 1.0).mean())
