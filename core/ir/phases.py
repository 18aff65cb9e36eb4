"""What of a growing model is computed before its instances grow, during that, and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from abw.core.base.errors import Problem
from abw.core.ir.growth import Clause, Growth
from abw.core.ir.model import FieldSource, Input, NodeSource, NodeType, TableSource
from abw.core.ir.schema import Hop, Kinds, Schema

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


@dataclass(frozen=True, slots=True)
class Phases:
    """The numbers of the types of each phase.

    `during` are those that decisions need, which every round computes by the same `steps`.
    """

    before: tuple[int, ...]
    during: tuple[int, ...]
    after: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def ordered(self) -> bool:
        """Whether each type is one step: computed at all vertices of a round together."""
        return len(self.steps) == len(self.during)


def phases_of(
    types: Sequence[NodeType], schema: Schema, growth: Growth
) -> tuple[Phases, tuple[Problem, ...]]:
    """The phases of a model's types, and what makes them impossible. Cost: types times inputs."""
    return _Analysis(types, schema, growth).phases()


class _Analysis:
    """A model's types looked at once."""

    def __init__(self, types: Sequence[NodeType], schema: Schema, growth: Growth) -> None:
        self.types, self.schema, self.growth = types, schema, growth
        self.grown = growth.grown
        fresh = (
            (clause.adds, name)
            for kind in growth.kinds
            for clause in kind.clauses
            for name, place in clause.links
            if place.fresh
        )
        self.fresh = {name for _, name in fresh} | growth.closed
        self.problems: list[Problem] = []

    def phases(self) -> tuple[Phases, tuple[Problem, ...]]:
        before = self._before()
        needed = self._needed()
        during = [t for t in sorted(needed) if self.types[t].kinds <= self.grown]
        for t in sorted(needed):
            self._check(t, needed[t], before)
        for t, node_type in enumerate(self.types):
            if node_type.kinds & self.grown and not node_type.kinds <= self.grown:
                message = (
                    f"type '{node_type.name}' is per {node_type.per}: of kinds that are given and that grow"
                )
                self._note(message, t, "make it two types")
        early = {*before, *during}
        after = tuple(t for t in range(len(self.types)) if t not in early)
        steps = steps_of(self.types, self.growth, during)
        if isinstance(steps, Cycle):
            self._refuse(steps)
            steps = ()
        order = tuple(dict.fromkeys(t for t, _ in steps))
        return Phases(tuple(sorted(before)), order, after, steps), tuple(self.problems)

    def _refuse(self, cycle: Cycle) -> None:
        """Note types that wait for each other."""
        names = ", ".join(f"'{self.types[t].name}'" for t in cycle.types)
        lists = ", ".join(sorted(self.growth.closed))
        message = f"{names} wait for each other at vertices of one round, by lists of it ({lists})"
        if len(cycle.types) == 1:
            message = f"{names} waits for itself at vertices of one round, by lists of it ({lists})"
        self._note(message, cycle.types[0], "read what earlier vertices have, as in `below.T.o or zeros`")

    def _note(self, message: str, t: int, hint: str, wanted: Input | None = None) -> None:
        where = wanted.where if wanted else self.types[t].span
        self.problems.append(Problem(message, where, hint))

    def _before(self) -> set[int]:
        """Types of given kinds that read nothing which growth brings."""
        found = {
            t
            for t, node_type in enumerate(self.types)
            if not node_type.kinds & self.grown and not any(True for _ in self._brought(node_type))
        }
        while True:
            wrong = {t for t in found if not self._producers(t) <= found}
            if not wrong:
                return found
            found -= wrong

    def _brought(self, node_type: NodeType) -> Iterator[tuple[Input | None, str]]:
        """What a type reads that is known only behind some round: grown vertices as a list, decisions."""
        decided = self.growth.decided
        for condition in node_type.where:
            if condition.field in decided:
                yield None, condition.field
        for wanted in node_type.inputs:
            for source in wanted.sources:
                if isinstance(source, NodeSource | TableSource | FieldSource):
                    yield from ((wanted, name) for name in self._lists(node_type.kinds, source.hops))
                if isinstance(source, TableSource) and source.field in decided:
                    yield wanted, source.field

    def _lists(self, kinds: Kinds, hops: Sequence[Hop]) -> Iterator[str]:
        """Links on the way that lead to all the grown vertices of a kind."""
        for hop in hops:
            link = self.schema.links[hop.link]
            kinds = link.reached(kinds)
            if link.many and kinds & self.grown and hop.link not in self.growth.closed:
                yield hop.link

    def _producers(self, t: int) -> set[int]:
        inputs = self.types[t].inputs
        return {p for i in inputs for s in i.sources if isinstance(s, NodeSource) for p, _ in s.producers}

    def _needed(self) -> dict[int, str]:
        """The types that decisions need, each with what needs it in words."""
        needed: dict[int, str] = {}
        waiting: list[tuple[int, str]] = []
        for kind in self.growth.kinds:
            for decision in kind.decisions:
                waiting += [(decision.type, f"decision '{decision.name}'")] * (decision.type >= 0)
        while waiting:
            t, by = waiting.pop()
            if t not in needed:
                needed[t] = by
                waiting += [(p, by) for p in self._producers(t)]
        return needed

    def _check(self, t: int, by: str, before: set[int]) -> None:
        """Note what a type needed to decide reads and is not known by then."""
        node_type = self.types[t]
        name = f"type '{node_type.name}' is needed to decide ({by})"
        if not node_type.kinds <= self.grown:
            late = next(iter(self._brought(node_type)), None)
            if t not in before and not (late is None and node_type.kinds & self.grown):
                what = f"'{late[1]}'" if late else "what grows"
                hint = "only what the data determine can be computed before growth"
                self._note(f"{name}, and it reads {what}, known only after growth", t, hint)
            return
        for condition in node_type.where:
            if condition.field in self.growth.decided:
                hint = "where can name fields that a clause sets"
                self._note(f"{name}, and '{condition.field}' is decided only behind it", t, hint)
        for n, wanted in enumerate(node_type.inputs):
            self._check_input(t, name, wanted, n < node_type.listed)

    def _check_input(self, t: int, name: str, wanted: Input, listed: bool) -> None:
        for n, source in enumerate(wanted.sources):
            if not isinstance(source, NodeSource | TableSource | FieldSource):
                continue
            kinds = self.types[t].kinds
            for link in self._lists(kinds, source.hops):
                single = sorted(n for n in self.schema.links_of(kinds) if not self.schema.links[n].many)
                message = f"{name}, and it reads '{link}', known only after growth"
                self._note(message, t, f"read what is there already: {', '.join(single)}", wanted)
            lists = [h.link for h in source.hops if self.schema.links[h.link].many and h.index is None]
            if len(lists) > 1 and lists[0] in self.growth.closed:
                hint = "what has grown can be one list on the way, and the last"
                self._note(f"'{lists[0]}' and '{lists[1]}' both lead to several vertices", t, hint, wanted)
            for hop in source.hops:
                kinds, link_schema = self.schema.links[hop.link].reached(kinds), self.schema.links[hop.link]
                if link_schema.many and hop.index is None and not (listed and n == 0):
                    hint = f"name one of them: {hop.link}[0]"
                    self._note(f"'{hop.link}' leads to several vertices", t, hint, wanted)
            decided = source.field if isinstance(source, TableSource) else ""
            beam = self.growth.beam
            if beam is not None and decided == beam[1].name:
                message = f"{name}, and '{decided}' is one number only when growth has ended"
                self._note(message, t, "read a field that a clause fills", wanted)
            elif decided in self.growth.decided and self._same_round(source.hops):
                message = f"{name}, and '{decided}' is decided only when it is computed"
                self._note(message, t, "read the decision of an earlier vertex", wanted)

    def _same_round(self, hops: Sequence[Hop]) -> bool:
        """Whether hops may lead to a vertex that came to be with the one they begin at."""
        return all(hop.link in self.fresh for hop in hops)
