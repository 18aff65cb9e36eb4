"""How long one small instance takes from Python: a call with a tree's text, to its outputs."""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Annotated

import typer

from abw.bench.options import SPECS, DataDir, Hidden, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import rounds
from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError

# So many trees take turns.
TREES = 100


def one(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    nodes: Annotated[list[int], typer.Option("--nodes", min=1, help="Nodes of a tree; repeatable.")] = [37],
    runs: Runs = 100,
) -> Rows:
    """Time a warm call from Python: a tree LSTM with one tree's text, on one thread.

    Wall clock of `runs` calls for each of 100 trees; `kernels` is the execution of the same plans alone.
    """
    file = data / "trees" / "train.txt"
    model = load(specs / "treelstm.yaml", data=file, dims={"hidden": hidden}, threads=1)
    model.warm()
    for count in nodes:
        yield _row(model, file, count, runs)


def _row(model: LoadedModel, file: Path, nodes: int, runs: int) -> Row:
    with file.open() as lines:
        trees = list(islice((line.rstrip("\n") for line in lines if line.count("(") == nodes), TREES))
    if not trees:
        raise AbwError(f"no tree in {file} has {nodes} nodes", hint="--nodes 37: with n leaves it has 2n - 1")
    calls = rounds({tree: partial(model, [tree]) for tree in trees}, runs + 1, time.perf_counter)
    plans = [model.plan(model.graph([tree])) for tree in trees]
    alone = rounds({str(i): partial(model.run, p) for i, p in enumerate(plans)}, runs + 1, time.perf_counter)
    tenths = quantiles([t for times in calls.values() for t in times[1:]], n=10, method="inclusive")
    kernels = quantiles([t for times in alone.values() for t in times[1:]], n=2, method="inclusive")
    return Row(
        "",
        nodes=nodes,
        trees=len(trees),
        p50_seconds=tenths[4],
        p90_seconds=tenths[8],
        kernels_seconds=kernels[0],
    )
