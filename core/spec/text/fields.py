"""Values of a spec's keys, as YAML 1.2 reads them: each function notes what is wrong and returns None."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from abw.core.base.errors import Span
from abw.core.base.files import why_no_file
from abw.core.spec.text.document import COMMAS, Mapping, Node, Scalar, Sequence, pairs
from abw.core.spec.text.report import note, suggest

Name = TypeVar("Name", bound=str)

T = TypeVar("T")

MOST = 2**31 - 1
_DIGITS = "write it with digits alone: no quotes, no '_', no zeros in front"
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# A model, type, table, parameter or output; a kind, link or field.
NAME = re.compile(r"[^\W\d]([\w-]*\w)?")
# A name in an expression, where a hyphen is a minus.
WORD = re.compile(r"[^\W\d]\w*")
# So many bytes (UTF-8) a name has at most: with what is added to it, it names files.
LONGEST = 100


def mapping(node: Node | None, what: str) -> Mapping | None:
    """A mapping; nothing where there is no node."""
    if node is None or isinstance(node, Mapping):
        return node
    if isinstance(node, Scalar) and _nothing(node):
        note(f"{what} is empty", node.where, "leave the key out, or write name: value below it")
    else:
        note(f"{what} must be a mapping (name: value)", node.where)
    return None


def keys(
    node: Mapping,
    what: str,
    required: Collection[str] = (),
    optional: Collection[str] = (),
    where: Span | None = None,
) -> Mapping:
    """Check which keys a mapping has; `where` is the place to name for a missing one.

    Returns the mapping with misspelt keys put right, so that a mistake is told once.
    """
    allowed = (*required, *optional)
    items, torn = [], False
    for key, value in node.items:
        if key.text in allowed:
            items.append((key, value))
        elif not _bare(key, value):
            note(f"unknown key '{key.text}' in {what}", key.where, suggest(key.text, allowed))
            meant = [name for name in get_close_matches(key.text, allowed, n=1) if not node.key(name)]
            items.append((replace(key, text=meant[0]) if meant else key, value))
        elif not torn:
            note(f"key '{key.text}' in {what} has no value", key.where, COMMAS)
            torn = True
    found = node if all(key.text in allowed for key, _ in node.items) else replace(node, items=tuple(items))
    for name in required:
        if found.get(name) is None:
            note(f"{what} has no '{name}'", where or node.where)
    return found


def items(node: Node) -> tuple[Node, ...]:
    """The items of a list; what is none is the only one."""
    return node.items if isinstance(node, Sequence) else (node,)


def named(
    node: Node | None, section: str, what: str, pattern: re.Pattern[str] = NAME
) -> Iterator[tuple[Scalar, Node]]:
    """Yield the entries of a section whose keys can be the names of `what`."""
    for key, value in pairs(mapping(node, section)):
        if name(key, what, pattern):
            yield key, value


def _bare(key: Scalar, value: Node) -> bool:
    """Whether a key stands inside { } without a colon: as a rule it is what a comma tore off a text."""
    behind = key.where.text[key.where.column - 1 + key.where.length :].lstrip()
    return isinstance(value, Scalar) and value.plain and not value.text and behind[:1] in (",", "}")


def _read(node: Node | None, what: str, wanted: str, read: Callable[[Scalar], T | None]) -> T | None:
    """What a scalar is read as; `wanted` says what it must be."""
    scalar = node if isinstance(node, Scalar) else None
    value = read(scalar) if scalar else None
    if node is not None and value is None:
        digits = scalar and scalar.text.replace("_", "").lstrip("+-").isdigit()
        note(f"{what} must be {wanted}", node.where, _DIGITS if digits and "number" in wanted else "")
    return value


def text(node: Node | None, what: str) -> Scalar | None:
    """A text that is not empty."""
    return _read(node, what, "a text", lambda s: None if _nothing(s) or not s.text else s)


def _nothing(node: Scalar) -> bool:
    """Whether a scalar means that there is nothing."""
    return node.plain and node.text in ("", "~", "null")


def integer(node: Node | None, what: str, least: int = 1) -> int | None:
    """A plain decimal number from `least` to 2^31 - 1."""
    number = _read(node, what, "a whole number", plain_integer)
    if node is not None and number is not None and not least <= number <= MOST:
        note(f"{what} must be from {least:,} to {MOST:,}", node.where)
        return None
    return number


def plain_integer(node: Scalar) -> int | None:
    """The number that a scalar is, if it is one."""
    whole = node.plain and len(node.text) < 20 and _INTEGER.fullmatch(node.text)
    return int(node.text) if whole else None


def _plain_number(node: Scalar) -> float | None:
    number = float(node.text) if node.plain and _FLOAT.fullmatch(node.text) else math.inf
    return number if math.isfinite(number) else None


def number(node: Node | None, what: str) -> float | None:
    """A finite number."""
    return _read(node, what, "a number", _plain_number)


def amount(node: Node | None, what: str, below: float | None = None) -> float | None:
    """A finite number from 0 on."""
    value = number(node, what)
    if value is None or node is None:
        return None
    if value < 0 or (below is not None and value >= below):
        most = f" and below {below:g}" if below is not None else ""
        note(f"{what} must be 0 or more{most}", node.where)
        return None
    return value


def choice(node: Node | None, what: str, known: tuple[Name, ...]) -> Name | None:
    """One of some words."""
    found = text(node, what)
    for word in known:
        if found and found.text == word:
            return word
    if found:
        note(f"{what} cannot be '{found.text}'", found.where, suggest(found.text, known))
    return None


def truth(node: Node | None, what: str) -> bool | None:
    """true or false."""
    known = {"true": True, "false": False}
    return _read(node, what, "true or false", lambda s: known.get(s.text) if s.plain else None)


def name(key: Scalar, what: str, pattern: re.Pattern[str] = NAME) -> bool:
    """Whether a text can be a name: one that expressions refer to, and that can be part of a file's name."""
    if not pattern.fullmatch(key.text):
        signs = "letters, digits, '_'" + (" and '-'" if pattern is NAME else "")
        hint = f"a name has {signs}, and begins with a letter or '_'"
        note(f"{key.text!r} cannot be the name of {what}", key.where, hint)
        return False
    if len(key.text.encode()) > LONGEST:
        note(f"the name of {what} is too long", key.where, f"{LONGEST} bytes at most")
        return False
    return True


