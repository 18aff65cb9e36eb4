"""A second, slow grower: one instance, a vertex and a node at a time, in plain Python and double precision.

It shares nothing with `abw.core.run.growing.grow` but the model as data and what a cell computes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import run_cell
from abw.core.data.derive import field as field_of
from abw.core.data.derive import link as link_of
from abw.core.data.instances import Instances
from abw.core.data.intern import word_rows
from abw.core.exec.params import Params
from abw.core.ir.growth import MEMBER, Clause, Decision, GrowingKind, Number, Place
from abw.core.ir.growth import Test as Condition
from abw.core.ir.model import (
    Attention,
    FieldSource,
    Input,
    Model,
    NodeSource,
    ParamSource,
    TableSource,
    ZeroSource,
)
from abw.core.ir.schema import Hop

Array = NDArray[np.float64]
SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(eq=False)
class Vertex:
    """A vertex: its kind, its number among that, links (a list where there are several), fields, nodes."""

    kind: str
    index: int
    links: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    values: dict[int, list[Array]] = field(default_factory=dict)
    born: int = -1
    pick: Pick | None = None


@dataclass(eq=False)
class Pick:
    """What `best` picked: at a vertex a number, -1 where nothing is allowed, and the shares on its way."""

    vertex: Vertex
    number: int
    shares: tuple[float, ...]
    ended: bool = True

    @property
    def total(self) -> float:
        """Their sum, rounded once: the same in whatever order they were chosen."""
        return math.fsum(self.shares)


class Oracle:
    """One instance of some given ones, grown."""

    def __init__(self, model: Model, instances: Instances, number: int, params: Params) -> None:
        assert model.growth is not None
        self.model, self.growth = model, model.growth
        self.params = [np.asarray(v, np.float64) for v in params.values]
        self.tables = [np.asarray(t, np.float64) for t in params.tables]
        self.instances = instances
        self.file_number = int(instances.numbers[number])
        self.vertices = self._given(number)
        self.given = len(self.vertices)
        self.cut: dict[str, int] = {}  # by kind the round in which it was first
        self.rounds = 0
        self.kept: list[Pick] = []

    def _given(self, number: int) -> list[Vertex]:
        instances = self.instances
        begin, end = instances.start[number : number + 2].tolist()
        names = instances.schema.kinds
        kinds = [names[k] for k in instances.kind[begin:end].tolist()]
        made = [Vertex(kind, kinds[:i].count(kind)) for i, kind in enumerate(kinds)]
        for name in instances.schema.links:
            way = link_of(instances, name)
            for i, vertex in enumerate(made):
                if way.indptr is None:
                    to = int(way.target[begin + i])
                    vertex.links[name] = made[to - begin] if to >= 0 else None
                else:
                    low, high = way.indptr[begin + i : begin + i + 2].tolist()
                    vertex.links[name] = [made[to - begin] for to in way.target[low:high].tolist()]
        for name, described in instances.schema.fields.items():
            values = field_of(instances, name, self.model.data.seed)
            for i, vertex in enumerate(made):
                if described.text:
                    vertex.words[name] = int(values[begin + i])
                else:
                    vertex.fields[name] = int(values[begin + i])
        return made

    def grow(self) -> list[Vertex]:
        """All vertices in the order in which they came to be."""
        now = [v for v in self.vertices if any(k.given and v.kind in k.kinds for k in self.growth.kinds)]
        for kind in self.growth.kinds:
            if kind.start is not None:
                now += self._add(kind.start, self.vertices[0], {})
        while now:
            self.rounds += 1
            for kind in self.growth.kinds:
                for decision in kind.decisions:
                    if decision.how == "best":
                        self._pick(decision, [v for v in now if v.kind in kind.kinds])
                        continue
                    chosen = [(v, self._decide(decision, v)) for v in now if v.kind in kind.kinds]
                    for vertex, value in chosen:
                        vertex.fields[decision.name] = value
            before = len(self.vertices)
            for kind in self.growth.kinds:
                own = [v for v in now if v.kind in kind.kinds]
                if kind.best:
                    self._clauses(kind, [(p.vertex, p) for p in self.kept if p.ended and p.vertex in own])
                else:
                    self._clauses(kind, [(v, v.pick) for v in own])
            now = self.vertices[before:]
        self._close()
        return self.vertices

    def _pick(self, decision: Decision, vertices: list[Vertex]) -> None:
        """Keep the best of what has ended and of all continuations; none where one that has ended leads."""
        candidates = [pick for pick in self.kept if pick.ended]
        for vertex in vertices:
            vertex.fields[decision.name] = -1
            before = vertex.pick.shares if vertex.pick else ()
            scores = self.value(decision.type, vertex)[decision.output].tolist()
            choices = self._allowed(decision, vertex, len(scores))
            if not choices:
                candidates.append(Pick(vertex, -1, before))
                continue
            top = max(scores[i] for i in choices)
            whole = math.log(sum(math.exp(scores[i] - top) for i in choices))
            best = sorted(choices, key=lambda i: (-scores[i], i))[: decision.width]
            candidates += [Pick(vertex, i, (*before, scores[i] - top - whole)) for i in best]
        if vertices:
            ranked = sorted(candidates, key=lambda pick: -pick.total)[: decision.width]
            self.kept = ranked[:1] if ranked[0] in self.kept else ranked

    def _close(self) -> None:
        beam = self.growth.beam
        ended = [pick for pick in self.kept if pick.ended]
        if beam is None or not ended:
            return
        pick: Pick | None = max(ended, key=lambda pick: pick.total)
        while pick is not None:
            pick.vertex.fields[beam[1].name] = pick.number
            pick = pick.vertex.pick

    def _clauses(self, kind: GrowingKind, rows: list[tuple[Vertex, Pick | None]]) -> None:
        """Do the clauses at vertices, each by itself or for a pick."""
        added: list[dict[int, Vertex]] = [{} for _ in rows]
        best = kind.best.name if kind.best else ""
        numbers = [vertex.fields | ({best: pick.number} if best and pick else {}) for vertex, pick in rows]
        for number, clause in enumerate(kind.clauses):
            for (vertex, pick), here, fields in zip(rows, added, numbers, strict=True):
                if any(fields[d.name] < 0 for d in kind.decisions):
                    continue
                held, vertex.fields = vertex.fields, fields
                self._clause(kind, number, clause, vertex, pick, here)
                vertex.fields = held

    def _clause(
        self,
        kind: GrowingKind,
        number: int,
        clause: Clause,
        vertex: Vertex,
        pick: Pick | None,
        here: dict[int, Vertex],
    ) -> None:
        for member in self._members(clause.each, vertex) if clause.each else [None]:
            known = here if member is None else here | {MEMBER: member}
            if not all(self._test(test, vertex, known) for test in clause.when):
                continue
            if clause.unless and all(self._test(test, vertex, known) for test in clause.unless):
                continue
            if all(needed in here for needed in clause.needs):
                for new in self._add(clause, vertex, known):
                    if member is None:
                        here[number] = new
                    new.pick = pick
                    if pick and kind.best and new.kind == kind.name:
                        pick.ended = False

    def _members(self, hops: Sequence[Hop], vertex: Vertex) -> list[Vertex]:
        """Where a list's hops lead, the last of them to several."""
        at = self._follow(vertex, hops[:-1])
        return list(at.links.get(hops[-1].link) or []) if at else []

    def _add(self, clause: Clause, vertex: Vertex, added: dict[int, Vertex]) -> list[Vertex]:
        count = sum(v.kind == clause.adds for v in self.vertices)
        most = next(k.most for k in self.growth.kinds if k.name == clause.adds)
        if count >= most:
            self.cut.setdefault(clause.adds, self.rounds)
            return []
        new = Vertex(clause.adds, count, born=self.rounds)
        new.links["instance"] = self.vertices[0]
        for name, place in clause.links:
            new.links[name] = self._place(place, vertex, added)
        for name, value in clause.fields:
            new.fields[name] = self._number(value, vertex, added) if isinstance(value, Number) else value
        self.vertices.append(new)
        for name, of in self.growth.reversed.items():
            if (owner := new.links.get(of)) is not None:
                owner.links.setdefault(name, []).append(new)
        return [new]

    def _place(self, place: Place, vertex: Vertex, added: dict[int, Vertex]) -> Vertex | None:
        start = vertex if place.added is None else added.get(place.added)
        return self._follow(start, place.hops)

    def _follow(self, at: Vertex | None, hops: Sequence[Hop]) -> Vertex | None:
        for hop in hops:
            if at is None:
                return None
            to = at.links.get(hop.link)
            if isinstance(to, list):
                index = hop.index or 0
                to = to[index] if -len(to) <= index < len(to) else None
            elif to is None and hop.link in self.model.schema.kinds:
                members = [v for v in self.vertices if v.kind == hop.link]
                index = hop.index or 0
                to = members[index] if -len(members) <= index < len(members) else None
            at = to
        return at

    def _number(self, value: Number, vertex: Vertex, added: dict[int, Vertex]) -> int:
        at = self._place(value.place, vertex, added)
        if at is None:
            return -1
        found = at.index if value.field == "index" else at.fields.get(value.field, -1)
        return -1 if found < 0 else max(-1, found + value.plus)

    def _test(self, test: Condition, vertex: Vertex, added: dict[int, Vertex]) -> bool:
        if isinstance(test.value, Place):
            outcome = self._place(test.value, vertex, added) is not None
        else:
            number = self._number(test.value, vertex, added)
            if test.comparison is None:
                outcome = number > 0
            else:
                outcome = number >= 0 and SIGNS[test.comparison](number, test.against)
        return outcome != test.negated

    def _decide(self, decision: Decision, vertex: Vertex) -> int:
        if decision.how == "chance":
            return int(self._drawn(decision, vertex) < decision.limit)
        scores = self.value(decision.type, vertex)[decision.output].tolist()
        if decision.how == "over":
            return int(scores[0] > decision.limit)
        choices = self._allowed(decision, vertex, len(scores))
        if not choices:
            return -1
        if decision.how == "argmax":
            return max(choices, key=lambda i: (scores[i], -i))
        top = max(scores[i] for i in choices)
        parts = {i: math.exp(scores[i] - top) for i in choices}
        drawn, total, so_far = self._drawn(decision, vertex), sum(parts.values()), 0.0
        for i in choices:
            so_far += parts[i]
            if so_far / total > drawn:
                return i
        return choices[-1]

    def _allowed(self, decision: Decision, vertex: Vertex, count: int) -> list[int]:
        if decision.allow is None:
            return list(range(count))
        return [i for i in range(count) if all(self._test(t, vertex, {}) for t in decision.allow[i])]

    def _drawn(self, decision: Decision, vertex: Vertex) -> float:
        """splitmix64, with Python's integers."""
        word = 2**64 - 1
        golden = 0x9E3779B97F4A7C15
        salt = self.model.data.seed * golden
        for letter in decision.name.encode():
            salt = (salt ^ letter) * 0x100000001B3
        x = self.file_number << 32 | vertex.index
        x ^= self.kind_number(vertex) << 24
        for constant in (salt & word, golden):
            x = (x + constant) & word
            x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & word
            x = (x ^ x >> 27) * 0x94D049BB133111EB & word
            x ^= x >> 31
        return (x >> 11) / 2**53

    def kind_number(self, vertex: Vertex) -> int:
        """The number of a vertex's kind in the finished instances."""
        return self.model.schema.kinds.index(vertex.kind)

    def has(self, t: int, vertex: Vertex) -> bool:
        """Whether a vertex has a node of a type."""
        node_type = self.model.types[t]
        return vertex.kind in node_type.kinds and all(
            value >= 0 and SIGNS[c.comparison](value, c.value)
            for c in node_type.where
            for value in [vertex.index if c.field == "index" else vertex.fields.get(c.field, -1)]
        )

    def value(self, t: int, vertex: Vertex) -> list[Array]:
        """The outputs of a type's node; what it reads is computed first."""
        if t not in vertex.values:
            node_type = self.model.types[t]
            if node_type.cell is not None:
                inputs = [self._input(i, vertex) for i in node_type.inputs]
                params = [self.params[p] for p in node_type.params]
                vertex.values[t] = run_cell(node_type.cell, inputs, params)
            else:
                vertex.values[t] = [self._reduced(t, o, vertex) for o in range(len(node_type.outputs))]
        return vertex.values[t]

    def _reduced(self, t: int, output: int, vertex: Vertex) -> Array:
        node_type = self.model.types[t]
        how, wanted = node_type.reduction, node_type.inputs[output]
        found = self._listed(wanted, vertex)
        if not found:
            return self._input(replace(wanted, sources=wanted.sources[1:] or (ZeroSource(),)), vertex)
        if not isinstance(how, Attention):
            return np.asarray(getattr(np, str(how))(np.stack(found, axis=-1), axis=-1))
        if len(found) == 1:  # exactly, or what is the same scores otherwise
            return found[0]
        assert how.scaled and not how.added
        keys, query = self._listed(node_type.inputs[1], vertex), self._input(node_type.inputs[2], vertex)
        parts = []
        for head in range(how.heads):
            own = slice(len(query) // how.heads * head, len(query) // how.heads * (head + 1))
            part = slice(len(found[0]) // how.heads * head, len(found[0]) // how.heads * (head + 1))
            root = math.sqrt(len(query[own]))
            scores = [math.exp(float(key[own] @ query[own]) / root) for key in keys]
            values = [score * value[part] for score, value in zip(scores, found, strict=True)]
            parts.append(np.sum(values, axis=0) / sum(scores))
        return np.concatenate(parts)

    def _listed(self, wanted: Input, vertex: Vertex) -> list[Array]:
        """The values that a list has, from all vertices to which its link leads."""
        source = wanted.sources[0]
        assert isinstance(source, NodeSource)
        at: list[Vertex] = [vertex]
        for hop in source.hops:
            more: list[Vertex] = []
            for v in at:
                if hop.link in self.growth.grown:
                    more += [u for u in self.vertices if u.kind == hop.link]
                elif hop.index is None and isinstance(v.links.get(hop.link), list):
                    more += v.links[hop.link]
                elif (to := self._follow(v, (hop,))) is not None:
                    more.append(to)
            at = more
        return [self.value(t, v)[o] for v in at for t, o in source.producers if self.has(t, v)]

    def _input(self, wanted: Input, vertex: Vertex) -> Array:
        for source in wanted.sources:
            if isinstance(source, ZeroSource):
                return np.zeros(wanted.shape)
            if isinstance(source, ParamSource):
                return self.params[source.number]
            at = self._follow(vertex, source.hops)
            if at is None:
                continue
            assert not isinstance(source, FieldSource), "test_fields.py"
            if isinstance(source, TableSource):
                row = self._row(source, at)
                if row >= 0:
                    found: Array = self.tables[source.table][row]
                    return found
                continue
            for t, output in source.producers:
                if self.has(t, at):
                    return self.value(t, at)[output]
        raise AssertionError(f"nothing feeds {wanted.name}")

    def _row(self, source: TableSource, at: Vertex) -> int:
        table = self.model.tables[source.table]
        if self.model.schema.fields[source.field].text:
            number = at.words.get(source.field, -1)
            return int(word_rows(self.instances, source.field, table)[number]) if number >= 0 else -1
        number = at.index if source.field == "index" else at.fields.get(source.field, -1)
        return number % table.rows if number >= 0 else -1
