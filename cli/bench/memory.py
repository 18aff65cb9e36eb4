"""Peak memory of whole runs, each in a process of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from abw.cli.bench.process import abw_run
from abw.cli.bench.workloads import CASES
from abw.core.progress import Progress


def bench_memory(specs: Path, data: Path, batch: int, hidden: int, progress: Progress) -> dict[str, Any]:
    """The peak resident memory of `abw run` on one mini-batch of each workload, and of one tree alone.

    The latter is what the interpreter, the libraries and compilation take by themselves. `memory` is what
    was predicted, and the peak while the mini-batch ran (null where that cannot be measured).
    """
    rows = []
    progress.phase("runs", len(CASES) + 1)
    for chosen, size in [(CASES[3], 1), *((c, batch) for c in CASES)]:
        report = _run(specs / chosen.spec, data / chosen.data, size, hidden)
        rows.append(
            {
                "workload": chosen.name,
                "batch": size,
                "nodes": report["nodes"],
                "peak_memory_bytes": report["peak_memory_bytes"],
                "memory": report["memory"],
            }
        )
        progress.reached(len(rows))
    return {"schema_version": 1, "hidden": hidden, "rows": rows}


def _run(spec: Path, data: Path, size: int, hidden: int) -> dict[str, Any]:
    options = ["--data", str(data), "--limit", str(size), "--batch", str(size), "--set", f"hidden={hidden}"]
    with tempfile.TemporaryDirectory() as home:
        return abw_run(spec, options, Path(home))
