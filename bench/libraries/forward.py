"""The TreeLSTM forward on real trees: abw beside PyTorch by hand, DGL and TorchFold, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.executors.contenders import import_torch
from abw.bench.libraries.dgl_trees import DglTrees, import_dgl
from abw.bench.libraries.fold_trees import FoldTrees, import_torchfold
from abw.bench.libraries.levels import Levels, OneByOne
from abw.bench.libraries.trees import Library, Trees
from abw.bench.options import SPECS, Batch, DataDir, HiddenSizes, Instances, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import case, files_of
from abw.core.base.errors import AbwError
from abw.core.exec.interface import Executor
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.policy.registry import get_policy
from abw.core.run.minibatches import MiniBatch, planned
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

# How far outputs, of order 1 and in float32, may be apart.
TOLERANCE = 1e-5

Floats = NDArray[np.float32]
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

    CPU time. `alone`: the pass alone; `whole`: also what each system makes of trees in memory (a plan,
    indices, a graph, a fold). All have the same weights, trees and mini-batches.
    """
    torch = import_torch()
    spec, source = files_of(case("TreeLSTM"), specs, data)
    for size in hidden:
        with torch.no_grad():  # DGL does not go with inference mode
            yield from _rows(torch, spec, source, size, batch, instances, runs)


def _rows(
    torch: Any,  # noqa: ANN401
    spec: Path,
    source: Path,
    size: int,
    batch: int,
    instances: int,
    runs: int,
) -> Rows:
    """One size of the model, a row for each that is there."""
    model = open_model(spec, Overrides(dims={"hidden": size}, data=source, batch=batch, limit=instances))
    networks = open_networks(model, "cell")
    params = init_params(networks.network, 0)
    executor, policy = get_executor("cpu"), get_policy("sufficient")
    executor.prepare(networks.network, params, 1)
    found = read_instances(model.data, instances)
    workload = open_workload(model, found, networks)
    windows = list(workload.windows())

    def make(first: int, last: int) -> MiniBatch:
        return planned(workload, policy, executor, first, last)

    made = [make(*window) for window in windows]
    trees = [Trees(torch, networks.network, params, one.graph, found) for one in made]
    others: dict[str, Makes] = {"PyTorch tree by tree": OneByOne, "PyTorch by hand": Levels}
    if dgl := import_dgl():
        others["DGL"] = partial(DglTrees, dgl)
    if torchfold := import_torchfold():
        others["TorchFold"] = partial(FoldTrees, torchfold)

    ready = {name: [makes(one) for one in trees] for name, makes in others.items()}
    expected = [_by_node(executor, mini_batch) for mini_batch in made]
    differences = {name: max(map(_difference, libraries, expected)) for name, libraries in ready.items()}
    for name, difference in differences.items():
        if not difference < TOLERANCE:
            raise AbwError(f"hidden {size}: the outputs of {name} differ by {difference:.1e}")

    alone: dict[str, Callable[[], object]] = {"abw": lambda: [_outputs(executor, one) for one in made]}
    anew: dict[str, Callable[[], object]] = {
        "abw": lambda: [_outputs(executor, make(*window)) for window in windows]
    }
    for name, makes in others.items():
        alone[name] = partial(_scores, ready[name])
        anew[name] = partial(_made_and_scored, makes, trees)
    anew = {f"made {name}": work for name, work in anew.items()}
    seconds = interleaved(alone | anew, runs, time.process_time)  # of all threads: PyTorch has its own
    rate = {name: len(found) / taken for name, taken in seconds.items()}
    for name in alone:
        yield Row(
            "",
            library=name,
            hidden=size,
            alone_per_second=rate[name],
            abw_over_it_times=rate["abw"] / rate[name],
            whole_per_second=rate[f"made {name}"],
            abw_over_all_of_it_times=rate["made abw"] / rate[f"made {name}"],
            output_error=differences.get(name, 0.0),
        )


def _outputs(executor: Executor, mini_batch: MiniBatch) -> Floats:
    """Run a plan; the model's outputs."""
    result = executor.run(mini_batch.plan)
    return np.asarray(result.values(mini_batch.graph.results[0].reference))


def _scores(libraries: list[Library]) -> None:
    for library in libraries:
        library.scores()


def _made_and_scored(makes: Makes, trees: list[Trees]) -> None:
    for mini_batch in trees:
        makes(mini_batch).scores()


def _by_node(executor: Executor, mini_batch: MiniBatch) -> Floats:
    """The scores of leaves and inner nodes, by their numbers: each is what one node of type output reads."""
    graph = mini_batch.graph
    inner, all = graph.type_ptr[2:4].tolist()
    read = graph.operand[graph.operand_ptr[inner] : graph.operand_ptr[all]] // graph.network.width
    found = executor.run(mini_batch.plan).values(np.arange(inner, all) * graph.network.width)
    scores = np.empty_like(found)
    scores[read] = found
    return scores


def _difference(library: Library, expected: Floats) -> float:
    scores, nodes = library.scores()
    return float(np.abs(scores.numpy() - expected[nodes.numpy()]).max())
