"""Equal nodes computed once, against all nodes: from a file's text to outputs, in turns on one thread."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import product

from abw.bench.options import SPECS, BatchSizes, DataDir, Hidden, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import Work, interleaved
from abw.bench.workloads import CASES, Ready, model_of, outputs_of, ready
from abw.core.graph.dedup import dedup as without_equal
from abw.core.graph.dedup import keys_of
from abw.core.run.dedup import Deduplicator
from abw.core.run.options import PRESETS
from abw.core.run.workload import open_workload, read_instances

# Rows of tables that are indexed by hashes: so many that different words nearly always have different rows.
ROWS = 1 << 16


def dedup(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
) -> Rows:
    """Compare runs without equal nodes with runs of all nodes, and time the pass that finds them."""
    for chosen, instances in product(CASES, batch):
        model = model_of(chosen, specs, data, hidden, instances)
        tables = tuple(table if table.vocab else replace(table, rows=ROWS) for table in model.tables)
        plain = ready(replace(model, tables=tables), PRESETS["abw"])
        networks = plain.networks
        keys = keys_of(networks.network, networks.program.edges)
        shared = replace(plain, networks=replace(networks, equal=Deduplicator("on", keys)))
        graph = plain.read().graph(0, instances)
        contenders: dict[str, Work] = {
            "plain": partial(_run, plain, instances),
            "shared": partial(_run, shared, instances),
            "pass": partial(without_equal, graph, keys),
        }
        seconds = interleaved(contenders, runs, time.thread_time, warming=1)
        yield Row(
            "",
            model=chosen.name,
            batch=instances,
            nodes=len(graph),
            distinct_share=len(without_equal(graph, keys)) / len(graph),
            pass_ns=1e9 * seconds["pass"] / len(graph),
            plain_seconds=seconds["plain"],
            dedup_seconds=seconds["shared"],
            dedup_times=seconds["plain"] / seconds["shared"],
        )


def _run(ours: Ready, instances: int) -> None:
    """Run the first instances from their text to outputs."""
    workload = open_workload(ours.model, read_instances(ours.model.data, instances), ours.networks)
    made = ours.planned(workload, 0, len(workload.instances))
    outputs_of(ours.executor.run(made.plan), made.graph)
