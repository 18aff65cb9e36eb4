"""What `abw run --engine ray` takes beside the work itself: CPU time by process, the driver's memory."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from abw.bench.process import RUN
from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, each

EVERY = 0.05
"""Seconds between two looks at the processes."""
ROOTS = ("{per: node,", "inputs: {x: h}}"), ("{per: instance,", "inputs: {x: root.h}}")
"""What makes the tree LSTM's outputs those of the roots alone: it is not the output that is measured."""


@dataclass(frozen=True, slots=True)
class Cost:
    """A run of so many instances: seconds in all, of CPU by driver, by Ray's own processes and by workers,
    and the bytes of memory that the driver held at most.
    """

    instances: int
    seconds: float
    driver: float
    engine: float
    workers: float
    held: int


def bench_engine(
    specs: Path, data: Path, hidden: int, instances: int, workers: list[int], runs: int, progress: Progress
) -> dict[str, Any]:
    """Runs of a tenth of the instances and of all of them, in turns, with each number of workers.

    What grows with the instances is the difference of the two, which start alike. Medians of `runs`.
    Errors: AbwError without Ray, or without Linux's /proc.
    """
    if find_spec("ray") is None:
        raise AbwError("the engine needs ray", hint='pip install "abw[ray]"')
    if not Path("/proc/self/stat").exists():
        raise AbwError("processes are measured by Linux's /proc, which is not here")
    trees = (data / "trees" / "train.txt").read_bytes().rstrip(b"\n") + b"\n"
    sizes = [max(1, instances // 10), instances]
    plan = [(count, size) for _ in range(runs) for count in workers for size in sizes]
    found: dict[tuple[int, int], list[Cost]] = {one: [] for one in plan}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        spec = _spec(specs, folder)
        for size in sizes:
            _write(folder / f"{size}.txt", trees, size)
        for count, size in each(plan, progress, "engine"):
            cost = _run(spec, folder, size, count, hidden)
            found[count, size].append(cost)
            took = f"{cost.seconds:.0f} s, driver {cost.driver:.1f} s, ray {cost.engine:.1f} s of CPU"
            progress.phase(f"{size:,} instances, workers {count}: {took}")
    done = [count for count in workers if all(found[count, size] for size in sizes)]
    rows = [_row(count, found[count, sizes[0]], found[count, sizes[1]]) for count in done]
    return {"schema_version": 1, "hidden": hidden, "instances": instances, "runs": runs, "rows": rows}


def _row(workers: int, small: list[Cost], large: list[Cost]) -> dict[str, Any]:
    """What an instance takes, by the differences of runs that follow each other."""
    pairs = list(zip(small, large, strict=False))

    def slope(name: str) -> float:
        more = [(getattr(b, name) - getattr(a, name)) / (b.instances - a.instances) for a, b in pairs]
        return float(median(more))

    return {
        "workers": workers,
        "seconds": slope("seconds"),
        "driver_cpu": slope("driver"),
        "engine_cpu": slope("engine"),
        "worker_cpu": slope("workers"),
        "start_cpu": median(a.driver + a.engine for a in small),
        "driver_bytes": max(b.held for b in large),
    }


def _spec(specs: Path, folder: Path) -> Path:
    text = (specs / "treelstm.yaml").read_text()
    for before, after in zip(*ROOTS, strict=True):
        text = text.replace(before, after)
    shutil.copytree(specs / "cells", folder / "cells")
    spec = folder / "treelstm.yaml"
    spec.write_text(text)
    return spec


def _write(path: Path, trees: bytes, instances: int) -> None:
    """The trees, again and again, so many of them in all."""
    lines = trees.splitlines(keepends=True)
    copies = math.ceil(instances / len(lines))
    with path.open("wb") as file:
        for left in range(instances, instances - copies * len(lines), -len(lines)):
            file.write(trees if left >= len(lines) else b"".join(lines[:left]))


def _run(spec: Path, folder: Path, size: int, workers: int, hidden: int) -> Cost:
    """One run, whose processes are looked at until it ends. Errors: AbwError."""
    command = [sys.executable, "-c", RUN, "run", str(spec), "--data", str(folder / f"{size}.txt")]
    command += ["--output", str(folder / "out.jsonl"), "--policy", "sufficient", "--set", f"hidden={hidden}"]
    command += ["--engine", "ray", "--workers", str(workers), "--json", "--quiet"]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ours: dict[int, tuple[bool, float]] = {}
    held = 0
    begun = time.perf_counter()
    with (
        (folder / "report").open("w+") as said,
        subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment) as run,
    ):
        while run.poll() is None:
            time.sleep(EVERY)
            ours |= processes(run.pid)
            held = max(held, _held(run.pid))
        seconds = time.perf_counter() - begun
        said.seek(0)
        text = said.read()
    if run.returncode:
        raise AbwError(f"`abw run --engine ray` failed: {text.strip()}")
    report = json.loads(text)
    driver = ours.pop(run.pid)[1]
    engine = sum(cpu for is_worker, cpu in ours.values() if not is_worker)
    return Cost(report["instances"], seconds, driver, engine, report["worker_cpu_seconds"], held)


def processes(root: int) -> dict[int, tuple[bool, float]]:
    """A process and all below it: whether each runs tasks of Ray's, and the seconds of CPU that it took."""
    parents: dict[int, int] = {}
    about: dict[int, tuple[bool, float]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text().rpartition(")")[2].split()
                title = (path / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if title:  # else it has ended, and is not yet taken note of
                seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
                parents[int(path.name)] = int(stat[1])
                about[int(path.name)] = title.startswith(b"ray::") and b"Agent" not in title, seconds
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: about[pid] for pid in below if pid in about}


def _held(pid: int) -> int:
    """The most memory that a process has held, in bytes; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) * 1024 if found else 0
