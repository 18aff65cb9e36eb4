"""The section `grow` of a model: kinds of vertices created while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Names
from dataclasses import dataclass, field, replace

from abw.core.base.errors import Span
from abw.core.ir.growth import (
    CLAUSE,
    ORIGIN,
    PARENT,
    Clause,
    Decision,
    GrowingKind,
    GrownLink,
    Growth,
    Place,
    clause_places,
    extended,
)
from abw.core.ir.model import FieldSource, NodeSource, TableSource
from abw.core.ir.schema import Hops, Kinds, Schema
from abw.core.spec.keys.model import CLAUSE as CLAUSE_KEYS
from abw.core.spec.keys.model import GROWING
from abw.core.spec.models.derived import reversals
from abw.core.spec.models.drafts import kinds_text
from abw.core.spec.models.growing.clauses import parse_each
from abw.core.spec.models.growing.decisions import decisions_of
from abw.core.spec.models.growing.never import never
from abw.core.spec.models.growing.places import THIS, Scope, Scopes, clause_of
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.tables import Tables
from abw.core.spec.models.wiring import Wires
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, Sequence, at, pairs, text_at
from abw.core.spec.text.report import note, report, suggest
from abw.core.spec.text.sizes import ExpressionError, noting

# What no link, field or decision of a growing kind can be called.
TAKEN = frozenset({"instance", "this", "none", "zeros", "number", "and", "or", "not", "index", "coin"})
# So many vertices of a kind an instance may have at most.
MOST = 1 << 20
# A kind of the data has its links and fields from there.
_GROWN = ("links", "fields", "start", "most")
_GIVEN = GROWING.without(*_GROWN)


@dataclass(slots=True)
class Sketch:
    """The kinds that grow with their links, fields and the names of their decisions; no more is known yet."""

    kinds: list[GrowingKind]
    written: list[tuple[Scalar, Mapping]]
    given: Schema
    schema: Schema
    used: set[str] = field(default_factory=set)
    """The tables whose rows a field holds."""
    reversed: Names[str, str] = field(default_factory=dict)
    """The links of the model that are the reverse of one that grows, by name."""


def sketch(
    node: Mapping, given: Schema, own_links: Mapping | None, tables: Tables, beside: frozenset[str]
) -> Sketch:
    """What the section says of kinds, links and fields; the schema with them, and with their reverse.

    `own_links` is the model's section `links`; `beside`: the fields that outputs ask for.
    """
    found = Sketch([], [], given, given)
    grown = {key.text for key, _ in node.items if not given.members(key.text)}
    if not node.items:
        note("nothing grows", node.where, "grow: {step: {links: …, most: 60, start: {}, then: […]}}")
    for key, value in fields.named(node, "grow", "a kind"):
        what = f"'{key.text}'"
        written = fields.mapping(value, what)
        if written is None:
            continue
        if key.text in grown and (key.text in given.links or key.text in given.fields or key.text in TAKEN):
            message = f"{what} is a name of the data already"
            report().refuse(key.text, message, key.where, "use another name")
            report().hide(_names_in(written), key.where)
            continue
        if key.text not in grown and sum(written.get(name) is not None for name in _GROWN) > 1:
            hint = "use another name; a kind of the data has links and fields from there"
            report().refuse(key.text, f"{what} is a kind of the data already", key.where, hint)
            report().hide(_names_in(written), key.where)
            continue
        kind, written = _sketch_kind(key, written, found, grown, tables)
        found.kinds.append(with_origin(kind, node, given, grown, beside))
        found.written.append((key, written))
    schema = extended(given, found.kinds, {})
    named = reversals(own_links, schema, given, TAKEN)
    there = {name for kind in found.kinds for name in kind.links}
    found.reversed = {name: of for name, of in named.items() if of in there}
    found.schema = extended(given, found.kinds, found.reversed)
    return found


def _sketch_kind(
    key: Scalar, node: Mapping, found: Sketch, grown: set[str], tables: Tables
) -> tuple[GrowingKind, Mapping]:
    """A kind, and its section with misspelt keys put right."""
    given = key.text not in grown
    of, what = f" of {key.text}", f"'{key.text}'{', a kind of the data,' if given else ''}"
    kinds = found.given.members(key.text) if given else frozenset({key.text})
    entries = (_GIVEN if given else GROWING).entries(node, what, key.where, of=of)
    written = entries.node or node
    most = None if given else entries.integer("most")
    if not given and written.get("most") is None:
        hint = f"{key.text} grows: it needs a maximum in an instance"
        note(f"{key.text} has no 'most'", key.where, hint)
    if (limit := written.get("most")) and most and most > MOST:
        note(f"most of {key.text} must be at most {MOST:,}", limit.where)
    links: dict[str, GrownLink] = {}
    numbers: dict[str, int | None] = {}
    choices: list[Decision] = []
    for name, value in () if given else entries.items("links"):
        if not _free(name, found.given, grown, {*links}) or _many(name, found.given):
            continue
        if link := _link(name, value, found.given, grown):
            links[name.text] = link
    for name, value in () if given else entries.items("fields"):
        if _free(name, found.given, grown, {*links, *numbers}):
            table = fields.text(value, f"field '{name.text}'")
            if table and table.text not in ("number", *tables):
                hint = suggest(table.text, ("number", *tables))
                note(f"'{table.text}' is neither 'number' nor a table", table.where, hint)
            elif table:
                found.used.add(table.text)
                numbers[name.text] = None if table.text == "number" else tables[table.text][0]
    for name, _ in entries.items("choose"):
        if _free(name, found.given, grown, {*links, *numbers}):
            if name.text in found.given.fields:
                message = f"'{name.text}' is a field of the data"
                report().refuse(name.text, message, name.where, "use another name")
            else:
                choices.append(Decision(name.text, "chance", -1, -1, 0.0, None, None, name.where))
    made = tuple(choices)
    kind = GrowingKind(key.text, kinds, given, links, numbers, most or 1, None, made, (), key.where)
    return kind, written


def _free(name: Scalar, given: Schema, grown: set[str], own: set[str]) -> bool:
    """Whether a link, field or decision may have this name."""
    if not fields.name(name, "a link or field"):
        return False
    text, hint = name.text, "use another name"
    if text in given.kinds or text in given.groups or text in grown:
        message, hint = f"'{text}' is a kind of vertices", "use another name for the link or field"
    elif text in TAKEN:
        message = f"'{text}' is a word of the language"
    elif text in given.fields and (given.fields[text].text or given.fields[text].size):
        message = f"'{text}' is a field of {'words' if given.fields[text].text else 'floats'} in the data"
    elif text in own:
        note(f"'{text}' is there twice", name.where, "a link, a field and a decision have own names")
        return False
    else:
        return True
    report().refuse(text, message, name.where, hint)
    return False


def _many(name: Scalar, given: Schema) -> bool:
    if name.text in given.fields:
        message, hint = f"'{name.text}' is a field of the data", "use another name for the link"
    elif name.text in given.links and given.links[name.text].many:
        message, hint = f"link '{name.text}' of the data leads to several vertices", "use another name"
    else:
        return False
    report().refuse(name.text, message, name.where, hint)
    return True


def _names_in(kind: Mapping) -> set[str]:
    """The links, fields and decisions that a kind introduces, and what its clauses add."""
    names = {key.text for section in ("links", "fields", "choose") for key, _ in pairs(kind, section)}
    return names | {text_at(clause, "as") for clause in _listed(kind)}


def _listed(kind: Node) -> tuple[Node, ...]:
    """The clauses of a kind, whatever is written for them."""
    then = at(kind, "then")
    return then.items if isinstance(then, Sequence) else ()


def _link(name: Scalar, value: Node, given: Schema, grown: set[str]) -> GrownLink | None:
    """`entry or none`."""
    text = fields.text(value, f"link '{name.text}'")
    if text is None:
        return None
    words = text.text.split()
    if len(words) != 1 and words[1:] != ["or", "none"]:
        known = [word for word in words if word in grown or given.members(word)]
        kind = known[0] if known else words[0]
        hint = f"{name.text}: {kind}, or {name.text}: {kind} or none"
        note(f"'{text.text}' is no kind of vertices", text.where, hint)
        return None
    kinds = frozenset({words[0]}) if words[0] in grown else given.members(words[0])
    if not kinds:
        hint = suggest(words[0], (*given.kinds, *given.groups, *grown))
        note(f"unknown kind '{words[0]}'", text.where, hint)
        return None
    return GrownLink(kinds, len(words) > 1)


def grow(found: Sketch, resolver: Resolver) -> Growth:
    """What is chosen and added, now that the types are known."""
    clauses = [
        _written_clauses(kind, node) for kind, (_, node) in zip(found.kinds, found.written, strict=True)
    ]
    closed = _closed(found, clauses)
    kinds = {kind.name: kind for kind in found.kinds}
    scopes = Scopes(found.schema, kinds, resolver.tables, closed, resolver.drafts)
    for kind, (_, node), then in zip(found.kinds, found.written, clauses, strict=True):
        scopes.kinds[kind.name] = replace(kind, decisions=decisions_of(kind, node, then, scopes))
    beams = [d for kind in scopes.kinds.values() for d in kind.decisions if d.how == "best"]
    for second in beams[1:]:
        message = f"'{beams[0].name}' and '{second.name}' both pick the best"
        note(message, second.span, "the hypotheses of one kind are compared: a model has one beam")
    for (key, node), then in zip(found.written, clauses, strict=True):
        kind = scopes.kinds[key.text]
        start = None
        written = None if kind.given else fields.mapping(node.get("start"), f"start of {kind.name}")
        if written is not None:
            start = come(clause_of(Scope(frozenset({"instance"})), kind, written, key, scopes), kind, -1)
        added: dict[str, tuple[int, str]] = {}
        made = [_clause(kind, number, clause, added, scopes) for number, clause in enumerate(then)]
        whole = tuple(clause for clause in made if clause is not None)
        for number, clause in enumerate(() if len(report()) else made):
            if reason := never(number, whole):
                message = f"this clause of {kind.name} never adds anything: {reason}"
                note(message, clause.span if clause else key.where, "change its conditions, or leave it out")
        scopes.kinds[key.text] = replace(kind, start=start, clauses=whole)
    made_kinds = tuple(scopes.kinds.values())
    if made_kinds and not any(k.start or k.given for k in made_kinds) and not len(report()):
        hint = "start: {} in a kind: every instance begins with one of them"
        note("nothing grows: no kind has a start", made_kinds[0].span, hint)
    return Growth(made_kinds, (), found.given, found.reversed, closed)


def _closed(found: Sketch, clauses: list[list[Mapping]]) -> frozenset[str]:
    """The reversed links to which nothing is added once a vertex is there (see `Growth`)."""
    still = set(found.reversed.values())
    for _, node in found.written:
        still -= {key.text for key, _ in pairs(node, "start")}
    for then in clauses:
        fresh: set[str] = set()
        for clause in then:
            for key, value in clause.items:
                if text_at(value).strip() not in fresh:
                    still.discard(key.text)
            fresh |= {text_at(clause, "as")} - {""}
    return frozenset(name for name, of in found.reversed.items() if of in still)


def _written_clauses(kind: GrowingKind, node: Mapping) -> list[Mapping]:
    then = node.get("then")
    if then is not None and not isinstance(then, Sequence):
        note(f"then of {kind.name} must be a list of clauses", then.where, "then: [{add: …}]")
    found = [fields.mapping(item, f"a clause of {kind.name}") for item in _listed(node)]
    return [clause for clause in found if clause is not None]


def _clause(
    kind: GrowingKind, number: int, node: Mapping, added: dict[str, tuple[int, str]], scopes: Scopes
) -> Clause | None:
    adds = fields.text(node.get("add"), "add")
    if adds is None:
        if node.get("add") is None:
            note(f"a clause of {kind.name} adds nothing", node.where, "{add: KIND, …}")
        return None
    to = scopes.kinds.get(adds.text)
    if to is None or to.given:
        names = [k.name for k in scopes.kinds.values() if not k.given]
        given = scopes.schema.members(adds.text)
        what = f"'{adds.text}' is of the data: it does not grow" if given else f"unknown kind '{adds.text}'"
        note(what, adds.where, suggest(adds.text, names))
        if isinstance(name := node.get("as"), Scalar) and name.text != adds.text:
            report().hide([name.text], name.where)
        return None
    done = _each(kind, node, adds, added, scopes)
    if done is None:
        return None
    each, member, hops = done
    scope = Scope(kind.kinds, dict(added), each=each, member=member)
    when = scopes.tests(scope, c) if (c := fields.text(node.get("when"), "when")) else ()
    unless = scopes.tests(scope, c) if (c := fields.text(node.get("unless"), "unless")) else ()
    values = Mapping(tuple((k, v) for k, v in node.items if k.text not in CLAUSE_KEYS.keys), node.where)
    made = come(clause_of(scope, to, values, adds, scopes), to, number)
    clause = replace(made, when=when, unless=unless)
    if name := fields.text(node.get("as"), "as"):
        if member:
            message = f"'as' names one vertex, and this clause adds one for each {member[0]}"
            note(message, name.where, "leave it out, or leave out each")
        elif fields.name(name, "what is added"):
            _note_taken(kind, name.text, name.where, added, scopes)
            added[name.text] = (number, to.name)
    needs = {place.added for place in clause_places(clause) if place.added is not None and place.fresh}
    return replace(clause, needs=tuple(sorted(needs)), each=hops)


def _note_taken(kind: GrowingKind, name: str, where: Span, added: Iterable[str], scopes: Scopes) -> None:
    """Note a name for a vertex that means something at vertices of a kind already."""
    schema = scopes.schema
    if name in {THIS, *added, *schema.links_of(kind.kinds), *schema.fields_of(kind.kinds)}:
        note(f"'{name}' has a meaning here already", where, "use another name")


def _each(
    kind: GrowingKind, node: Mapping, adds: Scalar, added: Iterable[str], scopes: Scopes
) -> tuple[str, tuple[str, Kinds] | None, Hops] | None:
    """What a clause is done for: the decision for each of whose picks, '' for none; or the name and kinds of
    a list's members, and the list. None where it is written wrongly.
    """
    written = fields.text(node.get("each"), "each") if node.get("each") else None
    if written is None or " in " not in written.text or kind.best:
        return _each_pick(kind, node, adds, scopes), None, ()
    with noting(written):
        name, path = parse_each(written.text)
        _note_taken(kind, name.text, written.at(name.at, len(name.text)), added, scopes)
        found = scopes.path(Scope(kind.kinds), path, several=True)
        hops = found.place.hops if found.field is None else ()
        if not hops or hops[-1].index is not None or not scopes.schema.links[hops[-1].link].many:
            message = f"'{written.text[path.at : path.end]}' is one at most, and 'each' wants a list"
            raise ExpressionError(message, path.at, path.end - path.at, "name it without each")
        return "", (name.text, found.kinds), hops
    return None


def _each_pick(kind: GrowingKind, node: Mapping, adds: Scalar, scopes: Scopes) -> str:
    """The decision for each of whose picks a clause is done; '' for none."""
    best = kind.best
    if node.get("each") is None:
        if best is not None:
            message = f"'{best.name}' picks several, and this clause has no `each:`"
            note(message, adds.where, f"each: {best.name}")
        return best.name if best else ""
    each = fields.text(node.get("each"), "each")
    if each is None or (kind.name, each.text) in scopes.mistaken:
        return each.text if each else ""
    if best is None:
        hint = "each: NAME in LINK, for all to which a link leads; or choose: {next: best 4 of TYPE.OUTPUT}"
        note(f"'each' goes with 'best', and {kind.name} picks none", each.where, hint)
    elif each.text != best.name:
        message = f"{kind.name} has no picks '{each.text}'"
        note(message, each.where, f"each: {best.name}")
    return each.text


def optional_inputs(wires: Wires, found: Sketch, resolver: Resolver) -> None:
    """Note inputs that have one source alone, behind a grown link that may lead nowhere."""
    kinds = {kind.name: kind for kind in found.kinds if not kind.given}
    for (number, name), (text, sources) in wires.items():
        draft, source = resolver.drafts[number], sources[0].source
        if (
            len(sources) > 1
            or draft.where
            or draft.reduction
            or not isinstance(source, NodeSource | TableSource | FieldSource)
        ):
            continue
        here = draft.kinds
        for hop in source.hops:
            links = [
                kinds[k].links[hop.link] for k in sorted(here) if k in kinds and hop.link in kinds[k].links
            ]
            if any(link.optional for link in links):
                to = kinds_text(frozenset().union(*(link.kinds for link in links)))
                message = f"input '{name}' of {draft.name}: '{hop.link}' may be absent ({to} or none)"
                hint = f"say what stands there then: {sources[0].text} or zeros"
                note(message, text.at(sources[0].at, len(sources[0].text)), hint)
                break
            here = found.schema.links[hop.link].reached(here)


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


def _parents(name: str, grows: Mapping, given: Schema) -> Kinds:
    """The kinds whose clauses add vertices of a kind; instances, which may begin with one."""
    found = {"instance"}
    for key, node in grows.items:
        if any(text_at(clause, "add") == name for clause in _listed(node)):
            found |= given.members(key.text) or {key.text}
    return frozenset(found)


def come(clause: Clause, to: GrowingKind, number: int) -> Clause:
    """A clause whose new vertices know where they come from, as far as outputs ask."""
    links = [(PARENT, Place(()))] if PARENT in to.origin else []
    numbers = [(CLAUSE, number)] if CLAUSE in to.origin else []
    return replace(clause, links=(*clause.links, *links), fields=(*clause.fields, *numbers))
