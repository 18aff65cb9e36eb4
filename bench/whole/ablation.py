"""What each part of the system is worth: policy, layout, fusion, hoisting and executor, each with each."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from abw.bench.systems import Setting, System, chosen_cases, preset, side_by_side
from abw.core.base.progress import Progress, each

POLICIES = ("agenda-static", "fsm sort", "fsm best")
BASELINE = "cavs-dynet"


def bench_ablation(
    specs: Path,
    data: Path,
    workloads: str | None,
    hidden: list[int],
    batches: list[int],
    runs: int,
    progress: Progress,
) -> dict[str, Any]:
    """A row for each workload, size and setting: one thread, medians by step; `speedup` is over cavs-dynet.

    Layouts are compared where a cell's variables are in memory at all: in the executor blas. The executor
    cpu has them in registers. Where there is nothing to hoist or to fuse, there are no rows with it. Errors:
    AbwError.
    """
    settings = _settings()
    rows: list[dict[str, Any]] = []
    every = list(product(chosen_cases(workloads), hidden, batches))
    for chosen, size, batch in each(every, progress, "ablation"):
        systems = {
            name: system
            for name, setting in settings.items()
            if (system := System(chosen, setting, specs, data, size, batch)).differs
        }
        taken_by = side_by_side(systems, runs)
        for name, taken in taken_by.items():
            setting = settings[name]
            rows.append(
                {
                    "workload": chosen.name,
                    "hidden": size,
                    "batch": batch,
                    "executor": setting.executor,
                    "policy": name.split("/")[1],
                    "layout": setting.layout,
                    "hoist": setting.hoist,
                    "fuse": setting.fuse,
                    "batches": taken.batches,
                    "launches": taken.launches,
                    "memory_kernels": taken.memory_kernels,
                    "bytes_moved": taken.bytes_moved,
                    "seconds": dict(taken.seconds),
                    "instances_per_second": taken.instances_per_second,
                    "speedup": taken_by[_name(preset(BASELINE))].total / taken.total,
                }
            )
    return {"schema_version": 1, "runs": runs, "rows": rows}


def _settings() -> dict[str, Setting]:
    settings = [preset(BASELINE)]
    for policy, hoist, fuse in product(POLICIES, (False, True), (False, True)):
        name, _, encoding = policy.partition(" ")
        for executor, layout in (("blas", "declared"), ("blas", "planned"), ("cpu", "planned")):
            encoded = encoding or "best"
            settings.append(Setting(name, encoded, "cell", layout, executor, hoist, fuse))  # type: ignore[arg-type]
    return {_name(setting): setting for setting in settings}


def _name(setting: Setting) -> str:
    policy = f"fsm {setting.encoding}" if setting.policy == "fsm" else setting.policy
    return f"{setting.executor}/{policy}/{setting.layout}/{setting.hoist}/{setting.fuse}"
