"""Growth: vertices created while a model runs, by decisions on values just computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from abw.core.base.errors import Span
from abw.core.ir.schema import (
    Comparison,
    Derived,
    FieldSchema,
    Hops,
    Kinds,
    LinkSchema,
    Schema,
    reversed_link,
)

How = Literal["argmax", "sample", "best", "over", "chance"]


# What a place has for the clause number `added` where it begins at the member that a clause is done for.
MEMBER = -1


@dataclass(frozen=True, slots=True)
class Place:
    """A vertex: where `hops` lead from the deciding one, from what clause number `added` has added, or from
    the member of a list that the clause is done for (`MEMBER`).
    """

    hops: Hops
    added: int | None = None

    @property
    def fresh(self) -> bool:
        """Whether it begins at a vertex created by an earlier clause."""
        return self.added is not None and self.added != MEMBER


@dataclass(frozen=True, slots=True)
class Number:
    """`up.depth + 1`: a field or decision of the vertex at `place`, and `plus`; none where it has none."""

    place: Place
    field: str
    plus: int = 0


# What a clause gives to a link (a place) or a field.
Value = Place | Number | int


@dataclass(frozen=True, slots=True)
class Test:
    """`depth < 7`, or without a comparison: the vertex is there, the number is not 0.

    A number that is none passes no test, also no `!=`. `negated` turns the outcome round.
    """

    value: Place | Number
    comparison: Comparison | None = None
    against: int = 0
    negated: bool = False


PARENT, CLAUSE = "parent", "clause"
# Where a grown vertex comes from, for outputs that name it: a link to the vertex whose clause added it, and
# the number of that clause in its kind's `then`, from 0. A kind's own link or field of the name goes first.
ORIGIN = (PARENT, CLAUSE)

# All must hold.
Tests = tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What is chosen at every vertex of a kind, as a field of it; -1 where nothing was allowed.

    `argmax` and `sample` choose one of the numbers of output `output` of type `type` on the same vertex, the
    first of equals; where `allow` is there, among those whose tests hold. `over`: whether the output's one
    number is above `limit`. `chance`: 1 with the probability `limit`. `names` says what each number means.

    `best` is beam search: of all continuations of an instance's vertices of one round, and of those that have
    ended, the `width` of the largest log-probability are picked, that of the vertex and its number's, by the
    softmax of what is allowed. So many numbers may be picked at a vertex; when growth has ended, what the
    best hypothesis chose there is the field, -1 at vertices that it does not come by.
    """

    name: str
    how: How
    type: int
    output: int
    limit: float
    allow: tuple[Tests, ...] | None
    names: tuple[str, ...] | None
    span: Span
    width: int = 1


@dataclass(frozen=True, slots=True)
class Clause:
    """Adds a vertex of kind `adds` where `when` holds and `unless`, if not empty, does not.

    Not where a clause whose vertex it names (`needs`) added none. `links` and `fields` are what the new
    vertex has. Where its kind picks the `best`, it is done for each pick, whose number the decision is then;
    with `each`, for each vertex to which these hops lead, the last of them to several.
    """

    adds: str
    when: Tests
    unless: Tests
    needs: tuple[int, ...]
    links: tuple[tuple[str, Place], ...]
    fields: tuple[tuple[str, Number | int], ...]
    span: Span
    each: Hops = ()


@dataclass(frozen=True, slots=True)
class GrownLink:
    """A link of a grown kind: the kinds it leads to, and whether it may lead nowhere (`or none`)."""

    kinds: Kinds
    optional: bool


@dataclass(frozen=True, slots=True)
class GrowingKind:
    """A kind whose vertices are created, at most `most` in an instance; or `given` kinds that decide.

    `kinds` are its vertices' (itself, or the members of a group of the data). `fields`: by name the number
    of the table whose rows it holds, None for any number. `start`: what an instance begins with, told from
    the instance's own vertex. At every vertex, once it is computed, `decisions` are made, then `clauses`
    done, each in order. `origin`: which of `ORIGIN` its vertices have because an output asks for it.
    """

    name: str
    kinds: Kinds
    given: bool
    links: Mapping[str, GrownLink]
    fields: Mapping[str, int | None]
    most: int
    start: Clause | None
    decisions: tuple[Decision, ...]
    clauses: tuple[Clause, ...]
    span: Span
    origin: frozenset[str] = frozenset()

    @property
    def best(self) -> Decision | None:
        """The decision that picks several continuations, if there is one."""
        return next((decision for decision in self.decisions if decision.how == "best"), None)


