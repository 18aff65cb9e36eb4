"""The names of columns: what is noted of a growing mini-batch's vertices beside links and fields."""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.ir.schema import Hop, Schema

# Columns: the round in which a vertex came to be, and its origin where steps ask for it (numbers of
# `abw.core.ir.phases.origins_of`); the pick by which it came, or the one that it came from.
ROUND, ORIGIN, PICK = "round", "origin", "pick"


@dataclass(frozen=True, slots=True)
class RowColumn:
    """The row of a table that a field of words means."""

    table: int
    field: str


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """The row of a vertex among the mini-batch's values of a field of floats."""

    field: str


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """The number of a vertex's node of a type; of reductions only where there is a node, and 0 where kernels
    are called by address.
    """

    type: int


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """What an output of a type is on a vertex: a row of its arena where kernels are called by address, else
    an encoded reference (see `encoded`). Also of reductions that are no node there.
    """

    type: int
    output: int


@dataclass(frozen=True, slots=True)
class EndsColumn:
    """Where a vertex's members begin among all (`last` False), or where they end."""

    list: str
    last: bool


@dataclass(frozen=True, slots=True)
class MembersColumn:
    """The members of the lists of a round's vertices, from the first of these on."""

    list: str


def parted(hops: tuple[Hop, ...], schema: Schema) -> tuple[tuple[Hop, ...], tuple[Hop, ...]]:
    """The hops before the first that leads to several vertices, and the others."""
    first = next((n for n, hop in enumerate(hops) if schema.links[hop.link].many and hop.index is None), 0)
    return hops[:first], hops[first:]
