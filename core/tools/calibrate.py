"""The report of `abw calibrate`: the cost of a launch and of a row on an executor, measured by type."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.files import refuse_overwrite, write_text
from abw.core.base.progress import Progress, Quiet
from abw.core.exec.params import init_params
from abw.core.exec.registry import entry_of, get_executor
from abw.core.ir.network import Granularity
from abw.core.policy.cost import Cost
from abw.core.policy.costfile import cost_text
from abw.core.run.batchsize import measure
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from abw.core.store.folders import require_writable
from abw.core.tools.opened import report_head

# So many instances make the mini-batch they are taken from, at most.
INSTANCES = 256


def calibrate(
    spec: Path,
    overrides: Overrides,
    output: Path,
    *,
    executor: str = "blas",
    granularity: Granularity = "cell",
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure every type and write the file of costs; returns the document of `abw calibrate --json`.

    Errors: SpecError, DataError; AbwError for an executor that knows no batches, for a type without nodes in
    the data, where the file cannot be written.
    """
    abilities = entry_of(executor).abilities
    if not abilities.knows_batches:
        raise AbwError(f"the executor {executor} runs node by node: batches have no cost")
    if abilities.overlaps:
        raise AbwError(
            f"the executor {executor} runs batches side by side: one alone has no cost",
            hint=f"without a spec the device is measured: abw calibrate --device {executor}",
            exit_code=2,
        )
    progress = progress or Quiet()
    model = open_model(spec, overrides)
    refuse_overwrite(output, *model.reads)
    require_writable(output.parent)
    workload = load_workload(model, granularity)
    chosen = get_executor(executor)
    chosen.prepare(workload.network, init_params(workload.network, overrides.seed or 0), threads)
    instances = min(INSTANCES, len(workload.instances))
    graph = workload.graph(0, instances)
    progress.phase("measure", len(graph.dag.types))
    measured = measure(graph, chosen, progress=progress)
    launch, row = np.array([(m.launch, m.row) for m in measured]).T
    cost = Cost(launch, row, np.ones(len(measured), np.int32))
    heading = f"seconds a launch and a row: {model.name} on executor {executor}, threads: {threads}"
    write_text(output, cost_text(cost, graph.dag.types, heading))
    return {
        **report_head(model),
        "dims": dict(model.dims),
        "executor": executor,
        "granularity": granularity,
        "threads": threads,
        "instances": instances,
        "types": [{**asdict(m), "samples": [list(sample) for sample in m.samples]} for m in measured],
        "path": str(output),
    }


def calibrate_gpu() -> dict[str, Any]:
    """Measure this machine's first GPU and keep that; the document of `abw calibrate --device cuda --json`.

    Errors: AbwError where there is none, or the folder cannot be written.
    """
    from abw.core.exec.cuda.available import open_device
    from abw.core.exec.cuda.measure.costs import keep_costs
    from abw.core.exec.cuda.measure.probe import measure as measure_gpu

    device = open_device()
    limits = measure_gpu(device)
    try:
        costs = keep_costs(device.traits, limits)
    except OSError as error:
        raise AbwError(f"cannot keep what was measured: {error.strerror}", hint="set ABW_HOME") from error
    return {"schema_version": 1, "gpu": device.traits.name, **asdict(limits), "path": str(costs.path)}
