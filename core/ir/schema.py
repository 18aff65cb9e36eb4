"""What the instances of a data format are made of: kinds of vertices, links between them, fields on them.

And what sources, conditions and growth are made of: steps along links, and comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

# What instances made of arrays have for a file; instance i is its line i + 1.
ARRAYS = Path("arrays")


# Kinds of vertices.
Kinds = frozenset[str]
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Hop:
    """One step along a link; `index` picks one of several (negative: from the end), None wants them all."""

    link: str
    index: int | None = None


Hops = tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class LinkSchema:
    """A link: from which kinds, to which, and whether a vertex can have several of it (`many`).

    `by_kind` says more for a kind whose vertices lead to fewer kinds than `target` has (`prev` of a
    character is a character, of a token a token).
    """

    source: Kinds
    target: Kinds
    many: bool = False
    doc: str = ""
    by_kind: Mapping[str, Kinds] = field(default_factory=dict)

    def reached(self, kinds: Kinds) -> Kinds:
        """The kinds that this link can lead to from some of `kinds`; empty where none of them has it."""
        return frozenset().union(*(self.by_kind.get(kind, self.target) for kind in kinds & self.source))


def reversed_link(name: str, link: LinkSchema) -> LinkSchema:
    """What the link of that name is backwards: to all vertices whose link leads here."""
    by_kind = {
        kind: frozenset(source for source in link.source if kind in link.reached(frozenset({source})))
        for kind in link.target
    }
    return LinkSchema(link.target, link.source, True, f"whence '{name}' leads here, in order", by_kind)


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """A whole number on a vertex; with a `size`, a vector of so many floats.

    `text` says that the numbers stand for distinct strings of the data; `rows` that they are the rows of a
    table themselves, also where that has a vocabulary.
    """

    kinds: Kinds
    text: bool = False
    doc: str = ""
    size: int = 0
    rows: bool = False


How = Literal["reverse", "previous", "next", "all"]
# What a link can be made of.
DERIVED: Mapping[str, str] = {
    "reverse": "to all vertices whose link of this name leads here",
    "previous": "to the previous vertex of the same kind or group in the instance",
    "next": "to the next vertex of the same kind or group in the instance",
    "all": "to all vertices of a kind or group in the instance",
}


@dataclass(frozen=True, slots=True)
class Derived:
    """A link that is made: of the link `of`, reversed, or of the vertices of kind or group `of`."""

    how: How
    of: str


# The links to several vertices that are others backwards, in all formats but json.
INVERSES = {"children": "parent", "arcs": "to"}


@dataclass(frozen=True, slots=True)
class Schema:
    """A data format's kinds, groups of kinds, links and fields.

    `kinds[k]` is the name of kind number k. Kind 'instance' is always there: one vertex an instance; its
    links are named as the kinds and groups are and lead to all the vertices of that kind in the instance,
    in order (`instance.leaf`). Every vertex has the link `instance` and the fields `coin` (0 or 1) and
    `index` (its number among the vertices of its kind in its instance). `derived` are the links among
    `links` that no data have: a model says what they are made of.
    """

    format: str
    kinds: tuple[str, ...]
    groups: Mapping[str, Kinds] = field(default_factory=dict)
    links: Mapping[str, LinkSchema] = field(default_factory=dict)
    fields: Mapping[str, FieldSchema] = field(default_factory=dict)
    derived: Mapping[str, Derived] = field(default_factory=dict)

    def members(self, name: str) -> Kinds:
        """The kinds that a kind or group name stands for; empty where there is no such name."""
        if name in self.groups:
            return self.groups[name]
        return frozenset({name}) if name in self.kinds else frozenset()

    def inverse_of(self, name: str) -> str | None:
        """The link that one to several vertices is backwards; None for those that are no such thing."""
        made = self.derived.get(name)
        if made:
            return made.of if made.how == "reverse" else None
        return INVERSES.get(name) if self.format != "json" else None

    def links_of(self, kinds: Kinds) -> tuple[str, ...]:
        """The links that some of these kinds have."""
        return tuple(name for name, link in self.links.items() if link.source & kinds)

    def fields_of(self, kinds: Kinds) -> tuple[str, ...]:
        """The fields that some of these kinds have."""
        return tuple(name for name, item in self.fields.items() if item.kinds & kinds)
