"""Any typed graphs, as JSON lines: one object, one instance, a line.

`{"id": "x1", "vertices": [{"kind": "atom", "element": 6}, …], "links": {"bond": [[0, 1], [1, 2]]}}`: what
stands beside `kind` on a vertex are its fields, numbers, lists of numbers or strings; a link's pairs are
(from, to), vertices of the same line by their number. A link of the instance itself names where it leads:
`"root": 0`, `"heads": [0, 2]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, DataError, Problem, Span, did_you_mean
from abw.core.data.feed import ALL, MOST_PROBLEMS, Feed, Source, open_feed
from abw.core.data.instances import Instances, Ints, Link, Values
from abw.core.data.links import single
from abw.core.data.readers.jsoncheck import plainly
from abw.core.data.readers.jsonscan import MOST_NAMES, TEXT, VECTOR, WHOLE, Columns, scan
from abw.core.data.readers.jsontokens import LARGEST, texts
from abw.core.data.sidecar import Sidecar, open_sidecar
from abw.core.data.vertices import permuted
from abw.core.ir.formats import COMMON, TAKEN, own_fields, own_links, with_common
from abw.core.ir.schema import FieldSchema, LinkSchema, Schema

_MOST_KINDS = 255
_PART = 1024  # so many lines are looked at together for the schema
# Of what is made of something else than the schema says.
_NONE = "the data from which the model was opened has none: what there is to bind is found in it"
_OTHER_FORM = "that is what it is in the data from which the model was opened"
_MADE = "the model makes this link itself, and its data have none"
_GIVEN = "'{}' in the data is a name that every format gives already"


@dataclass(frozen=True, slots=True)
class _Taken:
    """Lines as columns, the source that they stand in, and their numbers as instances."""

    columns: Columns
    source: Source
    numbers: NDArray[np.int64]

    def lines(self, vertex: NDArray[np.integer]) -> Ints:
        """The numbers of vertices' lines in their source, from 0; of instances' own, -1 - i, too."""
        columns = self.columns
        at = np.where(vertex < 0, -1 - vertex, columns.ptr.searchsorted(vertex, "right") - 1)
        return np.take(columns.line, at)

    def problem(self, line: int, message: str, hint: str) -> Problem:
        """What is wrong with a line."""
        source = self.source
        text = source.data[source.begin :].split(b"\n")[line].decode(errors="replace")
        return Problem(message, Span(str(source.path), source.line + line, 1, text.rstrip()), hint)


def schema_of_json(path: Path, beside: str = "", *, skip_bad: bool = False) -> Schema:
    """The kinds, links and fields that a file's instances have; kinds in order of first appearance.

    A link is `many` if any vertex has more than one of it. A field holds whole numbers if all of its values
    are such, from 0 to 2147483647, else numbers (float32), as many as are in each of its lists. Errors:
    DataError, with `skip_bad` none for malformed lines. Cost: reads the whole file, a part at a time.
    """
    found = _Found()
    with open_feed(path) as feed:
        while True:
            try:
                taken = _take(feed, 0, _PART)
            except DataError as error:
                if not skip_bad:
                    raise
                feed.leave_out(error.spans)
                continue
            if not len(taken.columns):
                break
            problems = found.add(taken)
            if problems and not skip_bad:
                raise DataError(problems)
    if not found.kinds:
        raise DataError([Problem("no instances in the file", Span(str(path), 1))])
    return found.schema(path, _checked(path, beside, found) if beside else None)


def _checked(path: Path, suffix: str, found: _Found) -> Sidecar:
    """Check the arrays of a file that has been read to its end."""
    arrays = open_sidecar(path, suffix)
    arrays.refuse_others(found.vertices)
    return arrays


def read_json(feed: Feed, skip: int, limit: int, schema: Schema | None, beside: str = "") -> Instances:
    """Instances `skip` to `skip + limit` of what is left of a file; the vertices in the order of their line.

    They are made of what `schema` says; without one all that is left is read, and the schema is that of it
    all. Errors: DataError. Cost: some 10 ns a value; some microseconds where a line within the same piece of
    the file has an escaped name, or what else is unusual.
    """
    arrays = _beside(feed, beside) if beside else None
    if schema is not None and arrays is None:
        return _instances(_take(feed, skip, limit, schema), schema, feed.path)
    taken = _take(feed, 0, ALL if schema is None else skip + limit, schema)
    if schema is None:
        found = _Found()
        if problems := found.add(taken):
            raise DataError(problems)
        schema = found.schema(feed.path, arrays)
    instances = _instances(taken, schema, feed.path)
    if skip or limit < len(instances):
        instances = permuted(instances, np.arange(len(instances))[skip : skip + limit])
    if arrays is None:
        return instances
    arrays.skip(_kind_counts(taken.columns, min(skip, len(taken.columns))))
    return arrays.give(instances)


def _beside(feed: Feed, suffix: str) -> Sidecar:
    """Open the file of arrays that belongs to a feed's file. Errors: AbwError."""
    if feed.size is None:
        hint = "put the fields on the lines, or name a file"
        raise AbwError("a pipe has no file of arrays", hint=hint)
    if not isinstance(feed.beside, Sidecar):
        feed.beside = open_sidecar(feed.path, suffix)
    return feed.beside


