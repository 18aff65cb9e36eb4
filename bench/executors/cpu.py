"""The executor `cpu` beside the machine's peak, our executor `blas`, and PyTorch batched by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from abw.bench.executors.blas import Contender, Ours, import_torch, refuse_different
from abw.bench.executors.torch_levels import TorchLevels
from abw.bench.rates import read_seconds
from abw.bench.workloads import mini_batch

if TYPE_CHECKING:
    from abw.core.exec.cpu.target import TargetName
    from abw.core.plan.plan import Plan

MODELS = ("TreeLSTM", "LatticeLSTM")
WARMING = 3


def bench_cpu(
    data: Path,
    hidden: list[int],
    batches: list[int],
    runs: int,
    specs: Path = Path("specs"),
    models: tuple[str, ...] = MODELS,
    threads: tuple[int, ...] = (1,),
    target: TargetName | None = None,
) -> dict[str, Any]:
    """Medians of `runs` rounds in which all take turns, the peak among them.

    A row for each number of threads: `seconds` from a plan to its outputs, by the thread's CPU time for one
    thread, else by the wall clock; `wall_seconds` by the wall clock for all. `share_of_peak` counts the
    arithmetic of matrix products alone, of as many times the peak as there are threads; `allowed_share` is
    what `least_seconds` would make of it. For one thread
    `torch_seconds` is the better of two ways to batch the TreeLSTM by level (see `TorchLevels`), null for
    other models and where PyTorch is absent, and `blas_seconds` our executor `blas`. `target`: what kernels
    and peak are compiled for, the best that the machine has unless told. Errors: AbwError where outputs
    differ, and where the machine has it not.
    """
    from abw.core.base.errors import AbwError
    from abw.core.exec.cpu.executor import CpuExecutor
    from abw.core.exec.cpu.profile.peak import peak_meter
    from abw.core.exec.cpu.target import get_target
    from abw.core.exec.registry import get_executor

    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    meter = peak_meter(target)
    peaks, rows = [], []
    for model in models:
        for size in hidden:
            for batch in batches:
                planned, params = mini_batch(model, specs, data, batch, size)
                contenders: dict[str, Contender] = {
                    f"cpu {count}": Ours(CpuExecutor(target), planned, params, count) for count in threads
                }
                contenders["blas"] = Ours(get_executor("blas"), planned, params)
                if torch and model == "TreeLSTM":
                    contenders["torch split"] = TorchLevels(torch, planned, params, split=True)
                    contenders["torch dense"] = TorchLevels(torch, planned, params)
                refuse_different(contenders, "blas", size)
                peak, seconds = _rounds(meter, contenders, runs)
                by_torch = [taken[0] for name, taken in seconds.items() if name.startswith("torch")]
                peaks.append(peak)
                allowed = planned.product_flops / least_seconds(planned, peak) / peak
                for count in threads:
                    taken = seconds[f"cpu {count}"][count > 1]
                    rows.append(
                        {
                            "model": model,
                            "hidden": size,
                            "batch": batch,
                            "threads": count,
                            "seconds": taken,
                            "wall_seconds": seconds[f"cpu {count}"][1],
                            "share_of_peak": planned.product_flops / taken / peak / count,
                            "allowed_share": allowed if count == 1 else None,
                            "instances_per_second": planned.graph.instances / taken,
                            "torch_seconds": min(by_torch, default=None) if count == 1 else None,
                            "blas_seconds": seconds["blas"][0] if count == 1 else None,
                        }
                    )
    return {
        "schema_version": 1,
        "target": get_target(target).name,
        "runs": runs,
        "peak_gflops": median(peaks) / 1e9,
        "rows": rows,
    }


def least_seconds(planned: Plan, peak: float) -> float:
    """What one thread needs for a plan's products at least: each batch's at the peak, or, where that takes
    longer, reading its type's weights once, at the rate at which all of them together are read again.
    """
    from abw.core.run.footprint import packed_bytes

    packed = packed_bytes(planned.graph.network)
    rate = sum(packed.values()) / read_seconds(sum(packed.values()))
    kind, lanes = planned.schedule.type, np.diff(planned.schedule.ptr)
    weights = np.array([packed.get(t, 0) for t in range(len(planned.graph.network.types))])
    return float(np.maximum(lanes * planned.arenas.product_flops[kind] / peak, weights[kind] / rate).sum())


def _rounds(
    meter: Callable[[], float], contenders: dict[str, Contender], runs: int
) -> tuple[float, dict[str, tuple[float, float]]]:
    """The median peak, and each contender's median thread CPU time and wall-clock time.

    Each turn begins with runs that do not count: a stream of mini-batches does not find its weights and its
    interpreter thrown out of the caches by another contender's.
    """
    peaks: list[float] = []
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(runs):
        peaks.append(max(meter() for _ in range(5)))
        for name, contender in contenders.items():
            for _ in range(WARMING):
                contender.run()
            start = time.thread_time(), time.perf_counter()
            contender.run()
            taken[name].append((time.thread_time() - start[0], time.perf_counter() - start[1]))
    medians = {name: (median(c for c, _ in t), median(w for _, w in t)) for name, t in taken.items()}
    return median(peaks), medians
