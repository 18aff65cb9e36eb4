"""Links made from other links; links and fields made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints, Link
from abw.core.jit import njit

T = TypeVar("T")


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


def inverse(target: Ints) -> Link:
    """The many-link against a single one: from w to all v with `target[v] == w`, in order."""
    indptr = np.zeros(len(target) + 2, np.int32)
    sources = np.empty(np.count_nonzero(target >= 0), np.int32)
    invert(target, indptr, sources)
    return Link(sources, indptr[:-1])


@njit
def invert(target: Ints, indptr: Ints, sources: Ints) -> None:
    """A counting sort: the numbers v by `target[v]`, where it is not negative, into `sources`.

    `indptr` (V + 2,), zero at first, ends with the first place of each target (V + 1,) and one entry more.
    """
    for v in range(target.size):
        if target[v] >= 0:
            indptr[target[v] + 2] += 1
    for w in range(target.size):
        indptr[w + 2] += indptr[w + 1]
    for v in range(target.size):
        if target[v] >= 0:
            # the place of the next source of w; when all are placed, that is the first of w + 1
            sources[indptr[target[v] + 1]] = v
            indptr[target[v] + 1] += 1


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


def single(vertices: NDArray[np.integer], targets: NDArray[np.integer], count: int) -> Link:
    """The single link of `count` vertices that leads from `vertices[i]` to `targets[i]`."""
    target = np.full(count, -1, np.int32)
    target[vertices] = targets
    return Link(target)