def _kind_counts(columns: Columns, instances: int) -> dict[str, int]:
    """How many vertices of each kind the first instances have."""
    counts = np.bincount(columns.kind[: columns.ptr[instances]], minlength=len(columns.kinds))
    return dict(zip(columns.kinds, counts.tolist(), strict=True))


def _take(feed: Feed, skip: int, limit: int, schema: Schema | None = None) -> _Taken:
    """The lines `skip` to `skip + limit` that are not blank. Errors: DataError."""
    stop = skip + limit
    for source in feed.windows(stop):
        scanned = scan(source, skip, stop)
        full = source.full_lines(stop) if scanned is None else []
        seen = len(full) if scanned is None else scanned[1]
        if source.enough(seen, stop, skip):
            break
    if scanned is not None:
        source.check(scanned[2])
    problems: list[Problem] = []
    if scanned is None:
        end = full[-1][2] + 1 if len(full) == stop else len(source.data)
        source.check(end)
        plain, problems = plainly(source, full, skip)
        scanned = scan(plain, skip, stop, max(MOST_NAMES, plain.data.count(b'":')))
        assert scanned is not None
    else:
        end = scanned[2]
    columns = scanned[0]
    taken = _Taken(columns, source, feed.numbers(columns.line + np.int32(source.line), skip))
    problems += _misfits(taken, schema) if schema else []
    if problems:
        problems.sort(key=lambda problem: problem.where.line if problem.where else 0)
        raise DataError(problems[:MOST_PROBLEMS])
    feed.take(source, end, seen)
    return taken


def _instances(taken: _Taken, schema: Schema, path: Path) -> Instances:
    columns = taken.columns
    instances = np.arange(len(columns.ptr), dtype=np.int32)
    start = (columns.ptr + instances).astype(np.int64)
    count = int(start[-1])
    # each vertex's place among them all
    position = np.arange(len(columns.kind), dtype=np.int32) + np.repeat(instances[1:], np.diff(columns.ptr))
    kinds = np.array([schema.kinds.index(name) for name in columns.kinds], np.uint8)
    kind = np.zeros(count, np.uint8)
    kind[position] = kinds[columns.kind]
    fields: dict[str, Ints] = {}
    values: dict[str, Values] = {}
    vocabulary: dict[str, list[str]] = {}
    for name in sorted(own_fields(schema)):
        item = schema.fields[name]
        vertex, _, _, begin, end = _of(columns.value, 1, columns.fields, name)
        if item.size:
            runs = as_strided(columns.number, (len(columns.number), item.size), (8, 8), writeable=False)
            values[name] = Values(position[vertex], runs[begin].astype(np.float32))
            continue
        fields[name] = np.full(count, -1, np.int32)
        if item.text:
            fields[name][position[vertex]], vocabulary[name] = texts(columns.data, begin, end)
        else:
            fields[name][position[vertex]] = columns.number[begin]
    links: dict[str, Link] = {}
    origin = np.append(position, start[-2::-1].astype(np.int32))  # -1 - i is the vertex of instance i itself
    for name in sorted(own_links(schema)):
        _, source, target = _of(columns.edge, 0, columns.links, name)
        make = Link.many if schema.links[name].many else single
        links[name] = make(origin[source], position[target], count)
    lines = columns.line + np.int32(taken.source.line)
    names = columns.names if any(name != "" for name in columns.names) else None
    return Instances(
        schema, kind, start, links, fields, vocabulary, path, lines, taken.numbers, names, values
    )


