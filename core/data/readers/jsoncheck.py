"""JSON lines read with care, in Python: what is unusual is read as well, and what is wrong is said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from abw.core.base.errors import DataError, Problem, Span, did_you_mean
from abw.core.data.feed import MOST_PROBLEMS, Source
from abw.core.data.readers.jsonscan import LARGEST_ID, LEAST_ID
from abw.core.data.readers.jsontokens import LARGEST, TOO_LARGE
from abw.core.ir.formats import COMMON, TAKEN
from abw.core.ir.schema import FieldSchema, Schema

_KEYS = ("id", "vertices", "links")
# Instead of a vertex: the instance itself.
OWN = -1
Value = int | float | str | list[int | float]
# By name the pairs of a link.
Ends = Mapping[str, Sequence[tuple[int, int]]]
T = TypeVar("T")


class _MalformedError(Exception):
    """What is wrong with a line, and a hint."""


def line_of(source: Source, line: int) -> Span:
    """The span of a line, counted from 0."""
    text = source.data[source.begin :].split(b"\n")[line].decode(errors="replace")
    return Span(str(source.path), source.line + line, 1, text.rstrip())


def plainly(
    source: Source, lines: Sequence[tuple[int, int, int]], skip: int, schema: Schema | None
) -> Source:
    """A source with some lines (`full_lines`) in place of its own: those behind the first `skip` are checked,
    also against a schema, and written in the one way that `scan` takes.

    Errors: DataError. Cost: some microseconds a vertex.
    """
    written = [b""] * (source.ends + 1)

    def problems() -> Iterator[Problem]:
        for at, begin, end in lines[skip:]:
            line = source.data[begin:end].decode()
            where = Span(str(source.path), source.line + at, 1, line.rstrip())
            if source.line + at == 1 and (program := _converter(line)):
                yield Problem("the file is not one JSON object a line", where, f"{program} makes it so")
                return  # all that follows is wrong for the same reason
            try:
                value = _checked(line, schema)
                written[at] = json.dumps(value, ensure_ascii=False).encode()
            except json.JSONDecodeError as error:
                yield Problem(
                    f"not JSON: {error.msg}", replace(where, column=error.colno), "one object a line"
                )
            except _MalformedError as error:
                yield Problem(error.args[0], where, error.args[1])

    wrong = list(islice(problems(), MOST_PROBLEMS))
    if wrong:
        raise DataError(wrong)
    for at, _, _ in lines[:skip]:
        written[at] = b"{"
    data = b"\n".join(written)
    return replace(source, data=data, text=np.frombuffer(data, np.uint8))


def _converter(first: str) -> str:
    """What makes JSON lines of a file by its first line; '' where it may have some."""
    text = first.strip()
    if text in ("[", "[]") or re.match(r"\[\s*\{", text):
        return "jq -c '.[]' FILE"
    return "jq -c . FILE" if text == "{" else ""


def _require(vertices: Sequence[Mapping[str, Any]], links: Ends, schema: Schema) -> None:
    """Refuse an instance that is made of something else than the schema says."""
    hint = "the data from which the model was opened has none: what there is to bind is found in it"
    kinds = [vertex["kind"] for vertex in vertices]
    for kind, vertex in zip(kinds, vertices, strict=True):
        if kind not in schema.kinds:
            raise _MalformedError(f"unknown kind '{kind}'", did_you_mean(kind, schema.kinds[1:]) or hint)
        for name, value in vertex.items():
            if name == "kind":
                continue
            if name in COMMON:
                raise _MalformedError(
                    f"'{name}' in the data is a name that every format gives already", TAKEN
                )
            known = schema.fields.get(name)
            if known is None or kind not in known.kinds:
                raise _MalformedError(f"unknown field '{name}' on a vertex of kind '{kind}'", hint)
            if wanted := _wanted(known, value):
                hint = "that is what it is in the data from which the model was opened"
                raise _MalformedError(f"field '{name}' is not {wanted}", hint)
    for name, pairs in links.items():
        link = schema.links.get(name)
        if name in schema.derived:
            made = "the model makes this link itself, and its data have none"
            raise _MalformedError(f"a link '{name}'", made)
        ends = [("instance" if a == OWN else kinds[a], kinds[b]) for a, b in pairs]
        for source, target in ends:
            if link is None or source not in link.source or target not in link.target:
                raise _MalformedError(f"unknown link '{name}' from kind '{source}' to '{target}'", hint)
        if link and not link.many and len({a for a, _ in pairs}) < len(pairs):
            raise _MalformedError(f"several links '{name}' from one vertex", hint)


def _wanted(known: FieldSchema, value: Value) -> str:
    """What a value is not that it should be, if so."""
    if known.text:
        return "" if isinstance(value, str) else "a string"
    if not known.size:
        whole = isinstance(value, int) and 0 <= value <= LARGEST
        return "" if whole else f"a whole number from 0 to {LARGEST}"
    size = len(value) if isinstance(value, list) else 1
    said = "a number" if known.size == 1 else f"a list of {known.size} numbers"
    return "" if not isinstance(value, str) and size == known.size else said


def _checked(line: str, schema: Schema | None) -> dict[str, object]:
    """A line's object, made of what the schema says. Errors: _MalformedError, json.JSONDecodeError."""
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
    ends = {name: _ends(given, f"links.{name}", len(vertices)) for name, given in links.items()}
    name = value.get("id", "")
    if not isinstance(name, str):
        number = _expect(name, int, "id", "a string or a whole number")
        if not LEAST_ID <= number <= LARGEST_ID:
            raise _MalformedError(f"the id {number} has more than 64 bits", "write it as a string")
    if schema:
        _require(vertices, ends, schema)
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


def _ends(given: object, path: str, vertices: int) -> list[tuple[int, int]]:
    """The pairs of a link: written as such, or numbers of vertices that the instance itself leads to."""
    if isinstance(given, int):
        return [(OWN, _vertex(given, path, vertices))]
    found = []
    what = "a list of pairs [from, to], or of vertices to which the instance leads"
    for i, pair in enumerate(_expect(given, list, path, what)):
        here = f"{path}[{i}]"
        if isinstance(pair, int):
            found.append((OWN, _vertex(pair, here, vertices)))
            continue
        ends = _expect(pair, list, here, "a pair [from, to], or a vertex")
        if len(ends) != 2:
            raise _MalformedError(f"{here} has {len(ends)} members", "a pair [from, to]")
        found.append((_vertex(ends[0], here, vertices), _vertex(ends[1], here, vertices)))
    return found


def _vertex(given: object, path: str, vertices: int) -> int:
    number = _expect(given, int, path, "a pair of whole numbers" if path.endswith("]") else "a whole number")
    if not 0 <= number < vertices:
        raise _MalformedError(
            f"{path}: there is no vertex {number}",
            f"this line's vertices are 0 to {vertices - 1}; a link cannot lead to another line's",
        )
    return number


def _expect(value: object, wanted: type[T], path: str, what: str) -> T:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise _MalformedError(f"{path} is not {what}", f"found: {json.dumps(value)[:60]}")
    return value
