"""What a batch costs besides its rows: a launch, and the reading of its type's weights, fitted over sizes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from abw.bench.workloads import case, files_of
from abw.core.base.progress import Progress, each

WORKLOADS = ("TreeLSTM", "LatticeGRU")
"""Cells with two and with one state, types that are read by few and by many."""


def bench_launch(
    specs: Path, data: Path, executors: list[str], hidden: list[int], batch: int, progress: Progress
) -> dict[str, Any]:
    """For each executor, `launch` seconds and `reading` bytes a second; `error` is the mean relative one.

    `types`: what is fitted, of each type and size the bytes of weights, and what a launch takes as `measure`
    finds it on one mini-batch; CPU time of one thread. Types whose rows alone explain all of their time say
    nothing, and are left out. Errors: AbwError.
    """
    import numpy as np

    from abw.core.run.measure import fit

    jobs = [(executor, name, size) for executor in executors for name in WORKLOADS for size in hidden]
    types = [row for job in each(jobs, progress, "launches") for row in _types(specs, data, *job, batch)]
    rows = []
    for executor in executors:
        mine = [(t["weights_bytes"], t["launch"]) for t in types if t["executor"] == executor]
        launch, a_byte, error = fit(*(np.array(column, np.float64) for column in zip(*mine, strict=True)))
        rows.append(
            {"executor": executor, "launch": launch, "reading": 1.0 / (a_byte or 1e-15), "error": error}
        )
    return {"schema_version": 1, "hidden": hidden, "batch": batch, "rows": rows, "types": types}


def _types(
    specs: Path, data: Path, executor: str, name: str, hidden: int, batch: int
) -> list[dict[str, Any]]:
    """A row of `types` for each type of a workload."""
    from abw.core.exec.params import init_params
    from abw.core.exec.registry import get_executor
    from abw.core.run.learning import weight_bytes
    from abw.core.run.measure import measure
    from abw.core.run.workload import load_workload, open_model
    from abw.core.spec.load import Overrides

    spec, source = files_of(case(name), specs, data)
    overrides = Overrides(data=source, limit=batch, batch=batch, dims={"hidden": hidden})
    workload = load_workload(open_model(spec, overrides), "cell")
    chosen = get_executor(executor)
    chosen.prepare(workload.network, init_params(workload.network, 0), 1)
    found = measure(workload.graph(0, len(workload.instances)), chosen, clock=time.thread_time)
    return [
        {
            "executor": executor, "workload": name, "hidden": hidden, "type": m.type, "launch": m.launch,
            "row": m.row, "weights_bytes": weights,
        }
        for m, weights in zip(found, weight_bytes(workload.network), strict=True)
        if m.launch > 0
    ]  # fmt: skip
