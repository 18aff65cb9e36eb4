"""All workloads end to end, beside the machine's limit and beside ED-Batch's and DyNet's own programs."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from abw.bench.systems import System, chosen_cases, preset, side_by_side
from abw.core.base.progress import Progress, each

THEIR_PEAK = 115.6
"""GFLOP/s of the core on which the programs below were measured, by the same peak loop."""

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
"""Instances a CPU second at size 128 and mini-batch 64, construction and forward: the better of agenda and
depth of vanilla DyNet and of DyNet on static subgraphs, and ED-Batch with encoding sort (its fork of DyNet,
commit 82c200fd, one core of an AMD EPYC, Zen 4)."""

PROGRAMS = ("vanilla_dynet", "cavs_dynet", "ed_batch")


def bench_peers(
    specs: Path,
    data: Path,
    workloads: str | None,
    hidden: int,
    batch: int,
    mini_batches: int,
    threads: list[int],
    runs: int,
    progress: Progress,
) -> dict[str, Any]:
    """A row for each workload and number of threads, from instances (already read) to outputs.

    `limit` is the instances a second if every matrix product ran at the measured peak of all threads and
    nothing else took time; `share_of_limit` what of it is reached. `peers` are instances a second of the
    programs above, scaled by the measured peak over theirs, for size 128 and mini-batch 64 only, else null.
    One thread by CPU time, several by the wall clock. Errors: AbwError.
    """
    from abw.core.exec.cpu.profile.peak import peak_meter

    meter = peak_meter()
    known = (hidden, batch) == (128, 64)
    rows: list[dict[str, Any]] = []
    peaks: list[float] = []
    for chosen in each(chosen_cases(workloads), progress, "workloads"):
        systems = {
            str(count): System(chosen, preset("abw", count), specs, data, hidden, batch, mini_batches)
            for count in threads
        }
        before = [max(meter() for _ in range(5)) for _ in range(3)]
        taken_by = side_by_side(systems, runs)
        peak = median([*before, *(max(meter() for _ in range(5)) for _ in range(3))])
        peaks.append(peak)
        scaled = [programs * peak / 1e9 / THEIR_PEAK for programs in PEERS[chosen.name]]
        for count in threads:
            taken = taken_by[str(count)]
            limit = taken.instances * peak * count / taken.product_flops
            rows.append(
                {
                    "workload": chosen.name,
                    "threads": count,
                    "instances_per_second": taken.instances_per_second,
                    "limit": limit,
                    "share_of_limit": taken.instances_per_second / limit,
                    "seconds": dict(taken.seconds),
                    "peers": dict(zip(PROGRAMS, scaled, strict=True)) if known else None,
                }
            )
    return {
        "schema_version": 1,
        "hidden": hidden,
        "batch": batch,
        "runs": runs,
        "peak_gflops": median(peaks) / 1e9,
        "rows": rows,
    }
