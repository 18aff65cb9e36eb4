"""Mini-batches from instances to results: planned, ahead where that helps, and run, in pieces if need be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abw.core.ahead import ahead
from abw.core.errors import AbwError, InstanceError
from abw.core.exec.interface import Executor, Result, TooLargeError
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, plan, wanted_of
from abw.core.policy.registry import Policy
from abw.core.policy.schedule import Schedule
from abw.core.progress import Clock
from abw.core.workload import Workload

OVERLAPPED = ("cuda",)
"""The executors that leave the processor free: while they run, the next mini-batch is planned."""


TOGETHER = 1 << 14
"""Small mini-batches of so many nodes are planned together, before the first of them runs: kernels fill the
caches with weights and values, and what plans finds its code and tables there only if it does several."""


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Instances `first` to `last` (exclusive) of a workload, ready to run.

    `window` numbers the mini-batch that they are, or are a part of: of several where instances between them
    were left out, or as `piece` of one that did not fit the executor's memory. `dag` is what the policy saw
    of the graph, `schedule` what it made of that; the plan's own is of the graph's types.
    """

    window: int
    first: int
    last: int
    graph: Graph
    dag: Dag
    schedule: Schedule
    plan: Plan
    piece: bool = False


def run_all(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    clock: Clock,
    leave_out: Callable[[InstanceError], None] | None = None,
    *,
    keep_all: bool = False,
) -> Iterator[tuple[MiniBatch, Result]]:
    """Plan and run a workload's mini-batches in order; read each result before asking for the next.

    One that does not fit the executor's memory comes as its halves, or theirs. Instances that the model
    cannot be run on are told to `leave_out`, earlier than the mini-batch is there; without it, that is an
    error. Of values that are no outputs of the model the memory is given again where it is much (see
    `wanted_of`), unless `keep_all` says otherwise. Errors: InstanceError; TooLargeError where one instance
    alone does not fit.
    """

    def planned(window: int, first: int, last: int) -> MiniBatch:
        return _planned(workload, policy, executor, clock, keep_all, window, first, last)

    def around(window: int, first: int, last: int) -> Iterator[MiniBatch]:
        """The mini-batch of a window; several around instances that are left out."""
        while first < last:
            try:
                yield planned(window, first, last)
                return
            except InstanceError as error:
                if leave_out is None:
                    raise
                leave_out(error)
                yield from around(window, first, error.instance)
                first = error.instance + 1

    batches = (batch for number, window in enumerate(workload.windows()) for batch in around(number, *window))
    for batch in ahead(batches) if executor.name in OVERLAPPED else _together(batches):
        yield from _pieces(planned, executor, clock, batch)


def _together(batches: Iterator[MiniBatch]) -> Iterator[MiniBatch]:
    """The same, made until they have TOGETHER nodes before the first of them is given.

    What making one raises is raised here in its place.
    """
    while True:
        made: list[MiniBatch] = []
        nodes, error = 0, None
        try:
            while nodes < TOGETHER and (batch := next(batches, None)):
                made.append(batch)
                nodes += len(batch.graph)
        except AbwError as raised:
            error = raised
        yield from made
        if error:
            raise error
        if nodes < TOGETHER:
            return


def outputs_kept(executor: Executor, graph: Graph, times: int = 1) -> NDArray[np.int32] | None:
    """What a plan keeps of which the outputs alone are wanted; None for all. `times`: see `wanted_of`.

    On a device all: there, batches wait for those alone that they read from, not for earlier readers.
    """
    return None if executor.name in OVERLAPPED else wanted_of(graph, times)


def _planned(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    clock: Clock,
    keep_all: bool,
    window: int,
    first: int,
    last: int,
) -> MiniBatch:
    with clock("construct"):
        graph = workload.graph(first, last)
    with clock("schedule"):
        dag = workload.seen(graph)
        schedule = policy.schedule(dag)
        launched = workload.launched(graph, schedule)
    with clock("plan"):
        keep = None if keep_all else outputs_kept(executor, graph)
        planned = plan(graph, executor.arrange(graph, launched), keep)
        return MiniBatch(window, first, last, graph, dag, schedule, planned)


def _pieces(
    planned: Callable[[int, int, int], MiniBatch], executor: Executor, clock: Clock, batch: MiniBatch
) -> Iterator[tuple[MiniBatch, Result]]:
    try:
        with clock("execute"):
            result = executor.run(batch.plan)
    except TooLargeError:
        if batch.last - batch.first < 2:
            raise
        middle = (batch.first + batch.last) // 2
        for first, last in ((batch.first, middle), (middle, batch.last)):
            half = replace(planned(batch.window, first, last), piece=True)
            yield from _pieces(planned, executor, clock, half)
    else:
        yield batch, result
