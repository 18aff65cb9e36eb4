"""Where grown vertices come from, for outputs that ask: a link and a field that no clause has to write."""

from __future__ import annotations

from dataclasses import replace

from abw.core.ir.growth import CLAUSE, ORIGIN, PARENT, Clause, GrowingKind, GrownLink, Place
from abw.core.ir.schema import Schema
from abw.core.spec.text.document import Mapping, Scalar, Sequence


def with_origin(
    kind: GrowingKind, grows: Mapping, given: Schema, grown: set[str], beside: frozenset[str]
) -> GrowingKind:
    """A grown kind with those of `ORIGIN` that outputs ask for, where the names are free."""
    taken = {*kind.links, *kind.fields, *(d.name for d in kind.decisions), *given.fields, *grown}
    taken |= {name for name, link in given.links.items() if link.many} | {*given.kinds, *given.groups}
    asked = frozenset() if kind.given else beside.intersection(ORIGIN) - taken
    links, numbers = dict(kind.links), dict(kind.fields)
    if PARENT in asked:
        links[PARENT] = GrownLink(_parents(kind.name, grows, given), True)
    if CLAUSE in asked:
        numbers[CLAUSE] = None
    return replace(kind, links=links, fields=numbers, origin=asked)


def _parents(name: str, grows: Mapping, given: Schema) -> frozenset[str]:
    """The kinds whose clauses add vertices of a kind; instances, which may begin with one."""
    found = {"instance"}
    for key, node in grows.items:
        then = node.get("then") if isinstance(node, Mapping) else None
        for clause in then.items if isinstance(then, Sequence) else ():
            adds = clause.get("add") if isinstance(clause, Mapping) else None
            if isinstance(adds, Scalar) and adds.text == name:
                found |= given.members(key.text) or {key.text}
    return frozenset(found)


def come(clause: Clause, to: GrowingKind, number: int) -> Clause:
    """A clause whose new vertices know where they come from, as far as outputs ask."""
    links = [(PARENT, Place(()))] if PARENT in to.origin else []
    numbers = [(CLAUSE, number)] if CLAUSE in to.origin else []
    return replace(clause, links=(*clause.links, *links), fields=(*clause.fields, *numbers))
