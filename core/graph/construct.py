"""From instances and a model to the dataflow graph of a mini-batch.

Every type first has a *candidate* on each vertex it is for. A reduction's candidate that has fewer than two
operands is no node: what reads it reads its one operand, or its default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import field
from abw.core.data.instances import Link
from abw.core.errors import InstanceError, Problem, SpecError
from abw.core.graph import kernels
from abw.core.graph.bind import Binding
from abw.core.graph.cells import constant_number
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.spec.model import Hop, Input, NodeSource, NodeType, Source, TableSource, ZeroSource

Ints = NDArray[np.int32]
BOTH_WAYS = 3


def construct(binding: Binding, first: int, last: int) -> Graph:
    """The graph of instances `first` to `last` (exclusive), at granularity `cell`.

    Errors: SpecError where an input is fed by nothing or by several values, or where nodes wait for each
    other. Cost: linear in nodes and operands.
    """
    return _Construction(binding, first, last).graph()


@dataclass(frozen=True, slots=True)
class _Lists:
    """What a reduction's candidates reduce: list i are the vertices `members[ptr[i]:ptr[i + 1]]`.

    `nodes` and `operands` count the lists of two and more, and what is in them. Its candidates begin at
    number `first` of all reductions' candidates.
    """

    ptr: Ints
    members: Ints
    nodes: int
    operands: int
    first: int


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
        self.walked: dict[tuple[int, tuple[Hop, ...]], Ints] = {}
        self.homes: dict[tuple[tuple[int, int], ...], Ints] = {}
        # by loop of types: whether its nodes read from vertices before their own (1) or behind (2). Where all
        # go one way there is no cycle, and none has to be looked for
        self.ways: dict[int, int] = {}
        self.noted: set[tuple[int, tuple[Hop, ...]]] = set()
        self.lists: dict[int, _Lists] = {}
        self.type_ptr: list[int] = []
        self.stand = np.empty(0, np.int32)
        self.known = False  # whether `stand` says what stands for every output of a reduction

    def _window(self, vertices: Ints) -> Ints:
        end = self.first_vertex + int(self.start[-1])
        low, high = np.searchsorted(vertices, (self.first_vertex, end))
        return vertices[low:high] - np.int32(self.first_vertex)

    def graph(self) -> Graph:
        """Number the nodes, find what stands for what, write the operands, find the edges."""
        types = self.model.types
        for t, node_type in enumerate(types):
            if node_type.reduction:
                self.lists[t] = self._list(t)
        nodes = [self.lists[t].nodes if t in self.lists else len(v) for t, v in enumerate(self.vertices)]
        self.type_ptr = np.cumsum([0, *nodes]).tolist()
        placed = self._place_reductions()
        vertex = np.concatenate(placed)
        type_ptr = np.array(self.type_ptr, np.int32)
        operand_ptr, operand = self._operands()
        owner = np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))
        type_of = np.repeat(np.arange(len(types), dtype=np.int32), nodes)
        edges = self.binding.edges
        succ_ptr, succ, indegree = kernels.consumers(
            type_ptr, edges.slots, edges.lists, edges.distinct, operand_ptr, operand, self.shift
        )
        graph = Graph(
            self.binding.network,
            Dag(tuple(t.name for t in types), type_of, succ_ptr, succ, indegree),
            type_ptr,
            vertex,
            _taken(owner, vertex),
            operand_ptr,
            operand,
            self._results(owner),
            len(self.start) - 1,
        )
        if any(way == BOTH_WAYS for way in self.ways.values()):
            self._refuse_cycle(graph)
        return graph

    def _place_reductions(self) -> list[Ints]:
        """Find what stands for each reduction's outputs; the vertices of every type's nodes."""
        placed = list(self.vertices)
        candidates = sum(len(self.vertices[t]) for t in self.lists)
        self.stand = np.empty(candidates << self.shift, np.int32)
        for t, here in self.lists.items():
            homes = self._homes_of(t)
            out = np.empty(here.nodes + 1, np.int32)
            kernels.stand_ins(
                here.ptr, here.members, homes, self.vertices[t],
                self.type_ptr[t], self.shift, self.stand, here.first, out,
            )  # fmt: skip
            placed[t] = out[:-1]
            none = np.flatnonzero(np.diff(here.ptr) == 0)
            for s, wanted in enumerate(self.model.types[t].inputs if len(none) else ()):
                default = np.empty(len(here.ptr) - 1, np.int32)
                self._feed(default, 0, 1, t, wanted, wanted.sources[1:] or (ZeroSource(),))
                self.stand[((here.first + none) << self.shift) + s] = default[none]
        if self._nested() and not kernels.chase(self.stand):
            reductions = [t for t in self.model.types if t.reduction]
            message = "reductions stand for each other in a circle: " + ", ".join(t.name for t in reductions)
            hint = "a reduction must lead to a cell's output"
            raise SpecError([Problem(message, reductions[0].span, hint)])
        self.known = True
        for producers in [p for p in self.homes if any(t in self.lists for t, _ in p)]:
            del self.homes[producers]
        return placed

    def _nested(self) -> bool:
        """Whether a reduction's output can stand for another's."""
        sources = (s for t in self.lists for i in self.model.types[t].inputs for s in i.sources)
        return any(t in self.lists for s in sources if isinstance(s, NodeSource) for t, _ in s.producers)

    def _operands(self) -> tuple[Ints, Ints]:
        """Where each node's operands end, and all operands."""
        slots = [len(t.inputs) for t in self.model.types]
        sizes = [
            slots[t] * (self.lists[t].operands if t in self.lists else len(v))
            for t, v in enumerate(self.vertices)
        ]
        operand = np.empty(sum(sizes), np.int32)
        operand_ptr = np.zeros(self.type_ptr[-1] + 1, np.int32)
        at = 0
        for t, node_type in enumerate(self.model.types):
            first, last = self.type_ptr[t], self.type_ptr[t + 1]
            if t in self.lists:
                here = self.lists[t]
                homes = self._homes_of(t)
                kernels.write_lists(here.ptr, here.members, homes, operand, operand_ptr, first, at)
            else:
                for s, wanted in enumerate(node_type.inputs):
                    self._feed(operand, at + s, slots[t], t, wanted, wanted.sources)
                kernels.count_up(operand_ptr, first, last, at, slots[t])
            at += sizes[t]
        return operand_ptr, operand

    def _walk(self, t: int, hops: tuple[Hop, ...], wanted: Input) -> Ints:
        """Where the hops lead from each of type t's vertices; -1 for nowhere."""
        if (t, hops) in self.walked:
            return self.walked[t, hops]
        at = self.vertices[t]
        for hop in hops:
            indptr = self.binding.links[hop.link].indptr
            if indptr is not None and hop.index is None:
                self._refuse_many(at, indptr, hop, wanted)
            at = self._step(at, hop)
        self.walked[t, hops] = at
        return at

    def _step(self, vertices: Ints, hop: Hop) -> Ints:
        """Where one hop leads from each of the vertices, the first place where it leads to several."""
        way = self.binding.links[hop.link]
        out = np.empty_like(vertices)
        if way.indptr is None:
            kernels.follow(way.target, vertices, self.first_vertex, out)
        else:
            kernels.pick(way.indptr, way.target, vertices, self.first_vertex, hop.index or 0, out)
        return out

    def _home(self, source: NodeSource) -> Ints:
        """On each vertex a reference to what the source's producers give there, or MISSING."""
        if source.producers not in self.homes:
            home = np.full(int(self.start[-1]), kernels.MISSING, np.int32)
            for t, output in source.producers:
                if t in self.lists:
                    kernels.settle_reduction(
                        home,
                        self.vertices[t],
                        self.stand,
                        self.lists[t].first,
                        output,
                        self.shift,
                        self.known,
                    )
                else:
                    kernels.settle(home, self.vertices[t], self.type_ptr[t], output, self.shift)
            self.homes[source.producers] = home
        return self.homes[source.producers]

    def _homes_of(self, t: int) -> Ints:
        """The homes of what each slot of a reduction reads: (slots, vertices)."""
        return np.stack([self._home(s) for s in _reduced(self.model.types[t])])

    def _note_way(self, t: int, source: NodeSource, vertices: Ints, ptr: Ints | None = None) -> None:
        """Note which way a source leads, if its producers can in turn read from type t.

        `vertices` are what it leads to from each of t's: one each, or those between `ptr`.
        """
        loop = self.binding.edges.loop
        key = (t, source.hops)
        if loop[t] < 0 or key in self.noted or all(loop[p] != loop[t] for p, _ in source.producers):
            return
        self.noted.add(key)
        own = self.vertices[t]
        way = kernels.direction(own, vertices) if ptr is None else kernels.list_direction(own, ptr, vertices)
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

    def _list(self, t: int) -> _Lists:
        """What a reduction reduces, without the vertices where nothing produces it."""
        sources = _reduced(self.model.types[t])
        hops = sources[0].hops
        vertices = self.vertices[t]
        ptr = np.arange(len(vertices) + 1, dtype=np.int32)
        every = np.arange(self.first_vertex + int(self.start[-1]) + 1, dtype=np.int32)
        last = Link(every, every)  # from each vertex to itself
        for hop in hops:
            way = self.binding.links[hop.link]
            if way.indptr is None or hop.index is not None:
                vertices = self._step(vertices, hop)
            elif hop is hops[-1]:
                last = way
            else:
                total = kernels.degrees(way.indptr, vertices, self.first_vertex)
                further, out = np.empty_like(ptr), np.empty(total, np.int32)
                kernels.expand(way.indptr, way.target, ptr, vertices, self.first_vertex, further, out)
                ptr, vertices = further, out
        present = np.zeros(int(self.start[-1]), bool)
        for producer, _ in sources[0].producers:
            kernels.mark(present, self.vertices[producer])
        assert last.indptr is not None
        ends = np.empty_like(ptr)
        out = np.empty(kernels.degrees(last.indptr, vertices, self.first_vertex) + 1, np.int32)
        nodes, operands = kernels.gather(
            last.indptr, last.target, ptr, vertices, self.first_vertex, present, ends, out
        )
        members = out[: ends[-1]]
        for source in sources:
            self._note_way(t, source, members, ends)
        first = sum(len(self.vertices[other]) for other in self.lists)
        return _Lists(ends, members, nodes, operands, first)

    def _results(self, owner: Ints) -> tuple[ResultRefs, ...]:
        results = []
        for name, producers in self.model.outputs:
            reference = np.concatenate([self._outputs_of(t, o) for t, o in producers])
            vertex = np.concatenate([self.vertices[t] for t, _ in producers])
            if len(producers) > 1:
                order = np.argsort(vertex, kind="stable")
                reference, vertex = reference[order], vertex[order]
            results.append(ResultRefs(name, reference, vertex, _taken(owner, vertex)))
        return tuple(results)

    def _outputs_of(self, t: int, output: int) -> Ints:
        """References to an output of a type at all its vertices."""
        if t in self.lists:
            first = self.lists[t].first
            last = first + len(self.vertices[t])
            return self.stand[(first << self.shift) + output : last << self.shift : 1 << self.shift]
        nodes = np.arange(self.type_ptr[t], self.type_ptr[t + 1], dtype=np.int32)
        return (nodes << self.shift) + np.int32(output)

    def _instance(self, vertex: int) -> int:
        """The number of a vertex's instance among all."""
        return self.first_instance + int(np.searchsorted(self.start, vertex, side="right")) - 1

    def _place(self, vertex: int) -> str:
        """A vertex in words: its kind, its number there, its instance and line."""
        instances = self.binding.instances
        number = self._instance(vertex)
        kind = int(instances.kind[self.first_vertex + vertex])
        before = instances.kind[int(instances.start[number]) : self.first_vertex + vertex]
        name = f" '{instances.names[number]}'" if instances.names else ""
        return (
            f"{instances.schema.kinds[kind]} {int(np.count_nonzero(before == kind))} of instance "
            f"{instances.first + number}{name} ({instances.source}:{int(instances.lines[number])})"
        )

    def _refuse_missing(self, t: int, row: int, wanted: Input) -> None:
        name = self.model.types[t].name
        vertex = int(self.vertices[t][row])
        place = self._place(vertex)
        message = f"nothing feeds input '{wanted.name}' of type '{name}' at {place}"
        hint = "say what to use there, as in `... or zeros`"
        for source in wanted.sources:
            if isinstance(source, TableSource) and (why := self._unknown(t, row, source, wanted)):
                message += f": {why}"
                if self.model.tables[source.table].vocab:
                    hint = "name a word of it for the others: unknown: <unk>"
        raise InstanceError(Problem(message, wanted.where, hint), self._instance(vertex))

    def _unknown(self, t: int, row: int, source: TableSource, wanted: Input) -> str:
        """That a table was asked for what it does not have, if it was."""
        vertex = int(self._walk(t, source.hops, wanted)[row]) + self.first_vertex
        instances, table = self.binding.instances, self.model.tables[source.table]
        ids = field(instances, source.field, self.model.data.seed)
        number = int(ids[vertex]) if vertex >= self.first_vertex else -1
        if number < 0:
            return ""
        if table.vocab is None:
            return f"{source.field} {number} is no row of table '{table.name}', which has {table.rows}"
        word = instances.vocabulary[source.field][number]
        return "" if word in table.vocab.rows else f"'{word}' is not in the vocabulary {table.vocab.path}"

    def _refuse_many(self, at: Ints, indptr: Ints, hop: Hop, wanted: Input) -> None:
        here = at[at >= 0] + self.first_vertex
        many = np.flatnonzero(indptr[here + 1] - indptr[here] > 1)
        if len(many):
            vertex = int(here[many[0]]) - self.first_vertex
            place = self._place(vertex)
            message = f"link '{hop.link}' leads to several vertices at {place}, and an input takes one value"
            hint = f"pick one, as in `{hop.link}[0]`, or reduce them in a type of their own (`sum:`)"
            raise InstanceError(Problem(message, wanted.where, hint), self._instance(vertex))

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
        vertex = int(graph.vertex[path[0]])
        message = f"nodes wait for each other: {names}, at {self._place(vertex)}"
        hint = "an instance's nodes must form no cycle: mend the links or the data"
        span = self.model.types[dag.type[path[0]]].span
        raise InstanceError(Problem(message, span, hint), self._instance(vertex))


def _taken(values: Ints, at: Ints) -> Ints:
    out = np.empty_like(at)
    kernels.take(values, at, out)
    return out


def _reduced(node_type: NodeType) -> list[NodeSource]:
    """What each slot of a reduction reduces."""
    return [i.sources[0] for i in node_type.inputs if isinstance(i.sources[0], NodeSource)]


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
