"""Weights in bfloat16 and int8 beside float32: whole mini-batches, and their products in PyTorch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from abw.bench.executors.blas import Ours, import_torch
from abw.bench.executors.cpu import MODELS
from abw.bench.workloads import mini_batch
from abw.core.exec.lower.stages import Stage, stages_of
from abw.core.exec.precision import PRECISIONS
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan

WARMING = 2
Run = Callable[[], object]


def bench_precision(
    data: Path,
    hidden: list[int],
    batches: list[int],
    runs: int,
    specs: Path = Path("specs"),
    models: tuple[str, ...] = MODELS,
) -> dict[str, Any]:
    """Medians of `runs` rounds in which all take turns, one thread's CPU time each.

    A row for each precision: `seconds` from a plan to its outputs; `speed`, the median over the rounds of
    float32's time over this one's; `packed_bytes` of weights; `error`, the largest difference of the model's
    output to float32's over its root mean square. `torch_seconds` are PyTorch's for the plan's products
    alone, a call a batch and stage, and `torch_speed` is as `speed`: bfloat16 by oneDNN, int8 by
    `quantize_dynamic`; null where PyTorch is absent.
    """
    from abw.core.base.errors import AbwError
    from abw.core.exec.cpu.target import get_target
    from abw.core.exec.registry import executor_of

    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    rows = []
    for model in models:
        for size in hidden:
            for batch in batches:
                planned, params = mini_batch(model, specs, data, batch, size)
                ours = {p: Ours(executor_of("cpu", p), planned, params) for p in PRECISIONS}
                contenders: dict[str, Run] = {p: own.run for p, own in ours.items()}
                if torch:
                    contenders |= _of_torch(torch, planned)
                seconds = _rounds(contenders, runs)
                outputs = {p: ours[p].outputs().astype(np.float64) for p in PRECISIONS}
                rms = float(np.sqrt(np.mean(np.square(outputs["float32"]))))
                for p in PRECISIONS:
                    theirs = seconds.get(f"torch {p}")
                    rows.append(
                        {
                            "model": model,
                            "hidden": size,
                            "batch": batch,
                            "precision": p,
                            "seconds": median(seconds[p]),
                            "speed": _speed(seconds["float32"], seconds[p]),
                            "packed_bytes": ours[p].packed_bytes,
                            "error": float(np.abs(outputs[p] - outputs["float32"]).max()) / rms,
                            "torch_seconds": theirs and median(theirs),
                            "torch_speed": theirs and _speed(seconds["torch float32"], theirs),
                        }
                    )
    target = get_target()
    return {
        "schema_version": 1,
        "target": target.name,
        "instructions": {"bf16": target.pairs, "int8": target.fours},
        "torch": torch and torch.__version__,
        "runs": runs,
        "rows": rows,
    }


def _speed(usual: list[float], taken: list[float]) -> float:
    return median(a / b for a, b in zip(usual, taken, strict=True))


def _rounds(contenders: dict[str, Run], runs: int) -> dict[str, list[float]]:
    """Each one's CPU times; a turn begins with runs that do not count."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, run in contenders.items():
            for _ in range(WARMING):
                run()
            start = time.thread_time()
            run()
            taken[name].append(time.thread_time() - start)
    return taken


def _size(stage: Stage) -> tuple[int, int]:
    """The columns and rows of all gates' weights as one matrix."""
    parts = {part for gate in stage.gates for _, _, part in gate.products}
    return sum(part.length for part in parts), len(stage.gates) * stage.shape[0]


def _of_torch(torch: Any, planned: Plan) -> dict[str, Run]:  # noqa: ANN401
    """The products of all batches of a plan in PyTorch, on random numbers: one of all gates of a stage."""
    cells = arenas_of(planned.graph.network).cells
    sizes = [[_size(s) for s in stages_of(c) if isinstance(s, Stage) and s.gates] if c else [] for c in cells]
    layers = {pair: torch.nn.Linear(*pair) for pairs in sizes for pair in pairs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what comes in its place
        quantised = {
            pair: torch.ao.quantization.quantize_dynamic(
                torch.nn.Sequential(layer), {torch.nn.Linear}, dtype=torch.qint8
            )
            for pair, layer in layers.items()
        }
    halves = {pair: torch.nn.Linear(*pair).to(torch.bfloat16) for pair in layers}
    schedule = planned.schedule
    calls = [
        (pair, torch.randn(int(schedule.ptr[b + 1] - schedule.ptr[b]), pair[0]))
        for b, kind in enumerate(schedule.type.tolist())
        for pair in sizes[kind]
    ]

    def made(own: dict[tuple[int, int], Any], kind: Any) -> Run:  # noqa: ANN401
        given = [(own[pair], rows.to(kind)) for pair, rows in calls]

        def run() -> None:
            with torch.inference_mode():
                for layer, rows in given:
                    layer(rows)

        return run

    return {
        "torch float32": made(layers, torch.float32),
        "torch bf16": made(halves, torch.bfloat16),
        "torch int8": made(quantised, torch.float32),
    }
