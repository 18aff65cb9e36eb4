"""How long one small instance takes from Python: a call with a tree's text, to its outputs."""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Any

from abw.bench.timing import rounds
from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, each

TREES = 100
"""So many trees take turns."""


def bench_one(
    specs: Path, data: Path, hidden: int, nodes: list[int], runs: int, progress: Progress
) -> dict[str, Any]:
    """Calls of a tree LSTM with one tree each, warm, on one thread: for each number of tree nodes.

    A row: of `runs` calls for each of 100 trees the seconds that half (`p50`) and nine in ten (`p90`) take
    at most, by the wall clock; `kernels`, the median of executing the same plans alone. Errors: AbwError.
    """
    file = data / "trees" / "train.txt"
    model = load(specs / "treelstm.yaml", data=file, dims={"hidden": hidden}, threads=1)
    model.warm()
    rows = [_row(model, file, count, runs) for count in each(nodes, progress, "trees")]
    return {"schema_version": 1, "hidden": hidden, "runs": runs, "rows": rows}


def _row(model: LoadedModel, file: Path, nodes: int, runs: int) -> dict[str, Any]:
    with file.open() as lines:
        trees = list(islice((line.rstrip("\n") for line in lines if line.count("(") == nodes), TREES))
    if not trees:
        raise AbwError(f"no tree in {file} has {nodes} nodes", hint="--nodes 37: with n leaves it has 2n - 1")
    calls = rounds({tree: partial(model, [tree]) for tree in trees}, runs + 1, time.perf_counter)
    plans = [model.plan(model.graph([tree])) for tree in trees]
    alone = rounds({str(i): partial(model.run, p) for i, p in enumerate(plans)}, runs + 1, time.perf_counter)
    tenths = quantiles([t for times in calls.values() for t in times[1:]], n=10, method="inclusive")
    kernels = quantiles([t for times in alone.values() for t in times[1:]], n=2, method="inclusive")
    return {
        "nodes": nodes,
        "trees": len(trees),
        "p50": tenths[4],
        "p90": tenths[8],
        "kernels": kernels[0],
    }
