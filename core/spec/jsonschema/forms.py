"""The forms that values of a spec have, as JSON Schema says them."""

from __future__ import annotations

import re
from typing import Any

from abw.core.spec.text.fields import LONGEST, MOST, NAME, WORD

Schema = dict[str, Any]


def text(doc: str) -> Schema:
    """A text that is not empty."""
    return {"description": doc, "type": "string", "minLength": 1}


def integer(doc: str, least: int = 1, default: int | None = None) -> Schema:
    """A whole number from `least` on."""
    schema: Schema = {"description": doc, "type": "integer", "minimum": least, "maximum": MOST}
    return schema if default is None else {**schema, "default": default}


def object_of(doc: str, keys: Schema, required: tuple[str, ...] = ()) -> Schema:
    """A mapping with these keys and no others."""
    return {
        "description": doc,
        "type": "object",
        "properties": keys,
        "required": list(required),
        "additionalProperties": False,
    }


def named(doc: str, value: str, hyphens: bool = True, least: int = 0) -> Schema:
    """A mapping from names to values of a definition."""
    return {
        "description": doc,
        "type": "object",
        "propertyNames": name_of(NAME if hyphens else WORD),
        "additionalProperties": {"$ref": f"#/$defs/{value}"},
        "minProperties": least,
    }


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
