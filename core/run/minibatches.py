"""Mini-batches from instances to results: planned, ahead where that helps, and run, in pieces if need be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Protocol, TypeVar

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.parallel import ahead
from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor, Result, TooLargeError
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, outputs_to_keep, plan
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.growing.grow import Grown, grow
from abw.core.run.workload import Workload

# Small mini-batches of so many nodes are planned together, before the first of them runs: kernels fill the
# caches with weights and values, and what plans finds its code and tables there only if it does several.
TOGETHER = 1 << 14


@dataclass(frozen=True, slots=True)
class Planned:
    """A graph, what a policy saw of it (`dag`) and made of that (`schedule`), and its plan.

    The plan's own schedule is of the graph's types.
    """

    graph: Graph
    dag: Dag
    schedule: Schedule
    plan: Plan


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Instances `first` to `last` (exclusive) of a workload, ready to run, or grown.

    `window` numbers the mini-batch that they are, or are a part of: of several where instances between them
    were left out, or as `piece` of one that did not fit the executor's memory. One that has `grown` was
    executed in pieces, of which graph, schedule and plan are the whole: they are made when asked for.
    """

    window: int
    first: int
    last: int
    made: Planned | Grown
    piece: bool = False

    @property
    def grown(self) -> Grown | None:
        """The mini-batch if it has grown."""
        return self.made if isinstance(self.made, Grown) else None

    @property
    def graph(self) -> Graph:
        """Its graph."""
        return self.made.graph

    @property
    def dag(self) -> Dag:
        """What the policy saw of the graph; of one that has grown, all of it."""
        return self.made.dag if isinstance(self.made, Planned) else self.made.graph.dag

    @property
    def schedule(self) -> Schedule:
        """What the policy made of that."""
        return self.made.schedule

    @property
    def batches(self) -> int:
        """How many batches there are."""
        return self.made.batches if isinstance(self.made, Grown) else len(self.made.schedule)

    @property
    def unseen(self) -> int:
        """At how many steps the policy met a state that it had not seen."""
        return self.made.unseen if isinstance(self.made, Grown) else self.made.schedule.unseen

    @property
    def plan(self) -> Plan:
        """A plan of the whole."""
        return self.made.plan

    @property
    def executed(self) -> tuple[Plan, ...]:
        """The plans that were executed: one, unless the mini-batch has grown."""
        return self.made.pieces if isinstance(self.made, Grown) else (self.made.plan,)


_NOTHING = nullcontext()


def _uncounted(_: str) -> AbstractContextManager[None]:
    return _NOTHING


def planned(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    first: int,
    last: int,
    clock: Callable[[str], AbstractContextManager[None]] | None = None,
    *,
    window: int = 0,
    keep_all: bool = False,
    times: int = 1,
) -> MiniBatch:
    """Instances `first` to `last` (exclusive) as a mini-batch: its graph, scheduled, and planned to be run.

    The one way from instances to a plan. Of the values the plan keeps the model's outputs, or what
    `keep_all`, `times` (see `outputs_to_keep`) and the executor make of that. `clock` counts what construct,
    schedule and plan take. Errors: InstanceError.
    """
    clock = clock or _uncounted
    with clock("construct"):
        graph = workload.graph(first, last)
    with clock("schedule"):
        dag = workload.networks.seen(graph)
        schedule = policy.schedule(dag)
        launched = workload.networks.launched(graph, schedule)
    with clock("plan"):
        # on a device batches wait for those alone that they read from, not for earlier readers of a row
        keep = None if keep_all or executor.abilities.overlaps else outputs_to_keep(graph, times)
        made = plan(graph, executor.arrange(graph, launched), keep)
    return MiniBatch(window, first, last, Planned(graph, dag, schedule, made))


def run_one(
    workload: Workload, policy: Policy, executor: Executor, first: int, last: int, *, keep_all: bool = False
) -> tuple[MiniBatch, Result] | None:
    """One mini-batch of instances that do not grow, as `run_all` gives it, with nothing between; None where
    it does not fit the executor's memory. Errors: InstanceError.
    """
    batch = planned(workload, policy, executor, first, last, keep_all=keep_all)
    try:
        return batch, executor.run(batch.plan)
    except TooLargeError:
        return None


