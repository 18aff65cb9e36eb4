"""All workloads end to end, beside the machine's limit and beside ED-Batch's and DyNet's own programs."""

from __future__ import annotations

from statistics import median
from typing import Annotated

import typer

from abw.bench.options import SPECS, Batch, DataDir, Hidden, Runs, SpecsDir, ThreadCounts, Workloads
from abw.bench.rows import Row, Rows
from abw.bench.systems import System, chosen_cases, preset, side_by_side

# GFLOP/s of the core on which the programs below were measured, by the same peak loop.
THEIR_PEAK = 115.6

# Instances a CPU second at size 128 and mini-batch 64, construction and forward: the better of agenda and
# depth of vanilla DyNet and of DyNet on static subgraphs, and ED-Batch with encoding sort (its fork of DyNet,
# commit 82c200fd, one core of an AMD EPYC, Zen 4).
PEERS: dict[str, tuple[float, float, float]] = {
    "BiLSTM-Tagger": (967, 1276, 1412),
    "BiLSTM-Tagger-withchar": (337, 689, 699),
    "LSTM-NMT": (531, 2141, 2135),
    "TreeLSTM": (3988, 4717, 4644),
    "TreeGRU": (3108, 5314, 5384),
    "MV-RNN": (240, 324, 320),
    "TreeLSTM-2Type": (3302, 4286, 4841),
    "LatticeLSTM": (1069, 1698, 2242),
    "LatticeGRU": (1305, 1341, 2467),
}

PROGRAMS = ("DyNet", "DyNet_with_static_subgraphs", "ED-Batch")


def peers(
    data: DataDir,
    specs: SpecsDir = SPECS,
    workloads: Workloads = None,
    hidden: Hidden = 128,
    batch: Batch = 64,
    mini_batches: Annotated[
        int, typer.Option("--mini-batches", min=1, help="Mini-batches of each workload.")
    ] = 4,
    threads: ThreadCounts = [1],
    runs: Runs = 5,
) -> Rows:
    """Compare all workloads, end to end, with the machine's limit and the papers' own programs.

    The limit is the time of all matrix products at the measured peak. The programs' rates were measured
    elsewhere (size 128, mini-batch 64) and are scaled by the peaks. CPU time for one thread, wall clock
    for several.
    """
    from abw.core.exec.cpu.profile.peak import peak_meter

    meter, peaks = peak_meter(), []
    for chosen in chosen_cases(workloads):
        systems = {
            str(count): System(chosen, preset("abw", count), specs, data, hidden, batch, mini_batches)
            for count in threads
        }
        measured = [max(meter() for _ in range(5)) for _ in range(3)]
        taken_by = side_by_side(systems, runs)
        peak = median([*measured, *(max(meter() for _ in range(5)) for _ in range(3))])
        peaks.append(peak)
        scaled = [rate * peak / 1e9 / THEIR_PEAK for rate in PEERS[chosen.name]]
        for count in threads:
            taken = taken_by[str(count)]
            rate = taken.instances_per_second
            limit = taken.instances * peak * count / taken.product_flops
            known = (hidden, batch, count) == (128, 64, 1)
            yield Row(
                "",
                workload=chosen.name,
                threads=count,
                instances_per_second=rate,
                of_the_limit_share=rate / limit,
                **{f"{step}_seconds": seconds for step, seconds in taken.seconds.items()},
                **{
                    f"{name}_per_second": other if known else None
                    for name, other in zip(PROGRAMS, scaled, strict=True)
                },
                ahead_times=rate / max(scaled) if known else None,
            )
    yield f"measured peak of one thread: {median(peaks) / 1e9:.1f} GFLOP/s"
