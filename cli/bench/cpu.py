"""The executor `cpu` beside the machine's peak, our executor `blas`, and PyTorch batched by hand."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from abw.cli.bench.blas import ByLevel, Contender, Ours, import_torch, mini_batch, refuse_different

MODELS = ("TreeLSTM", "LatticeLSTM")


def bench_cpu(
    data: Path,
    hidden: list[int],
    batches: list[int],
    runs: int,
    specs: Path = Path("specs"),
    models: tuple[str, ...] = MODELS,
) -> dict[str, Any]:
    """One thread, thread CPU time, medians of `runs` rounds in which all take turns, the peak among them.

    `share_of_peak` counts the arithmetic of matrix products alone, `seconds` everything from a plan to its
    outputs. `torch_seconds` is the better of two ways to batch the TreeLSTM by level (see `ByLevel`), null
    for other models and where PyTorch is absent. Errors: AbwError where outputs differ.
    """
    from abw.core.errors import AbwError
    from abw.core.exec.cpu.peak import peak_meter
    from abw.core.exec.cpu.target import get_target

    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    meter = peak_meter()
    peaks, rows = [], []
    for model in models:
        for size in hidden:
            for batch in batches:
                planned, params = mini_batch(model, specs, data, batch, size)
                contenders: dict[str, Contender] = {
                    "cpu": Ours("cpu", planned, params),
                    "blas": Ours("blas", planned, params),
                }
                if torch and model == "TreeLSTM":
                    contenders["torch_split"] = ByLevel(torch, planned, params, dense=False)
                    contenders["torch_dense"] = ByLevel(torch, planned, params, dense=True)
                refuse_different(contenders, "cpu", size)
                peak, seconds = _rounds(meter, contenders, runs)
                by_torch = [taken for name, taken in seconds.items() if name.startswith("torch")]
                peaks.append(peak)
                rows.append(
                    {
                        "model": model,
                        "hidden": size,
                        "batch": batch,
                        "threads": 1,
                        "seconds": seconds["cpu"],
                        "share_of_peak": planned.product_flops / seconds["cpu"] / peak,
                        "instances_per_second": planned.graph.instances / seconds["cpu"],
                        "torch_seconds": min(by_torch, default=None),
                        "blas_seconds": seconds["blas"],
                    }
                )
    return {
        "schema_version": 1,
        "target": get_target().name,
        "runs": runs,
        "peak_gflops": median(peaks) / 1e9,
        "rows": rows,
    }


def _rounds(
    meter: Any,  # noqa: ANN401 (see peak_meter)
    contenders: dict[str, Contender],
    runs: int,
) -> tuple[float, dict[str, float]]:
    """The median peak, and the median thread CPU time of each contender.

    Each turn begins with a run that does not count: a stream of mini-batches does not find its weights thrown
    out of the caches by another program's.
    """
    peaks: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        peaks.append(max(meter() for _ in range(5)))
        for name, contender in contenders.items():
            contender.run()
            start = time.thread_time()
            contender.run()
            taken[name].append(time.thread_time() - start)
    return median(peaks), {name: median(times) for name, times in taken.items()}
