"""A step of training, part by part, beside the machine's peak and PyTorch's autograd by level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from abw.bench.executors.blas import import_torch
from abw.bench.timing import interleaved
from abw.bench.workloads import case, files_of
from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.exec.params import Params, init_params
from abw.core.graph.graph import Graph
from abw.core.ir.training import Loss, Metric, Optimizer, Target, Training
from abw.core.policy.registry import get_policy
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named
from abw.core.train.learner import Learner
from abw.core.train.targets import targets_of


def bench_train(data: Path, hidden: list[int], batch: int, runs: int, specs: Path) -> dict[str, Any]:
    """Medians of `runs` rounds in which all take turns, CPU time of one thread; TreeLSTM, AdaGrad.

    A row a size: `step_seconds` from instances to changed weights; of a plan that is there `passes_seconds`
    (forward, backward), `weights_seconds` (the gradients of weights) and `update_seconds`; `share_of_peak`
    of passes and weights together, which counts products alone; `torch_seconds` of forward, loss and backward
    by level with autograd, indices made before, None where PyTorch is absent. `difference`: of the losses.
    """
    from abw.core.exec.cpu.profile.peak import peak_meter

    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    spec, source = files_of(case("TreeLSTM"), specs, data)
    rows = [_row(spec, source, size, batch, runs, torch, peak_meter()) for size in hidden]
    return {"schema_version": 1, "batch": batch, "torch": torch and torch.__version__, "rows": rows}


def _row(
    spec: Path,
    source: Path,
    size: int,
    batch: int,
    runs: int,
    torch: Any,  # noqa: ANN401
    meter: Callable[[], float],
) -> dict[str, Any]:
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
    half = learner.passes.forward(workload.graph(0, batch))
    executor = learner.passes.executor
    result = executor.resume(half.plan, half.until)
    found = learner.gradient(workload, 0, batch, targets)
    peaks: list[float] = []

    def passes() -> None:
        executor.begin(half.plan, half.until)
        executor.resume(half.plan, half.until)

    contenders: dict[str, Callable[[], object]] = {
        "step": lambda: learner.apply(learner.gradient(workload, 0, batch, targets).gradient),
        "passes": passes,  # and what follows reads what they have left
        "weights": lambda: executor.gradient(half.made, half.plan, result, learner.params),
        "update": lambda: learner.apply(found.gradient),
        "peak": lambda: peaks.append(meter()),
    }
    difference = None
    if torch:
        levels = Levels(torch, learner.network, params, workload.graph(0, batch), instances)
        difference = abs(levels.run() - found.loss) / found.loss
        contenders["torch"] = levels.run
    seconds = interleaved(contenders, runs)
    products = half.plan.product_flops + weight_flops(learner, half.made.graph)
    taken = seconds["passes"] + seconds["weights"]
    return {
        "hidden": size,
        "nodes": half.made.forward,
        **{f"{name}_seconds": seconds[name] for name in ("step", "passes", "weights", "update")},
        "share_of_peak": products / taken / float(np.median(peaks)),
        "instances_per_second": batch / seconds["step"],
        "torch_seconds": seconds.get("torch"),
        "difference": difference,
    }


def weight_flops(learner: Learner, graph: Graph) -> int:
    """The arithmetic in products of all weights' gradients."""
    total = 0
    for t, cell in enumerate(learner.passes.training.cells):
        for term in cell.terms if cell else ():
            if term.x is not None and cell is not None:
                total += 2 * int(graph.type_sizes[t]) * cell.shape_of(term.static)[0] * term.x.length
    return total


class Levels:
    """The TreeLSTM of the spec in PyTorch, all nodes of a height at once, differentiated by autograd."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        network: Any,  # noqa: ANN401
        params: Params,
        graph: Graph,
        instances: Instances,
    ) -> None:
        """Stack the gates' weights, and find the nodes of each height."""
        self.torch = torch
        given = {name: torch.from_numpy(np.array(v)) for name, v in named(network, params).items()}
        gates = "ilrou"
        stacked = [
            torch.cat([torch.cat([given[f"internal.U{g}{s}"] for s in "lr"], 1) for g in gates]),
            torch.cat([given[f"internal.b{g}"] for g in gates]),
            torch.cat([given[f"leaf.W{g}"] for g in "iou"]),
            torch.cat([given[f"leaf.b{g}"] for g in "iou"]),
            given["output.W"], given["output.b"], given["words"],
        ]  # fmt: skip
        self.weights = [weight.clone().requires_grad_() for weight in stacked]
        ptr, width = graph.type_ptr, network.width
        leaves, inner = int(ptr[1]), int(ptr[2])
        words = -1 - graph.operand[:leaves] - next(c.first for c in network.constants if c.kind == "table")
        first = graph.operand_ptr
        children = graph.operand[first[leaves] : first[inner]].reshape(-1, 4)[:, [0, 2]] // width
        height = np.zeros(inner, np.int64)
        while True:
            higher = 1 + height[children].max(axis=1, initial=0)
            if np.array_equal(higher, height[leaves:]):
                break
            height[leaves:] = higher
        order = np.argsort(height, kind="stable")
        place = np.argsort(order)
        ends = np.cumsum(np.bincount(height)).tolist()
        self.words = torch.from_numpy(words[order[:leaves]].astype(np.int64))
        self.below = [
            torch.from_numpy(place[children[order[a:b] - leaves]].ravel()) for a, b in pairwise(ends)
        ]
        labels = np.array([int(word) for word in instances.vocabulary["label"]])[instances.fields["label"]]
        self.labels = torch.from_numpy(labels[graph.vertex[:inner][order]])

    def run(self) -> float:
        """Forward, loss and backward; the loss."""
        torch, functional = self.torch, self.torch.nn.functional
        U, b, W, d, V, e, words = self.weights
        for weight in self.weights:
            weight.grad = None
        size = W.shape[1]
        gates = functional.linear(functional.embedding(self.words, words), W, d)
        i, o = gates[:, : 2 * size].sigmoid().split(size, 1)
        c = i * gates[:, 2 * size :].tanh()
        h = o * c.tanh()
        for below in self.below:
            gates = functional.linear(h.index_select(0, below).view(-1, 2 * size), U, b)
            i, left, right, o = gates[:, : 4 * size].sigmoid().split(size, 1)
            cl, cr = c.index_select(0, below).view(-1, 2, size).unbind(1)
            own = i * gates[:, 4 * size :].tanh() + left * cl + right * cr
            h, c = torch.cat([h, o * own.tanh()]), torch.cat([c, own])
        loss = functional.cross_entropy(functional.linear(h, V, e), self.labels, reduction="sum")
        loss.backward()
        return float(loss.detach())
