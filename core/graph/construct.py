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
from abw.core.data.vocab import table_rows
from abw.core.errors import Problem, Span, SpecError
from abw.core.graph import kernels
from abw.core.graph.cells import constant_number
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.graph.network import Network
from abw.core.spec.model import (
    Hop,
    Input,
    Model,
    NodeSource,
    NodeType,
    Source,
    TableSource,
    Where,
    ZeroSource,
)

Ints = NDArray[np.int32]
_COMPARE = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Binding:
    """A model's names, found in the instances: what all their mini-batches share.

    `vertices[t]` are the vertices (of all instances) that type t is for, in order; `links` and `rows`
    (table and field: the table's row for each vertex) are those that the model mentions.
    """

    model: Model
    network: Network
    instances: Instances
    vertices: tuple[Ints, ...]
    links: dict[str, Link]
    rows: dict[tuple[int, str], Ints]


def bind(model: Model, network: Network, instances: Instances) -> Binding:
    """Look up a model's kinds, links, fields and table rows. Cost: linear in the vertices.

    `network` is the model's at granularity `cell`. Errors: DataError where a vocabulary cannot be read.
    """
    sources = [s for t in model.types for i in t.inputs for s in i.sources]
    hops = {h.link for s in sources if isinstance(s, NodeSource | TableSource) for h in s.hops}
    lookups = {(s.table, s.field) for s in sources if isinstance(s, TableSource)}
    return Binding(
        model,
        network,
        instances,
        tuple(_vertices_of(t, model, instances) for t in model.types),
        {name: link(instances, name) for name in sorted(hops)},
        {
            (table, name): table_rows(instances, name, model.tables[table])
            for table, name in sorted(lookups)
        },
    )


def _vertices_of(t: NodeType, model: Model, instances: Instances) -> Ints:
    wanted = np.zeros(len(instances.schema.kinds), bool)
    wanted[[number for number, kind in enumerate(instances.schema.kinds) if kind in t.kinds]] = True
    keep = wanted[instances.kind]
    for condition in t.where:
        keep &= _holds(condition, field(instances, condition.field, model.data.seed))
    return np.flatnonzero(keep).astype(np.int32)


def _holds(condition: Where, values: Ints) -> NDArray[np.bool_]:
    return np.asarray(_COMPARE[condition.comparison](values, condition.value), bool)


def construct(binding: Binding, first: int, last: int) -> Graph:
    """The graph of instances `first` to `last` (exclusive), at granularity `cell`.

    Errors: SpecError where an input is fed by nothing or by several values, where two types feed it on
    one vertex, or where nodes wait for each other. Cost: linear in nodes and operands.
    """
    return _Construction(binding, first, last).graph()


@dataclass(frozen=True, slots=True)
class _Lists:
    """A reduction's operands: candidates and their position in the source's producers, list after list."""

    ptr: Ints
    candidate: Ints
    which: Ints
    source: tuple[NodeSource, ...]


