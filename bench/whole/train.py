"""A step of training, part by part, beside the machine's peak and PyTorch's autograd by level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from abw.bench.options import SPECS, Batch, DataDir, HiddenSizes, Runs, SpecsDir
from abw.bench.pytorch.install import torch_or_none
from abw.bench.pytorch.trees import ByLevel, Library, Trees, installed
from abw.bench.rows import Row, Rows
from abw.bench.timing import Peak, interleaved
from abw.bench.workloads import case, model_of
from abw.core.exec.interface import Result
from abw.core.exec.params import init_params
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.ir.training import Loss, Metric, Optimizer, Target, Training
from abw.core.policy.registry import get_policy
from abw.core.run.workload import open_networks, open_workload, read_instances
from abw.core.train.checkpoint import named
from abw.core.train.learner import Learner
from abw.core.train.targets import targets_of


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
    peak = Peak()
    for size in hidden:
        yield from _rows(model_of(case("TreeLSTM"), specs, data, size, batch), size, batch, runs, peak)


def _rows(model: Model, size: int, batch: int, runs: int, peak: Peak) -> Rows:
    """One size of the model."""
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

    def passes() -> Result:
        executor.begin(planned.plan, planned.until)
        return executor.resume(planned.plan, planned.until)

    result = passes()
    found = learner.found(learner.lesson(workload, 0, batch, targets))
    work: dict[str, Callable[[], object]] = {
        "step": lambda: learner.apply_gradient(
            learner.found(learner.lesson(workload, 0, batch, targets)).gradient
        ),
        "passes": passes,  # and what follows reads what they have left
        "weights": lambda: executor.gradient(planned.made, planned.plan, result, learner.params),
        "update": lambda: learner.apply_gradient(found.gradient),
        "peak": peak,
    }
    others: dict[str, Library] = {}
    difference = None
    if torch := torch_or_none():
        values = named(learner.network, params)
        trees = Trees(torch, learner.network, values, workload.graph(0, batch), instances)
        others = {"PyTorch": ByLevel(trees), **{name: make(trees) for name, make in installed().items()}}
        difference = max(abs(trees.step(library) - found.loss) / found.loss for library in others.values())
        work |= {name: partial(trees.step, library) for name, library in others.items()}
    seconds = interleaved(work, runs)
    flops = (planned.plan.product_flops + weight_flops(learner, planned.made.graph)) / peak.flops()
    ours = seconds["passes"] + seconds["weights"]
    yield Row(
        "a step",
        hidden=size,
        nodes=planned.made.forward,
        passes_seconds=seconds["passes"],
        weights_seconds=seconds["weights"],
        update_seconds=seconds["update"],
        step_seconds=seconds["step"],
        of_peak_share=flops / ours,
        instances_per_second=batch / seconds["step"],
        loss_error=difference,
    )
    for name in others:
        yield Row(
            "forward and backward",
            library=name,
            hidden=size,
            taken_seconds=seconds[name],
            of_peak_share=flops / seconds[name],
            over_abw_times=seconds[name] / ours,
        )


def weight_flops(learner: Learner, graph: Graph) -> int:
    """The arithmetic in products of all weights' gradients."""
    return sum(
        2 * int(graph.type_sizes[t]) * cell.shape_of(term.static)[0] * term.x.length
        for t, cell in enumerate(learner.passes.training.cells)
        if cell
        for term in cell.terms
        if term.x is not None
    )