def _of(table: Ints, row: int, names: Sequence[str], name: str) -> Ints:
    """The columns of a table that belong to a name."""
    if name not in names:
        return table[:, :0]
    return table if len(names) == 1 else table.take(np.flatnonzero(table[row] == names.index(name)), 1)


def _sizes(form: Ints, begin: Ints, end: Ints) -> Ints:
    """How many numbers each value is."""
    return np.where(form == VECTOR, end - begin, np.int32(1))


def _kinds_at(columns: Columns, vertex: Ints) -> set[str]:
    """The kinds of some vertices, and of instances themselves."""
    kinds = {columns.kinds[k] for k in np.flatnonzero(np.bincount(columns.kind[vertex[vertex >= 0]]))}
    return kinds | {"instance"} if (vertex < 0).any() else kinds


def _several(vertex: Ints) -> Ints:
    """The vertices, or instances, that are there more than once."""
    least = vertex.min(initial=0)
    found: Ints = (np.flatnonzero(np.bincount(vertex - least) > 1) + least).astype(np.int32)
    return found


def _misfits(taken: _Taken, schema: Schema) -> list[Problem]:
    """What is made of something else than a schema says: one problem a line, of the first lines."""
    columns, found = taken.columns, dict[int, Problem]()
    names = [*columns.kinds, "instance"]  # so that kind -1 is that of instances

    def note(vertex: NDArray[np.integer], message: str, hint: str) -> None:
        for line in np.unique(taken.lines(vertex))[:MOST_PROBLEMS].tolist():
            found.setdefault(line, taken.problem(line, message, hint))

    for k, kind in enumerate(columns.kinds):
        if kind not in schema.kinds:
            hint = did_you_mean(kind, schema.kinds[1:]) or _NONE
            note(np.flatnonzero(columns.kind == k), f"unknown kind '{kind}'", hint)
    for name in columns.fields:
        vertex, _, form, begin, end = _of(columns.value, 1, columns.fields, name)
        item = schema.fields.get(name, FieldSchema(frozenset()))
        if name in COMMON:
            note(vertex, _GIVEN.format(name), TAKEN)
            continue
        for kind in sorted(_kinds_at(columns, vertex) - item.kinds):
            here = columns.kind[vertex] == names.index(kind)
            note(vertex[here], f"unknown field '{name}' on a vertex of kind '{kind}'", _NONE)
        if item.size:
            wrong = (form == TEXT) | (_sizes(form, begin, end) != item.size)
        else:
            wrong = form != (TEXT if item.text else WHOLE)
        if wrong.any():
            note(vertex[wrong], f"field '{name}' is not {_wanted(item)}", _OTHER_FORM)
    for name in columns.links:
        _, source, target = _of(columns.edge, 0, columns.links, name)
        link = schema.links.get(name, LinkSchema(frozenset(), frozenset()))
        if name in schema.derived:
            note(source, f"a link '{name}'", _MADE)
        elif not (_kinds_at(columns, source) <= link.source and _kinds_at(columns, target) <= link.target):
            of, to = np.where(source < 0, -1, columns.kind[source]), columns.kind[target]
            for a, b in np.unique([of, to], axis=1).T.tolist():
                if names[a] not in link.source or names[b] not in link.target:
                    message = f"unknown link '{name}' from kind '{names[a]}' to '{names[b]}'"
                    note(source[(of == a) & (to == b)], message, _NONE)
        elif not link.many and len(twice := _several(source)):
            note(twice, f"several links '{name}' from one vertex", _NONE)
    return [*found.values()]


def _wanted(item: FieldSchema) -> str:
    if item.size > 1:
        return f"a list of {item.size} numbers"
    return "a number" if item.size else "a string" if item.text else f"a whole number from 0 to {LARGEST}"


