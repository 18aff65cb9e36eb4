"""Weights in bfloat16 and int8 beside float32, on whole mini-batches."""

from __future__ import annotations

from itertools import product
from statistics import median

import numpy as np

from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import rounds
from abw.bench.workloads import MODELS, Repeated, mini_batch
from abw.core.exec.agreement import error_of
from abw.core.exec.cpu.target import get_target
from abw.core.exec.precision import PRECISIONS
from abw.core.exec.registry import executor_of


def precision(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [256, 512],
    batch: BatchSizes = [64, 8],
    runs: Runs = 9,
) -> Rows:
    """Compare weights in bfloat16 and int8 with float32, on one thread.

    `speed` is the median ratio to float32's time; `output` the largest error over float32's root mean
    square.
    """
    for model, size, instances in product(MODELS, hidden, batch):
        planned, params = mini_batch(model, specs, data, instances, size)
        ours = {p: Repeated(executor_of("cpu", p), planned, params) for p in PRECISIONS}
        seconds = rounds({p: one.run for p, one in ours.items()}, runs, warming=2)
        outputs = {p: one.outputs().astype(np.float64) for p, one in ours.items()}
        for p in PRECISIONS:
            yield Row(
                "",
                model=model,
                hidden=size,
                batch=instances,
                precision=p,
                execute_seconds=median(seconds[p]),
                speed_times=median(a / b for a, b in zip(seconds["float32"], seconds[p], strict=True)),
                weights_bytes=ours[p].executor.packed_bytes,
                output_error=error_of(outputs[p], outputs["float32"]),
            )
    yield f"products of int8 in one instruction (VNNI): {'yes' if get_target().fours else 'no'}"
