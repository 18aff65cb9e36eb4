"""From instances and a model to the dataflow graph of a mini-batch.

Every type first has a *candidate* on each vertex it is for. A reduction's candidate that has fewer than two
operands is no node: what reads it reads its one operand, or its default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import field, link
from abw.core.data.instances import Instances, Link
from abw.core.data.vocab import word_rows
from abw.core.errors import Problem, SpecError
from abw.core.graph import kernels
from abw.core.graph.cells import constant_number
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.graph.network import Network, loops_of
from abw.core.spec.model import (
    Hop,
    Input,
    Model,
    NodeSource,
    Source,
    TableSource,
    ZeroSource,
)

Ints = NDArray[np.int32]
BOTH_WAYS = 3
_COMPARE = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True)
class EdgeSlots:
    """Where edges are looked for (see `kernels.consumers`), for each of T types with up to S slots.

    `slots` (T,) how many it has; `lists` (T,) whether it is a reduction; `distinct` (T, S) is -1 for slots
    that read no node, or everywhere the same as an earlier one; `loop` (T,) see `loops_of`.
    """

    slots: Ints
    lists: NDArray[np.bool_]
    distinct: Ints
    loop: Ints


def edge_slots(model: Model, network: Network) -> EdgeSlots:
    """What the model alone says of its graphs' edges.

    Two slots read the same node everywhere if their sources differ in nothing but the outputs they take.
    """
    slots = np.array([len(t.inputs) for t in model.types], np.int32)
    distinct = np.full((len(slots), max(slots, default=0)), -1, np.int32)
    for t, node_type in enumerate(model.types):
        keys = [tuple(_way(s) for s in i.sources) for i in node_type.inputs]
        for s, (key, wanted) in enumerate(zip(keys, node_type.inputs, strict=True)):
            if key not in keys[:s] and any(isinstance(source, NodeSource) for source in wanted.sources):
                distinct[t, s] = s
    lists = np.array([t.reduction is not None for t in model.types])
    return EdgeSlots(slots, lists, distinct, loops_of(network))


def _way(source: Source) -> object:
    """What decides which node a source leads to."""
    if isinstance(source, NodeSource):
        return source.hops, tuple(t for t, _ in source.producers)
    return source if isinstance(source, TableSource) else None


@dataclass(frozen=True, slots=True)
class Lookup:
    """A field through which a table is read: `ids` (V,), and a row for each id (`rows`, see `word_rows`)."""

    ids: Ints
    rows: Ints


@dataclass(frozen=True, slots=True)
class Binding:
    """A model's names, found in the instances: what all their mini-batches share.

    `vertices[t]` are the vertices (of all instances) that type t is for, in order; `links` and `lookups`
    (by table and field) are those that the model mentions.
    """

    model: Model
    network: Network
    instances: Instances
    vertices: tuple[Ints, ...]
    links: dict[str, Link]
    lookups: dict[tuple[int, str], Lookup]
    edges: EdgeSlots


def bind(model: Model, network: Network, edges: EdgeSlots, instances: Instances) -> Binding:
    """Look up a model's kinds, links, fields and table rows. Cost: linear in the vertices.

    `network` is the model's at granularity `cell`, `edges` its `edge_slots`. Errors: DataError where a
    vocabulary cannot be read.
    """
    sources = [s for t in model.types for i in t.inputs for s in i.sources]
    hops = {h.link for s in sources if isinstance(s, NodeSource | TableSource) for h in s.hops}
    wanted = {(s.table, s.field) for s in sources if isinstance(s, TableSource)}
    lookups = {}
    for table, name in sorted(wanted):
        rows = word_rows(instances, name, model.tables[table])
        lookups[table, name] = Lookup(field(instances, name, model.data.seed), rows)
    return Binding(
        model,
        network,
        instances,
        _vertices(model, instances),
        {name: link(instances, name) for name in sorted(hops)},
        lookups,
        edges,
    )


def _vertices(model: Model, instances: Instances) -> tuple[Ints, ...]:
    """For each type the vertices that it is for, in order."""
    of_kinds: dict[frozenset[str], Ints] = {}
    found = []
    for t in model.types:
        if t.kinds not in of_kinds:
            wanted = np.array([kind in t.kinds for kind in instances.schema.kinds])
            of_kinds[t.kinds] = kernels.select(instances.kind, wanted)
        vertices = of_kinds[t.kinds]
        for condition in t.where:
            values = field(instances, condition.field, model.data.seed)[vertices]
            vertices = vertices[_COMPARE[condition.comparison](values, condition.value)]
        found.append(vertices)
    return tuple(found)


def construct(binding: Binding, first: int, last: int) -> Graph:
    """The graph of instances `first` to `last` (exclusive), at granularity `cell`.

    Errors: SpecError where an input is fed by nothing or by several values, or where nodes wait for each
    other. Cost: linear in nodes and operands.
    """
    return _Construction(binding, first, last).graph()


@dataclass(frozen=True, slots=True)
class _Lists:
    """What a reduction's candidates reduce, list by list: vertices, of which slot s reads `homes[s, vertex]`.

    `nodes` and `operands` count the lists of two and more, and what is in them.
    """

    ptr: Ints
    members: Ints
    homes: Ints
    nodes: int
    operands: int


class _Construction:
    """One mini-batch on its way from vertices to nodes."""

    def __init__(self, binding: Binding, first: int, last: int) -> None:
        self.binding = binding
        self.model = binding.model
        self.shift = binding.network.width.bit_length() - 1
        start = binding.instances.start
        self.first_instance = first
        self.first_vertex = int(start[first])
        self.start = (start[first : last + 1] - self.first_vertex).astype(np.int32)
        self.vertices = tuple(self._window(v) for v in binding.vertices)
        self.base = np.cumsum([0, *(len(v) for v in self.vertices)]).tolist()
        self.walked: dict[tuple[int, tuple[Hop, ...]], Ints] = {}
        self.homes: dict[tuple[tuple[int, int], ...], Ints] = {}
        # by loop of types: whether its nodes read from vertices before their own (1) or behind (2). Where all
        # go one way there is no cycle, and none has to be looked for
        self.ways: dict[int, int] = {}
        self.noted: set[tuple[int, tuple[Hop, ...]]] = set()
        self.alias = np.empty(0, np.int32)
        self.node = np.empty(0, np.int32)

    def _window(self, vertices: Ints) -> Ints:
        end = self.first_vertex + int(self.start[-1])
        low, high = np.searchsorted(vertices, (self.first_vertex, end))
        return vertices[low:high] - np.int32(self.first_vertex)

    def graph(self) -> Graph:
        """Number the nodes, write their operands, resolve what stands for what, find the edges."""
        types = self.model.types
        lists = {t: self._lists(t) for t, node_type in enumerate(types) if node_type.reduction}
        nodes = [lists[t].nodes if t in lists else len(v) for t, v in enumerate(self.vertices)]
        type_ptr = np.cumsum([0, *nodes]).astype(np.int32)
        operand_ptr, operand = self._operands(lists, type_ptr.tolist())
        vertex = np.concatenate(self.vertices)
        if lists:
            vertex = kernels.number_nodes(self.node, vertex)
            self._resolve(operand)
        owner = np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))
        type_of = np.repeat(np.arange(len(types), dtype=np.int32), nodes)
        edges = self.binding.edges
        succ_ptr, succ, indegree = kernels.consumers(
            type_ptr, edges.slots, edges.lists, edges.distinct, operand_ptr, operand, self.shift
        )
        graph = Graph(
            self.binding.network,
            Dag(
                tuple(t.name for t in types),
                type_of,
                succ_ptr,
                succ,
                indegree,
            ),
            type_ptr,
            vertex,
            owner[vertex],
            operand_ptr,
            operand,
            self._results(owner),
            len(self.start) - 1,
        )
        if any(way == BOTH_WAYS for way in self.ways.values()):
            self._refuse_cycle(graph)
        return graph

    def _operands(self, lists: dict[int, _Lists], type_ptr: list[int]) -> tuple[Ints, Ints]:
        """Where each node's operands end, and all operands as candidates' references."""
        slots = [len(t.inputs) for t in self.model.types]
        sizes = [
            slots[t] * (lists[t].operands if t in lists else len(v)) for t, v in enumerate(self.vertices)
        ]
        operand = np.empty(sum(sizes), np.int32)
        operand_ptr = np.zeros(type_ptr[-1] + 1, np.int32)
        at = 0
        for t, node_type in enumerate(self.model.types):
            first, last = type_ptr[t], type_ptr[t + 1]
            if t in lists:
                here = lists[t]
                kernels.write_lists(here.ptr, here.members, here.homes, operand, operand_ptr, first, at)
            else:
                for s, wanted in enumerate(node_type.inputs):
                    self._feed(operand, at + s, slots[t], t, wanted, wanted.sources)
                ends = at + slots[t] * np.arange(1, last - first + 1, dtype=np.int32)
                operand_ptr[first + 1 : last + 1] = ends
            at += sizes[t]
        return operand_ptr, operand

    def _walk(self, t: int, hops: tuple[Hop, ...], wanted: Input) -> Ints:
        """Where the hops lead from each of type t's vertices; -1 for nowhere."""
        if (t, hops) in self.walked:
            return self.walked[t, hops]
        at = self.vertices[t]
        for hop in hops:
            way = self.binding.links[hop.link]
            if way.indptr is None:
                at = kernels.follow(way.target, at, self.first_vertex)
                continue
            if hop.index is None:
                self._refuse_many(at, way.indptr, hop, wanted)
            at = kernels.pick(way.indptr, way.target, at, self.first_vertex, hop.index or 0)
        self.walked[t, hops] = at
        return at

    def _home(self, source: NodeSource) -> Ints:
        """On each vertex a reference to what the source's producers give there, or MISSING."""
        if source.producers not in self.homes:
            home = np.full(int(self.start[-1]), kernels.MISSING, np.int32)
            for t, output in source.producers:
                kernels.settle(home, self.vertices[t], self.base[t], output, self.shift)
            self.homes[source.producers] = home
        return self.homes[source.producers]

    def _note_way(self, t: int, source: NodeSource, vertices: Ints, ptr: Ints | None = None) -> None:
        """Note which way a source leads, if its producers can in turn read from type t.

        `vertices` are what it leads to from each of t's: one each, or those between `ptr`.
        """
        loop = self.binding.edges.loop
        key = (t, source.hops)
        if loop[t] < 0 or key in self.noted or all(loop[p] != loop[t] for p, _ in source.producers):
            return
        self.noted.add(key)
        if ptr is None:
            ptr = np.arange(len(vertices) + 1, dtype=np.int32)
        way = kernels.direction(self.vertices[t], ptr, vertices)
        self.ways[int(loop[t])] = self.ways.get(int(loop[t]), 0) | way

    def _feed(
        self, out: Ints, at: int, step: int, t: int, wanted: Input, sources: tuple[Source, ...]
    ) -> None:
        """Write what feeds one input of type t: for candidate i a reference to `out[at + i * step]`."""
        missing = len(self.vertices[t])
        fresh = True
        for source in sources:
            if not missing:
                return
            if isinstance(source, NodeSource):
                vertices = self._walk(t, source.hops, wanted)
                self._note_way(t, source, vertices)
                missing = kernels.fill_nodes(out, at, step, self._home(source), vertices, fresh)
            else:
                number = constant_number(self.binding.network.constants, source, wanted.shape)
                constant = self.binding.network.constants[number]
                if isinstance(source, TableSource):
                    vertices = self._walk(t, source.hops, wanted)
                    lookup = self.binding.lookups[source.table, source.field]
                    missing = kernels.fill_rows(
                        out, at, step, lookup.ids, lookup.rows, constant.rows,
                        vertices, self.first_vertex, constant.first, fresh,
                    )  # fmt: skip
                else:
                    kernels.fill_constant(out, at, step, len(self.vertices[t]), -1 - constant.first, fresh)
                    missing = 0
            fresh = False
        if missing:
            column = out[at::step][: len(self.vertices[t])]
            self._refuse_missing(t, int(np.argmax(column == kernels.MISSING)), wanted)

    def _lists(self, t: int) -> _Lists:
        """A reduction's operands, without the vertices where nothing produces one; notes its stand-ins."""
        node_type = self.model.types[t]
        sources = [i.sources[0] for i in node_type.inputs if isinstance(i.sources[0], NodeSource)]
        homes = np.stack([self._home(s) for s in sources])
        vertices = self.vertices[t]
        ptr = np.arange(len(vertices) + 1, dtype=np.int32)
        every = np.arange(self.first_vertex + int(self.start[-1]) + 1, dtype=np.int32)
        last = Link(every, every)  # from each vertex to itself
        for hop in sources[0].hops:
            way = self.binding.links[hop.link]
            if way.indptr is None:
                vertices = kernels.follow(way.target, vertices, self.first_vertex)
            elif hop.index is not None:
                vertices = kernels.pick(way.indptr, way.target, vertices, self.first_vertex, hop.index)
            elif hop is sources[0].hops[-1]:
                last = way
            else:
                ptr, vertices = kernels.expand(way.indptr, way.target, ptr, vertices, self.first_vertex)
        assert last.indptr is not None
        ptr, members = kernels.present(last.indptr, last.target, ptr, vertices, self.first_vertex, homes[0])
        for source in sources:
            self._note_way(t, source, members, ptr)
        if not len(self.node):
            self.node = np.zeros(self.base[-1], np.int32)
            self.alias = np.zeros(self.base[-1] << self.shift, np.int32)
        first = self.base[t]
        nodes, operands, empty = kernels.stand_ins(
            ptr, members, homes, self.shift, self.alias, first, self.node
        )
        if empty:
            none = np.flatnonzero(np.diff(ptr) == 0)
            for s, wanted in enumerate(node_type.inputs):
                default = np.empty(len(ptr) - 1, np.int32)
                self._feed(default, 0, 1, t, wanted, wanted.sources[1:] or (ZeroSource(),))
                self.alias[((first + none) << self.shift) + s] = default[none]
        return _Lists(ptr, members, homes, nodes, operands)

    def _results(self, owner: Ints) -> tuple[ResultRefs, ...]:
        results = []
        for name, producers in self.model.outputs:
            references = [
                (np.arange(self.base[t], self.base[t + 1], dtype=np.int32) << self.shift) + np.int32(o)
                for t, o in producers
            ]
            reference = np.concatenate(references)
            vertex = np.concatenate([self.vertices[t] for t, _ in producers])
            if len(producers) > 1:
                order = np.argsort(vertex, kind="stable")
                reference, vertex = reference[order], vertex[order]
            if len(self.node):
                self._resolve(reference)
            results.append(ResultRefs(name, reference, vertex, owner[vertex]))
        return tuple(results)

    def _resolve(self, references: Ints) -> None:
        if not kernels.resolve(references, self.alias, self.node, self.shift):
            reductions = [t for t in self.model.types if t.reduction]
            message = "reductions stand for each other in a circle: " + ", ".join(t.name for t in reductions)
            hint = "a reduction must lead to a cell's output"
            raise SpecError([Problem(message, reductions[0].span, hint)])

    def _place(self, vertex: int) -> str:
        """A vertex in words: its kind, its number there, its instance and line."""
        instances = self.binding.instances
        number = self.first_instance + int(np.searchsorted(self.start, vertex, side="right")) - 1
        kind = int(instances.kind[self.first_vertex + vertex])
        before = instances.kind[int(instances.start[number]) : self.first_vertex + vertex]
        name = f" '{instances.names[number]}'" if instances.names else ""
        return (
            f"{instances.schema.kinds[kind]} {int(np.count_nonzero(before == kind))} of instance "
            f"{number}{name} ({instances.source}:{int(instances.lines[number])})"
        )

    def _refuse_missing(self, t: int, row: int, wanted: Input) -> None:
        name = self.model.types[t].name
        place = self._place(int(self.vertices[t][row]))
        message = f"nothing feeds input '{wanted.name}' of type '{name}' at {place}"
        raise SpecError([Problem(message, wanted.where, "say what to use there, as in `... or zeros`")])

    def _refuse_many(self, at: Ints, indptr: Ints, hop: Hop, wanted: Input) -> None:
        here = at[at >= 0] + self.first_vertex
        many = np.flatnonzero(indptr[here + 1] - indptr[here] > 1)
        if len(many):
            place = self._place(int(here[many[0]]) - self.first_vertex)
            message = f"link '{hop.link}' leads to several vertices at {place}, and an input takes one value"
            hint = f"pick one, as in `{hop.link}[0]`, or reduce them in a type of their own (`sum:`)"
            raise SpecError([Problem(message, wanted.where, hint)])

    def _refuse_cycle(self, graph: Graph) -> None:
        dag = graph.dag
        node = kernels.stuck(dag.succ_ptr, dag.succ, dag.indegree)
        if node < 0:
            return
        path = [node]
        while True:
            operands = graph.operand[graph.operand_ptr[path[-1]] : graph.operand_ptr[path[-1] + 1]]
            back = [int(r) >> self.shift for r in operands if r >= 0]
            on_cycle = next((u for u in back if u in path), None)
            if on_cycle is not None:
                path = path[path.index(on_cycle) :]
                break
            path.append(next(u for u in back if _reaches(graph, node, u)))
        names = " -> ".join(dag.types[dag.type[v]] for v in (*path[::-1], path[-1]))
        message = f"nodes wait for each other: {names}, at {self._place(int(graph.vertex[path[0]]))}"
        hint = "an instance's nodes must form no cycle: mend the links or the data"
        raise SpecError([Problem(message, self.model.types[dag.type[path[0]]].span, hint)])


def _reaches(graph: Graph, source: int, goal: int) -> bool:
    """Whether a path leads from node `source` to node `goal`."""
    seen, stack = {source}, [source]
    while stack:
        v = stack.pop()
        if v == goal:
            return True
        for u in graph.dag.succ[graph.dag.succ_ptr[v] : graph.dag.succ_ptr[v + 1]]:
            if int(u) not in seen:
                seen.add(int(u))
                stack.append(int(u))
    return False
