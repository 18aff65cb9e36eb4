"""The TreeLSTM forward on real trees: abw beside PyTorch by hand, DGL and TorchFold, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.bench.options import SPECS, Batch, DataDir, HiddenSizes, Instances, Runs, SpecsDir
from abw.bench.pytorch.install import import_torch
from abw.bench.pytorch.trees import ByLevel, Library, OneByOne, Trees, installed
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import case, model_of, outputs_of, ready, refuse_different
from abw.core.exec.interface import Executor
from abw.core.ir.model import Model
from abw.core.run.minibatches import MiniBatch
from abw.core.train.checkpoint import named

# How far outputs, of order 1 and in float32, may be apart.
TOLERANCE = 1e-5

Makes = Callable[[Trees], Library]


def libraries(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    instances: Instances = 256,
    runs: Runs = 5,
) -> Rows:
    """Compare TreeLSTM forward passes with PyTorch, DGL and TorchFold, on one thread.

    CPU time. `alone` is the forward pass alone; `whole` includes each system's preparation of trees in memory
    (a plan, indices, a graph, a fold). All have the same weights, trees and mini-batches.
    """
    torch = import_torch()
    for size in hidden:
        model = model_of(case("TreeLSTM"), specs, data, size, batch, instances)
        with torch.no_grad():  # DGL does not work in inference mode
            yield from _rows(model, size, runs)


def _rows(model: Model, size: int, runs: int) -> Rows:
    """One size of the model, a row for each library that is installed."""
    ours = ready(model)
    workload, executor = ours.read(), ours.executor
    windows = list(workload.windows())
    made = [ours.planned(workload, *window) for window in windows]
    network, values = ours.networks.network, named(ours.networks.network, ours.params)
    trees = [Trees(import_torch(), network, values, one.graph, workload.instances) for one in made]
    others: dict[str, Makes] = {"PyTorch tree by tree": OneByOne, "PyTorch by hand": ByLevel, **installed()}
    prepared = {name: [makes(one) for one in trees] for name, makes in others.items()}
    expected = [_by_node(executor, one) for one in made]
    errors = {"abw": 0.0}
    for name, some in prepared.items():
        for library, right in zip(some, expected, strict=True):
            scores, nodes = library.scores()
            error = refuse_different(
                scores.numpy(), right[nodes.numpy()], TOLERANCE, f"{name}, hidden {size}"
            )
            errors[name] = max(error, errors.get(name, 0.0))

    def run(one: MiniBatch) -> object:
        return outputs_of(executor.run(one.plan), one.graph)

    def anew(makes: Makes) -> None:
        for one in trees:
            makes(one).scores()

    work: dict[str, Callable[[], object]] = {
        "abw": lambda: [run(one) for one in made],
        "whole abw": lambda: [run(ours.planned(workload, *window)) for window in windows],
    }
    for name, makes in others.items():
        work[name] = partial(lambda some: [library.scores() for library in some], prepared[name])
        work[f"whole {name}"] = partial(anew, makes)
    seconds = interleaved(work, runs, time.process_time)  # of all threads: PyTorch has its own
    rate = {name: len(workload.instances) / taken for name, taken in seconds.items()}
    for name, error in errors.items():
        yield Row(
            "",
            library=name,
            hidden=size,
            alone_per_second=rate[name],
            abw_over_it_times=rate["abw"] / rate[name],
            whole_per_second=rate[f"whole {name}"],
            abw_over_all_of_it_times=rate["whole abw"] / rate[f"whole {name}"],
            output_error=error,
        )


def _by_node(executor: Executor, batch: MiniBatch) -> NDArray[np.float32]:
    """The scores of leaves and inner nodes, by their numbers: each is what one node of type output reads."""
    graph, width = batch.graph, batch.graph.network.width
    inner, every = graph.type_ptr[2:4].tolist()
    read = graph.operand[graph.operand_ptr[inner] : graph.operand_ptr[every]] // width
    found = np.asarray(executor.run(batch.plan).values(np.arange(inner, every) * width))
    scores = np.empty_like(found)
    scores[read] = found
    return scores
