"""A model bound to its instances: the source of the graphs of mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, DataError, InstanceError, Problem, Span, SpecError
from abw.core.cell.hoist import hoist
from abw.core.data.derive import with_derived
from abw.core.data.feed import Feed, open_feed
from abw.core.data.instances import Instances
from abw.core.data.read import Chunk, chunks, read
from abw.core.data.readers.jsonl import schema_of_json
from abw.core.data.tensors import words_in
from abw.core.data.vertices import with_room
from abw.core.exec.interface import Executor
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.bind import Binding, bind
from abw.core.graph.bytecode import Bytecode, program_of
from abw.core.graph.cells import cell_network
from abw.core.graph.construct import construct
from abw.core.graph.dag import Dag
from abw.core.graph.equal.consing import LEAST_NODES, DedupMode
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.leaves import Leaves, with_leaves
from abw.core.graph.equal.numbering import keys_of
from abw.core.graph.fuse import Fusion, fuse, fuse_network
from abw.core.graph.graph import Graph
from abw.core.graph.group import Groups, group_types
from abw.core.graph.growing.batch import GrowthData
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.ops import OpNetwork, expand, op_network
from abw.core.ir.model import DataSpec, Model
from abw.core.ir.network import Granularity, LayoutName, Network
from abw.core.ir.phases import phases_of
from abw.core.policy.launches import by_type
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.dedup import Deduplicator
from abw.core.run.growing.grow import grow
from abw.core.spec.load import Overrides, load_model

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Networks:
    """A model's network of cells, the bytecode that constructs its graphs, and networks derived from it.

    `ops`: the network of operations, at granularity `op`. `fusion`: that network, or the one of cells, with
    reductions read in place. `groups`: groups of types that policies treat as one type, if any.
    `growth_model`: of a model that grows what its rounds are made of. `equal`: leaves out nodes that equal
    others.
    """

    cells: Network
    program: Bytecode
    ops: OpNetwork | None = None
    fusion: Fusion | None = None
    groups: Groups | None = None
    growth_model: GrowthModel | None = None
    equal: Deduplicator | None = None

    @property
    def network(self) -> Network:
        """The network of the executed graphs."""
        return self.fusion.network if self.fusion else self.unfused

    @property
    def types(self) -> tuple[str, ...]:
        """The names of the types that policies see."""
        return self.groups.names if self.groups else tuple(t.name for t in self.network.types)

    @property
    def unfused(self) -> Network:
        """The network in which every reduction is a node."""
        return self.ops.network if self.ops else self.cells

    def seen(self, graph: Graph) -> Dag:
        """The dag of a graph as policies see it."""
        return self.groups.apply(graph.dag) if self.groups else graph.dag

    def scheduled(self, policy: Policy, graph: Graph) -> Schedule:
        """The schedule of a graph by a policy, as it is executed."""
        return self.launched(graph, policy.schedule(self.seen(graph)))

    def launched(self, graph: Graph, schedule: Schedule) -> Schedule:
        """Convert a policy's schedule to one of the graph, in which batches of groups become launches."""
        return by_type(schedule, graph.dag) if self.groups else schedule


@dataclass(frozen=True, slots=True)
class Workload:
    """A model with its instances and its networks.

    With a `growing`, the instances have not grown yet (`abw.core.run.growing.grow`), and have no graphs.
    """

    model: Model
    binding: Binding
    networks: Networks
    growing: GrowthData | None = None

    @property
    def network(self) -> Network:
        """The network of the executed graphs."""
        return self.networks.network

    @property
    def instances(self) -> Instances:
        """All the instances."""
        return self.binding.instances

    def graph(self, first: int, last: int, part: Ints | None = None) -> Graph:
        """The graph of a mini-batch: instances `first` to `last` (exclusive). Errors: SpecError.

        `part` (instances,): nodes of instances in different parts stay apart.
        """
        return self._fused(self.distinct(first, last, part))

    def distinct(self, first: int, last: int, part: Ints | None = None) -> Graph:
        """The graph of a mini-batch without equal nodes, every reduction a node. Errors: SpecError."""
        graph, equal = self.unfused(first, last), self.networks.equal
        if equal is None or self._foreseen(graph, first) < equal.least(looks=True):
            return graph
        return dedup(graph, equal.keys, part=part)

    def _foreseen(self, graph: Graph, first: int) -> int:
        """How many nodes a run knows of when it decides whether to look for equal ones: of a graph that has
        grown those before growth, or those of the mini-batch before.
        """
        growth = None if self.networks.ops else self.networks.growth_model
        if growth is None:
            return len(graph)
        earlier = max(0, first - self.model.data.batch)
        before = int(graph.type_sizes[list(growth.phases.before)].sum())
        return max(before, len(self.unfused(earlier, first)) if first else 0)

    def next_graph(
        self, first: int, last: int, divide: Callable[[Graph], Ints | None], leaves: Leaves | None = None
    ) -> Graph:
        """The graph of a run's next mini-batch, with equal nodes looked for where that has paid lately.

        `divide` gives the parts of a graph; `leaves` are those of earlier mini-batches. Errors: SpecError.
        """
        graph, equal = self.unfused(first, last), self.networks.equal
        return self._fused(equal.adaptive(graph, divide, leaves) if equal else graph)

    def _fused(self, graph: Graph) -> Graph:
        return fuse(graph, self.networks.fusion) if self.networks.fusion else graph

    def unfused(self, first: int, last: int) -> Graph:
        """The graph of a mini-batch with all reductions and equal nodes as nodes. Errors: SpecError."""
        graph = construct(self.binding, first, last)
        return expand(graph, self.networks.ops) if self.networks.ops else graph

    def windows(self) -> Iterator[tuple[int, int]]:
        """The mini-batches, in order; the last may be smaller."""
        for first in range(0, len(self.instances), self.model.data.batch):
            yield first, min(first + self.model.data.batch, len(self.instances))


