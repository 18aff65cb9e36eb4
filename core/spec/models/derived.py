"""The section `links` of a model: links that the data do not have, made of what they have."""

from __future__ import annotations

from dataclasses import replace

from abw.core.base.errors import did_you_mean
from abw.core.ir.schema import DERIVED, Derived, LinkSchema, Schema, reversed_link
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, pairs
from abw.core.spec.text.report import note, report, suggest

_FORMS = "one of: {reverse: LINK}, {previous: KIND}, {next: KIND}, {all: KIND}"


def with_derived(schema: Schema, node: Mapping | None, grows: Mapping | None) -> Schema | None:
    """The schema of the data with the links that a model declares, each made of those before it.

    `grows` is the model's section `grow`: the reverse of its links is left to `reversals`, and nothing else
    can be made of it. None, the problems noted, where one is declared wrongly: what follows it
    cannot be known.
    """
    before = len(report())
    later = {key.text for key, _ in pairs(node)}
    links = {name.text for _, kind in pairs(grows) for name, _ in pairs(kind, "links")}
    grown = {*links, *(key.text for key, _ in pairs(grows))}
    for key, value in pairs(node):
        later.discard(key.text)
        if not fields.name(key, "a link"):
            continue
        if key.text in schema.links:
            hint = "use another name: 'instance' and names of kinds are links, too"
            note(f"the data have a link '{key.text}'", key.where, hint)
        elif found := _derived(key, value, schema, later, grown, links):
            made, link = found
            derived = {**schema.derived, key.text: made}
            schema = replace(schema, links={**schema.links, key.text: link}, derived=derived)
    return schema if len(report()) == before else None


def _derived(
    key: Scalar, value: Node, schema: Schema, later: set[str], grown: set[str], links: set[str]
) -> tuple[Derived, LinkSchema] | None:
    """How a link is made, and what it is; `later` are those declared behind it, `grown` what grows.

    None, and nothing noted, for the reverse of one of `links`, which grow.
    """
    what = f"link '{key.text}'"
    node = fields.mapping(value, what)
    if node is None:
        return None
    unknown = [word for word, _ in node.items if word.text not in DERIVED]
    if len(node.items) > 1 and not unknown:
        said = " and ".join(word.text for word, _ in node.items)
        note(f"{what} says {said}: it is made in one way", node.where, _FORMS)
        return None
    if unknown or not node.items:
        near = did_you_mean(unknown[0].text, tuple(DERIVED)) if unknown else ""
        where, hint = (unknown[0].where, near) if near.startswith("did you mean") else (node.where, _FORMS)
        note(f"{what} does not say what it is made of", where, hint)
        return None
    how, of = node.items[0][0].text, fields.text(node.items[0][1], what)
    if of is None:
        return None
    if of.text in grown and of.text not in schema.links and not schema.members(of.text):
        if how == "reverse" and of.text in links:
            return None
        hint = "give its vertices a link in 'grow', which a clause fills; of that the reverse can be made"
        note(f"'{of.text}' grows, and links are made of what the data has", of.where, hint)
        return None
    if how == "reverse":
        if of.text in later:
            hint = f"declare '{of.text}' above '{key.text}': a link may use only earlier ones"
            note(f"link '{of.text}' is declared further down", of.where, hint)
            return None
        if of.text not in schema.links:
            note(f"no link '{of.text}' to reverse", of.where, suggest(of.text, schema.links))
            return None
        if of.text in links:
            hint = "give the one that grows another name"
            note(f"'{of.text}' is a link of the data and one that grows", of.where, hint)
            return None
        return Derived("reverse", of.text), reversed_link(of.text, schema.links[of.text])
    members = schema.members(of.text)
    if not members:
        note(f"unknown kind '{of.text}'", of.where, suggest(of.text, (*schema.kinds, *schema.groups)))
        return None
    if how == "all":
        every = frozenset(schema.kinds)
        return Derived("all", of.text), LinkSchema(every, members, True, f"all of kind {of.text}, in order")
    doc = f"the {of.text} {'before' if how == 'previous' else 'behind'}, in the same instance"
    return Derived("previous" if how == "previous" else "next", of.text), LinkSchema(
        members, members, False, doc
    )


def reversals(node: Mapping | None, schema: Schema, given: Schema, taken: frozenset[str]) -> dict[str, str]:
    """Find the links that are the reverse of one that grows, by name.

    `schema` is that of the data with what grows, `taken` are words of the language. Only where `with_derived`
    has found nothing wrong.
    """
    found = {}
    for key, value in pairs(node):
        if key.text in given.links:
            continue
        if key.text in {*schema.links, *schema.fields, *schema.kinds, *taken}:
            note(f"'{key.text}' has a meaning already", key.where, "use another name for the link")
        elif isinstance(value, Mapping) and isinstance(of := value.items[0][1], Scalar):
            found[key.text] = of.text
    return found
