"""The executor `cpu` beside the machine's peak, the executor `blas`, and PyTorch batched by level."""

from __future__ import annotations

import time
from itertools import product
from typing import Annotated

from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, Runs, SpecsDir, ThreadCounts, option
from abw.bench.pytorch.install import torch_or_none
from abw.bench.pytorch.levels import TorchLevels
from abw.bench.rates import least_seconds
from abw.bench.rows import Row, Rows
from abw.bench.timing import Peak, interleaved
from abw.bench.workloads import MODELS, Repeated, mini_batch, refuse_different
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.target import TargetName, get_target
from abw.core.exec.registry import get_executor

# How far outputs, of order 1 and in float32, may be apart.
TOLERANCE = 1e-4
Target = Annotated[
    TargetName | None, option("Instruction set of kernels and peak.", shown="the best available")
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
    what perfect overlap of reading and computing would reach.
    """
    torch, peak = torch_or_none(), Peak(target)
    for model, size, instances in product(MODELS, hidden, batch):
        planned, params = mini_batch(model, specs, data, instances, size)
        contenders: dict[str, Repeated | TorchLevels] = {
            f"cpu {count}": Repeated(CpuExecutor(target), planned, params, count) for count in threads
        }
        contenders["blas"] = Repeated(get_executor("blas"), planned, params)
        if torch and model == "TreeLSTM":
            contenders["torch"] = TorchLevels(torch, planned, params)
        expected = contenders["blas"].outputs()
        for name, contender in contenders.items():
            refuse_different(contender.outputs(), expected, TOLERANCE, f"{name}, hidden {size}")
        work = {"peak": peak, **{name: contender.run for name, contender in contenders.items()}}
        timers = {f"cpu {count}": time.perf_counter for count in threads if count > 1}
        seconds = interleaved(work, runs, warming=3, timers=timers)
        flops = peak.flops()
        allowed = planned.product_flops / least_seconds(planned, flops) / flops
        for count in threads:
            taken, single = seconds[f"cpu {count}"], count == 1
            yield Row(
                "",
                model=model,
                hidden=size,
                batch=instances,
                threads=count,
                execute_seconds=taken,
                of_peak_share=planned.product_flops / taken / flops / count,
                allowed_share=allowed if single else None,
                instances_per_second=planned.graph.instances / taken,
                torch_seconds=seconds.get("torch") if single else None,
                blas_seconds=seconds["blas"] if single else None,
            )
    yield peak.said(f" ({get_target(target).name})")
