"""The meaning of a model's graph, written for obviousness: one vertex at a time, in plain Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from abw.core.data import derive
from abw.core.data.instances import Instances, Ints, Link
from abw.core.ir.model import FieldSource, Input, Model, NodeSource, ParamSource, Source, TableSource
from abw.core.ir.schema import Hop
from tests.core.data.rows import table_rows

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

T = TypeVar("T")
# ('node', type, vertex, output), ('table', number, row), ('param', number) or ('zeros', shape).
Value = tuple[object, ...]


class MissingValueError(Exception):
    """Nothing feeds an input."""


@dataclass
class NaiveGraph:
    """The nodes (type, vertex) of instances `first` to `last`, with the values each of them reads."""

    model: Model
    instances: Instances
    first: int
    last: int
    known: dict[tuple[str, str], Any] = field(default_factory=dict)

    def link(self, name: str) -> Link:
        return self.once("link", name, lambda: derive.link(self.instances, name))

    def column(self, name: str) -> Ints:
        return self.once("field", name, lambda: derive.field(self.instances, name, self.model.data.seed))

    def once(self, what: str, name: str, make: Callable[[], T]) -> T:
        if (what, name) not in self.known:
            self.known[what, name] = make()
        found: T = self.known[what, name]
        return found

    def nodes(self) -> dict[tuple[int, int], list[list[Value]]]:
        """For each node its inputs, each a list of values (one, unless the node is a reduction)."""
        low, high = int(self.instances.start[self.first]), int(self.instances.start[self.last])
        found = {}
        for t, node_type in enumerate(self.model.types):
            for v in range(low, high):
                if not self.lives(t, v):
                    continue
                if node_type.reduction is None:
                    found[t, v] = [[self.first_of(i.sources, v, i)] for i in node_type.inputs]
                elif (many := len(self.members(t, v, 0))) >= 2:
                    found[t, v] = [
                        self.members(t, v, o)
                        if o < node_type.listed
                        else [self.first_of(i.sources, v, i)] * many
                        for o, i in enumerate(node_type.inputs)
                    ]
        return found

    def lives(self, t: int, v: int) -> bool:
        node_type = self.model.types[t]
        if self.instances.schema.kinds[self.instances.kind[v]] not in node_type.kinds:
            return False
        numbers = [(int(self.column(w.field)[v]), w) for w in node_type.where]
        return all(n >= 0 and COMPARE[w.comparison](n, w.value) for n, w in numbers)

    def reach(self, v: int, hops: tuple[Hop, ...]) -> list[int]:
        at = [v]
        for hop in hops:
            way = self.link(hop.link)
            step = []
            for u in at:
                if way.indptr is None:
                    targets = [int(way.target[u])] if way.target[u] >= 0 else []
                else:
                    targets = [int(x) for x in way.target[way.indptr[u] : way.indptr[u + 1]]]
                if hop.index is not None and way.indptr is not None:
                    inside = -len(targets) <= hop.index < len(targets)
                    targets = [targets[hop.index]] if inside else []
                step += targets
            at = step
        return at

    def members(self, t: int, v: int, output: int) -> list[Value]:
        """What a reduction reduces."""
        source = self.model.types[t].inputs[output].sources[0]
        assert isinstance(source, NodeSource)
        found = []
        for u in self.reach(v, source.hops):
            found += [self.value(p, u, o) for p, o in source.producers if self.lives(p, u)]
        return found

    def value(self, t: int, v: int, output: int) -> Value:
        """What a type's output on a vertex is, where reductions over fewer than two are no nodes."""
        node_type = self.model.types[t]
        if node_type.reduction is None:
            return ("node", t, v, output)
        members = self.members(t, v, output)
        if node_type.reduction in ("var", "std") and len(members) < 2:
            return "zeros", node_type.inputs[output].shape
        if len(members) == 1:
            return members[0]
        if members:
            return ("node", t, v, output)
        wanted = node_type.inputs[output]
        return self.first_of(wanted.sources[1:], v, wanted) if wanted.sources[1:] else ("zeros", wanted.shape)

    def first_of(self, sources: tuple[Source, ...], v: int, wanted: Input) -> Value:
        for source in sources:
            if isinstance(source, NodeSource):
                for u in self.reach(v, source.hops):
                    for p, o in source.producers:
                        if self.lives(p, u):
                            return self.value(p, u, o)
            elif isinstance(source, TableSource):
                for u in self.reach(v, source.hops):
                    table, name = self.model.tables[source.table], source.field
                    rows = self.once(
                        "rows", f"{table.name} {name}", partial(table_rows, self.instances, name, table)
                    )
                    row = int(rows[u])
                    if row >= 0:
                        return ("table", source.table, row)
            elif isinstance(source, FieldSource):
                for u in self.reach(v, source.hops):
                    found = derive.floats(self.instances, source.field, self.model.data.seed)
                    if u in found.vertex:
                        return ("field", source.field, *found.rows[found.vertex.tolist().index(u)].tolist())
            elif isinstance(source, ParamSource):
                return ("param", source.number)
            else:
                return ("zeros", wanted.shape)
        raise MissingValueError(wanted.name)
