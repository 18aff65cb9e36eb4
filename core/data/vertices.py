"""Vertices that move: some instances in another order, and those of a mini-batch that grows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import link
from abw.core.data.instances import Instances, Ints, Link, Longs, Values
from abw.core.data.links import Lazy, inverse, makers, ranges
from abw.core.ir.growth import Growth
from abw.core.ir.schema import Hop, Schema
from abw.core.jit.decorators import njit


def vertices_of(instances: Instances, order: NDArray[np.integer[Any]]) -> Longs:
    """The vertices of the instances `order`, instance after instance."""
    return ranges(instances.start[order], np.diff(instances.start)[order])


def permuted(instances: Instances, order: NDArray[np.integer[Any]]) -> Instances:
    """The instances number `order[0]`, `order[1]`, …, each at most once.

    Cost: some ns a vertex, link and field, for those alone that are asked for.
    """
    at = vertices_of(instances, order)
    new = np.full(len(instances.kind) + 1, -1, np.int32)
    new[at] = np.arange(len(at))
    move, names = Move(at, new), instances.names
    return replace(
        instances,
        kind=instances.kind[at],
        start=np.append(0, np.cumsum(np.diff(instances.start)[order])),
        links=Lazy(makers(instances.links, move.link)),
        fields=Lazy(makers(instances.fields, move.field)),
        values=Lazy(makers(instances.values, move.values)),
        lines=instances.lines[order],
        numbers=instances.numbers[order],
        names=names and tuple(names[i] for i in order.tolist()),
    )


@dataclass(frozen=True, slots=True)
class Move:
    """Vertices in another order: vertex v of n was `at[v]` (n,), -1 for one that is new.

    Vertex `begin + i` becomes `new[i]`, -1 for one that is left out; the last of `new` is -1, for none.
    """

    at: NDArray[np.integer[Any]]
    new: Ints
    begin: int = 0

    def link(self, link: Link) -> Link:
        """A link in the new order."""
        at = self.at
        if link.indptr is None:
            return Link(self._places(np.where(at < 0, np.int32(-1), link.target[at])))
        begin, each = (
            link.indptr[at].astype(np.int64),
            np.where(at < 0, 0, link.indptr[at + 1] - link.indptr[at]),
        )
        indptr = np.append(0, np.cumsum(each)).astype(np.int32)
        return Link(self._places(link.target[ranges(begin, each)]), indptr)

    def _places(self, vertices: Ints) -> Ints:
        found: Ints = self.new[np.maximum(vertices - np.int32(self.begin), -1)]
        return found

    def field(self, field: Ints) -> Ints:
        """A field in the new order."""
        return np.where(self.at < 0, np.int32(-1), field[self.at])

    def values(self, values: Values) -> Values:
        """Floats in the new order."""
        low, high = values.vertex.searchsorted((self.begin, self.begin + len(self.new) - 1))
        place = self._places(values.vertex[low:high])
        order = np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :]
        return Values(place[order], values.rows[low:high][order])


# Columns that are always there: the number of a vertex's kind, of its instance in the mini-batch, and among
# the vertices of its kind there.
KIND, INSTANCE, INDEX = "kind", "instance", "index"


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The name of a column: a field of vertices."""

    name: str


NO_COLUMNS: Mapping[Hashable, int] = MappingProxyType({})


class Columns:
    """Numbers of vertices by name, -1 for none: columns that grow at their ends, all together.

    Behind its last vertex every column has -1, so that number -1 leads there: `column[-1]` is -1. There is
    another one before its first, for compiled code, where -1 leads there.

    All lie in one array: what column `place[name]` says of vertex v is `block[place[name], v + 1]`.
    """

    def __init__(self, count: int, place: Mapping[Hashable, int] = NO_COLUMNS, room: int = 0) -> None:
        """Columns in these places for `count` vertices of which nothing is known; `room`: for so many.

        Without, there is room for twice as many.
        """
        self.count = count
        self._room = (room or max(64, 2 * count)) + 1
        self.place = place
        self.block = _empty(len(place), self._room)

    def __getitem__(self, name: Hashable) -> Ints:
        """A column, with its room; made where it is not there yet. Valid until vertices are appended."""
        if name not in self.place:
            self.make((name,))
        return self.block[self.place[name], 1:]

    def make(self, names: Iterable[Hashable]) -> None:
        """Have columns of these names. Several at once take less time than one after the other."""
        new = [name for name in names if name not in self.place]
        if new:
            self.place = {name: number for number, name in enumerate([*self.place, *new])}
            self.block = np.concatenate([self.block, _empty(len(new), self._room)])

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
            old, self.block = self.block, _empty(len(self.place), self._room)
            self.block[:, : old.shape[1]] = old

    def follow(self, vertices: Ints, hops: tuple[Hop, ...]) -> Ints:
        """Where links lead from each vertex."""
        for hop in hops:
            vertices = self[hop][vertices]
        return vertices

    def ordered(self, instances: int) -> Order:
        """The order in which finished instances have their vertices. Cost: linear, some ns each."""
        order = np.empty(self.count, np.int32)
        place, start = np.empty(self.count, np.int32), np.zeros(instances + 2, np.int64)
        _order(self[INSTANCE], self.count, start, order, place)
        return Order(order[: start[-2]], place, start[:-1])


