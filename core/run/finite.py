"""Where numbers stop being finite: the first NaN or infinity in weights, or in the values of a mini-batch."""

from __future__ import annotations

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.exec.interface import Result
from abw.core.exec.params import Params
from abw.core.ir.network import Network
from abw.core.run.minibatches import MiniBatch
from abw.core.store.outputs import Column


def refuse_weights(network: Network, params: Params) -> None:
    """Raise AbwError that names the first parameter or table which holds a number that is not finite."""
    names = [*(p.name for p in network.params), *(t.name for t in network.tables)]
    for name, values in zip(names, (*params.values, *params.tables), strict=True):
        places = np.argwhere(~np.isfinite(values))
        if len(places):
            at = ", ".join(map(str, places[0].tolist()))
            more = f", and {len(places) - 1:,} more of it" if len(places) > 1 else ""
            message = f"the weights hold numbers that are not finite: {name}[{at}] is "
            raise AbwError(
                f"{message}{values[tuple(places[0])]}{more}", hint="train it again, or mend the file"
            )


def refuse_values(batch: MiniBatch, result: Result, instances: Instances) -> None:
    """Raise AbwError that names the first value, in the order of the batches, which is not finite.

    `result` must hold all values of the mini-batch. Cost: reading them.
    """
    graph, schedule = batch.graph, batch.plan.schedule
    network = graph.network
    turn = np.empty(len(graph), np.int64)
    turn[schedule.nodes] = np.repeat(np.arange(len(schedule)), np.diff(schedule.ptr))
    first: tuple[int, int, int, int, float] | None = None
    for t in np.flatnonzero(graph.type_sizes).tolist():
        for o in range(len(network.types[t].outputs)):
            values = result.value(t, o).reshape(int(graph.type_sizes[t]), -1)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad):
                nodes = bad + graph.type_ptr[t]
                k = int(np.argmin(turn[nodes]))
                value = values[bad[k]]
                here = (int(turn[nodes[k]]), int(nodes[k]), t, o, float(value[~np.isfinite(value)][0]))
                first = here if first is None else min(first, here)
    if first is None:
        return
    at, node, t, o, value = first
    net_type = network.types[t]
    number = batch.first + int(graph.instance[node])
    raise AbwError(
        f"output '{net_type.outputs[o].name}' of type '{net_type.name}' is {value}: instance "
        f"{int(instances.numbers[number])} (line {instances.lines[number]}), in batch {at} of mini-batch "
        f"{batch.window}; what comes before it is finite",
        hint="look at what this type computes with: exp of a large number, a quotient by 0, a word's weights",
    )


def not_finite(column: Column) -> int:
    """How many values of an output are not finite. Cost: a sum, where all are."""
    with np.errstate(all="ignore"):
        if np.isfinite(column.values.sum()):
            return column.lost
    return int(np.count_nonzero(~np.isfinite(column.values)))
