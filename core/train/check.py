"""Gradients beside finite differences, on a user's own model and data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.run.workload import open_workload
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named
from abw.core.train.loop import Learns
from abw.core.train.session import TrainOptions, begin

# So many instances, and so many numbers of each parameter, are looked at.
INSTANCES, NUMBERS = 3, 4
STEP = 1e-3
# Of the largest gradient: weights are in single precision, a step in them is known to some 1e-5.
TOLERANCE = 5e-4


def check_gradients(spec: Path, overrides: Overrides, options: TrainOptions) -> dict[str, Any]:
    """Compare gradients with central differences of the loss, in double precision, at some numbers of each
    parameter and table: those with the largest gradients and some at random.

    Errors: AbwError where one is wrong. Cost: two runs of the reference executor a number.
    """
    few = replace(overrides, limit=min(overrides.limit or INSTANCES, INSTANCES))
    begun = begin(spec, few, replace(options, executor="reference", threads=None))
    learner, instances = begun.learner, begun.instances
    workload = open_workload(learner.model, instances, learner.passes.networks)
    targets = learner.targets(instances)

    def found() -> Any:  # noqa: ANN401
        # what the first epoch leaves out is left out each time
        return learner.found(learner.lesson(workload, 0, len(instances), targets, 0))

    first = found()
    divisor = learner.divisor(first.values, len(instances))
    gradient = first.gradient.vector(learner.params)

    def loss() -> float:
        learner.changed()
        return float(found().loss / divisor)

    return compared(learner.model.name, learner, gradient, loss, options.seed)


def compared(
    model: str, learner: Learns, gradient: NDArray[Any], loss: Callable[[], float], seed: int
) -> dict[str, Any]:
    """Compare a gradient, like `Params.flat`, with differences of `loss`, which takes changed parameters.

    Errors: AbwError where it is wrong.
    """
    flat = learner.passes.params.flat
    assert flat is not None
    random = np.random.default_rng(seed)
    largest = max(float(np.abs(gradient).max(initial=0)), 1e-30)
    rows: list[dict[str, Any]] = []
    at = 0
    for name, value in named(learner.network, learner.passes.params).items():
        own = gradient[at : at + value.size]
        most = np.argsort(-np.abs(own))[: NUMBERS // 2]
        chosen = sorted({*most.tolist(), *random.integers(0, value.size, NUMBERS // 2).tolist()})
        error = 0.0
        for i in chosen:
            before, ends = flat[at + i], []
            for sign in (1, -1):
                flat[at + i] = before + sign * STEP
                ends.append((float(flat[at + i]), loss()))
            flat[at + i] = before
            slope = (ends[0][1] - ends[1][1]) / (ends[0][0] - ends[1][0])
            error = max(error, abs(slope - float(own[i])) / largest)
        rows.append({"name": name, "size": value.size, "checked": len(chosen), "error": error})
        at += value.size
    learner.changed()
    worst = max(rows, key=lambda row: row["error"], default=None)
    if worst and worst["error"] > TOLERANCE:
        raise AbwError(
            f"the gradient of {worst['name']} is wrong: {worst['error']:.1e} of the largest away from its "
            "finite differences",
            hint="where an operation has a corner (relu, max, a comparison) differences fail: another --seed",
        )
    return {
        "schema_version": 1,
        "model": model,
        "error": worst["error"] if worst else 0.0,
        "parameters": rows,
    }
