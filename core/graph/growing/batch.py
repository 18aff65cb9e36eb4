"""Instances that grow: their columns, and what a mini-batch of them knows while it grows."""

from __future__ import annotations

import numpy as np

from abw.core.data.derive import field, floats, link
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import trained_ids, word_rows
from abw.core.data.links import along
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns, FieldColumn, one_edge
from abw.core.graph.bind import Binding, only
from abw.core.graph.equal.dedup import first_rows
from abw.core.graph.graph import Nodes
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import RowColumn
from abw.core.ir.model import Model


class GrowthData:
    """The columns of given instances, found once for all their mini-batches. `instances` have room."""

    def __init__(self, growth_model: GrowthModel, instances: Instances) -> None:
        self.growth_model, self.instances = growth_model, instances
        model, count = growth_model.model, len(instances.kind)
        self._before: Binding | None = None
        found: dict[str, Link] = {}

        def way(name: str) -> Link:
            if name not in found:
                found[name] = link(instances, name)
            return found[name]

        ways = [along([(way(hop.link), hop.index) for hop in hops], count) for hops in growth_model.lists]
        arrays = [array for made in ways for array in (made.indptr, made.target) if array is not None]
        # the lists that steps name: where each one's offsets and targets begin in `data`
        self.data = np.concatenate([np.zeros(1, np.int32), *arrays], dtype=np.int32)
        self.lists = np.append(1, 1 + np.cumsum([len(array) for array in arrays]))[:-1].astype(np.int64)
        self._values = [floats(instances, name.field, model.data.seed) for name in growth_model.rows]
        self.block = np.full((growth_model.given, count), -1, np.int32)
        columns = dict(zip(growth_model.columns, self.block, strict=False))
        columns[INSTANCE][:] = np.repeat(np.arange(len(instances)), np.diff(instances.start))
        columns[KIND][:], columns[INDEX][:] = instances.kind, field(instances, "index")
        for hop in growth_model.hops:
            columns[hop][:] = one_edge(way(hop.link), hop)
        for name, values in zip(growth_model.rows, self._values, strict=True):
            columns[name][values.vertex] = np.arange(len(values.vertex))
        for other in growth_model.rest:
            if isinstance(other, FieldColumn):
                columns[other][:] = field(instances, other.name, model.data.seed)
            else:
                columns[other][:] = _word_rows(model, instances, other)

    def before(self, binding: Binding) -> Binding:
        """The instances' binding of types before growth alone, which gives back `reduced`; made once."""
        if self._before is None:
            types = self.growth_model.model.types
            asked = tuple((types[t].name, ((t, o),)) for t, o in self.growth_model.reduced)
            self._before = only(binding, self.growth_model.phases.before, asked)
        return self._before

    def columns(self, first: int, last: int, room: int = 0) -> Columns:
        """The columns of instances `first` to `last` (exclusive), vertices counted from the first of them;
        with `room` for so many new vertices.
        """
        begin, end = int(self.instances.start[first]), int(self.instances.start[last])
        found = Columns(end - begin, self.growth_model.columns, end - begin + room)
        part = found.block[: self.growth_model.given, 1 : 1 + end - begin]
        part[:] = self.block[:, begin:end]
        rows = (np.searchsorted(values.vertex, begin) for values in self._values)
        since = np.array([first, *[begin] * len(self.growth_model.hops), *rows], np.int32)
        moved = part[: len(since)]
        moved -= since[:, None]
        np.maximum(moved, -1, out=moved)
        return found

    def merge_rows(self, columns: Columns, first: int, last: int) -> None:
        """Let rows of fields with equal bits have one number in the columns of instances."""
        ends = self.instances.start[[first, last]]
        for name, values in zip(self.growth_model.rows, self._values, strict=True):
            low, high = np.searchsorted(values.vertex, ends)
            if high > low:
                numbers = columns[name]
                numbers[:] = np.append(first_rows(values.rows[low:high]), np.int32(-1))[numbers]


