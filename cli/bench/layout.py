"""Memory layouts on real data: copies between cells, and whole mini-batches as one layout problem."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from abw.cli.bench.timing import cpu_seconds
from abw.cli.bench.workloads import CASES, case, open_case
from abw.core.progress import Progress

WHOLE = ("TreeLSTM", "TreeGRU", "LatticeLSTM")


def bench_layout(
    specs: Path, data: Path, batch: int, sizes: list[int], runs: int, progress: Progress
) -> dict[str, Any]:
    """By the sufficient-condition policy, on the first instances of the real files.

    `boundaries`: kernels and bytes between cells with variables in order of declaration, with planned cells,
    and with the whole graph planned as well, its batches split by producers (groups of a quarter as many
    lanes as there are instances). `graphs`: shares of operand lanes free of copies in batches whose results
    others read, by size of the mini-batch; `us_a_node` is the planner's thread CPU time. Errors: AbwError.
    """
    progress.phase("layouts", len(CASES) + len(WHOLE) * len(sizes))
    boundaries = []
    for number, chosen in enumerate(CASES, 1):
        boundaries.append({"workload": chosen.name, **boundaries_of(chosen.name, specs, data, batch)})
        progress.reached(number)
    graphs = []
    for name in WHOLE:
        for size in sizes:
            graphs.append({"workload": name, "batch": size, **whole_of(name, specs, data, size, runs)})
            progress.reached(len(boundaries) + len(graphs))
    return {"schema_version": 1, "batch": batch, "boundaries": boundaries, "graphs": graphs}


def boundaries_of(name: str, specs: Path, data: Path, batch: int) -> dict[str, Any]:
    """A row of `boundaries`: one workload."""
    from abw.core.plan.boundary import Boundary, boundary, planned_boundary
    from abw.core.plan.plan import plan
    from abw.core.plan.whole import split_by_producers, whole_graph
    from abw.core.policy.sufficient import Sufficient

    graph = open_case(case(name), specs, data, batch).graph(0, batch)
    schedule = Sufficient().schedule(graph.dag)
    split = split_by_producers(graph, schedule, max(2, batch // 4))
    given, parted = plan(graph, schedule), plan(graph, split)
    whole = whole_graph(graph, split)

    def said(found: Boundary) -> dict[str, int]:
        return {
            "kernels": found.kernels,
            "gathers": found.gathers,
            "moved": found.moved,
            "inside": found.inside,
            "bytes": found.bytes,
        }

    return {
        "batches": len(schedule),
        "before": said(boundary(given, "declared")),
        "after": said(boundary(given, "planned")),
        "together": {"batches": len(split), **said(planned_boundary(parted, whole, whole.planned()))},
    }


def whole_of(name: str, specs: Path, data: Path, size: int, runs: int) -> dict[str, Any]:
    """A row of `graphs`: one workload and size."""
    from abw.core.exec.blas import BlasExecutor
    from abw.core.exec.params import init_params
    from abw.core.plan.plan import plan
    from abw.core.plan.whole import WholeGraph, inner_types, split_by_producers, whole_graph
    from abw.core.policy.schedule import Schedule
    from abw.core.policy.sufficient import Sufficient
    from abw.pqtree import Layout, Status

    workload = open_case(case(name), specs, data, size)
    graph = workload.graph(0, size)
    schedule = Sufficient().schedule(graph.dag)
    inner = inner_types(graph.network)
    executor = BlasExecutor()
    executor.prepare(graph.network, init_params(graph.network, 0), 1)

    def share(whole: WholeGraph, by: Schedule, layout: Layout) -> float:
        lanes = free = 0
        for t, batch in zip(by.type.tolist(), layout.operands, strict=True):
            for operand in batch if t in inner else ():
                lanes += len(operand.slots)
                free += 0 if operand.status is Status.COPIED else len(operand.slots)
        return free / lanes

    row: dict[str, Any] = {"nodes": len(graph)}
    for key, by in (("whole", schedule), ("split", split_by_producers(graph, schedule, max(2, size // 4)))):
        whole = whole_graph(graph, by)
        begin = time.thread_time()
        layout = whole.planned()
        taken = time.thread_time() - begin
        contiguous = whole.result_contiguous()
        planned = plan(graph, by)
        row[key] = {
            "batches": len(by),
            "values": len(whole.values),
            "result_contiguous": share(whole, by, contiguous),
            "planned": share(whole, by, layout),
            "bytes": [contiguous.bytes_moved, layout.bytes_moved],
            "kernels": [contiguous.kernels, layout.kernels],
            "us_a_node": 1e6 * taken / len(graph),
            "run_ms": 1e3 * cpu_seconds(lambda planned=planned: executor.run(planned), runs),  # type: ignore[misc]
        }
    return row