def names(node: Node | None, what: str) -> tuple[Scalar, ...]:
    """A list of names, each once."""
    if node is None:
        return ()
    if not isinstance(node, Sequence):
        note(f"{what} must be a list: [a, b]", node.where)
        return ()
    entries: dict[str, Scalar] = {}
    for item in node.items:
        if not isinstance(item, Scalar):
            note(f"{what} must be a list of names", item.where)
        elif name(item, "a dim", WORD):
            if item.text in entries:
                note(f"'{item.text}' is there twice", item.where)
            entries.setdefault(item.text, item)
    return tuple(entries.values())


HINT = "move it there, or let the spec read it: --allow-outside (in Python: allow_outside=True)"


@dataclass(frozen=True, slots=True)
class Reach:
    """The folder of a spec, where the paths that it names begin; with `outside` they may lead out of it."""

    folder: Path
    outside: bool = False

    def file(self, named: Scalar, what: str) -> Path | None:
        """The path that a spec names, whether or not a file is there; None, with the problem in `report`,
        where it leads out of the folder or to what is no regular file.
        """
        path = self.folder / named.text
        try:
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder))
            if not self.outside and not inside:
                message = f"{what} {path} is outside the spec's folder {self.folder.absolute()}"
                note(message, named.where, HINT)
            elif found := why_no_file(path):
                note(f"{what} {path} is {found}, not a file", named.where)
            else:
                return path
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            note(f"cannot read {str(path)!r}: {reason}", named.where)
        return None