class Batch:
    """Instances `first` to `last` (exclusive) of some while they grow: columns, whose first `given` vertices
    are the data's; how many vertices of each kind came to be (kinds, instances), and the first round in which
    one did not for there were `most`, 0 for none.

    `before`: the nodes before growth. `looks`: whether equal nodes are looked for (`look`); of these the node
    that is executed for node v is then `stands[v]`.

    Of beams, by instance: the round in which its hypotheses were compared last, the picks kept (n, width),
    and the candidates of a round (n, width): see `abw.core.graph.growing.choices`.
    """

    before: Nodes

    def __init__(self, growing: GrowthData, first: int, last: int, room: int = 0) -> None:
        """`room`: for how many new vertices there should be room."""
        self.growing, self.model, self.first, self.last = (
            growing,
            growing.growth_model,
            first,
            last,
        )
        self.columns = growing.columns(first, last, room)
        self.looks, self.stands = False, np.zeros(0, np.int32)
        self.given, size = self.columns.count, last - first
        start = growing.instances.start[first : last + 1]
        self.start: Ints = (start - start[0]).astype(np.int32)
        self.begin = int(start[0])
        self.numbers = np.ascontiguousarray(growing.instances.numbers[first:last], np.int64)
        kinds = len(growing.instances.schema.kinds)
        self.count, self.cut = np.zeros((kinds, size), np.int64), np.zeros((kinds, size), np.int32)
        if self.model.growth.beam:
            beam = size * self.model.width
            self.compared, self.kept = np.zeros(size, np.int64), np.full(beam, -1, np.int32)
            self.totals, self.vertices, self.picked = np.empty(beam), *np.empty((2, beam), np.int32)

    def __len__(self) -> int:
        return self.last - self.first

    def look(self) -> None:
        """Look for equal nodes in this mini-batch."""
        self.looks = True
        self.growing.merge_rows(self.columns, self.first, self.last)

    def of_kinds(self, kinds: frozenset[str], vertices: Ints) -> Ints:
        """Those of the vertices that are of these kinds."""
        names = self.growing.instances.schema.kinds
        wanted = np.array([name in kinds for name in names])
        found: Ints = vertices[wanted[self.columns[KIND][vertices]]]
        return found

    def deciding(self, first: int, last: int) -> bool:
        """Whether given vertices of these instances decide."""
        kinds = self.model.deciding
        return (
            bool(kinds)
            and len(self.of_kinds(kinds, np.arange(*self.start[[first, last]], dtype=np.int32))) > 0
        )

    def number(self, vertex: int) -> int:
        """The number of a vertex's instance among all."""
        return self.first + int(self.columns[INSTANCE][vertex])

    def instance_text(self, vertex: int) -> str:
        """A vertex's instance in words: its number, its id where it has one, file and line."""
        number, found = self.number(vertex), self.growing.instances
        name = f" '{found.names[number]}'" if found.names else ""
        return f"instance {int(found.numbers[number])}{name} ({found.source}:{int(found.lines[number])})"

    def vertex_text(self, vertex: int) -> str:
        """A vertex in words: its kind, its number there, its instance."""
        kind = self.growing.instances.schema.kinds[int(self.columns[KIND][vertex])]
        return f"{kind} {int(self.columns[INDEX][vertex])} of {self.instance_text(vertex)}"


def encoded(references: Ints) -> Ints:
    """References as columns have them, where -1 is none: those of constants, which are negative, less one."""
    return np.where(references >= 0, references, references - 1)


def decoded(values: Ints) -> Ints:
    """References that columns have."""
    return np.where(values >= 0, values, values + 1)


def _word_rows(model: Model, instances: Instances, name: RowColumn) -> Ints:
    """The row of a table for each vertex's word, -1 for none."""
    table = model.tables[name.table]
    ids = field(instances, name.field)
    if model.weights.file:
        ids = trained_ids(instances, name.field, ids, table)
    rows = word_rows(instances, name.field, table)
    return np.where(ids >= 0, np.append(rows, -1)[ids], -1).astype(np.int32)
