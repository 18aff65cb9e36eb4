"""Instances given as Python objects: written in their format's text, and read from that."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Never, Unpack

import numpy as np

from abw.core.base.errors import AbwError, DataError, Problem, Span
from abw.core.data.feed import ALL, Feed
from abw.core.data.instances import Instances, Longs
from abw.core.data.read import Options, take
from abw.core.data.readers.pairs import SHORT

# What instances given as objects have for a file; instance i is its line i + 1.
NAME = Path("instances")

# What an instance of each format is in Python; a text as it stands in a file is right for all of them.
EXPECTED: Mapping[str, str] = {
    "trees": "a tree is (label, child, ...), its children trees; a leaf is (label, word): (3, (2, 'It'), …)",
    "lattice": "a lattice is a list of positions, each a list of its arcs (from, id); position 0 has none",
    "tags": "a sentence is a list of words, or of pairs (word, tag)",
    "pairs": "a pair is (source, target), each a list of words or a text",
    "words": "a sentence is a text, or a list of words",
    "plans": 'a plan is what EXPLAIN (FORMAT JSON) gives: {"Plan": {"Node Type": …}}, also in a list',
    "json": (
        'an instance is {"vertices": [{"kind": ...}, ...], "links": {name: [[from, to], ...], root: vertex}}'
    ),
}


def require_instances(given: object) -> None:
    """Refuse what is no sequence of instances: TypeError; AbwError for a mapping."""
    if isinstance(given, str | bytes) or not (hasattr(given, "__iter__") or hasattr(given, "__getitem__")):
        what = "a text" if isinstance(given, str) else repr(given)[:60]
        raise TypeError(f"{what} is neither a file nor instances: give Path(...) or a list")
    if isinstance(given, Mapping):
        raise AbwError("this is a mapping, not a sequence of instances", hint="one instance: [instance]")


def read_objects(
    instances: Iterable[object],
    format: str,
    *,
    errors: dict[int, AbwError] | None = None,
    **options: Unpack[Options],
) -> Instances:
    """Instances given as objects: as many as objects, in their order; the rest as `abw.core.data.read.take`.

    With `errors`, what is wrong with an object is put there by its number and the object left out; the others
    keep their numbers. Without, it is raised: AbwError where there are none, and for one that is not what
    EXPECTED says; DataError with the number of the instance, and with line and column in its text.
    """
    given = list(instances)
    if not given:
        raise AbwError("there are no instances")
    if options.get("tokens") and len(whole := {isinstance(instance, str) for instance in given}) > 1:
        hint = "the pattern of `tokens` is for texts; lists are taken as they are"
        raise AbwError("some instances are texts, others lists of words", hint=hint)
    if options.get("tokens") and whole != {True}:
        options["tokens"] = ""
    wrong: dict[int, AbwError] = {}
    texts = []
    for number, instance in enumerate(given):
        try:
            texts.append(text_of(number, instance, format))
        except AbwError as error:
            if errors is None:
                raise
            wrong[number] = error
            texts.append(b"")
    try:
        found = _taken(texts, format, options)
    except DataError:
        if errors is None:
            raise
        wrong |= _unreadable(texts, format, options)
        found = _taken([b"" if n in wrong else text for n, text in enumerate(texts)], format, options)
    if len(found) < len(given) - len(wrong):
        wrong |= _blank(found, len(given), format, wrong)
        if errors is None:
            raise next(iter(wrong.values()))
    if not wrong:
        return found if format != "lattice" else replace(found, lines=found.numbers.astype(np.int32) + 1)
    assert errors is not None
    errors |= sorted(wrong.items())
    numbers = np.array([number for number in range(len(given)) if number not in wrong], np.int64)
    return replace(found, source=NAME, lines=(numbers + 1).astype(np.int32), numbers=numbers)


def _taken(texts: list[bytes], format: str, options: Options, first: int = 0) -> Instances:
    """The instances of texts, but of blank ones; `lines` are the texts' numbers from 1.

    Errors: DataError with the number of the instance, of which `first` is that of the first text.
    """
    head = b"%d\n" % sum(map(bool, texts)) if format == "lattice" else b""
    feed = Feed(NAME, b"".join([head, b"\n".join(texts), b"\n"]))
    try:
        found = take(feed, format, 0, ALL, **options)
    except DataError as error:
        lines = _lines(texts, format)
        raise DataError([_placed(problem, lines, first) for problem in error.problems]) from None
    if len(twice := found.lines[1:][found.lines[1:] == found.lines[:-1]]):
        where = Span(str(NAME), int(twice[0]))
        problem = Problem("several plans in one text", where, EXPECTED[format])
        raise DataError([_placed(problem, _lines(texts, format), first)])
    if len(found) == len(texts):
        return found
    counted = np.searchsorted(_lines(texts, format), found.lines, "right")
    return replace(found, lines=counted.astype(np.int32))


def _lines(texts: list[bytes], format: str) -> Longs:
    """The line on which each text begins."""
    first = 2 if format == "lattice" else 1
    return np.array([0, *accumulate(text.count(b"\n") + 1 for text in texts)][:-1]) + first


def _unreadable(texts: list[bytes], format: str, options: Options, first: int = 0) -> dict[int, AbwError]:
    """What is wrong with each text that cannot be read, by its number from `first` on.

    Halves are read again: linear in the texts but for the logarithm, and in those that are wrong.
    """
    try:
        _taken(texts, format, options, first)
    except DataError as error:
        if len(texts) == 1:
            return {first: DataError(error.problems[:1])}
        half = len(texts) // 2
        parts = (texts[:half], first), (texts[half:], first + half)
        return {n: e for part, at in parts for n, e in _unreadable(part, format, options, at).items()}
    return {}


def _blank(found: Instances, count: int, format: str, known: Mapping[int, AbwError]) -> dict[int, AbwError]:
    """An error for each text that holds no instance, and is not known to be wrong."""
    short = format == "pairs"
    what, hint = ("blank, or too short", SHORT) if short else ("blank", EXPECTED[format])
    missing = sorted({*range(count)} - {*(found.lines - 1).tolist()} - known.keys())
    return {number: AbwError(f"instance {number} is {what}", hint=hint) for number in missing}


def _placed(problem: Problem, lines: Longs, first: int) -> Problem:
    """A mistake by its instance, and the line in that; instance `first + i` begins on line `lines[i]`."""
    where = problem.where
    if where is None:
        return problem
    number = int(np.searchsorted(lines, where.line, "right")) - 1
    line = where.line - int(lines[number]) + 1
    return replace(problem, where=replace(where, file=f"instance {first + number}", line=line))


def text_of(number: int, instance: object, format: str) -> bytes:
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
    message = f"instance {number} is not an instance of format {format}: {problem}"
    raise AbwError(message, hint=hint) from None


def _given(text: str, format: str) -> str:
    """A text as it stands in a file, without what is before and behind it."""
    text = text.removeprefix("\ufeff").strip("\n")
    if format == "plans":
        return text.replace("\n", " ")
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


def _plan(plan: object) -> str:
    if not isinstance(plan, Mapping) and len(_sequence(plan)) != 1:
        raise ValueError(f"{_shown(plan)} is no single plan")
    return json.dumps(plan, ensure_ascii=False, default=_refuse_value)


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
    "plans": _plan,
    "json": _object,
}
