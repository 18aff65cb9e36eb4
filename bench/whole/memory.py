"""Peak memory of whole runs, each in a process of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from abw.bench.process import abw_check, abw_run
from abw.bench.workloads import CASES, case
from abw.core.base.progress import Progress

LARGE = ("TreeLSTM", 4096)
"""A workload and a size with more than a gigabyte of weights."""

LARGEST_MV = 128
"""MV-RNN has matrices at every node: beyond this size a mini-batch takes gigabytes."""


def bench_memory(
    specs: Path, data: Path, batch: int, hidden: list[int], progress: Progress
) -> dict[str, Any]:
    """What `abw check` predicts of each workload's process, and the peak of `abw run` on one mini-batch.

    Each is a process of its own, after another has compiled all that is kept on disk. `memory`: what was
    predicted of the mini-batch when it was run, and the peak then (null where that cannot be measured).
    """
    rows = []
    jobs = [(c, h) for c in CASES for h in hidden if c.name != "MV-RNN" or h <= LARGEST_MV]
    jobs.append((case(LARGE[0]), LARGE[1]))
    progress.phase("runs", len(jobs))
    with tempfile.TemporaryDirectory() as home:
        for chosen, size in jobs:
            options = ["--data", str(data / chosen.data), "--limit", str(batch), "--batch", str(batch)]
            options += ["--set", f"hidden={size}"]
            _, report = (abw_run(specs / chosen.spec, options, Path(home)) for _ in range(2))
            said = abw_check(specs / chosen.spec, options, Path(home))["process_bytes"]
            rows.append(
                {
                    "workload": chosen.name,
                    "hidden": size,
                    "batch": batch,
                    "nodes": report["nodes"],
                    "weights_bytes": said["weights"],
                    "predicted_bytes": said["total"],
                    "peak_memory_bytes": report["peak_memory_bytes"],
                    "memory": report["memory"],
                }
            )
            progress.reached(len(rows))
    return {"schema_version": 1, "hidden": hidden, "rows": rows}
