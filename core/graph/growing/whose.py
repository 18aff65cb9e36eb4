"""What is noted of a growing mini-batch's vertices, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns
from abw.core.ir.paths import Hop


@dataclass(frozen=True, slots=True)
class RowColumn:
    """The name of a column: the row of a table that a field of words means."""

    table: int
    field: str


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """The name of a column: the row of a vertex among the mini-batch's values of a field of floats."""

    field: str


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """The name of a column: the number on the tape of a vertex's node of a type."""

    type: int


@dataclass(frozen=True, slots=True)
class StandInColumn:
    """The name of a column: what stands for an output of a reduction on a vertex.

    A reference on the tape, -1 for none; that of a constant, which is negative, is one less here.
    """

    type: int
    output: int


@dataclass(frozen=True, slots=True)
class Whose:
    """Of which instances a mini-batch is: `count` of them from number `first` on.

    `ways`: where given vertices of all instances lead that reductions read.
    """

    instances: Instances
    ways: Mapping[tuple[Hop, ...], Link]
    first: int
    count: int

    @property
    def begin(self) -> int:
        """The first vertex among those of all instances."""
        return int(self.instances.start[self.first])

    def edges(self, hops: tuple[Hop, ...], at: Ints) -> tuple[Ints, Ints]:
        """Which edges of a way leave each vertex: the first, and the first behind."""
        indptr = self.ways[hops].indptr
        assert indptr is not None
        there = at >= 0
        place = np.where(there, at, 0) + self.begin
        return indptr[place], np.where(there, indptr[place + 1], indptr[place])

    def targets(self, hops: tuple[Hop, ...], low: Ints, high: Ints) -> Ints:
        """Where edges lead, one vertex's after the other's."""
        sizes = high - low
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found: Ints = self.ways[hops].target[np.repeat(low, sizes) + within] - np.int32(self.begin)
        return found

    def of_kinds(self, kinds: frozenset[str], columns: Columns, vertices: Ints) -> Ints:
        """Those of the vertices that are of these kinds."""
        names = self.instances.schema.kinds
        wanted = np.array([name in kinds for name in names])
        found: Ints = vertices[wanted[columns[KIND][vertices]]]
        return found

    def number(self, columns: Columns, vertex: int) -> int:
        """The number of a vertex's instance among `instances`."""
        return self.first + int(columns[INSTANCE][vertex])

    def instance(self, columns: Columns, vertex: int) -> str:
        """A vertex's instance in words: its number, its id where it has one, file and line."""
        number, found = self.number(columns, vertex), self.instances
        name = f" '{found.names[number]}'" if found.names else ""
        return f"instance {int(found.numbers[number])}{name} ({found.source}:{int(found.lines[number])})"

    def vertex(self, columns: Columns, vertex: int) -> str:
        """A vertex in words: its kind, its number there, its instance."""
        kind = self.instances.schema.kinds[int(columns[KIND][vertex])]
        return f"{kind} {int(columns[INDEX][vertex])} of {self.instance(columns, vertex)}"
