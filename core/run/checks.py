"""What is checked of weights, plans and values: finite numbers, and agreement with the reference executor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.exec.agreement import Difference, compare, shaken_runs
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params
from abw.core.exec.precision import allowed
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.fuse import Fusion
from abw.core.graph.graph import Distinct, Graph
from abw.core.ir.network import Network
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.run.minibatches import MiniBatch

# So many instances are named that compute one value.
SHOWN = 3
# The largest error, relative to an output's root mean square, that `verify` accepts.
TOLERANCE = 1e-5


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
    graph, schedule, nodes = batch.graph, batch.plan.schedule, result.nodes
    network, distinct = graph.network, graph.distinct
    # what has grown has values for all nodes, others for those that were executed
    every = distinct.nodes(graph.type_ptr) if distinct is not None else np.arange(len(graph), dtype=np.int32)
    executed = every if batch.grown is not None else np.arange(len(graph), dtype=np.int32)
    turn = np.empty(len(graph), np.int64)
    turn[schedule.nodes] = np.repeat(np.arange(len(schedule)), np.diff(schedule.ptr))
    first: tuple[int, int, int, int, float] | None = None
    for t in np.flatnonzero(nodes.type_sizes).tolist():
        for o in range(len(network.types[t].outputs)):
            values = result.value(t, o).reshape(int(nodes.type_sizes[t]), -1)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad):
                found = executed[bad + nodes.type_ptr[t]]
                k = int(np.argmin(turn[found]))
                value = values[bad[k]]
                here = (int(turn[found[k]]), int(found[k]), t, o, float(value[~np.isfinite(value)][0]))
                first = here if first is None else min(first, here)
    if first is None:
        return
    at, node, t, o, value = first
    net_type = network.types[t]
    own = graph.instance[[node]]
    if distinct is not None:  # the node is one of all these instances
        own = np.unique(distinct.instance[every == node])
    raise AbwError(
        f"output '{net_type.outputs[o].name}' of type '{net_type.name}' is {value}: "
        f"{_named(instances, batch.first + own)}, in batch {at} of mini-batch "
        f"{batch.window}; what comes before it is finite",
        hint="look at what this type computes with: exp of a large number, a quotient by 0, a word's weights",
    )


def _named(instances: Instances, numbers: NDArray[np.integer[Any]]) -> str:
    """Instances with their lines: the first ones, and how many more there are."""
    each = [f"{instances.numbers[n]} (line {instances.lines[n]})" for n in numbers[:SHOWN].tolist()]
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"instance{'s' * (len(numbers) > 1)} {', '.join(each)}{more}"


def check_plans(batch: MiniBatch) -> None:
    """Check the schedules and plans of a mini-batch. Raises CheckError for a wrong one."""
    if batch.grown is not None:
        check_schedule(batch.dag, batch.schedule)
    for made in batch.executed:
        check_schedule(made.graph.dag, made.schedule)
        check_plan(made.graph, made)


def compare_with_reference(
    graph: Graph,
    result: Result,
    executor: Executor,
    params: Params,
    fusion: Fusion | None,
    distinct: Distinct | None = None,
) -> tuple[float, Result]:
    """Compare all nodes' outputs with the reference executor's; returns the largest error and the latter.

    `graph` has all nodes, reductions and those that equal others, so that the reference computes each;
    `distinct` says which node of the result stands for each. The error exceeds the limit only where numbers
    nearly cancel, and rounding to single precision explains it. Errors: AbwError.
    """
    reference = ReferenceExecutor()
    reference.prepare(graph.network, params)
    expected = reference.run_graph(graph)
    precision = executor.precision
    limit = allowed(precision, TOLERANCE)

    def furthest(shaken: Sequence[Result] = ()) -> Difference:
        found = compare(result, expected, fusion, shaken, distinct)
        return max(found, key=lambda d: d.error, default=Difference("", "", 0.0))

    found = worst = furthest()
    if not worst.error <= limit:  # numbers that nearly cancel may be why
        worst = furthest(shaken_runs(graph, params))
    if not worst.error <= limit:
        coarse = f"weights of {precision} may be too coarse for this model: run it without --precision. "
        raise AbwError(
            f"executor '{executor.name}' is wrong: output '{worst.output}' of type '{worst.type}' "
            f"differs from the reference by {worst.error:.2e} of its root mean square, more than rounding "
            f"to single precision explains (allowed: {limit:.0e})",
            hint=("It" if precision == "float32" else coarse + "Otherwise it")
            + " is a defect of abw: please report it with the spec and the data",
        )
    return (found.error if math.isfinite(found.error) else worst.error), expected