def open_model(spec: Path, overrides: Overrides, *, skip_bad: bool = False) -> Model:
    """Read and check a spec. With `skip_bad`, malformed instances of its data are no errors.

    Errors: SpecError.
    """
    schema_of = partial(schema_of_json, skip_bad=skip_bad)
    model = load_model(spec, overrides, schema_of)
    if model.weights.file and not overrides.words and (words := words_in(model.weights.file)):
        # a file that `abw train` wrote lists the words of each row
        model = load_model(spec, replace(overrides, words=words), schema_of)
    wanted = overrides.hoist
    return hoist(model, wanted if isinstance(wanted, tuple) else None) if wanted else model


def read_instances(data: DataSpec, limit: int | None, skip: int = 0) -> Instances:
    """Read `limit` instances of a model's data, or all, after the first `skip`. Errors: DataError."""
    return read(data.path, data.format, skip=skip, limit=limit, **_how_read(data))


def _how_read(data: DataSpec) -> dict[str, Any]:
    """What reading goes by beside the format."""
    return {name: getattr(data, name) for name in ("frequency", "tokens", "beside")}


def open_networks(
    model: Model,
    granularity: Granularity,
    layout: LayoutName = "planned",
    *,
    fuse: bool = False,
    group: bool = False,
    finished: bool = False,
    dedup: DedupMode = "off",
    leaves: bool = False,
) -> Networks:
    """Make the networks of a model.

    `fuse`: read reductions in place where possible. `group`: let policies treat types of one structure as
    one. `dedup`: leave out nodes that equal others; with `leaves` there is room for outputs of leaves that
    are kept from one mini-batch to the next, unless the model grows. `finished`: graphs are made only after
    growth has ended. Errors: AbwError for a model that grows, at granularity `op` or with `fuse`, unless
    `finished`. Cost: some 100 us, whatever the data.
    """
    if model.growth and (granularity == "op" or fuse) and not finished:
        what, who = "reading reductions in place (--fuse)", "compare takes"
        if granularity == "op":
            what, who = "granularity op", "compare, explain and viz take"
        message = f"{model.name} grows round by round, and {what} needs the whole graph before it runs"
        hint = f"leave it out; {who} it, after growth has ended"
        raise AbwError(message, hint=hint, exit_code=2)
    cells = cell_network(model, layout)
    if leaves and dedup != "off" and granularity == "cell" and not model.growth:
        cells = with_leaves(cells)
    ops = op_network(cells) if granularity == "op" else None
    growth_model = None
    if model.growth:
        phases, _ = phases_of(model.types, model.schema, model.growth)
        growth_model = GrowthModel(model, model.growth, cells, phases)
    found = Networks(cells, program_of(model, cells), ops, growth_model=growth_model)
    if dedup != "off":
        keys = keys_of(found.unfused, None if ops else found.program.edges)
        found = replace(found, equal=Deduplicator(dedup, keys=keys))
    if fuse:
        found = replace(found, fusion=fuse_network(found.unfused))
    groups = group_types(found.network)
    return replace(found, groups=groups) if group and not groups.trivial else found


def open_workload(model: Model, instances: Instances, networks: Networks) -> Workload:
    """Bind a model to instances. Errors: DataError (an unknown word, a missing row)."""
    growth_model = networks.growth_model
    instances = with_derived(instances, model.given)
    there = {*instances.schema.kinds, *instances.schema.fields}
    if growth_model is None or growth_model.growth.decided | growth_model.growth.grown <= there:
        return Workload(model, bind(model, networks.cells, networks.program, instances), networks)
    instances = with_room(instances, growth_model.growth, growth_model.extended(instances.schema))
    binding = bind(model, networks.cells, networks.program, instances)
    return Workload(model, binding, networks, GrowthData(growth_model, instances))


