"""What each part of the system is worth: policy, layout, fusion, hoisting and executor, each with each."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from abw.cli.bench.systems import PHASES, Setting, System, chosen_cases, preset, side_by_side
from abw.core.progress import Progress

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
    """A row for each workload, size and setting: one thread, medians by phase; `speedup` is over cavs-dynet.

    Layouts are compared where a cell's variables are in memory at all: in the executor blas. The executor
    cpu has them in registers. Where there is nothing to
    hoist or to fuse, there are no rows with it. Errors: AbwError.
    """
    settings = _settings()
    cases = chosen_cases(workloads)
    rows: list[dict[str, Any]] = []
    progress.phase("ablation", len(cases) * len(hidden) * len(batches))
    for number, (chosen, size, batch) in enumerate(product(cases, hidden, batches), 1):
        systems = {
            name: system
            for name, setting in settings.items()
            if (system := System(chosen, setting, specs, data, size, batch)).differs
        }
        found = side_by_side(systems, runs)
        for name, taken in found.items():
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
                    "seconds": {phase: taken.seconds[phase] for phase in PHASES},
                    "instances_per_second": taken.instances_per_second,
                    "speedup": found[_name(preset(BASELINE))].total / taken.total,
                }
            )
        progress.reached(number)
    return {"schema_version": 1, "runs": runs, "rows": rows}


def _settings() -> dict[str, Setting]:
    found = [preset(BASELINE)]
    for policy, hoist, fuse in product(POLICIES, (False, True), (False, True)):
        name, _, encoding = policy.partition(" ")
        for executor, layout in (("blas", "declared"), ("blas", "planned"), ("cpu", "planned")):
            encoded = encoding or "best"
            found.append(Setting(name, encoded, "cell", layout, executor, hoist, fuse))  # type: ignore[arg-type]
    return {_name(setting): setting for setting in found}


def _name(setting: Setting) -> str:
    policy = f"fsm {setting.encoding}" if setting.policy == "fsm" else setting.policy
    return f"{setting.executor}/{policy}/{setting.layout}/{setting.hoist}/{setting.fuse}"