class _Found:
    """What instances are made of, as far as they were seen."""

    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        self.fields: dict[str, set[str]] = {}
        self.form: dict[str, tuple[bool, int, int]] = {}  # whether text; how many numbers; seen on which line
        self.odd: dict[str, str] = {}  # the first value that is no whole number, and its line
        self.sources: dict[str, set[str]] = {}
        self.targets: dict[str, set[str]] = {}
        self.many: dict[str, bool] = {}
        self.vertices: Counter[str] = Counter()

    def add(self, taken: _Taken) -> list[Problem]:
        """See some more; returns where a field is a number here and a string there, or of other sizes."""
        columns = taken.columns
        self.kinds |= dict.fromkeys(columns.kinds)
        self.vertices.update(_kind_counts(columns, len(columns)))
        problems = []
        for name in columns.fields:
            vertex, _, form, begin, end = _of(columns.value, 1, columns.fields, name)
            if name in COMMON:
                lines = taken.lines(vertex[:MOST_PROBLEMS]).tolist()
                problems += [taken.problem(line, _GIVEN.format(name), TAKEN) for line in lines]
                continue
            self.fields.setdefault(name, set()).update(_kinds_at(columns, vertex))
            text, size = form == TEXT, _sizes(form, begin, end)
            begins = taken.source.line
            if not self.odd.get(name) and (odd := np.flatnonzero(~text & (form != WHOLE))).size:
                given = columns.number[begin[odd[0]]] if size[odd[0]] == 1 else size[odd[0]]
                what = f"{given:g}" if size[odd[0]] == 1 else f"{given} numbers"
                self.odd[name] = f"{what} on line {begins + taken.lines(vertex[odd[:1]])[0]}"
            if name not in self.form:
                self.form[name] = bool(text[0]), int(size[0]), int(begins + taken.lines(vertex[:1])[0])
            is_text, known, line = self.form[name]
            wrong = np.flatnonzero((text != is_text) | (size != known))[:MOST_PROBLEMS]
            for i, at in zip(wrong.tolist(), taken.lines(vertex[wrong]).tolist(), strict=True):
                here, there = _shown(bool(text[i]), int(size[i])), _shown(is_text, known)
                message = f"field '{name}' is {here} here, {there} on line {line}"
                hint = "one field, one type" if text[i] != is_text else "one field, one size"
                problems.append(taken.problem(at, message, hint))
        for name in columns.links:
            _, source, target = _of(columns.edge, 0, columns.links, name)
            self.sources.setdefault(name, set()).update(_kinds_at(columns, source))
            self.targets.setdefault(name, set()).update(_kinds_at(columns, target))
            self.many[name] = self.many.get(name, False) or bool(len(_several(source)))
        problems.sort(key=lambda problem: problem.where.line if problem.where else 0)
        return problems[:MOST_PROBLEMS]

    def schema(self, path: Path, beside: Sidecar | None = None) -> Schema:
        """The schema of all that was seen, and of the arrays beside it. Errors: DataError."""
        if len(self.kinds) > _MOST_KINDS:
            message = f"{path}: {len(self.kinds)} kinds of vertices; at most {_MOST_KINDS}"
            raise DataError([Problem(message)])
        links = {
            n: LinkSchema(frozenset(self.sources[n]), frozenset(self.targets[n]), self.many[n])
            for n in self.sources
        }
        fields = {}
        for name, kinds in self.fields.items():
            is_text, size, _ = self.form[name]
            odd = "" if is_text else self.odd.get(name, "")
            fields[name] = FieldSchema(frozenset(kinds), is_text, odd, size if odd else 0)
        for name, item in (beside.fields if beside else {}).items():
            if name in fields:
                raise DataError([Problem(f"field '{name}' is in {path} and in the file beside it")])
            fields[name] = item
        try:
            return with_common(Schema("json", tuple(self.kinds), {}, links, fields))
        except AbwError as error:
            raise DataError([Problem(f"{path}: {error.message}", hint=error.hint)]) from None


def _shown(is_text: bool, size: int) -> str:
    return "a string" if is_text else "a number" if size == 1 else f"{size} numbers"