@dataclass(frozen=True, slots=True)
class DecisionOutput:
    """A result that is a decision: its name, and which decision of which kinds."""

    name: str
    kinds: Kinds
    decision: Decision


@dataclass(frozen=True, slots=True)
class Growth:
    """How a model's instances grow. `given`: the schema of its data, of which the model's is an extension.

    `reversed`: by name the grown link that each list leads back along. `closed`: those lists to which nothing
    is added once the vertex that has them is there, for only clauses that also add it lead to it.
    """

    kinds: tuple[GrowingKind, ...]
    outputs: tuple[DecisionOutput, ...]
    given: Schema
    reversed: Mapping[str, str] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()

    @property
    def grown(self) -> Kinds:
        """The kinds that the data has no vertices of."""
        return frozenset(kind.name for kind in self.kinds if not kind.given)

    @property
    def decided(self) -> frozenset[str]:
        """The fields that decisions fill."""
        return frozenset(decision.name for kind in self.kinds for decision in kind.decisions)

    @property
    def beam(self) -> tuple[GrowingKind, Decision] | None:
        """The kind whose vertices are hypotheses, and the decision that compares them, if there is one."""
        return next(((kind, kind.best) for kind in self.kinds if kind.best), None)

    @property
    def scored(self) -> tuple[DecisionOutput, ...]:
        """The outputs that are decisions by scores, and not by chance."""
        return tuple(output for output in self.outputs if output.decision.how != "chance")

    @property
    def fields(self) -> frozenset[str]:
        """All that clauses and decisions fill."""
        return self.decided | {name for kind in self.kinds for name in kind.fields}

    def extended(self, schema: Schema) -> Schema:
        """The schema of data with what grows."""
        return extended(schema, self.kinds, self.reversed)


def extended(schema: Schema, kinds: Iterable[GrowingKind], reversals: Mapping[str, str]) -> Schema:
    """A schema with grown kinds behind its own, their links, fields and decisions, and reversed links."""
    kinds = tuple(kinds)
    names = tuple(kind.name for kind in kinds if not kind.given)
    links, fields = dict(schema.links), dict(schema.fields)
    for kind in kinds:
        own = frozenset({kind.name})
        for name, link in kind.links.items():
            before = links.get(name)
            if before is None:
                links[name] = LinkSchema(own, link.kinds, doc="grown", by_kind={kind.name: link.kinds})
                continue
            by_kind = {k: before.reached(frozenset({k})) for k in before.source} | {kind.name: link.kinds}
            links[name] = LinkSchema(
                before.source | own, before.target | link.kinds, False, before.doc, by_kind
            )
        for name, table in kind.fields.items():
            fields[name] = _with(fields.get(name), kind.kinds, table is not None)
        for decision in kind.decisions:
            fields[decision.name] = _with(fields.get(decision.name), kind.kinds, True)
        if not kind.given:
            links[kind.name] = LinkSchema(
                frozenset({"instance"}), own, True, f"all of kind {kind.name}, in order"
            )
    whole = frozenset(names)
    back, index = links["instance"], fields["index"]
    links["instance"] = replace(back, source=back.source | whole)
    fields["index"] = replace(index, kinds=index.kinds | whole)
    links |= {name: reversed_link(of, links[of]) for name, of in reversals.items()}
    derived = {**schema.derived, **{name: Derived("reverse", of) for name, of in reversals.items()}}
    return replace(schema, kinds=(*schema.kinds, *names), links=links, fields=fields, derived=derived)


def _with(before: FieldSchema | None, kinds: Kinds, rows: bool) -> FieldSchema:
    if before is None:
        return FieldSchema(kinds, doc="grown", rows=rows)
    return replace(before, kinds=before.kinds | kinds, rows=before.rows or rows)


def places_of(kind: GrowingKind) -> Iterator[Place]:
    """Every place that a kind's decisions and clauses name, in order; not those of its start."""
    for decision in kind.decisions:
        for tests in decision.allow or ():
            yield from (_place(test.value) for test in tests)
    for clause in kind.clauses:
        yield from clause_places(clause)


def clause_places(clause: Clause) -> Iterator[Place]:
    """Every place that a clause names."""
    for test in (*clause.when, *clause.unless):
        yield _place(test.value)
    for _, place in clause.links:
        yield place
    for _, value in clause.fields:
        if isinstance(value, Number):
            yield value.place


def _place(value: Place | Number) -> Place:
    return value.place if isinstance(value, Number) else value