class _Construction:
    """One mini-batch on its way from vertices to nodes."""

    def __init__(self, binding: Binding, first: int, last: int) -> None:
        self.binding = binding
        self.model = binding.model
        self.width = binding.network.width
        start = binding.instances.start
        self.first_instance = first
        self.first_vertex = int(start[first])
        self.start = (start[first : last + 1] - self.first_vertex).astype(np.int32)
        self.vertices = tuple(self._window(v) for v in binding.vertices)
        self.base = np.concatenate(([0], np.cumsum([len(v) for v in self.vertices]))).astype(np.int32)
        self.rank = np.full((len(self.vertices), int(self.start[-1])), -1, np.int32)
        for t, vertices in enumerate(self.vertices):
            self.rank[t, vertices] = np.arange(self.base[t], self.base[t + 1], dtype=np.int32)
        self.walked: dict[tuple[int, tuple[Hop, ...]], Ints] = {}
        self.met: dict[tuple[int, tuple[Hop, ...], tuple[int, ...]], tuple[Ints, Ints]] = {}

    def _window(self, vertices: Ints) -> Ints:
        end = self.first_vertex + int(self.start[-1])
        low, high = np.searchsorted(vertices, (self.first_vertex, end))
        return vertices[low:high] - np.int32(self.first_vertex)

    def graph(self) -> Graph:
        """Number the nodes, resolve what stands for what, lay out operands and edges."""
        candidates = int(self.base[-1])
        is_node = np.ones(candidates, bool)
        alias = np.zeros(candidates * self.width, np.int32)
        lists: dict[int, _Lists] = {}
        for t, node_type in enumerate(self.model.types):
            if node_type.reduction:
                lists[t] = self._lists(t, node_type)
                count = np.diff(lists[t].ptr)
                is_node[self.base[t] : self.base[t + 1]] = count >= 2
                self._stand_in(t, node_type, lists[t], count, alias)
        node = np.where(is_node, np.cumsum(is_node) - 1, -1).astype(np.int32)

        operand, sizes = self._operands(lists, is_node)
        self._resolve(operand, alias, node)
        operand_ptr = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=operand_ptr[1:])
        vertex = np.concatenate(self.vertices)[is_node]
        succ_ptr, succ, indegree = kernels.consumers(operand_ptr, operand, self.width)
        type_of = np.repeat(np.arange(len(self.vertices), dtype=np.int32), np.diff(self.base))[is_node]
        dag = Dag(tuple(t.name for t in self.model.types), type_of, succ_ptr, succ, indegree)
        type_ptr = np.searchsorted(type_of, np.arange(len(self.vertices) + 1)).astype(np.int32)
        graph = Graph(
            self.binding.network,
            dag,
            type_ptr,
            vertex,
            self._instance_of(vertex),
            operand_ptr,
            operand,
            self._results(alias, node),
            len(self.start) - 1,
        )
        self._refuse_cycle(graph)
        return graph

    def _operands(self, lists: dict[int, _Lists], is_node: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """The operands of all nodes, one after the other, as candidates' references; how many each has."""
        operands, sizes = [], []
        for t, node_type in enumerate(self.model.types):
            if t in lists:
                here = lists[t]
                count = np.diff(here.ptr)
                kept = count >= 2
                operands.append(_interleave(here, kept, self.width))
                sizes.append(count[kept] * len(here.source))
            else:
                columns = [self._input(t, i) for i in node_type.inputs]
                rows = len(self.vertices[t])
                if columns:
                    operands.append(np.stack(columns, axis=1).ravel())
                sizes.append(np.full(rows, len(columns), np.int32))
        flat = np.concatenate(operands) if operands else np.empty(0, np.int32)
        return flat, np.concatenate(sizes) if sizes else np.empty(0, np.int32)

    def _walk(self, t: int, hops: tuple[Hop, ...], wanted: Input) -> Ints:
        """Where the hops lead from each of type t's vertices; -1 for nowhere."""
        if (t, hops) in self.walked:
            return self.walked[t, hops]
        at = self.vertices[t]
        for hop in hops:
            way = self.binding.links[hop.link]
            if way.indptr is None:
                at = kernels.follow(way.target, at, self.first_vertex)
            elif hop.index is not None:
                at = kernels.pick(way.indptr, way.target, at, self.first_vertex, hop.index)
            else:
                self._refuse_many(t, at, way.indptr, hop, wanted)
                at = kernels.pick(way.indptr, way.target, at, self.first_vertex, 0)
        self.walked[t, hops] = at
        return at

    def _input(self, t: int, wanted: Input, sources: tuple[Source, ...] | None = None) -> Ints:
        """What feeds one input of type t: a reference for each of its candidates."""
        out = np.full(len(self.vertices[t]), kernels.MISSING, np.int32)
        missing = len(out)
        for source in wanted.sources if sources is None else sources:
            if not missing:
                break
            if isinstance(source, NodeSource):
                candidate, which = self._meet(t, source, wanted)
                outputs = np.array([o for _, o in source.producers], np.int32)
                missing = kernels.fill_nodes(out, candidate, which, outputs, self.width)
                continue
            number = constant_number(self.binding.network.constants, source, wanted.shape)
            base = self.binding.network.constants[number].first
            if isinstance(source, TableSource):
                at = self._walk(t, source.hops, wanted)
                rows = self.binding.rows[source.table, source.field]
                missing = kernels.fill_rows(out, rows, at, self.first_vertex, base)
            else:
                out[out == kernels.MISSING] = -1 - base
                missing = 0
        if missing:
            self._refuse_missing(t, int(np.argmax(out == kernels.MISSING)), wanted)
        return out

    def _meet(self, t: int, source: NodeSource, wanted: Input) -> tuple[Ints, Ints]:
        """The candidates that a source's hops lead to, and which of its producers they are."""
        types = tuple(number for number, _ in source.producers)
        key = (t, source.hops, types)
        if key not in self.met:
            at = self._walk(t, source.hops, wanted)
            candidate, which, clash = kernels.producers_at(self.rank, np.array(types, np.int32), at)
            if clash >= 0:
                self._refuse_clash(types, int(at[clash]), wanted)
            self.met[key] = (candidate, which)
        return self.met[key]

    def _lists(self, t: int, node_type: NodeType) -> _Lists:
        """A reduction's operands, without the vertices where nothing produces one."""
        wanted = node_type.inputs[0]
        sources = tuple(i.sources[0] for i in node_type.inputs if isinstance(i.sources[0], NodeSource))
        at = self.vertices[t]
        ptr = np.arange(len(at) + 1, dtype=np.int32)
        for hop in sources[0].hops:
            way = self.binding.links[hop.link]
            if way.indptr is None:
                at = kernels.follow(way.target, at, self.first_vertex)
            elif hop.index is not None:
                at = kernels.pick(way.indptr, way.target, at, self.first_vertex, hop.index)
            else:
                ptr, at = kernels.expand(way.indptr, way.target, ptr, at, self.first_vertex)
        types = np.array([number for number, _ in sources[0].producers], np.int32)
        candidate, which, clash = kernels.producers_at(self.rank, types, at)
        if clash >= 0:
            self._refuse_clash(tuple(types), int(at[clash]), wanted)
        return _Lists(*kernels.keep_present(ptr, candidate, which), sources)

    def _stand_in(self, t: int, node_type: NodeType, here: _Lists, count: Ints, alias: Ints) -> None:
        """What stands for a reduction's candidates that are no nodes: the one operand, or the default."""
        single, none = np.flatnonzero(count == 1), np.flatnonzero(count == 0)
        for number, (wanted, source) in enumerate(zip(node_type.inputs, here.source, strict=True)):
            outputs = np.array([o for _, o in source.producers], np.int32)
            member = here.ptr[single]
            value = here.candidate[member] * self.width + outputs[here.which[member]]
            alias[(self.base[t] + single) * self.width + number] = value
            if len(none):
                default = self._input(t, wanted, _default(wanted))
                alias[(self.base[t] + none) * self.width + number] = default[none]

    def _results(self, alias: Ints, node: Ints) -> tuple[ResultRefs, ...]:
        results = []
        for name, producers in self.model.outputs:
            reference = np.concatenate(
                [np.arange(self.base[t], self.base[t + 1], dtype=np.int32) * self.width + o for t, o in producers]
            )
            vertex = np.concatenate([self.vertices[t] for t, _ in producers])
            order = np.argsort(vertex, kind="stable")
            reference, vertex = reference[order].astype(np.int32), vertex[order]
            self._resolve(reference, alias, node)
            results.append(ResultRefs(name, reference, vertex, self._instance_of(vertex)))
        return tuple(results)

    def _resolve(self, references: Ints, alias: Ints, node: Ints) -> None:
        if not kernels.resolve(references, alias, node, self.width):
            reductions = [t for t in self.model.types if t.reduction]
            message = "reductions stand for each other in a circle: " + ", ".join(t.name for t in reductions)
            raise SpecError([Problem(message, reductions[0].span, "a reduction must lead to a cell's output")])

    def _instance_of(self, vertex: Ints) -> Ints:
        return (np.searchsorted(self.start, vertex, side="right") - 1).astype(np.int32)

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

    def _refuse_many(self, t: int, at: Ints, indptr: Ints, hop: Hop, wanted: Input) -> None:
        here = at[at >= 0] + self.first_vertex
        many = np.flatnonzero(indptr[here + 1] - indptr[here] > 1)
        if len(many):
            place = self._place(int(here[many[0]]) - self.first_vertex)
            message = f"link '{hop.link}' leads to several vertices at {place}, and an input takes one value"
            hint = f"pick one, as in `{hop.link}[0]`, or reduce them in a type of their own (`sum:`)"
            raise SpecError([Problem(message, wanted.where, hint)])

    def _refuse_clash(self, types: tuple[int, ...], vertex: int, wanted: Input) -> None:
        names = [self.model.types[t].name for t in types if self.rank[t, vertex] >= 0]
        message = f"input '{wanted.name}' is fed by {' and '.join(names)} at {self._place(vertex)}"
        raise SpecError([Problem(message, wanted.where, f"name the type, as in `{names[0]}.{wanted.name}`")])

    def _refuse_cycle(self, graph: Graph) -> None:
        dag = graph.dag
        node = kernels.stuck(dag.succ_ptr, dag.succ, dag.indegree)
        if node < 0:
            return
        path = [node]
        while True:
            operands = graph.operand[graph.operand_ptr[path[-1]] : graph.operand_ptr[path[-1] + 1]]
            back = [int(r) // self.width for r in operands if r >= 0]
            on_cycle = next((u for u in back if u in path), None)
            if on_cycle is not None:
                path = path[path.index(on_cycle) :]
                break
            path.append(next(u for u in back if _reaches(graph, node, u)))
        names = " -> ".join(dag.types[dag.type[v]] for v in (*path[::-1], path[-1]))
        message = f"nodes wait for each other: {names}, at {self._place(int(graph.vertex[path[0]]))}"
        span: Span = self.model.types[dag.type[path[0]]].span
        raise SpecError([Problem(message, span, "an instance's nodes must form no cycle: mend the links or the data")])


def _default(wanted: Input) -> tuple[Source, ...]:
    """What a reduction over none gives: what its input names, else zeros."""
    return wanted.sources[1:] or (ZeroSource(),)


def _interleave(here: _Lists, kept: NDArray[np.bool_], width: int) -> Ints:
    """The operands of the lists kept: for each list a run for each of the reduction's inputs."""
    count = np.diff(here.ptr)
    member = np.repeat(kept, count)
    slots = len(here.source)
    runs = []
    for source in here.source:
        outputs = np.array([o for _, o in source.producers], np.int32)
        runs.append(here.candidate[member] * np.int32(width) + outputs[here.which[member]])
    if slots == 1:
        return runs[0]
    sizes = count[kept]
    start = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    within = np.arange(int(sizes.sum())) - np.repeat(start, sizes)
    out = np.empty(int(sizes.sum()) * slots, np.int32)
    for s, run in enumerate(runs):
        out[np.repeat(start * slots + s * sizes, sizes) + within] = run
    return out


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
