"""What compiled rounds take beside their kernels."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from abw.bench.growth.growing import Growing


def overhead(spec: Path, data: Path, runs: int) -> dict[str, float]:
    """Seconds a round and a node of rounds whose kernels do nothing: one thread's CPU time, medians.

    Greedy decoding of few words, whose rounds decide as they did with kernels: the scores are there still.
    Mini-batches of one and of up to 64 give two equations in what a round takes, and what a node.
    """
    growing = Growing(spec, data, 64, {"hidden": 16, "embed": 16, "vocabulary": 8})
    one, many = (_taken(growing, batch, runs) for batch in (1, len(growing.workload.instances)))
    determinant = one["rounds"] * many["nodes"] - many["rounds"] * one["nodes"]
    a_round = (one["seconds"] * many["nodes"] - many["seconds"] * one["nodes"]) / determinant
    a_node = (many["seconds"] * one["rounds"] - one["seconds"] * many["rounds"]) / determinant
    return {"a round": a_round, "a node": a_node}


def _taken(growing: Growing, batch: int, runs: int) -> dict[str, Any]:
    made = growing.grown(0, batch)
    found = []
    for _ in range(runs):
        growing.grown(0, batch)
        with growing.without_kernels():
            found.append(growing.seconds(0, batch))
    nodes = growing.nodes(made)
    return {"batch": batch, "rounds": made.rounds, "nodes": nodes, "seconds": median(found)}
