"""Links made from other links; links and fields made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.memory import require_memory
from abw.core.data.instances import Ints, Link, Longs
from abw.core.jit.decorators import njit

T = TypeVar("T")

# What an edge of a link takes while the link is made of others.
EDGE_BYTES = 28
MOST_EDGES = 2**31 - 1


class Lazy(Mapping[str, T]):
    """Links, fields or vocabularies by name, each made at its first use and kept."""

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers = makers
        self._made: dict[str, T] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def makers(
    found: Mapping[str, T], change: Callable[[T], T] = lambda each: each
) -> dict[str, Callable[[], T]]:
    """Functions that give what a mapping has by each name, changed, when they are called."""
    return {name: partial(lambda name: change(found[name]), name) for name in found}


def inverse(target: Ints) -> Link:
    """The many-link against a single one: from w to all v with `target[v] == w`, in order."""
    indptr = np.zeros(len(target) + 2, np.int32)
    sources = np.empty(np.count_nonzero(target >= 0) + 1, np.int32)
    invert(target, indptr, sources)
    return Link(sources[:-1], indptr[:-1])


def reverse(link: Link, count: int) -> Link:
    """The many-link from each of `count` vertices to all from which a link leads to it, in order.

    Cost: linear, and sorting where the link is to several.
    """
    if link.indptr is None:
        return inverse(link.target)
    source = np.repeat(np.arange(count, dtype=np.int32), np.diff(link.indptr))
    return Link.many(link.target, source, count)


@njit
def invert(target: Ints, indptr: Ints, sources: Ints) -> None:
    """A counting sort: the numbers v by `target[v]`, where it is not negative, into `sources`.

    `indptr` (V + 2,), zero at first, ends with the first place of each target (V + 1,) and one entry more.
    `sources` has a place more, where those without a target go: which have one no branch can learn.
    """
    for v in range(target.size):
        indptr[target[v] + 2] += 1
    indptr[1] = 0
    for w in range(target.size):
        indptr[w + 2] += indptr[w + 1]
    indptr[0] = sources.size - 1
    for v in range(target.size):
        # the place of the next source of w; when all are placed, that is the first of w + 1
        at = target[v] + 1
        sources[indptr[at]] = v
        indptr[at] += target[v] >= 0
    indptr[0] = 0


def ranges(begin: NDArray[np.integer], each: NDArray[np.integer]) -> Longs:
    """The numbers from each `begin[i]` on, `each[i]` of them, range after range."""
    before = np.cumsum(each) - each
    found: Longs = np.arange(int(each.sum())) + np.repeat(begin - before, each)
    return found


def neighbours(found: Callable[[], tuple[Ints, Ints]]) -> dict[str, Callable[[], Link]]:
    """The links `prev` and `next`: both are found where the first of them is asked for."""
    both = cache(found)
    return {"prev": lambda: Link(both()[0]), "next": lambda: Link(both()[1])}


def following(vertices: Ints, group: NDArray[np.integer], count: int) -> tuple[Ints, Ints]:
    """The (previous, next) of each of `count` vertices.

    `vertices` are in order; neighbours among them whose `group` (same shape) is equal follow each other.
    """
    together = group[1:] == group[:-1]
    before, after = vertices[:-1][together], vertices[1:][together]
    back, forth = np.full((2, count), -1, np.int32)
    back[after] = before
    forth[before] = after
    return back, forth


def adjacent(group: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The (previous, next) neighbours of each vertex, if they are of the same `group` (V,)."""
    there = np.zeros(len(group) + 1, np.bool_)  # whether a vertex is of the group of the one before
    np.equal(group[1:], group[:-1], out=there[1:-1])
    here = np.arange(len(group), dtype=np.int32)
    return where(there[:-1], here - 1), where(there[1:], here + 1)


def where(there: NDArray[np.bool_], vertices: Ints) -> Ints:
    """Vertices (n,), -1 where they are not there: several times faster than by `np.where`, which branches."""
    found: Ints = (vertices + 1) * there - 1
    return found


def single(vertices: NDArray[np.integer], targets: NDArray[np.integer], count: int) -> Link:
    """The single link of `count` vertices that leads from `vertices[i]` to `targets[i]`."""
    target = np.full(count, -1, np.int32)
    target[vertices] = targets
    return Link(target)


def along(ways: Sequence[tuple[Link, int | None]], count: int) -> Link:
    """The many-link from each of `count` vertices to all that the links lead to, one after the other.

    With a number, only that edge of a many-link is followed (negative: from the end). Cost: linear in what it
    leads to; none where it is one of the links itself.
    """
    if len(ways) == 1 and ways[0][1] is None:
        alone = ways[0][0]
        if alone.indptr is not None:
            return alone
        there, ends = alone.target >= 0, np.zeros(count + 1, np.int32)
        np.cumsum(there, out=ends[1:])
        return Link(alone.target[there], ends)
    at = np.arange(count, dtype=np.int32)
    indptr: NDArray[np.integer] = np.arange(count + 1)
    for way, index in ways:
        each, at = _onwards(way, index, at)
        indptr = np.append(0, np.cumsum(each))[indptr]
    return Link(at, indptr.astype(np.int32))


def _onwards(way: Link, index: int | None, at: Ints) -> tuple[NDArray[np.integer], Ints]:
    """To how many vertices a link leads from each vertex, and to which."""
    if way.indptr is None:
        target = way.target[at]
        return (target >= 0).astype(np.int64), target[target >= 0]
    low, high = way.indptr[at].astype(np.int64), way.indptr[at + 1].astype(np.int64)
    if index is not None:
        edge = low + index if index >= 0 else high + index
        there = (low <= edge) & (edge < high)
        return there.astype(np.int64), way.target[edge[there]]
    each = high - low
    edges = int(each.sum())
    what = f"following the spec's links to {edges:,} vertices, from {len(at):,},"
    hint = "fewer instances at once; or does a sum count every vertex for every other?"
    require_memory(EDGE_BYTES * edges, what, hint)
    if edges > MOST_EDGES:
        raise AbwError(f"{what} is more than can be numbered ({MOST_EDGES:,})", hint=hint)
    return each, way.target[ranges(low, each)]