def run_all(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    clock: Clock,
    leave_out: Callable[[InstanceError], None] | None = None,
    *,
    keep_all: bool = False,
    windows: Iterable[tuple[int, int]] | None = None,
) -> Iterator[tuple[MiniBatch, Result]]:
    """Plan and run a workload's mini-batches in order; read each result before asking for the next.

    They are its `windows`, unless others are given.

    One that does not fit the executor's memory comes as its halves, or theirs. Instances that the model
    cannot be run on are told to `leave_out`, earlier than the mini-batch is there; without it, that is an
    error. Of values that are no outputs of the model the memory is given again where it is much (see
    `outputs_to_keep`), unless `keep_all` says otherwise. Errors: InstanceError; TooLargeError where one
    instance alone does not fit.
    """
    if workload.ground is not None:
        for number, (first, last) in enumerate(workload.windows() if windows is None else windows):
            yield from _grown(workload, policy, executor, clock, number, first, last, leave_out)
        return

    def made(window: int, first: int, last: int) -> MiniBatch:
        return planned(workload, policy, executor, first, last, clock, window=window, keep_all=keep_all)

    batches = each_window(workload, made, leave_out, windows)
    for batch in ahead(batches) if executor.abilities.overlaps else together(batches):
        yield from in_pieces(made, executor, clock, batch)


def _grown(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    clock: Clock,
    window: int,
    first: int,
    last: int,
    leave_out: Callable[[InstanceError], None] | None,
) -> Iterator[tuple[MiniBatch, Result]]:
    """Grow the instances of a window: in several mini-batches where some are left out, or all do not fit."""
    assert workload.ground is not None
    networks = workload.networks

    def batched(graph: Graph) -> Schedule:
        return networks.launched(graph, policy.schedule(networks.seen(graph)))

    waiting = [(first, last, False)]
    while waiting:
        first, last, piece = waiting.pop(0)
        if first == last:
            continue
        try:
            grown = grow(workload.binding, workload.ground, executor, batched, first, last, clock)
        except InstanceError as error:
            if leave_out is None:
                raise
            leave_out(error)
            waiting[:0] = [(first, error.instance, piece), (error.instance + 1, last, piece)]
        except TooLargeError:
            if last - first < 2:
                raise
            middle = (first + last) // 2
            waiting[:0] = [(first, middle, True), (middle, last, True)]
        else:
            yield MiniBatch(window, first, last, grown, piece), grown.result


def each_window(
    workload: Workload,
    made: Callable[[int, int, int], MiniBatch],
    leave_out: Callable[[InstanceError], None] | None,
    windows: Iterable[tuple[int, int]] | None,
) -> Iterator[MiniBatch]:
    """The mini-batches of all windows."""
    for number, (first, last) in enumerate(workload.windows() if windows is None else windows):
        yield from _around(partial(made, number), first, last, leave_out)


def _around(
    made: Callable[[int, int], MiniBatch],
    first: int,
    last: int,
    leave_out: Callable[[InstanceError], None] | None,
) -> Iterator[MiniBatch]:
    """The mini-batch of a window; several around instances that are left out.

    (Not a closure that calls itself: such a circle keeps the workload until the collector comes by.)
    """
    while first < last:
        try:
            yield made(first, last)
            return
        except InstanceError as error:
            if leave_out is None:
                raise
            leave_out(error)
            yield from _around(made, first, error.instance, leave_out)
            first = error.instance + 1


class Made(Protocol):
    """A mini-batch that is planned."""

    @property
    def graph(self) -> Graph:
        """Its graph."""


M = TypeVar("M", bound=Made)


def together(batches: Iterator[M]) -> Iterator[M]:
    """The same, made until they have TOGETHER nodes before the first of them is given."""
    return chain.from_iterable(bundles(batches, lambda _, nodes: nodes >= TOGETHER))


def bundles(batches: Iterator[M], full: Callable[[list[M], int], bool]) -> Iterator[list[M]]:
    """The same, so many made one after the other as make a bundle full, by these and their nodes.

    The last bundle may be empty. What making one raises is raised here in its place.
    """
    while True:
        made: list[M] = []
        nodes, more, error = 0, True, None
        try:
            while more and not full(made, nodes):
                batch = next(batches, None)
                if batch is None:
                    more = False
                else:
                    made.append(batch)
                    nodes += len(batch.graph)
        except AbwError as raised:
            error = raised
        yield made
        if error:
            raise error
        if not more:
            return


def in_pieces(
    made: Callable[[int, int, int], MiniBatch], executor: Executor, clock: Clock, batch: MiniBatch
) -> Iterator[tuple[MiniBatch, Result]]:
    """Run a mini-batch, as halves made anew where it does not fit the executor's memory."""
    try:
        with clock("execute"):
            result = executor.run(batch.plan)
    except TooLargeError:
        if batch.last - batch.first < 2:
            raise
        middle = (batch.first + batch.last) // 2
        for first, last in ((batch.first, middle), (middle, batch.last)):
            half = replace(made(batch.window, first, last), piece=True)
            yield from in_pieces(made, executor, clock, half)
    else:
        yield batch, result