@dataclass(frozen=True, slots=True)
class Order:
    """Vertices instance after instance, and in each as they came to be.

    Instance i has the vertices `start[i]` to `start[i + 1] - 1` in the end, of which number v is `vertex[v]`
    (V,) among the columns; number c there is `place[c]` in the end, -1 where it is of no instance.
    """

    vertex: Ints
    place: Ints
    start: Longs


@njit
def _order(instance: Ints, count: int, start: Longs, order: Ints, place: Ints) -> None:
    """Order `count` vertices by instance; `start` (instances + 2,) is zeros."""
    for v in range(count):
        if instance[v] >= 0:
            start[instance[v] + 2] += 1
    for i in range(2, len(start)):
        start[i] += start[i - 1]
    for v in range(count):
        place[v] = -1
        if instance[v] >= 0:
            at = start[instance[v] + 1]
            start[instance[v] + 1] += 1
            order[at], place[v] = v, at


def _empty(count: int, room: int) -> Ints:
    return np.full((count, room + 1), -1, np.int32)


def with_room(instances: Instances, growth: Growth, schema: Schema) -> Instances:
    """Give instances kinds, links and fields for what will grow: there is none of it yet.

    `schema`: theirs, with what grows.
    """
    nothing = np.full(len(instances.kind), -1, np.int32)
    new_links = sorted({n for kind in growth.kinds for n in kind.links} - instances.links.keys())
    several = Link(np.zeros(0, np.int32), np.zeros(len(instances.kind) + 1, np.int32))
    new_fields = sorted(growth.fields - instances.fields.keys())
    links = makers(instances.links) | {name: partial(Link, nothing) for name in new_links}
    fields = makers(instances.fields) | {name: lambda: nothing for name in new_fields}
    links |= {name: lambda: several for name in growth.reversed}
    return replace(instances, schema=schema, links=Lazy(links), fields=Lazy(fields))


def given_link(instances: Instances, hop: Hop) -> Ints:
    """Where the instances' link of a hop leads from each vertex (V,): see `one_edge`."""
    return one_edge(link(instances, hop.link), hop)


def one_edge(way: Link, hop: Hop) -> Ints:
    """Where a link, or one of its edges, leads from each vertex (V,). Raises ValueError for several edges."""
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


def finished(
    instances: Instances, first: int, last: int, columns: Columns, growth: Growth, order: Order
) -> Instances:
    """Instances `first` to `last` (exclusive) with what grew in them: ordinary instances.

    `instances` have room (`with_room`). An instance's own vertices come first, then those that grew, as
    they came to be (`order`). Links and fields are made when they are first asked for.
    """
    begin, end = int(instances.start[first]), int(instances.start[last])
    vertex, given = order.vertex, end - begin
    old = np.where(vertex < given, vertex + np.int32(begin), np.int32(-1))
    move = Move(old, np.append(order.place[:given], np.int32(-1)), begin)

    def grown_link(name: str) -> Link:
        return Link(np.append(order.place, np.int32(-1))[columns[Hop(name)][vertex]])

    def reversed_link(name: str) -> Link:
        return inverse(grown_link(growth.reversed[name]).target)

    def grown_field(name: str) -> Ints:
        return columns[FieldColumn(name)][vertex]

    grown = {name for kind in growth.kinds for name in kind.links}
    links = makers(instances.links, move.link)
    links |= {name: partial(reversed_link, name) for name in growth.reversed}
    links |= {name: partial(grown_link, name) for name in grown}
    fields = makers(instances.fields, move.field)
    fields |= {name: partial(grown_field, name) for name in growth.fields}
    return replace(
        instances,
        kind=columns[KIND][vertex].astype(np.uint8),
        start=order.start,
        links=Lazy(links),
        fields=Lazy(fields),
        values={name: move.values(values) for name, values in instances.values.items()},
        lines=instances.lines[first:last],
        numbers=instances.numbers[first:last],
        names=instances.names[first:last] if instances.names else None,
    )
