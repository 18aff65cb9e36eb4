"""JSON lines read with care, in Python: what is unusual is read as well, and what is wrong is said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from abw.core.base.errors import DataError, Problem, Span, did_you_mean
from abw.core.data.feed import MOST_PROBLEMS, Source
from abw.core.data.readers.jsonscan import LARGEST_ID, LEAST_ID
from abw.core.data.readers.jsontokens import TOO_LARGE

_KEYS = ("id", "vertices", "links")
T = TypeVar("T")


class _MalformedError(Exception):
    """What is wrong with a line, and a hint."""


def plainly(source: Source, lines: Sequence[tuple[int, int, int]], skip: int) -> tuple[Source, list[Problem]]:
    """A source with some lines (`full_lines`) in place of its own: those behind the first `skip`, checked and
    written in the one way that `scan` takes, the first wrong ones left blank; and what is wrong with these.

    Errors: DataError where all lines are wrong for one reason. Cost: some microseconds a vertex.
    """
    written = [b""] * (source.ends + 1)

    def problems() -> Iterator[Problem]:
        for at, begin, end in lines[skip:]:
            line = source.data[begin:end].decode()
            where = Span(str(source.path), source.line + at, 1, line.rstrip())
            if source.line + at == 1 and (program := _converter(line)):
                raise DataError(
                    [Problem("the file is not one JSON object a line", where, f"{program} makes it so")]
                )
            try:
                written[at] = json.dumps(_checked(line), ensure_ascii=False).encode()
            except json.JSONDecodeError as error:
                yield Problem(
                    f"not JSON: {error.msg}", replace(where, column=error.colno), "one object a line"
                )
            except _MalformedError as error:
                yield Problem(error.args[0], where, error.args[1])

    wrong = list(islice(problems(), MOST_PROBLEMS))
    for at, _, _ in lines[:skip]:
        written[at] = b"{"
    data = b"\n".join(written)
    return replace(source, data=data, text=np.frombuffer(data, np.uint8)), wrong


def _converter(first: str) -> str:
    """What makes JSON lines of a file by its first line; '' where it may have some."""
    text = first.strip()
    if text in ("[", "[]") or re.match(r"\[\s*\{", text):
        return "jq -c '.[]' FILE"
    return "jq -c . FILE" if text == "{" else ""


def _checked(line: str) -> dict[str, object]:
    """A line's object. Errors: _MalformedError, json.JSONDecodeError."""
    try:
        value = json.loads(line, object_pairs_hook=_object)
        if "\\u" in line:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _MalformedError(
            "half of a surrogate pair is no character", "write the other half, too"
        ) from None
    except RecursionError:
        raise _MalformedError(
            "brackets nested too deeply", "an instance is an object of lists of objects"
        ) from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer with thousands of digits
        raise _MalformedError(f"not JSON: {error}", "numbers are at most 2147483647") from None
    value = _expect(value, dict, "the line", "an object")
    for key in value:
        if key not in _KEYS:
            raise _MalformedError(f"unknown key '{key}'", did_you_mean(key, _KEYS))
    if "vertices" not in value:
        raise _MalformedError("no key 'vertices'", 'write {"vertices": [{"kind": "atom"}], "links": {}}')
    vertices = _expect(value["vertices"], list, "vertices", "a list")
    if not vertices:
        raise _MalformedError("no vertices", "leave the line out")
    for i, vertex in enumerate(vertices):
        _check_vertex(vertex, f"vertices[{i}]")
    links = _expect(value.get("links", {}), dict, "links", "an object")
    for name, given in links.items():
        _check_ends(given, f"links.{name}", len(vertices))
    name = value.get("id", "")
    if not isinstance(name, str):
        number = _expect(name, int, "id", "a string or a whole number")
        if not LEAST_ID <= number <= LARGEST_ID:
            raise _MalformedError(f"the id {number} has more than 64 bits", "write it as a string")
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise _MalformedError(f"key '{double}' twice in one object", "each key once")
    return found


def _check_vertex(vertex: object, path: str) -> None:
    fields = _expect(vertex, dict, path, "an object")
    if "kind" not in fields:
        raise _MalformedError(f"{path} has no key 'kind'", '{"kind": "atom", "element": 6}')
    kind = _expect(fields["kind"], str, f"{path}.kind", "a string")
    if kind in ("", "instance"):
        raise _MalformedError(
            f"{path}.kind may not be '{kind}'", "the vertex of kind 'instance' is added by itself"
        )
    for name, value in fields.items():
        if isinstance(value, list) and not value:
            raise _MalformedError(f"{path}.{name} is an empty list", "leave the field out")
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, str) and number is value:
                continue
            what = "a list of numbers" if isinstance(value, list) else "a number, a list of them or a string"
            if not isinstance(number, float):
                _expect(number, int, f"{path}.{name}", what)
            if not abs(number) < TOO_LARGE:
                hint = "numbers are finite and fit float32; leave the field out if it is unknown"
                raise _MalformedError(f"{path}.{name} is {str(number)[:30]}", hint)


def _check_ends(given: object, path: str, vertices: int) -> None:
    """The pairs of a link: written as such, or numbers of vertices that the instance itself leads to."""
    if isinstance(given, int):
        _check_end(given, path, "a whole number", vertices)
        return
    what = "a list of pairs [from, to], or of vertices to which the instance leads"
    for i, pair in enumerate(_expect(given, list, path, what)):
        here = f"{path}[{i}]"
        ends = (
            [pair] if isinstance(pair, int) else _expect(pair, list, here, "a pair [from, to], or a vertex")
        )
        if len(ends) != 2 and ends is pair:
            raise _MalformedError(f"{here} has {len(ends)} members", "a pair [from, to]")
        for end in ends:
            _check_end(end, here, "a pair of whole numbers", vertices)


def _check_end(given: object, path: str, what: str, vertices: int) -> None:
    number = _expect(given, int, path, what)
    if not 0 <= number < vertices:
        raise _MalformedError(
            f"{path}: there is no vertex {number}",
            f"this line's vertices are 0 to {vertices - 1}; a link cannot lead to another line's",
        )


def _expect(value: object, wanted: type[T], path: str, what: str) -> T:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise _MalformedError(f"{path} is not {what}", f"found: {json.dumps(value)[:60]}")
    return value
