"""Peak memory of whole runs, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from abw.cli.bench.workloads import CASES
from abw.core.errors import AbwError
from abw.core.progress import Progress


def bench_memory(specs: Path, data: Path, batch: int, hidden: int, progress: Progress) -> dict[str, Any]:
    """The peak resident memory of `abw run` on one mini-batch of each workload, and of one tree alone.

    The latter is what the interpreter, the libraries and compilation take by themselves.
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
            }
        )
        progress.reached(len(rows))
    return {"schema_version": 1, "hidden": hidden, "rows": rows}


def _run(spec: Path, data: Path, size: int, hidden: int) -> dict[str, Any]:
    flags = ["--limit", str(size), "--batch", str(size), "--set", f"hidden={hidden}", "--json", "-q"]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from abw.cli.main import main; main()",
                "run",
                str(spec),
                "--data",
                str(data),
                *flags,
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ABW_HOME": home},
        )
    if done.returncode:
        raise AbwError(f"`abw run {spec}` failed: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report
