"""The memory that `abw train` takes, said before it trains.

Nothing is compiled and no weight is made: what is counted are arrays, those of the largest mini-batch really
made, all others by their shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.base.parallel import usable_cores
from abw.core.data.instances import Instances
from abw.core.data.tensors import reader_bytes
from abw.core.data.vertices import permuted
from abw.core.exec.lower.rows import row_floats
from abw.core.grad.network import training_network
from abw.core.plan.plan import outputs_to_keep, plan
from abw.core.policy.registry import get_policy
from abw.core.run.minibatches import TOGETHER
from abw.core.run.observing.footprint import (
    CACHE_BYTES,
    LANES,
    VERTEX_BYTES,
    Bytes,
    footprint,
    numbers_of,
    packed_bytes,
)
from abw.core.run.workload import open_workload
from abw.core.train.backward import Passes, passes_of
from abw.core.train.dropout import Dropout
from abw.core.train.learner import dropped
from abw.core.train.optimizers import STATES
from abw.core.train.session import Opened, TrainOptions
from abw.core.train.targets import training_of

# What `abw train` holds before it has any weights or instances, as that of `abw run`, measured as that.
AT_REST = 150_000_000
# What a vertex of the instances takes: read, with its targets, in the order of an epoch, and of the next.
TRAINED_VERTEX_BYTES = 300
# So many times what a cell's parameters take, and what is packed of them, is taken for a moment at the first
# step, to find how they are packed anew after each (`abw.core.exec.cpu.repack`): measured on shipped cells.
REPACKING = 4.2
# What is kept of that, beside what is packed.
REPACKED = 0.25


@dataclass(frozen=True, slots=True)
class TrainingForecast(Bytes):
    """Bytes of a whole process that trains a model by the executor cpu.

    `at_rest`: without a model; `pytorch`: what reads weights from a file of PyTorch's; `weights`: parameters
    and tables in one vector, and what is packed for the kernels of both passes; `gradient`: of all
    parameters, and of the rows of tables that a mini-batch reads; `optimizer`: what it keeps; `instances`:
    all of them; `mini_batches`: the values of the largest one, with tables, and the graphs and plans of those
    that are planned ahead; `moment`: what is taken beside that for a while at the first step, or from then on
    for the dev data, whichever is more.
    """

    at_rest: int
    pytorch: int
    weights: int
    gradient: int
    optimizer: int
    instances: int
    mini_batches: int
    moment: int


def forecast_training(opened: Opened, options: TrainOptions) -> TrainingForecast:
    """Forecast the memory of `abw train`. Errors: as planning. Cost: that of planning two mini-batches."""
    model, instances, trained = opened.model, opened.instances, training_of(opened.model)
    size = min(trained.batch, len(instances))
    passes = largest_passes(opened, options)
    network = passes.made.training.network
    ahead = TOGETHER if (options.threads or usable_cores()) == 1 else len(passes.graph) + 1
    several = min(-(-ahead // max(1, len(passes.graph))), -(-len(instances) // size))
    theta = 4 * sum(numbers_of(network))
    packed = packed_bytes(network)
    own = {t: 4 * sum(math.prod(network.params[p].shape) for p in network.types[t].params) for t in packed}
    first_step = max((REPACKING * (packed[t] + own[t]) for t in packed), default=0) + theta
    return TrainingForecast(
        AT_REST,
        reader_bytes(model.weights.file),
        theta + int((1 + REPACKED) * sum(packed.values())),
        gradient_bytes(passes),
        STATES[trained.optimizer.name] * theta,
        TRAINED_VERTEX_BYTES * len(instances.kind),
        footprint(passes.plan).arenas + several * graph_bytes(passes),
        max(int(first_step), _dev_bytes(opened) if opened.dev is not None else 0),
    )


def largest_passes(opened: Opened, options: TrainOptions) -> Passes:
    """The mini-batch of most vertices in all epochs, planned forward and backward."""
    model, networks, trained = opened.model, opened.networks, training_of(opened.model)
    order = largest_of(opened.instances, trained.batch, trained.epochs, options.seed)
    workload = open_workload(model, permuted(opened.instances, order), networks)
    dropout = Dropout(model, networks.cells, options.seed)
    names = dict.fromkeys(model.outputs[loss.output][0] for loss in trained.losses)
    training = training_network(dropout.network, tuple(names))
    equal = networks.equal and networks.equal.like(dropout.network)
    graph = dropped(dropout, equal, workload, 0, len(order), 0)
    return passes_of(networks, training, get_policy("sufficient"), graph)


def largest_of(instances: Instances, batch: int, epochs: int, seed: int) -> NDArray[np.int64]:
    """The instances of the mini-batch of most vertices, as epochs shuffle them. O(epochs * instances)."""
    sizes, found, most = np.diff(instances.start), np.zeros(0, np.int64), -1
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(len(instances))
        sums = np.add.reduceat(sizes[order], np.arange(0, len(order), batch))
        if sums.max() > most:
            first, most = batch * int(sums.argmax()), int(sums.max())
            found = order[first : first + batch]
    return found


def gradient_bytes(passes: Passes) -> int:
    """Return the bytes of gradients: of all parameters, and of the table rows that the mini-batch reads, with
    room for twice as many and for what their sums lose."""
    source, made = passes.made.training.source, passes.made
    total: int = 4 * sum(math.prod(p.shape) for p in source.params)
    read = np.unique(-1 - made.constant.astype(np.int64))
    for constant in source.constants:
        if constant.kind == "table":
            rows = int(np.count_nonzero((constant.first <= read) & (read < constant.first + constant.rows)))
            floats = row_floats(constant.shape, LANES)
            total += 4 * constant.rows + 8 * min(constant.rows, 2 * rows) * floats
    return total


def graph_bytes(passes: Passes) -> int:
    """The graph of both passes, its schedule and plan."""
    made = passes.made
    parts = (made.sum_node, made.constant, made.constant_gradient, *made.graph.given)
    return footprint(passes.plan).graph + sum(part.nbytes for part in parts)


def _dev_bytes(opened: Opened) -> int:
    """What the dev data take: their instances, values of the largest mini-batch, plans that are kept, and
    weights packed for the forward pass alone.
    """
    assert opened.dev is not None
    workload = open_workload(opened.model, opened.dev, opened.networks)
    start = workload.instances.start
    first, last = max(workload.windows(), key=lambda window: int(start[window[1]] - start[window[0]]))
    graph = workload.graph(first, last)
    schedule = opened.networks.scheduled(get_policy("sufficient"), graph)
    planned = plan(graph, schedule, outputs_to_keep(graph))
    needed, vertices = footprint(planned), len(opened.dev.kind)
    kept = needed.graph * vertices // max(1, int(start[last] - start[first]))
    packed = sum(packed_bytes(workload.network).values())
    return needed.arenas + needed.outputs + min(kept, CACHE_BYTES) + packed + VERTEX_BYTES * vertices
