"""The figures and tables of the ED-Batch paper's evaluation, measured here, with its numbers beside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from abw.bench.graphs.policies import learning_rows
from abw.bench.options import SPECS, DataDir, HiddenSizes, Runs, SpecsDir, Workloads
from abw.bench.rows import Row, Rows
from abw.bench.systems import System, Taken, chosen_cases, preset, side_by_side
from abw.bench.workloads import CASES, Case, case, open_case
from abw.core.base.errors import AbwError, did_you_mean
from abw.core.run.options import PRESETS

RULES = ("depth", "agenda", "sufficient", "critical")
SYSTEMS = tuple(PRESETS)
# MV-RNN multiplies matrices at every node: beyond this size a run takes minutes and shows nothing else.
LARGEST_MV = 128
# Mini-batches of one instance that are timed together; fewer of larger ones, one of these and more.
WINDOW = 16

# Section 5.2: ED-Batch over Cavs DyNet on the CPU, throughput; means over sizes, for lattices the range.
GAINS = {
    "BiLSTM-Tagger": "1.20 x",
    "LSTM-NMT": "1.11 x",
    "TreeLSTM": "1.63 x",
    "TreeGRU": "1.46 x",
    "MV-RNN": "about 1 x",
    "LatticeLSTM": "1.32 to 2.97 x",
    "LatticeGRU": "1.32 to 2.97 x",
}

# Table 3: milliseconds on a V100, Cortex and ED-Batch, by workload, mini-batch and size.
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

# Table 6: TreeLSTM, size 512, mini-batch 256, inputs a second on 28 cores of a Xeon.
INPUTS = {"Torch": 39, "TensorFlow": 37, "DyNet": 671, "Cavs": 480, "ED-Batch": 1163}

# Of fig7: instances left out, instances that FSMs are learned from, mini-batches of a size.
SKIPPED, LEARNED, MOST_BATCHES = 64, 32, 16


def paper(
    data: DataDir,
    specs: SpecsDir = SPECS,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="PART,...",
            help="fig6, fig7, fig9, table2, table3, table4, table6.",
            show_default="all",
        ),
    ] = None,
    workloads: Workloads = None,
    hidden: HiddenSizes = [32, 64, 128, 256, 512],
    batches: Annotated[
        list[int], typer.Option("--batch", min=1, help="Mini-batches of fig6 and fig7; repeatable.")
    ] = [1, 8, 32, 64, 128, 256],
    runs: Runs = 3,
) -> Rows:
    """Repeat the ED-Batch paper's evaluation on one thread, next to its numbers.

    This takes more than ten minutes, mostly for fig6; --only and --workloads choose parts.
    """
    cases = chosen_cases(workloads)
    timed = _Timed(specs, data, runs)
    parts = {
        "fig6": partial(_fig6, timed, cases, hidden, batches),
        "fig7": partial(_fig7, specs, data, batches),
        "fig9": partial(_fig9, timed, cases),
        "table2": partial(_table2, specs),
        "table3": partial(_table3, timed),
        "table4": partial(_table4, specs, data, runs),
        "table6": partial(_table6, timed),
    }
    for part in [part.strip() for part in only.split(",")] if only else parts:
        if part not in parts:
            raise AbwError(f"--only knows no {part!r}", hint=did_you_mean(part, list(parts)), exit_code=2)
        yield from parts[part]()


@dataclass(frozen=True, slots=True)
class _Timed:
    """What presets take for a workload, side by side."""

    specs: Path
    data: Path
    runs: int

    def __call__(self, chosen: Case, names: tuple[str, ...], hidden: int, batch: int) -> dict[str, Taken]:
        windows = max(1, WINDOW // batch)
        systems = {
            name: System(chosen, preset(name), self.specs, self.data, hidden, batch, windows)
            for name in names
        }
        return side_by_side(systems, self.runs)


def _fig6(timed: _Timed, cases: tuple[Case, ...], hidden: list[int], batches: list[int]) -> Rows:
    """The highest throughput over mini-batches of several sizes."""
    jobs = [(c, size) for c in cases for size in hidden if c.name != "MV-RNN" or size <= LARGEST_MV]
    for chosen, size in jobs:
        rates = dict.fromkeys(SYSTEMS, 0.0)
        for batch in batches:
            taken_by = timed(chosen, SYSTEMS, size, batch)
            rates = {name: max(rates[name], taken_by[name].instances_per_second) for name in SYSTEMS}
        yield Row(
            "Fig. 6, instances a second",
            workload=chosen.name,
            hidden=size,
            **{f"{name}_per_second": rate for name, rate in rates.items()},
            ed_batch_over_cavs_times=rates["ed-batch"] / rates["cavs-dynet"],
            abw_over_cavs_times=rates["abw"] / rates["cavs-dynet"],
            the_paper=GAINS.get(chosen.name),
        )


def _fig7(specs: Path, data: Path, batches: list[int]) -> Rows:
    """Batches by policy: means over up to 16 mini-batches behind the first 64 instances."""
    from abw.core.graph.bounds import lower_bound
    from abw.core.policy.learned.learner import learn
    from abw.core.policy.learned.states import ENCODINGS
    from abw.core.policy.registry import get_policy
    from abw.core.policy.schedule import Policy

    for chosen in CASES:
        workload = open_case(chosen, specs, data, SKIPPED + MOST_BATCHES * max(batches))
        lessons = workload.graph(0, LEARNED).dag
        policies: dict[str, Policy] = {name: get_policy(name) for name in RULES}
        policies |= {f"fsm-{e}": learn(lessons, encoding=e, seed=0) for e in ENCODINGS}
        for batch in batches:
            last = min(len(workload.instances) - batch + 1, SKIPPED + MOST_BATCHES * batch)
            dags = [workload.graph(first, first + batch).dag for first in range(SKIPPED, last, batch)]
            if dags:
                yield Row(
                    "Fig. 7, batches",
                    workload=chosen.name,
                    batch=batch,
                    bound=sum(int(lower_bound(dag).sum()) for dag in dags) / len(dags),
                    **{n: sum(len(p.schedule(dag)) for dag in dags) / len(dags) for n, p in policies.items()},
                )


def _fig9(timed: _Timed, cases: tuple[Case, ...]) -> Rows:
    """Seconds by step."""
    for chosen in cases:
        for name, taken in timed(chosen, ("cavs-dynet", "ed-batch", "abw"), 128, 64).items():
            steps = {f"{step}_seconds": seconds for step, seconds in taken.seconds.items()}
            yield Row("Fig. 9, size 128, mini-batch 64", workload=chosen.name, system=name, **steps)


def _table2(specs: Path) -> Rows:
    """Also Table 5: before and after planning, and the paper's."""
    from abw.core.spec.load import Overrides
    from abw.core.tools.layouts import PAPER_NAMES, open_items, table_row

    cells = [specs / "cells" / f"{name}.yaml" for name in PAPER_NAMES]
    for item in (item for cell in cells for item in open_items(cell, Overrides())):
        row = table_row(item, 8)
        theirs, after = row["paper"], {k: row["after"][k] + row["inputs"][k] for k in ("kernels", "bytes")}
        for when, place, copies, name in (
            (0, "before", row["before"], "declared"),
            (1, "after", after, "planned"),
        ):
            yield Row(
                "Tables 2 and 5",
                subgraph=row["name"],
                planning=place,
                latency_seconds=row["latency_us"][name] / 1e6,
                paper_latency_seconds=theirs["latency_ms"][when] / 1e3,
                kernels=copies["kernels"],
                paper_kernels=theirs["kernels"][when],
                moved_bytes=copies["bytes"],
                paper_bytes=theirs["kilobytes"][when] * 1024,
                planning_seconds=row["planning_ms"] / 1e3 if when else None,
                paper_planning_seconds=theirs["planning_ms"] / 1e3 if when else None,
            )


