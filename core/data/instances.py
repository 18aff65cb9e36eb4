"""Instances as arrays: the vertices of many small typed graphs, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.schema import Schema

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Link:
    """A link of all vertices, V of them.

    Single: `indptr` is None and `target[v]` the vertex that v leads to, -1 for none; shape (V,).
    Many: v leads to `target[indptr[v]:indptr[v + 1]]`, in order; shapes (V + 1,) and (edges,).
    Targets are numbers in the same arrays, always of the same instance.
    """

    target: Ints
    indptr: Ints | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """Vectors of floats on some vertices: `vertex` (m,), ascending, have the `rows` (m, size), float32."""

    vertex: Ints
    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Instances:
    """N instances with V vertices.

    `kind` (V,) numbers into `schema.kinds`; instance i has the vertices `start[i]:start[i + 1]` (N + 1,),
    of which the first is its vertex of kind 'instance'. `fields[f]` (V,) is -1 where a vertex has none.
    `values[f]` are the fields of floats. `vocabulary[f]` are the distinct strings behind a text field's
    integers. `lines[i]` (N,) is the line of `source` on which instance i begins; `numbers[i]` (N,) its number
    in the file, from 0, for which the coin is tossed: it does not depend on whether others before it were
    left out. `names` are the instances' ids where the data has some.
    """

    schema: Schema
    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    links: Mapping[str, Link]
    fields: Mapping[str, Ints]
    vocabulary: Mapping[str, Sequence[str]]
    source: Path
    lines: Ints
    numbers: NDArray[np.int64]
    names: tuple[str | int, ...] | None = None
    values: Mapping[str, Values] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start) - 1
