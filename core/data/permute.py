"""Some instances of many, in another order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances, Ints, Link, Values
from abw.core.data.links import Lazy, ranges


def vertices_of(instances: Instances, order: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The vertices of the instances `order`, instance after instance."""
    return ranges(instances.start[order], np.diff(instances.start)[order])


def permuted(instances: Instances, order: NDArray[np.integer[Any]]) -> Instances:
    """The instances number `order[0]`, `order[1]`, …, each at most once.

    Cost: some ns a vertex, link and field, for those alone that are asked for.
    """
    at = vertices_of(instances, order)
    new = np.full(len(instances.kind) + 1, -1, np.int32)  # the last for no vertex: -1
    new[at] = np.arange(len(at))
    names = instances.names
    return replace(
        instances,
        kind=instances.kind[at],
        start=np.append(0, np.cumsum(np.diff(instances.start)[order])),
        links=Lazy({name: partial(_link, instances, name, at, new) for name in instances.links}),
        fields=Lazy({name: partial(_field, instances, name, at) for name in instances.fields}),
        values=Lazy({name: partial(_values, instances, name, at) for name in instances.values}),
        lines=instances.lines[order],
        numbers=instances.numbers[order],
        names=names and tuple(names[i] for i in order.tolist()),
    )


def _link(instances: Instances, name: str, at: NDArray[np.int64], new: Ints) -> Link:
    link = instances.links[name]
    if link.indptr is None:
        return Link(new[link.target[at]])
    begin, each = link.indptr[at].astype(np.int64), np.diff(link.indptr)[at]
    indptr = np.append(0, np.cumsum(each)).astype(np.int32)
    return Link(new[link.target[ranges(begin, each)]], indptr)


def _field(instances: Instances, name: str, at: NDArray[np.int64]) -> Ints:
    return instances.fields[name][at]


def _values(instances: Instances, name: str, at: NDArray[np.int64]) -> Values:
    values = instances.values[name]
    row = np.full(len(instances.kind), -1, np.int32)
    row[values.vertex] = np.arange(len(values.vertex))
    rows = row[at]
    return Values(np.flatnonzero(rows >= 0).astype(np.int32), values.rows[rows[rows >= 0]])
