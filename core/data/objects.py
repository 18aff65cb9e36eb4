"""Instances given as Python objects: written in their format's text, and read from that."""

from __future__ import annotations

import json
import reprlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Never

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, DataError, Problem
from abw.core.data.feed import ALL, Feed
from abw.core.data.instances import Instances
from abw.core.data.read import take
from abw.core.data.readers.pairs import SHORT
from abw.core.ir.schema import Schema

NAME = Path("instances")
"""What instances given as objects have for a file; instance i is its line i + 1."""

EXPECTED: Mapping[str, str] = {
    "trees": "a tree is (label, child, ...), its children trees; a leaf is (label, word): (3, (2, 'It'), …)",
    "lattice": "a lattice is a list of positions, each a list of its arcs (from, id); position 0 has none",
    "tags": "a sentence is a list of words, or of pairs (word, tag)",
    "pairs": "a pair is (source, target), each a list of words or a text",
    "words": "a sentence is a text, or a list of words",
    "json": 'an instance is {"vertices": [{"kind": ...}, ...], "links": {name: [[from, to], ...]}}',
}
"""What an instance of each format is in Python; a text as it stands in a file is right for all of them."""


def read_objects(
    instances: Iterable[object],
    format: str,
    *,
    frequency: int = 0,
    tokens: str = "",
    schema: Schema | None = None,
) -> Instances:
    """Instances given as objects: as many as objects, in their order; the rest as `abw.core.data.read.take`.

    Errors: AbwError where there are none, and for one that is not what EXPECTED says; DataError with the
    number of the instance, and with line and column in its text.
    """
    given = list(instances)
    texts = [_text(number, instance, format) for number, instance in enumerate(given)]
    if not texts:
        raise AbwError("there are no instances")
    if tokens and len(whole := {isinstance(instance, str) for instance in given}) > 1:
        hint = "the pattern of `tokens` is for texts; lists are taken as they are"
        raise AbwError("some instances are texts, others lists of words", hint=hint)
    tokens = tokens if tokens and whole == {True} else ""
    head = f"{len(texts)}\n".encode() if format == "lattice" else b""
    lines = np.array([0, *accumulate(text.count(b"\n") + 1 for text in texts)]) + 1 + head.count(b"\n")
    with tempfile.TemporaryFile() as file:
        file.write(head + b"".join(text + b"\n" for text in texts))
        file.seek(0)
        try:
            feed = Feed(NAME, file.fileno())
            found = take(feed, format, 0, ALL, frequency=frequency, tokens=tokens, schema=schema)
        except DataError as error:
            raise DataError([_placed(problem, lines) for problem in error.problems]) from None
    # of several lines is a lattice alone, whose lines were counted: what is missing holds no instance
    counts = np.bincount(np.searchsorted(lines, found.lines, "right") - 1, minlength=len(texts))
    if wrong := np.flatnonzero(counts != 1).tolist():
        short = format == "pairs"
        what = "blank, or too short" if short else "blank"
        raise AbwError(f"instance {wrong[0]} is {what}", hint=SHORT if short else EXPECTED[format])
    return replace(found, source=NAME, lines=np.arange(1, len(texts) + 1, dtype=np.int32))


def _placed(problem: Problem, lines: NDArray[np.int64]) -> Problem:
    """A mistake by its instance, and the line in that; instance i begins on the file's line `lines[i]`."""
    where = problem.where
    if where is None:
        return problem
    number = int(np.searchsorted(lines, where.line, "right")) - 1
    line = where.line - int(lines[number]) + 1
    return replace(problem, where=replace(where, file=f"instance {number}", line=line))


def _text(number: int, instance: object, format: str) -> bytes:
    """An instance's own lines, parted by newlines. Errors: AbwError."""
    hint = EXPECTED[format]
    try:
        text = _given(instance, format) if isinstance(instance, str) else _WRITTEN[format](instance)
        if "\n" in text and format != "lattice":
            raise ValueError("it is a text of several lines, and an instance is one line")
        return text.encode()
    except UnicodeEncodeError:
        problem = "it holds half of a surrogate pair, which is no character"
    except RecursionError:
        problem = "it is nested too deeply"
    except _ArrayError as error:
        problem = str(error)
        hint = "its .tolist(); graphs of arrays as they are: abw.Instances.from_arrays"
    except (TypeError, ValueError) as error:
        problem = str(error)
    message = f"instance {number} is no instance of format {format}: {problem}"
    raise AbwError(message, hint=hint) from None


