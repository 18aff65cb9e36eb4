"""The report of `abw compare-precision`: a model's outputs with weights in fewer bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.progress import Clock, Progress, Quiet
from abw.core.exec.interface import Executor
from abw.core.exec.precision import PRECISIONS, Precision
from abw.core.exec.registry import executor_of
from abw.core.exec.trained import load_weights, make_params
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.columns import columns_of
from abw.core.run.minibatches import run_all
from abw.core.run.observing.footprint import require_weights
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.store.outputs import Column, Output, outputs_of
from abw.core.store.ragged import Ragged, joined
from abw.core.tools.opened import report_head

# All mini-batches are run so often, of which the least time counts; precisions take turns.
TIMES = 3


def compare_precisions(
    spec: Path,
    overrides: Overrides,
    precisions: Sequence[Precision] = PRECISIONS,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """A model's outputs by precision beside float32's: the document of `abw compare-precision --json`.

    Outputs are compared as they are computed, before the spec makes labels of them. Errors: AbwError and its
    kinds. Cost: running all instances some times by each precision.
    """
    progress = progress or Quiet()
    model = open_model(spec, overrides)
    require_weights(model)
    trained = load_weights(model)
    model = replace(model, answers={})
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, model.data.limit), networks)
    params = make_params(networks.cells, trained, seed)
    outputs = outputs_of(model)
    names = tuple(p for p in PRECISIONS if p == "float32" or p in precisions)
    executors: dict[Precision, Executor] = {}
    for name in names:
        executors[name] = executor_of("cpu", name)
        executors[name].prepare(networks.network, params, threads)
    found = {name: _outputs(workload, executors[name], outputs) for name in names}  # compiles what is left to
    seconds = dict.fromkeys(names, float("inf"))
    progress.phase("time", TIMES)
    for turn in range(TIMES):
        for name in names:
            seconds[name] = min(seconds[name], _seconds(workload, executors[name]))
        progress.reached(turn + 1)
    return {
        **report_head(model),
        "weights": str(trained.file.path) if trained else None,
        "seed": seed,
        "threads": threads,
        "instances": len(workload.instances),
        "batch": model.data.batch,
        "precisions": [
            {
                "precision": name,
                "packed_bytes": executors[name].packed_bytes,
                "seconds": seconds[name],
                "speed": seconds["float32"] / seconds[name],
                "outputs": [
                    {"output": output.name, **_compared(output, one, other)}
                    for output, one, other in zip(outputs, found[name], found["float32"], strict=True)
                ],
            }
            for name in names
        ],
    }


def _seconds(workload: Workload, executor: Executor) -> float:
    """The wall-clock time of the kernels on all mini-batches; of models that grow, with their decisions."""
    clock = Clock("construct", "schedule", "plan", "execute")
    for _ in run_all(workload, Sufficient(), executor, clock):
        pass
    return clock.seconds["execute"]


def _outputs(workload: Workload, executor: Executor, outputs: Sequence[Output]) -> list[Ragged]:
    """All outputs of all instances."""
    parts: list[list[Column]] = [[] for _ in outputs]
    for batch, result in run_all(workload, Sufficient(), executor):
        for part, column in zip(parts, columns_of(workload, batch, result), strict=True):
            # what is read is a view of memory that the next mini-batch takes
            part.append(replace(column, values=column.values.copy()))
    count = len(workload.instances)
    return [joined(output, part, (), count) for output, part in zip(outputs, parts, strict=True)]


def _compared(output: Output, found: Ragged, expected: Ragged) -> dict[str, Any]:
    """How an output differs, where both have it at the same vertices.

    `agree` of `values` have the same largest element (the first of equals), or are the same decision; None
    where a value is one number. Errors are absolute differences over the root mean square of what is
    expected; None of decisions. `other_instances` grew otherwise and are left out; so are, of errors,
    `not_finite` numbers that are finite in what is expected.
    """
    spans = zip(*(pairwise(output.offsets.tolist()) for output in (found, expected)), strict=True)
    alike = [
        np.array_equal(found.vertex[slice(*mine)], expected.vertex[slice(*theirs)]) for mine, theirs in spans
    ]
    same = np.array(alike, bool)
    a, b = (
        output.values.reshape(len(output.values), -1)[np.repeat(same, np.diff(output.offsets))]
        for output in (found, expected)
    )
    report: dict[str, Any] = {"values": len(a), "other_instances": int((~same).sum())}
    if output.decided:
        agree = int((a == b).all(axis=1).sum())
        return {**report, "agree": agree, "largest_error": None, "mean_error": None, "not_finite": 0}
    finite = np.isfinite(a) & np.isfinite(b)
    wanted = b[finite].astype(np.float64)
    error = np.abs(a[finite] - wanted)
    scale = float(np.sqrt(np.mean(np.square(wanted)))) if wanted.any() else 1.0
    return {
        **report,
        "agree": int((a.argmax(axis=1) == b.argmax(axis=1)).sum()) if b.shape[1] > 1 else None,
        "largest_error": float(error.max(initial=0)) / scale,
        "mean_error": float(error.mean()) / scale if error.size else 0.0,
        "not_finite": int((np.isfinite(b) & ~finite).sum()),
    }
