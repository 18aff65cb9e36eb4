"""Instances given as Python objects: written in their format's text, and read from that."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from abw.core.data.source import Feed
from abw.core.errors import AbwError

NAME = Path("instances")
"""What errors call the file that objects are written to; but for lattices, instance i is its line i + 1."""

EXPECTED: Mapping[str, str] = {
    "trees": "a tree is (label, child, ...), its children trees; a leaf is (label, word): (3, (2, 'It'), …)",
    "lattice": "a lattice is a list of positions, each a list of its arcs (from, id); position 0 has none",
    "tags": "a sentence is a list of words, or of pairs (word, tag)",
    "pairs": "a pair is (source, target), each a list of words or a text",
    "json": 'an instance is {"vertices": [{"kind": ...}, ...], "links": {name: [[from, to], ...]}}',
}
"""What an instance of each format is in Python; a text as it stands in a file is right for all of them."""


@contextmanager
def feed_of(instances: Iterable[object], format: str) -> Iterator[Feed]:
    """The instances as a file of their format.

    Errors: AbwError for one that is not what EXPECTED says; reading the file finds the rest (DataError).
    """
    texts = [_text(number, instance, format) for number, instance in enumerate(instances)]
    if format == "lattice":
        texts.insert(0, str(len(texts)))
    with tempfile.TemporaryFile() as file:
        file.write("".join(f"{text}\n" for text in texts).encode())
        file.seek(0)
        yield Feed(NAME, file.fileno())


def _text(number: int, instance: object, format: str) -> str:
    if isinstance(instance, str):
        if format != "lattice" and "\n" in instance.strip("\n"):
            raise AbwError(f"instance {number} is a text of several lines", hint="an instance is one line")
        return instance.strip("\n")
    try:
        return _WRITTEN[format](instance)
    except (TypeError, ValueError) as error:
        message = f"instance {number} is no instance of format {format}: {error}"
        raise AbwError(message, hint=EXPECTED[format]) from None


def _tree(tree: object) -> str:
    label, *children = _sequence(tree)
    if len(children) == 1 and isinstance(children[0], str):
        return f"({_word(label, '()')} {_word(children[0], '()')})"
    if not children:
        raise ValueError(f"{tree!r} has no children and no word")
    return f"({_word(label, '()')} {' '.join(map(_tree, children))})"


def _lattice(positions: object) -> str:
    rows = [[_sequence(arc) for arc in _sequence(arcs)] for arcs in _sequence(positions)]
    for arc in (arc for arcs in rows for arc in arcs):
        if len(arc) != 2:
            raise ValueError(f"{arc!r} is no pair (from, id)")
    lines = [" ".join(map(str, [len(arcs), *(n for arc in arcs for n in arc)])) for arcs in rows]
    return "\n".join([str(len(rows)), " ".join("0" * len(rows)), *lines])


def _sentence(words: object) -> str:
    pairs = [(w, "O") if isinstance(w, str) else tuple(_sequence(w)) for w in _sequence(words)]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{words!r} is no list of words or of pairs")
    return " ".join(f"{_word(word)}|{_word(tag, '|')}" for word, tag in pairs)


def _pair(pair: object) -> str:
    sides = _sequence(pair)
    if len(sides) != 2:
        raise ValueError(f"{pair!r} has not two sides")
    source, target = (s if isinstance(s, str) else " ".join(_word(w) for w in _sequence(s)) for s in sides)
    return f"{source} ||| {target}"


def _object(instance: object) -> str:
    if not isinstance(instance, Mapping):
        raise TypeError(f"{instance!r} is no mapping")
    return json.dumps(instance, ensure_ascii=False)


def _sequence(value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{value!r} is no sequence")
    return value


def _word(value: object, forbidden: str = "") -> str:
    """A word as it stands in a file; nothing may part it."""
    text = str(value)
    if not text or any(c.isspace() or ord(c) <= ord(" ") or c in forbidden for c in text):
        raise ValueError(f"{text!r} is not one word")
    return text


_WRITTEN: Mapping[str, Callable[[object], str]] = {
    "trees": _tree,
    "lattice": _lattice,
    "tags": _sentence,
    "pairs": _pair,
    "json": _object,
}