def _given(text: str, format: str) -> str:
    """A text as it stands in a file, without what is before and behind it."""
    text = text.removeprefix("\ufeff").strip("\n")
    if format != "lattice":
        return text
    lines = [line for line in text.split("\n") if any(c > " " for c in line)]
    length = lines[0].strip() if lines else ""
    if not (length.isascii() and length.isdecimal() and len(length) < 11):
        raise ValueError("it begins with no length")
    if len(lines) != int(length) + 2:
        raise ValueError(f"of length {length} it has {int(length) + 2} lines, this has {len(lines)}")
    return "\n".join(lines)


def _tree(tree: object) -> str:
    label, *children = _sequence(tree)
    if len(children) == 1 and isinstance(children[0], str):
        return f"({_word(label, '()')} {_word(children[0], '()')})"
    if not children:
        raise ValueError(f"{_shown(tree)} has no children and no word")
    return f"({_word(label, '()')} {' '.join(map(_tree, children))})"


def _lattice(positions: object) -> str:
    rows = [[_sequence(arc) for arc in _sequence(arcs)] for arcs in _sequence(positions)]
    for arc in (arc for arcs in rows for arc in arcs):
        if len(arc) != 2:
            raise ValueError(f"{_shown(arc)} is no pair (from, id)")
    lines = [" ".join(map(str, [len(arcs), *(_word(n) for arc in arcs for n in arc)])) for arcs in rows]
    return "\n".join([str(len(rows)), " ".join("0" * len(rows)), *lines])


def _sentence(words: object) -> str:
    pairs = [(w, "O") if isinstance(w, str) else tuple(_sequence(w)) for w in _sequence(words)]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{_shown(words)} is no list of words or of pairs")
    return " ".join(f"{_word(word)}|{_word(tag, '|')}" for word, tag in pairs)


def _words(sentence: object) -> str:
    return " ".join(map(_text_word, _sequence(sentence)))


def _pair(pair: object) -> str:
    sides = _sequence(pair)
    if len(sides) != 2:
        raise ValueError(f"{_shown(pair)} has not two sides")
    source, target = (s if isinstance(s, str) else " ".join(map(_text_word, _sequence(s))) for s in sides)
    return f"{source} ||| {target}"


def _object(instance: object) -> str:
    if not isinstance(instance, Mapping):
        raise TypeError(f"{_shown(instance)} is no mapping")
    return json.dumps(instance, ensure_ascii=False, default=_refuse_value)


class _ArrayError(TypeError):
    """An array stands where JSON has lists and numbers."""


def _refuse_value(value: object) -> Never:
    error = _ArrayError if hasattr(value, "tolist") else TypeError
    raise error(f"{_shown(value)} is no string, number, list or object of JSON")


def _sequence(value: object) -> Sequence[object]:
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence):
        raise TypeError(f"{_shown(value)} is no sequence")
    return value


def _shown(value: object) -> str:
    """A value in a few characters, whatever it is."""
    return reprlib.repr(value)


def _text_word(value: object) -> str:
    """A word of a sentence, which is a text already."""
    if not isinstance(value, str):
        raise TypeError(f"{_shown(value)} is no text")
    return _word(value)


def _word(value: object, forbidden: str = "") -> str:
    """A word as it stands in a file; nothing may part it."""
    if not isinstance(value, str | int | float | np.number):
        raise TypeError(f"{_shown(value)} is neither a text nor a number")
    text = str(value)
    if not text or any(c.isspace() or ord(c) <= ord(" ") or c in forbidden for c in text):
        raise ValueError(f"{_shown(text)} is not one word")
    return text


_WRITTEN: Mapping[str, Callable[[object], str]] = {
    "trees": _tree,
    "lattice": _lattice,
    "tags": _sentence,
    "pairs": _pair,
    "words": _words,
    "json": _object,
}
