"""The figures and tables of the ED-Batch paper's evaluation, measured here, with its numbers beside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from abw.cli.bench.systems import PHASES, System, chosen_cases, preset, side_by_side
from abw.cli.bench.workloads import Case, case
from abw.core.presets import PRESETS
from abw.core.progress import Progress

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
    policy over `batches`. `fig9`: seconds by phase at size 128, mini-batch 64. `table2`: also Table 5.
    `workloads` are those of the figures 6 and 9.
    """
    cases = chosen_cases(workloads)
    measured: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "fig6": lambda: _fig6(cases, specs, data, hidden, batches, runs, progress),
        "fig7": lambda: _fig7(specs, data, batches, progress),
        "fig9": lambda: _fig9(cases, specs, data, runs, progress),
        "table2": lambda: _table2(specs),
        "table3": lambda: _table3(specs, data, runs, progress),
        "table4": lambda: _table4(specs, data, runs, progress),
        "table6": lambda: _table6(specs, data, runs),
    }
    return {"schema_version": 1, "runs": runs, **{part: measured[part]() for part in PARTS if part in parts}}


def _systems(
    chosen: Case, names: tuple[str, ...], specs: Path, data: Path, hidden: int, batch: int
) -> dict[str, System]:
    windows = max(1, WINDOW // batch)
    return {name: System(chosen, preset(name), specs, data, hidden, batch, windows) for name in names}


def _fig6(
    cases: tuple[Case, ...],
    specs: Path,
    data: Path,
    hidden: list[int],
    batches: list[int],
    runs: int,
    progress: Progress,
) -> list[dict[str, Any]]:
    rows = []
    jobs = [(c, size) for c in cases for size in hidden if c.name != "MV-RNN" or size <= LARGEST_MV]
    progress.phase("fig6", len(jobs) * len(batches))
    for number, (chosen, size) in enumerate(jobs):
        best = dict.fromkeys(SYSTEMS, (0.0, 0))
        for done, batch in enumerate(batches, 1):
            found = side_by_side(_systems(chosen, SYSTEMS, specs, data, size, batch), runs)
            best = {name: max(best[name], (found[name].instances_per_second, batch)) for name in SYSTEMS}
            progress.reached(number * len(batches) + done)
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


def _fig7(specs: Path, data: Path, batches: list[int], progress: Progress) -> list[dict[str, Any]]:
    from abw.cli.bench.fig7 import bench_fig7

    policies = ("depth", "agenda", "sufficient", "fsm-base", "fsm-max", "fsm-sort", "fsm-critical")
    rows: list[dict[str, Any]] = bench_fig7(specs, data, policies, tuple(batches), 64, 32, progress)["rows"]
    return rows


def _fig9(
    cases: tuple[Case, ...], specs: Path, data: Path, runs: int, progress: Progress
) -> list[dict[str, Any]]:
    rows = []
    names = ("cavs-dynet", "ed-batch", "abw")
    progress.phase("fig9", len(cases))
    for number, chosen in enumerate(cases, 1):
        found = side_by_side(_systems(chosen, names, specs, data, 128, 64), runs)
        rows.append(
            {
                "workload": chosen.name,
                "seconds": {
                    name: {phase: taken.seconds[phase] for phase in PHASES} for name, taken in found.items()
                },
            }
        )
        progress.reached(number)
    return rows


def _table2(specs: Path) -> list[dict[str, Any]]:
    from abw.core.layouts import PAPER_NAMES, open_items, table_row
    from abw.core.spec.load import Overrides

    return [
        table_row(item, 8)
        for name in PAPER_NAMES
        for item in open_items(specs / "cells" / f"{name}.yaml", Overrides())
    ]


def _table3(specs: Path, data: Path, runs: int, progress: Progress) -> list[dict[str, Any]]:
    rows = []
    progress.phase("table3", len(LATENCIES))
    for number, ((name, batch, size), (cortex, ed_batch)) in enumerate(LATENCIES.items(), 1):
        found = side_by_side(_systems(case(name), ("ed-batch", "abw"), specs, data, size, batch), runs)
        rows.append(
            {
                "workload": name,
                "batch": batch,
                "hidden": size,
                "milliseconds": {key: 1e3 * taken.total for key, taken in found.items()},
                "paper_milliseconds": {"cortex": cortex, "ed-batch": ed_batch},
            }
        )
        progress.reached(number)
    return rows


def _table4(specs: Path, data: Path, runs: int, progress: Progress) -> list[dict[str, Any]]:
    from abw.cli.bench.policies import bench_policies

    rows = bench_policies(specs, data, 64, 32, "cell", runs, progress)["rows"]
    return [
        {key: r[key] for key in ("workload", "training_nodes", "training_lower_bound", "learning", "paper")}
        for r in rows
    ]


def _table6(specs: Path, data: Path, runs: int) -> list[dict[str, Any]]:
    found = side_by_side(_systems(case("TreeLSTM"), SYSTEMS, specs, data, 512, 256), runs)
    return [
        {
            "inputs_per_second": {name: taken.instances_per_second for name, taken in found.items()},
            "paper": dict(INPUTS),
        }
    ]
