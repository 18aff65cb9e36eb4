"""What fused reductions and grouped launches are worth in the executor: whole workloads, step by step."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from abw.bench.systems import System, chosen_cases, preset, side_by_side
from abw.core.base.progress import Progress, each

WAYS = {"": (False, False), "fuse": (True, False), "group": (False, True), "fuse group": (True, True)}


def bench_passes(
    specs: Path,
    data: Path,
    workloads: str | None,
    hidden: list[int],
    batches: list[int],
    threads: list[int],
    runs: int,
    progress: Progress,
) -> dict[str, Any]:
    """A row for each workload, size and way by the rule `critical`: medians; `gain` is over plain graphs.

    A row has the runs' `batches` (steps of the policy), `launches` and `kernels` (batches of one type).
    Mini-batches are as many as make 64 instances, at most 16. Errors: AbwError.
    """
    rows: list[dict[str, Any]] = []
    every = list(product(chosen_cases(workloads), hidden, batches, threads))
    for chosen, size, batch, count in each(every, progress, "passes"):
        many = max(1, min(16, 64 // batch))
        systems = {
            way: System(
                chosen,
                replace(preset("abw", count), policy="critical", fuse=fuse, group=group),
                specs,
                data,
                size,
                batch,
                many,
            )
            for way, (fuse, group) in WAYS.items()
        }
        taken_by = side_by_side(systems, runs)
        for way, taken in taken_by.items():
            rows.append(
                {
                    "workload": chosen.name,
                    "hidden": size,
                    "batch": batch,
                    "threads": count,
                    "passes": way.split(),
                    "mini_batches": many,
                    "batches": taken.batches,
                    "launches": taken.launches,
                    "kernels": taken.kernels,
                    "seconds": dict(taken.seconds),
                    "gain": taken_by[""].total / taken.total,
                    "execute_gain": taken_by[""].seconds["execute"] / taken.seconds["execute"],
                }
            )
    return {"schema_version": 1, "runs": runs, "rows": rows}
