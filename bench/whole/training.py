"""A step of training, part by part, beside the machine's peak and PyTorch's autograd by level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from abw.bench.executors.contenders import torch_or_none
from abw.bench.libraries.dgl_trees import DglTrees, import_dgl
from abw.bench.libraries.fold_trees import FoldTrees, import_torchfold
from abw.bench.libraries.levels import Levels
from abw.bench.libraries.trees import Library, Trees
from abw.bench.options import SPECS, Batch, DataDir, HiddenSizes, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import case, files_of
from abw.core.exec.params import init_params
from abw.core.graph.graph import Graph
from abw.core.ir.training import Loss, Metric, Optimizer, Target, Training
from abw.core.policy.registry import get_policy
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.train.learner import Learner
from abw.core.train.targets import targets_of

# What takes turns with abw, where it is there.
LIBRARIES = ("torch", "dgl", "torchfold")


def train(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    runs: Runs = 15,
) -> Rows:
    """Time a training step of TreeLSTM (AdaGrad) by part, compared with PyTorch, DGL and TorchFold.

    CPU time of one thread. `passes` (forward, backward) and `weights` (gradients) use an existing plan,
    as the others use existing indices. `of peak` counts only products; `loss` is the largest relative
    difference of losses.
    """
    from abw.core.exec.cpu.profile.peak import peak_meter

    torch = torch_or_none()
    spec, source = files_of(case("TreeLSTM"), specs, data)
    for size in hidden:
        yield from _rows(spec, source, size, batch, runs, torch, peak_meter())


def _rows(
    spec: Path,
    source: Path,
    size: int,
    batch: int,
    runs: int,
    torch: Any,  # noqa: ANN401
    meter: Callable[[], float],
) -> Rows:
    """One size of the model."""
    model = open_model(spec, Overrides(dims={"hidden": size}, data=source, limit=batch))
    loss = Loss(0, "cross-entropy", Target("label"), None, 1.0, (), model.data.span)
    training = Training((loss,), (Metric("accuracy", 0),), Optimizer("adagrad", 0.05), batch=batch)
    model = replace(model, training=training)
    networks = open_networks(model, "cell")
    params = init_params(networks.cells, 0)
    learner = Learner(model, networks, params, get_policy("sufficient"), threads=1)
    instances = read_instances(model.data, batch)
    workload = open_workload(model, instances, networks)
    targets = (targets_of(model, loss, instances),)
    planned, executor = learner.planned(workload, 0, batch), learner.passes.executor
    executor.begin(planned.plan, planned.until)
    result = executor.resume(planned.plan, planned.until)
    found = learner.gradient(workload, 0, batch, targets)
    peaks: list[float] = []

    def passes() -> None:
        executor.begin(planned.plan, planned.until)
        executor.resume(planned.plan, planned.until)

    contenders: dict[str, Callable[[], object]] = {
        "step": lambda: learner.apply(learner.gradient(workload, 0, batch, targets).gradient),
        "passes": passes,  # and what follows reads what they have left
        "weights": lambda: executor.gradient(planned.made, planned.plan, result, learner.params),
        "update": lambda: learner.apply(found.gradient),
        "peak": lambda: peaks.append(meter()),
    }
    difference = None
    if torch:
        trees = Trees(torch, learner.network, params, workload.graph(0, batch), instances)
        others: dict[str, Library] = {"torch": Levels(trees)}
        if dgl := import_dgl():
            others["dgl"] = DglTrees(dgl, trees)
        if torchfold := import_torchfold():
            others["torchfold"] = FoldTrees(torchfold, trees)
        difference = max(abs(trees.step(library) - found.loss) / found.loss for library in others.values())
        contenders |= {name: partial(trees.step, library) for name, library in others.items()}
    seconds = interleaved(contenders, runs)
    products = planned.plan.product_flops + weight_flops(learner, planned.made.graph)

    def share(taken: float) -> float:
        return float(products / taken / np.median(peaks))

    ours = seconds["passes"] + seconds["weights"]
    yield Row(
        "a step",
        hidden=size,
        nodes=planned.made.forward,
        passes_seconds=seconds["passes"],
        weights_seconds=seconds["weights"],
        update_seconds=seconds["update"],
        step_seconds=seconds["step"],
        of_peak_share=share(ours),
        instances_per_second=batch / seconds["step"],
        loss_error=difference,
    )
    for name in (n for n in LIBRARIES if n in seconds):
        yield Row(
            "forward and backward",
            library=name,
            hidden=size,
            taken_seconds=seconds[name],
            of_peak_share=share(seconds[name]),
            over_abw_times=seconds[name] / ours,
        )


def weight_flops(learner: Learner, graph: Graph) -> int:
    """The arithmetic in products of all weights' gradients."""
    total = 0
    for t, cell in enumerate(learner.passes.training.cells):
        for term in cell.terms if cell else ():
            if term.x is not None and cell is not None:
                total += 2 * int(graph.type_sizes[t]) * cell.shape_of(term.static)[0] * term.x.length
    return total
