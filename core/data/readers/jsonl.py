"""Any typed graphs, as JSON lines: one object, one instance, a line.

`{"id": "x1", "vertices": [{"kind": "atom", "element": 6}, …], "links": {"bond": [[0, 1], [1, 2]]}}`: what
stands beside `kind` on a vertex are its fields, whole numbers or strings; a link's pairs are (from, to),
vertices of the same line by their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, DataError, Problem, Span, did_you_mean
from abw.core.data.feed import ALL, MOST_PROBLEMS, Feed, open_feed
from abw.core.data.instances import Instances, Ints, Link
from abw.core.ir.formats import with_common
from abw.core.ir.schema import FieldSchema, LinkSchema, Schema

_KEYS = ("id", "vertices", "links")
_LARGEST = 2**31 - 1
_MOST_KINDS = 255
_PART = 1024  # so many lines are looked at together for the schema
Value = int | str
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Record:
    """One line, checked: its number in the file, its id, the vertices' kinds and fields, the links' pairs."""

    where: Span
    number: int
    name: str | int
    kinds: tuple[str, ...]
    fields: tuple[Mapping[str, Value], ...]
    links: Mapping[str, Sequence[tuple[int, int]]]


class _MalformedError(Exception):
    """What is wrong with a line, and a hint."""


def schema_of_json(path: Path, *, skip_bad: bool = False) -> Schema:
    """The kinds, links and fields that a file's instances have; kinds in order of first appearance.

    A link is `many` if any vertex has more than one of it. Errors: DataError, with `skip_bad` none for
    malformed lines. Cost: reads the whole file, a part at a time.
    """
    found = _Found()
    with open_feed(path) as feed:
        while True:
            try:
                records = _take(feed, 0, _PART)
            except DataError as error:
                if not skip_bad:
                    raise
                feed.leave_out(error.spans)
                continue
            if not records:
                break
            problems = found.add(records)
            if problems and not skip_bad:
                raise DataError(problems)
    if not found.kinds:
        raise DataError([Problem("no instances in the file", Span(str(path), 1))])
    return found.schema(path)


def read_json(feed: Feed, skip: int, limit: int, schema: Schema | None) -> Instances:
    """Instances `skip` to `skip + limit` of what is left of a file; the vertices in the order of their line.

    They are made of what `schema` says; without one all that is left is read, and the schema is that of it
    all. Errors: DataError. Cost: some microseconds a vertex, all in Python.
    """
    every = _take(feed, 0 if schema is None else skip, ALL if schema is None else limit, schema)
    if schema is None:
        found = _Found()
        if problems := found.add(every):
            raise DataError(problems)
        schema = found.schema(feed.path)
        every = every[skip : skip + limit]
    return _instances(every, schema, feed.path)


def _instances(records: Sequence[_Record], schema: Schema, path: Path) -> Instances:
    start = np.cumsum([0] + [1 + len(r.kinds) for r in records])
    number = {kind: i for i, kind in enumerate(schema.kinds)}
    kind = np.array([number[k] for r in records for k in ("instance", *r.kinds)], np.uint8)
    common = with_common(Schema("json", schema.kinds[1:]))
    fields, vocabulary = {}, {}
    for name in sorted(schema.fields.keys() - common.fields.keys()):
        values = [v for r in records for v in (None, *(f.get(name) for f in r.fields))]
        if schema.fields[name].text:
            words: dict[Value, int] = {}
            fields[name] = _ints(-1 if v is None else words.setdefault(v, len(words)) for v in values)
            vocabulary[name] = [str(word) for word in words]
        else:
            fields[name] = _ints(-1 if v is None else v for v in values)
    links = {
        name: _link(name, records, start, schema)
        for name in sorted(schema.links.keys() - common.links.keys())
    }
    lines = _ints(r.where.line for r in records)
    numbers = np.fromiter((r.number for r in records), np.int64)
    names = tuple(r.name for r in records) if any(r.name != "" for r in records) else None
    return Instances(schema, kind, start, links, fields, vocabulary, path, lines, numbers, names)


def _ints(values: Iterator[Value]) -> Ints:
    return np.fromiter(values, np.int32)


def _link(name: str, records: Sequence[_Record], start: NDArray[np.int64], schema: Schema) -> Link:
    pairs = [
        (int(s) + 1 + a, int(s) + 1 + b)
        for s, r in zip(start[:-1], records, strict=True)
        for a, b in r.links.get(name, ())
    ]
    edges = np.array(pairs, np.int32).reshape(-1, 2)
    count = int(start[-1])
    if not schema.links[name].many:
        target = np.full(count, -1, np.int32)
        target[edges[:, 0]] = edges[:, 1]
        return Link(target)
    order = np.argsort(edges[:, 0], kind="stable")
    indptr = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(edges[:, 0], minlength=count), out=indptr[1:])
    return Link(np.ascontiguousarray(edges[order, 1]), indptr)


class _Found:
    """What records are made of, as far as they were seen."""

    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        self.fields: dict[str, set[str]] = {}
        self.text: dict[str, tuple[bool, int]] = {}
        self.sources: dict[str, set[str]] = {}
        self.targets: dict[str, set[str]] = {}
        self.many: dict[str, bool] = {}

    def add(self, records: Sequence[_Record]) -> list[Problem]:
        """See some more; returns where a field is a number here and a string there."""
        problems = []
        for record in records:
            for kind, values in zip(record.kinds, record.fields, strict=True):
                self.kinds[kind] = None
                for name, value in values.items():
                    self.fields.setdefault(name, set()).add(kind)
                    is_text, line = self.text.setdefault(name, (isinstance(value, str), record.where.line))
                    if is_text != isinstance(value, str):
                        message = f"field '{name}' is a {'number' if is_text else 'string'} here"
                        other = f"a {'string' if is_text else 'number'} on line {line}"
                        problems.append(Problem(f"{message}, {other}", record.where, "one field, one type"))
            for name, pairs in record.links.items():
                begins = [a for a, _ in pairs]
                self.sources.setdefault(name, set()).update(record.kinds[a] for a in begins)
                self.targets.setdefault(name, set()).update(record.kinds[b] for _, b in pairs)
                self.many[name] = self.many.get(name, False) or len(set(begins)) < len(begins)
        return problems[:MOST_PROBLEMS]

    def schema(self, path: Path) -> Schema:
        """The schema of all that was seen. Errors: DataError."""
        if len(self.kinds) > _MOST_KINDS:
            message = f"{path}: {len(self.kinds)} kinds of vertices; at most {_MOST_KINDS}"
            raise DataError([Problem(message)])
        links = {
            n: LinkSchema(frozenset(self.sources[n]), frozenset(self.targets[n]), self.many[n])
            for n in self.sources
        }
        fields = {n: FieldSchema(frozenset(self.fields[n]), self.text[n][0]) for n in self.fields}
        try:
            return with_common(Schema("json", tuple(self.kinds), {}, links, fields))
        except AbwError as error:
            raise DataError([Problem(f"{path}: {error.message}", hint=error.hint)]) from None


def _take(feed: Feed, skip: int, limit: int, schema: Schema | None = None) -> list[_Record]:
    """The lines `skip` to `skip + limit` that are not blank, as records. Errors: DataError."""
    stop = skip + limit
    for source in feed.windows(stop):
        lines = source.data[source.begin :].split(b"\n")
        full = [number for number, line in enumerate(lines) if line.strip()][:stop]
        if source.enough(len(full), stop, skip):
            break
    ends = source.begin + np.cumsum([len(line) + 1 for line in lines])
    end = min(int(ends[full[-1] if len(full) == stop else -1]), len(source.data))
    source.check(end)
    numbers = feed.numbers(np.array(full, np.int32) + np.int32(source.line), 0).tolist()

    def problems() -> Iterator[Problem]:
        for at, number in zip(full[skip:], numbers[skip:], strict=True):
            line = lines[at].decode()
            where = Span(str(source.path), source.line + at, 1, line.rstrip())
            try:
                records.append(_record(line, where, number))
                if schema:
                    _require(records[-1], schema)
            except json.JSONDecodeError as error:
                yield Problem(
                    f"not JSON: {error.msg}", replace(where, column=error.colno), "one object a line"
                )
            except _MalformedError as error:
                yield Problem(error.args[0], where, error.args[1])

    records: list[_Record] = []
    found = list(islice(problems(), MOST_PROBLEMS))
    if found:
        raise DataError(found)
    feed.take(source, end, len(full))
    return records


def _require(record: _Record, schema: Schema) -> None:
    """Refuse a record that is made of something else than the schema says."""
    hint = "the data from which the model was opened has none: what there is to bind is found in it"
    for kind, fields in zip(record.kinds, record.fields, strict=True):
        if kind not in schema.kinds:
            raise _MalformedError(f"unknown kind '{kind}'", did_you_mean(kind, schema.kinds[1:]) or hint)
        for name, value in fields.items():
            known = schema.fields.get(name)
            if known is None or kind not in known.kinds:
                raise _MalformedError(f"unknown field '{name}' on a vertex of kind '{kind}'", hint)
            if known.text != isinstance(value, str):
                wanted = "a string" if known.text else "a number"
                raise _MalformedError(f"field '{name}' is not {wanted}", "one field, one type")
    for name, pairs in record.links.items():
        link = schema.links.get(name)
        ends = [(record.kinds[a], record.kinds[b]) for a, b in pairs]
        for source, target in ends:
            if link is None or source not in link.source or target not in link.target:
                raise _MalformedError(f"unknown link '{name}' from kind '{source}' to '{target}'", hint)
        if link and not link.many and len({a for a, _ in pairs}) < len(pairs):
            raise _MalformedError(f"several links '{name}' from one vertex", hint)


def _record(line: str, where: Span, number: int) -> _Record:
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
    for name, pairs in links.items():
        for i, pair in enumerate(_expect(pairs, list, f"links.{name}", "a list")):
            _check_pair(pair, f"links.{name}[{i}]", len(vertices))
    name = value.get("id", "")
    return _Record(
        where,
        number,
        name if isinstance(name, str) else _number(_expect(name, int, "id", "a string or a whole number")),
        tuple(v["kind"] for v in vertices),
        tuple({name: x for name, x in v.items() if name != "kind"} for v in vertices),
        {name: [(a, b) for a, b in pairs] for name, pairs in links.items()},
    )


def _number(name: int) -> int:
    if not -(2**63) <= name < 2**64:
        raise _MalformedError(f"the id {name} has more than 64 bits", "write it as a string")
    return name


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
        if not isinstance(value, str):
            number = _expect(value, int, f"{path}.{name}", "a whole number or a string")
            if not 0 <= number <= _LARGEST:
                raise _MalformedError(f"{path}.{name} is {number}", f"numbers are from 0 to {_LARGEST}")


def _check_pair(pair: object, path: str, vertices: int) -> None:
    ends = _expect(pair, list, path, "a pair [from, to]")
    if len(ends) != 2:
        raise _MalformedError(f"{path} has {len(ends)} members", "a pair [from, to]")
    for end in ends:
        if not 0 <= _expect(end, int, path, "a pair of whole numbers") < vertices:
            raise _MalformedError(
                f"{path}: there is no vertex {end}",
                f"this line's vertices are 0 to {vertices - 1}; a link cannot lead to another line's",
            )


def _expect(value: object, wanted: type[T], path: str, what: str) -> T:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise _MalformedError(f"{path} is not {what}", f"found: {json.dumps(value)[:60]}")
    return value
