"""What is noted of a growing mini-batch's vertices, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns
from abw.core.graph.growing.lists import GrownLists
from abw.core.ir.schema import Hop


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

    `ways`: where given vertices of all instances lead that reductions and clauses read; `lists`: what grew.
    """

    instances: Instances
    ways: Mapping[tuple[Hop, ...], Link]
    lists: GrownLists
    first: int
    count: int

    @property
    def begin(self) -> int:
        """The first vertex among those of all instances."""
        return int(self.instances.start[self.first])

    def reached(self, columns: Columns, hops: tuple[Hop, ...], at: Ints) -> tuple[Ints, Ints]:
        """How many vertices each of `at` leads to, and these, one after the other; some may be none (-1).

        The first hop is the one that leads to several.
        """
        grown, name = hops[0].link in self.lists, hops[0].link
        if grown:
            low, high = self.lists.edges(name, columns, at)
        else:
            indptr = self.ways[hops].indptr
            assert indptr is not None
            there = at >= 0
            place = np.where(there, at, 0) + self.begin
            low, high = indptr[place], np.where(there, indptr[place + 1], indptr[place])
        sizes = high - low
        edge = (
            np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(low, sizes)
        )
        if grown:
            return sizes, columns.follow(self.lists.members(name, edge), hops[1:])
        return sizes, self.ways[hops].target[edge] - np.int32(self.begin)

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
