"""The executor `cpu` beside the machine's peak, our executor `blas`, and PyTorch batched by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer

from abw.bench.executors.contenders import Contender, Ours, refuse_different, torch_or_none
from abw.bench.executors.torch_levels import TorchLevels
from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, Runs, SpecsDir, ThreadCounts
from abw.bench.rates import read_seconds
from abw.bench.rows import Row, Rows
from abw.bench.workloads import mini_batch

if TYPE_CHECKING:
    from abw.core.plan.plan import Plan

MODELS = ("TreeLSTM", "LatticeLSTM")
WARMING = 3
Target = Annotated[
    Literal["avx512", "avx2", "plain"] | None,
    typer.Option("--target", help="Instruction set of kernels and peak.", show_default="the best available"),
]


def cpu(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256, 512],
    batch: BatchSizes = [64, 8],
    threads: ThreadCounts = [1],
    runs: Runs = 9,
    target: Target = None,
) -> Rows:
    """Run plans on the executor cpu: share of the measured peak, compared with PyTorch by level and blas.

    CPU time for one thread, wall clock for several. `of peak` counts only matrix products; `allowed` is
    what perfect overlap of reading and computing would reach (see `least_seconds`).
    """
    from abw.core.exec.cpu.executor import CpuExecutor
    from abw.core.exec.cpu.profile.peak import peak_meter
    from abw.core.exec.cpu.target import get_target
    from abw.core.exec.registry import get_executor

    torch, meter, peaks = torch_or_none(), peak_meter(target), []
    for model, size, instances in ((m, h, b) for m in MODELS for h in hidden for b in batch):
        planned, params = mini_batch(model, specs, data, instances, size)
        contenders: dict[str, Contender] = {
            f"cpu {count}": Ours(CpuExecutor(target), planned, params, count) for count in threads
        }
        contenders["blas"] = Ours(get_executor("blas"), planned, params)
        if torch and model == "TreeLSTM":
            contenders["torch split"] = TorchLevels(torch, planned, params, split=True)
            contenders["torch dense"] = TorchLevels(torch, planned, params)
        refuse_different(contenders, "blas", size)
        peak, seconds = _rounds(meter, contenders, runs)
        peaks.append(peak)
        torches = [taken[0] for name, taken in seconds.items() if name.startswith("torch")]
        allowed = planned.product_flops / least_seconds(planned, peak) / peak
        for count in threads:
            taken = seconds[f"cpu {count}"][count > 1]
            yield Row(
                "",
                model=model,
                hidden=size,
                batch=instances,
                threads=count,
                execute_seconds=taken,
                of_peak_share=planned.product_flops / taken / peak / count,
                allowed_share=allowed if count == 1 else None,
                instances_per_second=planned.graph.instances / taken,
                torch_seconds=min(torches, default=None) if count == 1 else None,
                blas_seconds=seconds["blas"][0] if count == 1 else None,
            )
    yield f"measured peak of one thread ({get_target(target).name}): {median(peaks) / 1e9:.1f} GFLOP/s"


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
