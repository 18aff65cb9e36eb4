"""How mini-batches have grown: what a run keeps of each, and the same of a spec's."""

from __future__ import annotations

from abw.core.base.progress import Clock
from abw.core.exec.interface import Result
from abw.core.graph.growing.history import History, history
from abw.core.ir.model import Model
from abw.core.policy.rules.critical import Critical
from abw.core.run.minibatches import MiniBatch, run_all
from abw.core.run.workload import Workload, open_networks, open_workload, read_instances, usual_executor


def history_of(workload: Workload, batch: MiniBatch, result: Result) -> History:
    """How a mini-batch has grown. Raises ValueError for one that has not. Cost: see `history`."""
    ground, grown = workload.ground, batch.grown
    if ground is None or grown is None:
        raise ValueError("the mini-batch has not grown")
    nodes, read = result.nodes, result.values
    return history(ground, batch.first, batch.last, grown.instances, nodes, read, grown.picks)


def history_again(model: Model, first: int, last: int, seed: int = 0) -> History | None:
    """How instances `first` to `last` (exclusive) of a model's data grow; None where nothing does.

    On the executor cpu, by the model's weights or those of the seed. Errors: DataError, InstanceError;
    TooLargeError where they do not fit together. Cost: reading and growing them.
    """
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, last - first, first), networks)
    if workload.ground is None:
        return None
    executor, clock = usual_executor(model, networks, seed), Clock("construct", "schedule", "plan", "execute")
    batch, result = next(run_all(workload, Critical(), executor, clock))
    return history_of(workload, batch, result)
