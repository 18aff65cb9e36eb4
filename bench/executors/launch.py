"""What a batch costs besides its rows: a launch, its operations, the reading of its type's weights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from abw.bench.options import SPECS, Batch, DataDir, HiddenSizes, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.workloads import case, files_of

# Cells with two and with one state, types that are read by few and by many.
WORKLOADS = ("TreeLSTM", "LatticeGRU")


def launch(
    data: DataDir,
    specs: SpecsDir = SPECS,
    executor: Annotated[list[str], typer.Option("--executor", help="Executors; repeatable.")] = [
        "cpu",
        "blas",
    ],
    hidden: HiddenSizes = [32, 64, 128, 256, 512],
    batch: Batch = 256,
) -> Rows:
    """Measure what a batch costs apart from its rows: a launch, its operations, its weights.

    Fitted to the CPU time of launches of each type and size on one mini-batch. Types explained by their
    rows alone are left out. `fit` is the mean relative error.
    """
    import numpy as np

    from abw.core.run.measure import fit_terms

    for chosen in executor:
        types = [
            t for name in WORKLOADS for size in hidden for t in _types(specs, data, chosen, name, size, batch)
        ]
        terms = np.array([(1, t["operations"], t["weights_bytes"]) for t in types], np.float64)
        found, error = fit_terms(terms, np.array([t["launch_seconds"] for t in types]))
        seconds, operation, byte = map(float, found)
        yield Row(
            "what a batch costs",
            executor=chosen,
            launch_seconds=seconds,
            operation_seconds=operation,
            weight_bytes_per_second=1 / max(byte, 1e-15),
            fit_error=error,
        )
        for row in types:
            yield Row("by type", **row)


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
            "executor": executor,
            "workload": name,
            "hidden": hidden,
            "type": m.type,
            "operations": operations_of(t),
            "weights_bytes": weights,
            "launch_seconds": m.launch,
            "row_seconds": m.row,
        }
        for m, weights, t in zip(found, weight_bytes(workload.network), workload.network.types, strict=True)
        if m.launch > 0
    ]
