"""The figures and tables of the ED-Batch paper's evaluation, measured here, with its numbers beside."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any

from abw.bench.systems import System, Taken, chosen_cases, preset, side_by_side
from abw.bench.workloads import Case, case
from abw.core.base.interrupts import STOP
from abw.core.base.progress import Progress, each
from abw.core.run.presets import PRESETS

Rows = list[dict[str, Any]]

PARTS = ("fig6", "fig7", "fig9", "table2", "table3", "table4", "table6")
SYSTEMS = tuple(PRESETS)
LARGEST_MV = 128
"""MV-RNN multiplies matrices at every node: beyond this size a run takes minutes and shows nothing else."""
WINDOW = 16
"""Mini-batches of one instance that are timed together; fewer of larger ones, one of these and more."""

GAINS = {
    "BiLSTM-Tagger": "1.20 x",
    "LSTM-NMT": "1.11 x",
    "TreeLSTM": "1.63 x",
    "TreeGRU": "1.46 x",
    "MV-RNN": "about 1 x",
    "LatticeLSTM": "1.32 to 2.97 x",
    "LatticeGRU": "1.32 to 2.97 x",
}
"""Section 5.2: ED-Batch over Cavs DyNet on the CPU, throughput; means over sizes, for lattices the range."""

LATENCIES = {
    ("TreeGRU", 10, 256): (2.30, 2.27),
    ("TreeGRU", 10, 512): (5.60, 3.04),
    ("TreeGRU", 20, 256): (3.73, 3.03),
    ("TreeGRU", 20, 512): (11.70, 3.70),
    ("TreeLSTM", 10, 256): (2.244, 2.78),
    ("TreeLSTM", 10, 512): (8.500, 4.70),
    ("TreeLSTM", 20, 256): (3.460, 3.52),
    ("TreeLSTM", 20, 512): (19.210, 4.82),
}
"""Table 3: milliseconds on a V100, Cortex and ED-Batch, by workload, mini-batch and size."""

INPUTS = {"Torch": 39, "TensorFlow": 37, "DyNet": 671, "Cavs": 480, "ED-Batch": 1163}
"""Table 6: TreeLSTM, size 512, mini-batch 256, inputs a second on 28 cores of a Xeon."""


def bench_paper(
    specs: Path,
    data: Path,
    parts: tuple[str, ...],
    workloads: str | None,
    hidden: list[int],
    batches: list[int],
    runs: int,
    progress: Progress,
) -> dict[str, Any]:
    """The chosen parts as documents under their names; one thread everywhere. Errors: AbwError.

    `fig6`: the highest throughput over `batches` for each workload, size and preset. `fig7`: batches by
    policy over `batches`. `fig9`: seconds by step at size 128, mini-batch 64. `table2`: also Table 5.
    `workloads` are those of the figures 6 and 9.
    """
    paper = _Paper(specs, data, chosen_cases(workloads), hidden, batches, runs, progress)
    measured = {}
    for part in PARTS:
        if part in parts and not STOP.asked and (rows := getattr(paper, part)()):
            measured[part] = rows
    return {"schema_version": 1, "runs": runs, **measured}


@dataclass(frozen=True, slots=True)
class _Paper:
    """What the parts have in common; each is a method that gives its rows."""

    specs: Path
    data: Path
    cases: tuple[Case, ...]
    hidden: list[int]
    batches: list[int]
    runs: int
    progress: Progress

    def taken(self, chosen: Case, names: tuple[str, ...], hidden: int, batch: int) -> dict[str, Taken]:
        """What presets take for a workload, side by side."""
        windows = max(1, WINDOW // batch)
        systems = {
            name: System(chosen, preset(name), self.specs, self.data, hidden, batch, windows)
            for name in names
        }
        return side_by_side(systems, self.runs)

    def fig6(self) -> Rows:
        rows: Rows = []
        jobs = [
            (c, size) for c in self.cases for size in self.hidden if c.name != "MV-RNN" or size <= LARGEST_MV
        ]
        steps = each(list(product(jobs, self.batches)), self.progress, "fig6")
        for (chosen, size), group in groupby(steps, key=itemgetter(0)):
            best = dict.fromkeys(SYSTEMS, (0.0, 0))
            tried: list[int] = []
            for _, batch in group:
                tried.append(batch)
                taken_by = self.taken(chosen, SYSTEMS, size, batch)
                best = {
                    name: max(best[name], (taken_by[name].instances_per_second, batch)) for name in SYSTEMS
                }
            if len(tried) < len(self.batches):
                break  # ended early: of this row the best mini-batch is not known
            rows.append(
                {
                    "workload": chosen.name,
                    "hidden": size,
                    "instances_per_second": {name: rate for name, (rate, _) in best.items()},
                    "at_batch": {name: batch for name, (_, batch) in best.items()},
                    "ed_batch_over_cavs": best["ed-batch"][0] / best["cavs-dynet"][0],
                    "abw_over_cavs": best["abw"][0] / best["cavs-dynet"][0],
                    "paper_over_cavs": GAINS.get(chosen.name),
                }
            )
        return rows

    def fig7(self) -> Rows:
        from abw.bench.graphs.fig7 import bench_fig7

        policies = ("depth", "agenda", "sufficient", "fsm-base", "fsm-max", "fsm-sort", "fsm-critical")
        rows: Rows = bench_fig7(self.specs, self.data, policies, tuple(self.batches), 64, 32, self.progress)[
            "rows"
        ]
        return rows

    def fig9(self) -> Rows:
        rows: Rows = []
        for chosen in each(self.cases, self.progress, "fig9"):
            taken_by = self.taken(chosen, ("cavs-dynet", "ed-batch", "abw"), 128, 64)
            seconds = {name: dict(taken.seconds) for name, taken in taken_by.items()}
            rows.append({"workload": chosen.name, "seconds": seconds})
        return rows

    def table2(self) -> Rows:
        from abw.core.spec.load import Overrides
        from abw.core.tools.layouts import PAPER_NAMES, open_items, table_row

        cells = [self.specs / "cells" / f"{name}.yaml" for name in PAPER_NAMES]
        return [table_row(item, 8) for cell in cells for item in open_items(cell, Overrides())]

    def table3(self) -> Rows:
        rows: Rows = []
        for (name, batch, size), (cortex, ed_batch) in each(list(LATENCIES.items()), self.progress, "table3"):
            taken_by = self.taken(case(name), ("ed-batch", "abw"), size, batch)
            rows.append(
                {
                    "workload": name,
                    "batch": batch,
                    "hidden": size,
                    "milliseconds": {key: 1e3 * taken.total for key, taken in taken_by.items()},
                    "paper_milliseconds": {"cortex": cortex, "ed-batch": ed_batch},
                }
            )
        return rows

    def table4(self) -> Rows:
        from abw.bench.graphs.policies import bench_policies

        keys = ("workload", "training_nodes", "training_lower_bound", "learning", "paper")
        rows = bench_policies(self.specs, self.data, 64, 32, "cell", self.runs, self.progress)["rows"]
        return [{key: row[key] for key in keys} for row in rows]

    def table6(self) -> Rows:
        taken_by = self.taken(case("TreeLSTM"), SYSTEMS, 512, 256)
        rates = {name: taken.instances_per_second for name, taken in taken_by.items()}
        return [{"inputs_per_second": rates, "paper": dict(INPUTS)}]
