"""Query plans as PostgreSQL and DuckDB explain them in JSON: an operator a vertex, in preorder.

PostgreSQL's `EXPLAIN (FORMAT JSON)`, with or without ANALYZE and BUFFERS; DuckDB's, and its profiles. A file
has plan after plan, on one line or several, also as members of an array.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import ALL, Bytes, Fault, Feed, Source
from abw.core.data.instances import Instances, Ints, Link, Values
from abw.core.data.links import Lazy, inverse, single
from abw.core.data.readers import planscan as scan
from abw.core.data.readers.jsontokens import TOO_LARGE, json_of, texts
from abw.core.ir import formats

_FAULTS = {
    scan.INSIDE: ("the text ends inside a plan", "is the file cut off?"),
    scan.NOT_JSON: ("this is not JSON", "EXPLAIN (FORMAT JSON) writes it"),
    scan.NO_PLAN: ("no plan in this object", 'it has a "Plan", or the "name" of an operator'),
    scan.NO_TYPE: ("a node without its operator", f"one of the keys {', '.join(formats.TYPE_KEYS)}"),
    scan.NOT_NUMBER: ("not a number", "leave the key out where it is unknown"),
    scan.NOT_TEXT: ("not a text", "leave the key out where it is unknown"),
    scan.NOT_NODES: ("not a list of nodes", '[{"Node Type": "Seq Scan", …}, …]'),
    scan.NOT_NODE: ("not a node", '{"Node Type": "Seq Scan", …}'),
    scan.SEVERAL: ("a second root", "a plan has one root: one object for each plan"),
    scan.LATE: ("the operator comes behind the children of the outermost node", "it is the first key there"),
    scan.DEEP: (f"more than {scan.DEEPEST} brackets are open", "is this a plan?"),
    scan.LARGE: ("a number that float32 cannot hold", "leave the key out where it is unknown"),
    scan.NOTHING: ("no plan begins here", "EXPLAIN (FORMAT JSON); psql -XqAt writes it without a frame"),
}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},:]|[^\s"\[\]{},:]+')
_DOCUMENT = re.compile(rb"^[\[{]", re.MULTILINE)


def read_plans(feed: Feed, skip: int, limit: int) -> Instances:
    """Plans `skip` to `skip + limit` of what is left of a file; the nodes of each come in preorder.

    Errors: DataError with line, column and the path of keys. Cost: about 0.8 ns a byte, some 250 ns a node of
    PostgreSQL's.
    """
    stop = skip + limit
    for source in feed.windows(stop):
        (seen, end, code, at), room = _scanned(source, source.begin, skip, stop)
        if code > scan.INSIDE or source.enough(seen, stop, skip):
            break
    if code > scan.INSIDE or (code == scan.INSIDE and not source.enough(seen, stop, skip)):
        _refuse(source, code, at, int(room.rows[2, max(seen - skip, 0)]))
    source.check(end)
    rows = room.rows[:, : max(seen - skip, 0)]
    _read_hard(source, room, rows)
    line = rows[1] + np.int32(source.line)
    numbers = feed.numbers(line, skip)
    feed.take(source, end, seen)
    count, values = room.counts[:2].tolist()
    start = np.append(rows[0], count).astype(np.int64)
    kind, vertex = room.kind[:count], room.vertex[:3, :count]
    return Instances(
        formats.SCHEMAS["plans"],
        kind,
        start,
        _links(start, vertex),
        *_fields(source, kind, room, values),
        source.path,
        line,
        numbers,
        None,
        _numbers(room, values),
    )


def _scanned(
    source: Source, at: int, skip: int, stop: int
) -> tuple[tuple[int, int, int, int], scan.PlanRoom]:
    """What `scan_plans` returns, and what it wrote."""
    room = scan.room_of(len(source.data))
    return scan.scan_plans(json_of(source.data), at, skip, stop, scan.names(), room), room


def _links(start: NDArray[np.int64], vertex: Ints) -> Lazy[Link]:
    roots, count = start[:-1], vertex.shape[1]
    parent, left, right = vertex
    return Lazy(
        {
            "root": lambda: single(roots, roots + 1, count),
            "parent": lambda: Link(parent),
            "children": lambda: inverse(parent),
            "left": lambda: Link(left),
            "right": lambda: Link(right),
        }
    )


def _of(room: scan.PlanRoom, values: int, field: int) -> tuple[NDArray[np.intp], Ints]:
    """The places of a field's values and their vertices, in order: where one has several, its last one."""
    at = np.flatnonzero(room.field[:values] == field)
    vertex = room.owner[at]
    if (vertex[1:] <= vertex[:-1]).any():
        order = np.argsort(vertex, kind="stable")
        at, vertex = at[order], vertex[order]
        last = np.append(vertex[1:] != vertex[:-1], True)
        at, vertex = at[last], vertex[last]
    return at, vertex


