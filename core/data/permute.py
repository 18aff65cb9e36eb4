"""Some instances of many, in another order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances, Ints, Link, Values
from abw.core.data.links import Lazy, makers, ranges


def vertices_of(instances: Instances, order: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
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
