"""All workloads end to end, beside the machine's limit and beside ED-Batch's and DyNet's own programs."""

from __future__ import annotations

from typing import Annotated

from abw.bench.options import SPECS, Batch, DataDir, Hidden, Runs, SpecsDir, ThreadCounts, Workloads, numeric
from abw.bench.rows import Row, Rows
from abw.bench.timing import Peak
from abw.bench.workloads import System, chosen_cases, model_of, steps_of

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
    mini_batches: Annotated[int, numeric("Mini-batches of each workload.")] = 4,
    threads: ThreadCounts = [1],
    runs: Runs = 5,
) -> Rows:
    """Compare all workloads, end to end, with the machine's limit and the papers' own programs.

    The limit is the time of all matrix products at the measured peak. The programs' rates were measured
    elsewhere (size 128, mini-batch 64) and are scaled by the peaks. CPU time for one thread, wall clock
    for several.
    """
    peak = Peak()
    for chosen in chosen_cases(workloads):
        model = model_of(chosen, specs, data, hidden, batch, mini_batches * batch)
        systems = {str(count): System(model, "abw", count) for count in threads}
        peak()
        taken_by = steps_of(systems, runs)
        peak()
        flops = peak.flops()
        scaled = [rate * flops / 1e9 / THEIR_PEAK for rate in PEERS[chosen.name]]
        for count in threads:
            system, steps = systems[str(count)], taken_by[str(count)]
            rate = system.instances / sum(steps.values())
            known = (hidden, batch, count) == (128, 64, 1)
            yield Row(
                "",
                workload=chosen.name,
                threads=count,
                instances_per_second=rate,
                of_the_limit_share=system.product_flops / sum(steps.values()) / flops / count,
                **{f"{step}_seconds": seconds for step, seconds in steps.items()},
                **{
                    f"{name}_per_second": other if known else None
                    for name, other in zip(PROGRAMS, scaled, strict=True)
                },
                ahead_times=rate / max(scaled) if known else None,
            )
    yield peak.said()