def _fields(
    source: Source, kind: Bytes, room: scan.PlanRoom, values: int
) -> tuple[Lazy[Ints], Lazy[list[str]]]:
    """The words and kinds of nodes, and the distinct words."""

    def words(field: int) -> tuple[Ints, list[str]]:
        at, vertex = _of(room, values, field)
        numbers = np.full(len(kind), -1, np.int32)
        numbers[vertex], found = texts(source.data, room.span[at, 0], room.span[at, 1])
        return numbers, found

    names = {name: number for number, name in enumerate(scan.FIELDS) if number >= len(scan.NUMBERS)}
    made = Lazy({name: partial(words, number) for name, number in names.items()})

    def numbers(name: str) -> Ints:
        return made[name][0]

    def vocabulary(name: str) -> list[str]:
        return made[name][1]

    fields: dict[str, Callable[[], Ints]] = {name: partial(numbers, name) for name in names}
    fields["kind"] = lambda: np.where(kind, kind.astype(np.int32), np.int32(-1))
    fields["child-count"] = lambda: room.vertex[3, : len(kind)]
    return Lazy(fields), Lazy({name: partial(vocabulary, name) for name in names})


def _numbers(room: scan.PlanRoom, values: int) -> Lazy[Values]:
    def numbers(field: int) -> Values:
        at, vertex = _of(room, values, field)
        return Values(vertex, room.number[at].astype(np.float32)[:, None])

    return Lazy({scan.FIELDS[n]: partial(numbers, n) for n in range(len(scan.NUMBERS))})


def _read_hard(source: Source, room: scan.PlanRoom, rows: Ints) -> None:
    """Read numbers again that compiled code may have missed by a digit. Errors: DataError."""
    for m, begin, end in room.hard[:, : room.counts[2]].T.tolist():
        room.number[m] = float(source.data[begin:end])
        if abs(room.number[m]) >= TOO_LARGE:
            plan = np.searchsorted(rows[0], room.owner[m], "right") - 1
            _refuse(source, scan.LARGE, begin, int(rows[2, plan]))


def _refuse(source: Source, code: int, at: int, begin: int) -> None:
    """Raise a DataError with the first faults, each with its path; see `Source.refuse`."""
    spans: list[range] = []

    def faults(code: int, at: int, begin: int) -> Iterator[Fault]:
        while code:
            message, hint = _FAULTS[code]
            begin = begin if code != scan.NOTHING else at
            path = _path(source.data[begin:at].decode(errors="replace"))
            fault = Fault(at, f"{path}: {message}" if path else message, hint)
            behind = _behind(source, begin, at)
            line = source.line + source.data.count(b"\n", 0, begin)
            more = max(source.data.count(b"\n", begin, behind - 1), 0) if behind > begin else 0
            spans.append(range(line, line + more + 1))
            yield fault
            if code == scan.INSIDE:
                return
            found, room = _scanned(source, behind, 0, ALL)
            code, at, begin = found[2], found[3], int(room.rows[2, found[0]])

    source.refuse(faults(code, at, begin), spans)


def _behind(source: Source, begin: int, at: int) -> int:
    """Where to read on behind a plan with a fault: behind it where it is JSON, else at the next line that
    begins with a bracket.
    """
    try:
        text = source.data[begin:].decode()
        _, end = json.JSONDecoder().raw_decode(text)
        return begin + len(text[:end].encode())
    except (ValueError, RecursionError):
        following = _DOCUMENT.search(source.data, at + 1)
        return following.start() if following else len(source.data)


def _path(text: str) -> str:
    """The keys and numbers that lead to the end of the beginning of a document: Plan.Plans[1].Total Cost."""
    path: list[str | int] = []
    key = ""
    for token in _TOKEN.findall(text):
        match token[0]:
            case "{":
                path.append("")
            case "[":
                path.append(0)
            case "]" | "}":
                del path[-1:]
            case ",":
                if path and isinstance(path[-1], int):
                    path[-1] += 1
            case ":":
                if path and isinstance(path[-1], str):
                    path[-1] = key
            case '"':
                key = token[1:-1]
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" if step else "" for step in path)
    return shown.removeprefix(".")
