"""Weights in bfloat16 and int8 beside float32: whole mini-batches, and their products in PyTorch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from abw.bench.executors.contenders import Ours, torch_or_none
from abw.bench.executors.cpu import MODELS
from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.workloads import mini_batch
from abw.core.exec.lower.stages import Stage, stages_of
from abw.core.exec.precision import PRECISIONS
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan

WARMING = 2
Run = Callable[[], object]


def precision(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [256, 512],
    batch: BatchSizes = [64, 8],
    runs: Runs = 9,
) -> Rows:
    """Compare weights in bfloat16 and int8 with float32, and with PyTorch's products, on one thread.

    `speed` is the median ratio to float32's time; `output` the largest error over float32's root mean
    square. PyTorch computes the plan's products alone, bfloat16 by oneDNN, int8 by `quantize_dynamic`.
    """
    from abw.core.exec.cpu.target import get_target
    from abw.core.exec.registry import executor_of

    torch = torch_or_none()
    for model, size, instances in ((m, h, b) for m in MODELS for h in hidden for b in batch):
        planned, params = mini_batch(model, specs, data, instances, size)
        ours = {p: Ours(executor_of("cpu", p), planned, params) for p in PRECISIONS}
        contenders: dict[str, Run] = {p: own.run for p, own in ours.items()}
        if torch:
            contenders |= _of_torch(torch, planned)
        seconds = _rounds(contenders, runs)
        outputs = {p: ours[p].outputs().astype(np.float64) for p in PRECISIONS}
        rms = float(np.sqrt(np.mean(np.square(outputs["float32"]))))
        for p in PRECISIONS:
            theirs = seconds.get(f"torch {p}")
            yield Row(
                "",
                model=model,
                hidden=size,
                batch=instances,
                precision=p,
                execute_seconds=median(seconds[p]),
                speed_times=_speed(seconds["float32"], seconds[p]),
                weights_bytes=ours[p].packed_bytes,
                output_error=float(np.abs(outputs[p] - outputs["float32"]).max()) / rms,
                torch_products_seconds=theirs and median(theirs),
                torch_speed_times=theirs and _speed(seconds["torch float32"], theirs),
            )
    target = get_target()
    for name, there in (("bfloat16 (AVX-512 BF16)", target.pairs), ("int8 (VNNI)", target.fours)):
        yield f"products of {name} in one instruction: {'yes' if there else 'no'}"


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
