"""Sections: tables of the keys that a mapping may have, with the form of each value and a word of help.

A form is written as JSON Schema has it. `Section.check` and `Entries` read a spec by the same table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from abw.core.base.errors import Span
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Node, Scalar, pairs
from abw.core.spec.text.fields import LONGEST, MOST, NAME, WORD, Name
from abw.core.spec.text.report import note, suggest

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """What a mapping is, its keys with the form of their values, and those of them that it must have."""

    doc: str
    keys: Mapping[str, Schema]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The mapping as JSON Schema: these keys and no others."""
        return {
            "description": self.doc,
            "type": "object",
            "properties": dict(self.keys),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def without(self, *names: str) -> Section:
        """The section without some of its keys."""
        required = tuple(name for name in self.required if name not in names)
        return Section(self.doc, {n: form for n, form in self.keys.items() if n not in names}, required)

    def check(self, node: Keys, what: str, where: Span | None = None, waived: Collection[str] = ()) -> Keys:
        """Check which keys a mapping has; those `waived` may be there, and are not missed.

        `where` is the place to name for a missing one. Returns the mapping with misspelt keys put right.
        """
        required = [name for name in self.required if name not in waived]
        return fields.keys(node, what, required, (*self.keys, *waived), where)

    def entries(
        self,
        node: Node | None,
        what: str,
        where: Span | None = None,
        waived: Collection[str] = (),
        of: str = "",
    ) -> Entries:
        """The values of a mapping whose keys are checked (`check`); none of what is no mapping.

        `of` follows keys in messages.
        """
        keys = self.check(node, what, where, waived) if isinstance(node, Keys) else None
        return Entries(self, keys, of)


@dataclass(frozen=True, slots=True)
class Entries:
    """The values of a mapping, read as its section says; None for what is not there, or wrong.

    What is wrong is noted.
    """

    section: Section
    node: Keys | None
    of: str

    def get(self, name: str) -> Node | None:
        """A value as it is written."""
        assert name in self.section.keys, name
        return self.node.get(name) if self.node else None

    def text(self, name: str) -> Scalar | None:
        """A text that is not empty."""
        return fields.text(self.get(name), name + self.of)

    def integer(self, name: str) -> int | None:
        """A whole number."""
        least = self.section.keys[name]["minimum"]
        return fields.integer(self.get(name), name + self.of, least)

    def amount(self, name: str, below: float | None = None) -> float | None:
        """A number from 0 on."""
        return fields.amount(self.get(name), name + self.of, below)

    def word(self, name: str, wrong: str = "", hint: str = "") -> Scalar | None:
        """One of the section's words for it; of another `wrong` says what it is."""
        found, known = self.text(name), self.section.keys[name]["enum"]
        if found is None or found.text in known:
            return found
        message = f"{wrong or f'{name}{self.of} cannot be'} '{found.text}'"
        note(message, found.where, hint or suggest(found.text, known))
        return None

    def name(self, node: Node | None, what: str, known: tuple[Name, ...]) -> Name | None:
        """One of some words: `node` itself, or the key `name` where that is this mapping."""
        return fields.choice(self.get("name") if self.node else node, what, known)

    def truth(self, name: str) -> bool | None:
        """true or false."""
        return fields.truth(self.get(name), name + self.of)

    def mapping(self, name: str) -> Keys | None:
        """A mapping."""
        return fields.mapping(self.get(name), name + self.of)

    def items(self, name: str) -> tuple[tuple[Scalar, Node], ...]:
        """The entries of a mapping; none where there is no mapping."""
        return pairs(self.mapping(name))


def text(doc: str) -> Schema:
    """A text that is not empty."""
    return {"description": doc, "type": "string", "minLength": 1}


def integer(doc: str, least: int = 1, default: int | None = None) -> Schema:
    """A whole number from `least` on."""
    schema: Schema = {"description": doc, "type": "integer", "minimum": least, "maximum": MOST}
    return schema if default is None else {**schema, "default": default}


def number(doc: str = "", least: float | None = 0, below: float | None = None) -> Schema:
    """A number from `least` on."""
    limits = {"minimum": least, "exclusiveMaximum": below}
    schema: Schema = {"type": "number", **{name: n for name, n in limits.items() if n is not None}}
    return {**schema, "description": doc} if doc else schema


def truth(doc: str, default: bool) -> Schema:
    """true or false."""
    return {"description": doc, "type": "boolean", "default": default}


def word(doc: str, known: Collection[str], default: str = "") -> Schema:
    """One of some words."""
    schema = {"description": doc, "enum": list(known)}
    return {**schema, "default": default} if default else schema


def either(doc: str, *forms: Schema) -> Schema:
    """One of some forms."""
    return {"description": doc, "anyOf": list(forms)} if doc else {"anyOf": list(forms)}


def listed(item: Schema, doc: str = "", least: int = 1) -> Schema:
    """A list of values of one form."""
    schema: Schema = {"type": "array", "items": item}
    return {**schema, **({"minItems": least} if least else {}), **({"description": doc} if doc else {})}


def some(doc: str, item: Schema) -> Schema:
    """A value of a form, or a list of them."""
    return either(doc, item, listed(item))


def refer(name: str, doc: str = "") -> Schema:
    """A value of a definition."""
    schema: Schema = {"$ref": f"#/$defs/{name}"}
    return {**schema, "description": doc} if doc else schema


def named(doc: str, value: Schema, pattern: re.Pattern[str] | None = NAME, least: int = 0) -> Schema:
    """A mapping from names of a pattern to values of one form."""
    names = {} if pattern is None else {"propertyNames": name_of(pattern)}
    few = {"minProperties": least} if least else {}
    return {"description": doc, "type": "object", **names, **few, "additionalProperties": value}


def words(doc: str, value: Schema, least: int = 0) -> Schema:
    """A mapping from names of expressions, where a hyphen is a minus, to values of one form."""
    return named(doc, value, WORD, least)


def name_of(pattern: re.Pattern[str] = NAME) -> Schema:
    """A name, by its pattern."""
    return {"pattern": f"^{_portable(pattern.pattern)}$", "maxLength": LONGEST}


def _portable(pattern: str) -> str:
    """A name's pattern for editors, whose \\w knows ASCII alone: no blanks and no signs instead."""
    signs = r"\s!-,./:-@\[-^`{-~"
    return (
        pattern.replace(r"[^\W\d]", rf"[^-0-9{signs}]")
        .replace(r"[\w-]", f"[^{signs}]")
        .replace(r"\w", f"[^-{signs}]")
    )
