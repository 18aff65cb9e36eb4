"""Mini-batches from instances to results: planned, ahead of time if that helps, and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Protocol, TypeVar

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.parallel import ahead
from abw.core.base.progress import Times, uncounted
from abw.core.exec.interface import Executor, Result, TooLargeError
from abw.core.graph.dag import Dag
from abw.core.graph.equal.leaves import StaleLeavesError, with_fresh
from abw.core.graph.graph import Graph
from abw.core.graph.growing.history.history import History, history, of_distinct
from abw.core.ir.model import Model
from abw.core.plan.plan import Plan, outputs_to_keep, plan
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.growing.grow import grow
from abw.core.run.growing.grown import Grown
from abw.core.run.workload import Workload, open_networks, open_workload, read_instances, usual_executor

# Small mini-batches are planned together, up to this many nodes, before the first of them runs: kernels fill
# the caches with weights and values, and evict the planner's code and tables.
TOGETHER = 1 << 14
# A mini-batch by its number, and its instances from one to before another.
Window = tuple[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Planned:
    """A graph, the `dag` and `schedule` of a policy, and its plan, whose schedule is of the graph's types."""

    graph: Graph
    dag: Dag
    schedule: Schedule
    plan: Plan


@dataclass(frozen=True)
class Passed:
    """`nodes` in `batches` that a compiled pass has run, without `equal_nodes` that equal others; graph,
    schedule and plan are made when looked at.
    """

    nodes: int
    batches: int
    make: Callable[[], Planned]
    equal_nodes: int = 0

    @cached_property
    def planned(self) -> Planned:
        """What the pass has planned."""
        return self.make()


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Instances `first` to `last` (exclusive) of a workload, ready to run, or grown.

    `window` is the number of the mini-batch. Several have the same one where instances between them were left
    out, or if they are each a `piece` of one that did not fit the executor's memory. A mini-batch that has
    `grown` was executed in pieces; its graph, schedule and plan are those of the whole, made on demand.
    """

    window: int
    first: int
    last: int
    made: Planned | Passed | Grown
    piece: bool = False

    @property
    def grown(self) -> Grown | None:
        """What has grown, or None."""
        return self.made if isinstance(self.made, Grown) else None

    @property
    def _whole(self) -> Planned | Grown:
        return self.made.planned if isinstance(self.made, Passed) else self.made

    @property
    def graph(self) -> Graph:
        """The dataflow graph."""
        return self._whole.graph

    @property
    def dag(self) -> Dag:
        """The graph as the policy sees it; of a grown mini-batch, all of it."""
        made = self._whole
        return made.graph.dag if isinstance(made, Grown) else made.dag

    @property
    def schedule(self) -> Schedule:
        """The batches of `dag`."""
        return self._whole.schedule

    @property
    def batches(self) -> int:
        """The number of batches."""
        return len(self.made.schedule) if isinstance(self.made, Planned) else self.made.batches

    @property
    def equal_nodes(self) -> int:
        """How many nodes were left out because they equal others."""
        if not isinstance(self.made, Planned):
            return self.made.equal_nodes
        distinct = self.made.graph.distinct
        return 0 if distinct is None else len(distinct.place) - len(self.made.graph)

    @property
    def unseen(self) -> int:
        """The number of steps at which the policy was in a state unseen in training."""
        if isinstance(self.made, Passed):
            return 0
        return self.made.unseen if isinstance(self.made, Grown) else self.made.schedule.unseen

    @property
    def plan(self) -> Plan:
        """The plan of the whole graph."""
        return self._whole.plan

    @property
    def executed(self) -> tuple[Plan, ...]:
        """The plans that were executed: one, or those of all rounds of growth."""
        return self.made.pieces if isinstance(self.made, Grown) else (self.plan,)


def planned(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    first: int,
    last: int,
    window: int = 0,
    *,
    clock: Times = uncounted,
    keep_all: bool = False,
    times: int = 1,
    apart: float = 0,
    unequal: bool = False,
) -> MiniBatch:
    """Construct, schedule and plan instances `first` to `last` (exclusive) as a mini-batch.

    The plan keeps the values of the model's outputs, or more by `keep_all`, `times` (see `outputs_to_keep`)
    and the executor. `apart`: so many of the first windows use nothing that earlier mini-batches have
    computed. `unequal`: no equal nodes are looked for. `clock` counts the phases. Errors: InstanceError.
    """
    leaves = None if window < apart else executor.leaves
    with clock("construct"):
        if unequal:
            graph = workload.unfused(first, last)
        else:
            graph = workload.next_graph(first, last, executor.divide, leaves)
    with clock("schedule"):
        dag = workload.networks.seen(graph)
        schedule = policy.schedule(dag)
        launched = workload.networks.launched(graph, schedule)
    with clock("plan"):
        # on a device, batches wait only for those that they read from, not for earlier readers of a row
        keep = None if keep_all or executor.abilities.overlaps else outputs_to_keep(graph, times)
        if keep is not None and leaves is not None:
            keep = with_fresh(keep, graph, leaves.types)
        made = plan(graph, executor.arrange(graph, launched), keep)
    return MiniBatch(window, first, last, Planned(graph, dag, schedule, made))


def run_all(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    clock: Times = uncounted,
    leave_out: Callable[[InstanceError], None] | None = None,
    *,
    keep_all: bool = False,
    apart: int = 0,
    windows: Iterable[Window] | None = None,
) -> Iterator[tuple[MiniBatch, Result]]:
    """Plan and run a workload's mini-batches in order; read each result before asking for the next.

    `windows`: other mini-batches than the workload's, with their numbers. One that does not fit the
    executor's memory is halved until it does. `leave_out` is called with instances that the model cannot be
    run on, before their mini-batch is yielded; without it, they are errors. With `keep_all`, the values of
    all nodes are kept, not only outputs (`outputs_to_keep`). So many of the first windows as `apart` says use
    nothing that earlier mini-batches have computed.
    Errors: InstanceError; TooLargeError if one instance alone does not fit.
    """
    if workload.growing is not None:
        how = partial(_grown, workload, policy, executor, clock)
        for batch in each_window(workload, how, leave_out, windows):
            assert batch.grown is not None
            yield batch, batch.grown.result
        return
    of = workload, policy, executor
    made = partial(planned, *of, clock=clock, keep_all=keep_all, apart=apart)
    batches = each_window(workload, made, leave_out, windows)
    for batch in ahead(batches) if executor.abilities.overlaps else together(batches):
        yield from in_pieces(made, executor, clock, batch)


def _grown(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    clock: Times,
    first: int,
    last: int,
    window: int,
) -> MiniBatch:
    """Grow instances `first` to `last` (exclusive). Errors: InstanceError, TooLargeError."""
    assert workload.growing is not None
    networks = workload.networks
    of = workload.binding, workload.growing, executor, partial(networks.scheduled, policy)
    return MiniBatch(window, first, last, grow(*of, first, last, clock, networks.equal))


def each_window(
    workload: Workload,
    made: Callable[[int, int, int], MiniBatch],
    leave_out: Callable[[InstanceError], None] | None,
    windows: Iterable[Window] | None,
) -> Iterator[MiniBatch]:
    """Yield the mini-batch that is `made(first, last, window)` of each window: several around instances that
    are left out, and halves of one that does not fit the executor's memory.
    """
    for number, window in enumerate(workload.windows()) if windows is None else windows:
        waiting = [(*window, False)]
        while waiting:
            first, last, piece = waiting.pop()
            if first == last:
                continue
            try:
                batch = made(first, last, number)
            except InstanceError as error:
                if leave_out is None:
                    raise
                leave_out(error)
                waiting += [(error.instance + 1, last, piece), (first, error.instance, piece)]
            except TooLargeError:
                if last - first < 2:
                    raise
                middle = (first + last) // 2
                waiting += [(middle, last, True), (first, middle, True)]
            else:
                yield replace(batch, piece=True) if piece else batch


class Made(Protocol):
    """A planned mini-batch."""

    @property
    def graph(self) -> Graph:
        """The dataflow graph."""


M = TypeVar("M", bound=Made)
T = TypeVar("T")


def together(batches: Iterator[M]) -> Iterator[M]:
    """Yield mini-batches, of which TOGETHER nodes are planned before the first is yielded."""
    return chain.from_iterable(bundles(batches, lambda _, nodes: nodes >= TOGETHER, _nodes))


def _nodes(batch: Made) -> int:
    return len(batch.graph)


def bundles(
    batches: Iterator[T], full: Callable[[list[T], int], bool], nodes_of: Callable[[T], int]
) -> Iterator[list[T]]:
    """Collect mini-batches until `full(bundle, nodes)`; the last bundle may be empty.

    An error of planning is raised after the bundle of what precedes it.
    """
    while True:
        made: list[T] = []
        nodes, more, error = 0, True, None
        try:
            while more and not full(made, nodes):
                batch = next(batches, None)
                if batch is None:
                    more = False
                else:
                    made.append(batch)
                    nodes += nodes_of(batch)
        except AbwError as raised:
            error = raised
        yield made
        if error:
            raise error
        if not more:
            return


def in_pieces(
    made: Callable[[int, int, int], MiniBatch], executor: Executor, clock: Times, batch: MiniBatch
) -> Iterator[tuple[MiniBatch, Result]]:
    """Run a mini-batch, as halves planned anew if it does not fit the executor's memory.

    It is planned again, too, where it reads leaves that were forgotten meanwhile.
    """
    try:
        with clock("execute"):
            result = executor.run(batch.plan)
    except TooLargeError:
        if batch.last - batch.first < 2:
            raise
        middle = (batch.first + batch.last) // 2
        for first, last in ((batch.first, middle), (middle, batch.last)):
            half = replace(made(first, last, batch.window), piece=True)
            yield from in_pieces(made, executor, clock, half)
    except StaleLeavesError:
        again = replace(made(batch.first, batch.last, batch.window), piece=batch.piece)
        yield from in_pieces(made, executor, clock, again)
    else:
        yield batch, result


def history_of(workload: Workload, batch: MiniBatch, result: Result) -> History:
    """Describe how a mini-batch has grown (`history`). Raises ValueError for one that has not."""
    growing, grown = workload.growing, batch.grown
    if growing is None or grown is None:
        raise ValueError("the mini-batch has not grown")
    found = history(growing.growth_model, grown.ended, result.nodes, result.values)
    return of_distinct(found, grown.graph) if grown.equal_nodes else found


def history_again(model: Model, first: int, last: int, seed: int = 0) -> History | None:
    """Describe how instances `first` to `last` (exclusive) of a model's data grow; None if nothing grows.

    Grows them on the executor cpu, by the model's weights or those of the seed. Errors: DataError,
    InstanceError; TooLargeError if they do not fit together.
    """
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, last - first, first), networks)
    if workload.growing is None:
        return None
    batch, result = next(run_all(workload, Critical(), usual_executor(model, networks, seed)))
    return history_of(workload, batch, result)
