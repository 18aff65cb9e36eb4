"""Finds the order in which a round computes types, from the clauses that may create its vertices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from abw.core.ir.growth import Clause, Growth
from abw.core.ir.model import NodeSource, NodeType
from abw.core.ir.schema import Hop

Origins = frozenset[int]
# A type at the vertices of an origin: number of the type, number of the origin.
Node = tuple[int, int]
# A type, computed at all vertices of a round that are of these origins.
Step = tuple[int, Origins]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a grown vertex comes from: clause number `number` of a kind, -1 for its start."""

    kind: str
    number: int
    clause: Clause


def origins_of(growth: Growth) -> tuple[Origin, ...]:
    """All of a model's, those of one kind behind each other."""
    found: list[Origin] = []
    for kind in growth.kinds:
        clauses = ((-1, kind.start), *enumerate(kind.clauses))
        found += [Origin(kind.name, number, clause) for number, clause in clauses if clause is not None]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Cycle:
    """Types that wait for each other in a circle, at vertices created together."""

    types: tuple[int, ...]


def steps_of(types: Sequence[NodeType], growth: Growth, during: Sequence[int]) -> tuple[Step, ...] | Cycle:
    """An order that does in every round. Cost: clauses times types times inputs.

    Vertices lead to others of their round by links alone that are told what an earlier clause of the same
    vertex adds, and by lists of these. Of types whose vertices are all known first the first declared, else
    as many vertices as there are.
    """
    origins = origins_of(growth)
    feeds = dict(_feeds(types, growth, origins, during))
    steps: list[Step] = []
    while feeds:
        ready = {node for node, wanted in feeds.items() if not wanted & feeds.keys()}
        if not ready:
            return _cycle(feeds)
        left = {t: {o for p, o in feeds if p == t} for t, _ in feeds}
        now = {t: {o for p, o in ready if p == t} for t, _ in ready}
        t = min(now, key=lambda t: (len(now[t]) < len(left[t]), -len(now[t]) if now[t] != left[t] else 0, t))
        steps.append((t, frozenset(now[t])))
        for o in now[t]:
            del feeds[t, o]
    return tuple(steps)


def _feeds(
    types: Sequence[NodeType], growth: Growth, origins: Sequence[Origin], during: Sequence[int]
) -> Iterator[tuple[Node, frozenset[Node]]]:
    """For every type at vertices of every origin what it may read of the same round."""
    same = _SameRound(growth, origins)
    for t in during:
        sources = [s for i in types[t].inputs for s in i.sources if isinstance(s, NodeSource)]
        for o, origin in enumerate(origins):
            if origin.clause.adds in types[t].kinds:
                read = [(p, at) for s in sources for at in same.reached(o, s.hops) for p, _ in s.producers]
                yield (t, o), frozenset(node for node in read if node[0] in during)


class _SameRound:
    """Where links lead among the vertices of one round."""

    def __init__(self, growth: Growth, origins: Sequence[Origin]) -> None:
        self._growth, self._origins = growth, origins
        self._number = {(origin.kind, origin.number): o for o, origin in enumerate(origins)}

    def reached(self, o: int, hops: Sequence[Hop]) -> Origins:
        """The origins of vertices of the same round to which hops may lead from one of origin o."""
        found = frozenset({o})
        for hop in hops:
            found = frozenset().union(*(self._hop(at, hop) for at in found))
        return found

    def _hop(self, o: int, hop: Hop) -> Origins:
        origin = self._origins[o]
        if hop.link in self._growth.closed:
            return self._members(origin, self._growth.reversed[hop.link])
        place = dict(origin.clause.links).get(hop.link)
        if place is None or place.added is None or not place.fresh:
            return frozenset()
        return self.reached(self._number[origin.kind, place.added], place.hops)

    def _members(self, of: Origin, link: str) -> Origins:
        """The origins of a list's members: of clauses that are told what its owner's has added."""
        return frozenset(
            o
            for o, other in enumerate(self._origins)
            if other.kind == of.kind
            and (place := dict(other.clause.links).get(link)) is not None
            and place.added == of.number >= 0
        )


def _cycle(feeds: Mapping[Node, frozenset[Node]]) -> Cycle:
    """The types of a circle among nodes each of which waits for another."""
    way = [min(feeds)]
    while way[-1] not in way[:-1]:
        way.append(min(node for node in feeds[way[-1]] if node in feeds))
    return Cycle(tuple(dict.fromkeys(t for t, _ in way[way.index(way[-1]) :])))
