"""The vertices of a mini-batch that grows: the given ones, and those that come to be behind them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import link
from abw.core.data.instances import Instances, Ints, Link, Values
from abw.core.data.links import Lazy, inverse
from abw.core.ir.growth import Growth
from abw.core.ir.paths import Hop

KIND, INSTANCE, INDEX = "kind", "instance", "index"
"""Columns that are always there: the number of a vertex's kind, of its instance in the mini-batch, and among
the vertices of its kind there."""


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The name of a column: a field of vertices."""

    name: str


class Columns:
    """Numbers of vertices by name, -1 for none: columns that grow at their ends, all together.

    Behind its last vertex every column has -1, so that number -1 leads there: `column[-1]` is -1. There is
    another one before its first, for compiled code, where -1 leads there.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._room = max(64, 2 * count) + 1
        self._columns: dict[Hashable, Ints] = {}

    def __getitem__(self, name: Hashable) -> Ints:
        """A column, with its room; made where it is not there yet. Valid until vertices are appended."""
        if name not in self._columns:
            self.make((name,))
        return self._columns[name]

    def make(self, names: Iterable[Hashable]) -> None:
        """Have columns of these names. Several at once take less time than one after the other."""
        new = [name for name in names if name not in self._columns]
        self._columns.update(zip(new, _empty(len(new), self._room), strict=True))

    def give(self, name: Hashable, values: NDArray[np.integer]) -> None:
        """A column of the vertices that are there."""
        self[name][: len(values)] = values

    def append(self, count: int) -> Ints:
        """So many new vertices, with nothing known of them; their numbers. Cost: linear, now and then all."""
        first = self.count
        self.count += count
        self.reserve(self.count)
        return np.arange(first, self.count, dtype=np.int32)

    def reserve(self, count: int) -> None:
        """Have room for so many vertices."""
        if count >= self._room:
            self._room = max(2 * self._room, count + 1)
            longer = _empty(len(self._columns), self._room)
            for column, old in zip(longer, self._columns.values(), strict=True):
                column[: len(old)] = old
            self._columns = dict(zip(self._columns, longer, strict=True))

    def keep(self, vertices: Ints) -> None:
        """These vertices alone, in this order: they are numbered anew. Cost: linear."""
        number = np.full(self._room, -1, np.int32)
        number[vertices] = np.arange(len(vertices), dtype=np.int32)
        for name, column in self._columns.items():
            kept = column[vertices]
            column[:] = -1
            column[: len(vertices)] = number[kept] if isinstance(name, Hop) else kept
        self.count = len(vertices)

    def follow(self, vertices: Ints, hops: tuple[Hop, ...]) -> Ints:
        """Where links lead from each vertex."""
        for hop in hops:
            vertices = self[hop][vertices]
        return vertices


def _empty(count: int, room: int) -> Ints:
    return np.full((count, room + 1), -1, np.int32)[:, 1:]


def with_room(instances: Instances, growth: Growth) -> Instances:
    """The same instances with kinds, links and fields for what will grow: there is none of it yet."""
    nothing = np.full(len(instances.kind), -1, np.int32)
    new_links = sorted({n for kind in growth.kinds for n in kind.links} - instances.links.keys())
    several = Link(np.zeros(0, np.int32), np.zeros(len(instances.kind) + 1, np.int32))
    new_fields = sorted(growth.fields - instances.fields.keys())
    links: Mapping[str, Link] = Lazy(
        {name: partial(instances.links.__getitem__, name) for name in instances.links}
        | {name: partial(Link, nothing) for name in new_links}
        | {name: lambda: several for name in growth.reversed}
    )
    fields: Mapping[str, Ints] = Lazy(
        {name: partial(instances.fields.__getitem__, name) for name in instances.fields}
        | {name: lambda: nothing for name in new_fields}
    )
    return replace(instances, schema=growth.extended(instances.schema), links=links, fields=fields)


def given_link(instances: Instances, hop: Hop) -> Ints:
    """Where a link, or one of its edges, leads from each vertex (V,). Raises ValueError for several edges."""
    way = link(instances, hop.link)
    if way.indptr is None:
        return way.target
    if hop.index is None:
        raise ValueError(f"link '{hop.link}' leads to several vertices")
    low, high = way.indptr[:-1], way.indptr[1:]
    edge = low + hop.index if hop.index >= 0 else high + hop.index
    there = (low <= edge) & (edge < high)
    found = np.full(len(low), -1, np.int32)
    found[there] = way.target[edge[there]]
    return found


def finished(instances: Instances, first: int, last: int, columns: Columns, growth: Growth) -> Instances:
    """Instances `first` to `last` (exclusive) with what grew in them: ordinary instances.

    `instances` have room (`with_room`). An instance's own vertices come first, then those that grew, as
    they came to be. Links and fields are made when they are first asked for. Cost: linear.
    """
    begin, end = int(instances.start[first]), int(instances.start[last])
    given, count = end - begin, columns.count
    whose = columns[INSTANCE][:count]
    order = np.argsort(whose, kind="stable")
    number = np.full(count + 1, -1, np.int32)
    number[order] = np.arange(count, dtype=np.int32)
    start = np.append(0, np.cumsum(np.bincount(whose, minlength=last - first))).astype(np.int64)
    grown_links = {name for kind in growth.kinds for name in kind.links}
    grown_fields = growth.fields

    def single(name: str) -> Link:
        return Link(number[columns[Hop(name)][:count]][order])

    def data_link(name: str) -> Link:
        way = instances.links[name]
        if way.indptr is None:
            target = np.full(count, -1, np.int32)
            inside = way.target[begin:end]
            target[:given] = np.where(inside >= 0, inside - begin, -1)
            return Link(number[target][order])
        sizes = np.zeros(count, np.int32)
        sizes[:given] = np.diff(way.indptr[begin : end + 1])
        low = np.zeros(count, np.int64)
        low[:given] = way.indptr[begin:end]
        indptr = np.append(0, np.cumsum(sizes[order])).astype(np.int32)
        within = np.arange(int(indptr[-1])) - np.repeat(indptr[:-1], sizes[order])
        return Link(number[way.target[np.repeat(low[order], sizes[order]) + within] - begin], indptr)

    def data_field(name: str) -> Ints:
        values = np.full(count, -1, np.int32)
        values[:given] = instances.fields[name][begin:end]
        return values[order]

    def grown_field(name: str) -> Ints:
        return columns[FieldColumn(name)][:count][order]

    def data_values(values: Values) -> Values:
        inside = (begin <= values.vertex) & (values.vertex < end)
        return Values(number[values.vertex[inside] - begin], values.rows[inside])

    def reversed_link(name: str) -> Link:
        return inverse(single(growth.reversed[name]).target)

    def made(name: str) -> Callable[[str], Link]:
        return single if name in grown_links else reversed_link if name in growth.reversed else data_link

    links = {name: partial(made(name), name) for name in instances.links}
    fields = {
        name: partial(grown_field if name in grown_fields else data_field, name) for name in instances.fields
    }
    return replace(
        instances,
        kind=columns[KIND][:count][order].astype(np.uint8),
        start=start,
        links=Lazy(links),
        fields=Lazy(fields),
        values={name: data_values(values) for name, values in instances.values.items()},
        lines=instances.lines[first:last],
        numbers=instances.numbers[first:last],
        names=instances.names[first:last] if instances.names else None,
    )


def order_of(columns: Columns) -> Ints:
    """For each vertex of the finished instances its number among the columns."""
    return np.argsort(columns[INSTANCE][: columns.count], kind="stable").astype(np.int32)