def _table3(timed: _Timed) -> Rows:
    """Latency: one core here, a V100 there."""
    for (name, batch, size), (cortex, ed_batch) in LATENCIES.items():
        taken = timed(case(name), ("ed-batch", "abw"), size, batch)
        yield Row(
            "Table 3: one core here, a V100 there",
            workload=name,
            batch=batch,
            hidden=size,
            ed_batch_seconds=taken["ed-batch"].total,
            abw_seconds=taken["abw"].total,
            cortex_there_seconds=cortex / 1e3,
            ed_batch_there_seconds=ed_batch / 1e3,
        )


def _table4(specs: Path, data: Path, runs: int) -> Rows:
    """Learning time."""
    for chosen in CASES:
        yield from learning_rows(
            "Table 4, learning", chosen, open_case(chosen, specs, data, LEARNED), LEARNED, runs
        )


def _table6(timed: _Timed) -> Rows:
    """Throughput of TreeLSTM, size 512, mini-batch 256."""
    for name, taken in timed(case("TreeLSTM"), SYSTEMS, 512, 256).items():
        yield Row("Table 6", system=f"{name}, one core here", inputs_per_second=taken.instances_per_second)
    for name, rate in INPUTS.items():
        yield Row("Table 6", system=f"{name}, 28 cores, the paper", inputs_per_second=float(rate))
