"""What a batch costs besides its rows: a launch, its operations, the reading of its type's weights."""

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
    """For each executor, seconds a `launch` and an `operation` of a batch, and bytes `reading` a second.

    They are fitted to what a launch takes as `measure` finds it on one mini-batch, for each type and size
    (`types`); CPU time of one thread. `error` is the mean relative one. Types whose rows alone explain all of
    their time say nothing, and are left out. Errors: AbwError.
    """
    import numpy as np

    from abw.core.run.measure import fit_terms

    jobs = [(executor, name, size) for executor in executors for name in WORKLOADS for size in hidden]
    types = [row for job in each(jobs, progress, "launches") for row in _types(specs, data, *job, batch)]
    rows = []
    for executor in executors:
        mine = [t for t in types if t["executor"] == executor]
        terms = np.array([(1, t["operations"], t["weights_bytes"]) for t in mine], np.float64)
        (launch, operation, byte), error = fit_terms(terms, np.array([t["launch"] for t in mine]))
        reading = 1 / max(float(byte), 1e-15)
        costs = {"launch": float(launch), "operation": float(operation), "reading": reading}
        rows.append({"executor": executor, **costs, "error": error})
    return {"schema_version": 1, "hidden": hidden, "batch": batch, "rows": rows, "types": types}


def _types(
    specs: Path, data: Path, executor: str, name: str, hidden: int, batch: int
) -> list[dict[str, Any]]:
    """A row of `types` for each type of a workload."""
    from abw.core.exec.params import init_params
    from abw.core.exec.registry import get_executor
    from abw.core.run.learning import operations_of, weight_bytes
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
            "row": m.row, "weights_bytes": weights, "operations": operations_of(t),
        }
        for m, weights, t in zip(found, weight_bytes(workload.network), workload.network.types, strict=True)
        if m.launch > 0
    ]  # fmt: skip
