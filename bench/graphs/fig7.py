"""Batches by policy and batch size for every workload: the paper's Fig. 7."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abw.bench.workloads import CASES, open_case
from abw.core.base.progress import Progress, each

POLICIES = (
    "depth", "agenda", "sufficient", "phases", "critical", "search",
    "fsm-base", "fsm-max", "fsm-sort", "fsm-critical",
)  # fmt: skip


def bench_fig7(
    specs: Path,
    data: Path,
    policies: tuple[str, ...],
    sizes: tuple[int, ...],
    skip: int,
    train: int,
    progress: Progress,
) -> dict[str, Any]:
    """Means over up to 16 mini-batches of each size, made of the instances behind the first `skip`.

    The FSMs are learned from the file's first `train` instances. Errors: AbwError.
    """
    from abw.core.base.progress import Quiet
    from abw.core.run.workload import open_networks, open_workload, read_instances
    from abw.core.tools.compare import MOST_BATCHES, CompareOptions, Graphs, require, sizes_of, train_all

    require(policies)
    rows: list[dict[str, Any]] = []
    options = CompareOptions(policies, train_limit=train, skip=skip)
    limit = max(sizes) * MOST_BATCHES
    for chosen in each(CASES, progress, "fig7"):
        training = open_case(chosen, specs, data, train)
        model = training.model
        instances = read_instances(model.data, limit, skip)
        tested = open_workload(model, instances, open_networks(model, "cell"))
        trained = train_all(Graphs(training), policies, options, 0, Quiet())
        batch_sizes = sizes_of(Graphs(tested), trained, sizes, Quiet())
        rows.append({"workload": chosen.name, "batch_sizes": batch_sizes})
    return {"schema_version": 1, "skip": skip, "train": train, "rows": rows}