def load_workload(
    model: Model,
    granularity: Granularity,
    *,
    fuse: bool = False,
    group: bool = False,
    dedup: DedupMode = "off",
    seed: int = 0,
) -> Workload:
    """Bind a model to all instances of its data, up to its limit, after they have grown.

    They grow on the executor cpu, by the model's weights or those of the `seed`. Errors: DataError.
    """
    instances = read_instances(model.data, model.data.limit)
    networks = open_networks(model, granularity, fuse=fuse, group=group, finished=True, dedup=dedup)
    return whole(open_workload(model, instances, networks), seed=seed)


def may_look(workload: Workload, used: int) -> bool:
    """Whether equal nodes may be looked for in a run of the instances that a workload has, perhaps grown."""
    equal, growth = workload.networks.equal, workload.networks.growth_model
    if equal is None or equal.mode == "on":
        return equal is not None
    windows = list(workload.windows())
    # of growing ones, the second knows how many nodes the first has had, this one those before growth
    if used < len(workload.instances) or (growth and len(windows) > 1):
        return True
    types = list(growth.phases.before) if growth else slice(None)
    sizes = [workload.unfused(*window).type_sizes[types] for window in windows]
    return any(size.sum() >= LEAST_NODES for size in sizes)


def whole(
    workload: Workload, count: int | None = None, executor: Executor | None = None, seed: int = 0
) -> Workload:
    """Return a workload as it is if its instances do not grow, else with its first `count`, grown.

    They grow on a prepared executor, or on the usual one, always by cells. Errors: InstanceError.
    """
    if workload.growing is None:
        return workload
    model, networks = workload.model, workload.networks
    executor = executor or usual_executor(model, networks, seed)
    last = len(workload.instances) if count is None else count
    of = workload.binding, workload.growing, executor
    grown = grow(*of, lambda graph: Critical().schedule(graph.dag), 0, last)
    return open_workload(model, grown.instances, networks)


def grows_at_random(model: Model) -> bool:
    """Whether what grows depends on untrained weights."""
    kinds = model.growth.kinds if model.growth and not model.weights.file else ()
    return any(decision.how != "chance" for kind in kinds for decision in kind.decisions)


def usual_executor(model: Model, networks: Networks, seed: int = 0) -> Executor:
    """The executor cpu for rounds of growth, with the model's weights, or those of the seed."""
    executor = get_executor("cpu")
    executor.prepare(networks.cells, make_params(networks.cells, load_weights(model), seed))
    return executor


def chunks_of(
    model: Model,
    feed: Feed,
    size: int,
    *,
    first: int | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
) -> Iterator[Chunk[Instances]]:
    """Read the instances of a file in a model's format, `size` at a time (`chunks`)."""
    how = {"first": first, "limit": limit, "skip_bad": skip_bad, **_how_read(model.data)}
    return chunks(feed, model.data.format, size, schema=model.given, **how)


def open_seeds(model: Model, networks: Networks, count: int, *, skip_bad: bool = False) -> Workload:
    """Bind a model to at most the first `count` instances of its data, not grown. Errors: DataError."""
    with open_feed(model.data.path) as feed:
        for part in chunks_of(model, feed, count, skip_bad=skip_bad):
            if len(part.instances):
                return open_workload(model, part.instances, networks)
    raise _nothing_in(model)


def _nothing_in(model: Model) -> DataError:
    return DataError([Problem("no instances in the file", Span(str(model.data.path), 1))])


def _as_far_as(workload: Workload, good: int, executor: Executor | None) -> tuple[Workload, int]:
    """Grow the first `good` instances, or fewer if one of them fails."""
    while good:
        try:
            return whole(workload, good, executor), good
        except InstanceError as error:
            good = error.instance
    return workload, 0


def open_sample(
    model: Model,
    networks: Networks,
    count: int,
    *,
    skip_bad: bool = False,
    executor: Executor | None = None,
) -> tuple[Workload, int]:
    """Bind a model to at most the first `count` instances of its data; returns also how many can be used.

    Instances that grow have grown, on the executor (`whole`). With `skip_bad`, malformed instances are left
    out, and only those before the first that the model cannot be run on can be used.
    Errors: DataError; SpecError if not even one instance can be run.
    """
    data = model.data
    failed: SpecError | None = None
    for size in (count, 1):  # one by one if the first of them cannot be used
        with open_feed(data.path) as feed:
            for part in chunks_of(model, feed, size, skip_bad=skip_bad):
                if not len(part.instances):
                    continue
                workload = open_workload(model, part.instances, networks)
                good = len(part.instances)
                grows = workload.growing is not None
                try:
                    found = whole(workload, executor=executor)
                    if skip_bad and not grows:
                        found.graph(0, good)
                except InstanceError as error:
                    if not skip_bad:
                        raise
                    failed = error
                    found, good = _as_far_as(workload, error.instance, executor)
                if good:
                    return found, good
                if size == count:
                    break
    raise failed or _nothing_in(model)
