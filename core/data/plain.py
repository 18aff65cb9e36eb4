"""Instances as plain Python objects: what `objects.py` takes, the other way round; and JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.data.feed import Fault, Feed
from abw.core.data.instances import Instances, Ints
from abw.core.ir.formats import NODE_NUMBERS, PLAN_NUMBERS, TEXTS, slug


@dataclass(frozen=True, slots=True)
class Plain:
    """n instances as objects, the line on which each begins (n,), its number in the file (n,), and its id in
    the data, '' without one (n,).
    """

    objects: Sequence[Any]
    lines: Ints
    numbers: NDArray[np.int64]
    names: Sequence[str | int]

    def __len__(self) -> int:
        return len(self.objects)


def plain(instances: Instances) -> Plain:
    """Instances of every format but json as objects; words, labels and tags are texts.

    - trees: `(label, child, ...)`, of a leaf `(label, word)`;
    - lattice: a list of positions, each a list of the arcs `(from, id)` that end there;
    - tags: a list of pairs `(word, tag)`;
    - pairs: `(source, target)`, each a list of words;
    - words: a list of words;
    - plans: a mapping with the root as "Plan", each node a mapping of its keys with its children as "Plans".

    Cost: about a microsecond a vertex.
    """
    found = _MADE[instances.schema.format](instances)
    names = instances.names or ("",) * len(instances)
    return Plain(found, instances.lines, instances.numbers, names)


def _texts(instances: Instances, field: str) -> list[str]:
    """The text of a field at each vertex; '' where it has none."""
    words = [*instances.vocabulary[field], ""]
    return [words[number] for number in instances.fields[field].tolist()]


def _bounds(instances: Instances) -> list[tuple[int, int]]:
    """The vertices of each instance, behind its own."""
    start = instances.start.tolist()
    return [(begin + 1, end) for begin, end in pairwise(start)]


def _trees(instances: Instances) -> list[Any]:
    labels, words = _texts(instances, "label"), _texts(instances, "word")
    leaf = instances.schema.kinds.index("leaf")
    kind, children = instances.kind.tolist(), instances.links["children"]
    assert children.indptr is not None
    ptr, target = children.indptr.tolist(), children.target.tolist()
    made: list[Any] = [None] * len(kind)
    for v in range(len(kind) - 1, -1, -1):  # children come behind their parent
        if kind[v] == leaf:
            made[v] = (labels[v], words[v])
        else:
            made[v] = (labels[v], *(made[child] for child in target[ptr[v] : ptr[v + 1]]))
    return [made[root] for root in instances.links["root"].target[instances.start[:-1]].tolist()]


def _lattices(instances: Instances) -> list[Any]:
    arcs, source = instances.links["arcs"], instances.links["from"].target.tolist()
    assert arcs.indptr is not None
    ptr, target, ids = arcs.indptr.tolist(), arcs.target.tolist(), instances.fields["id"].tolist()
    position = instances.kind == instances.schema.kinds.index("position")
    number = np.cumsum(position)
    found = []
    for begin, end in _bounds(instances):
        first = int(number[begin - 1]) + 1
        rows = []
        for v in (begin + np.flatnonzero(position[begin:end])).tolist():
            mine = target[ptr[v] : ptr[v + 1]]
            rows.append([(int(number[source[arc]]) - first, ids[arc]) for arc in mine])
        found.append(rows)
    return found


def _sentences(instances: Instances) -> list[Any]:
    pairs = list(zip(_texts(instances, "word"), _texts(instances, "tag"), strict=True))
    return [pairs[begin:end] for begin, end in _bounds(instances)]


def _pairs(instances: Instances) -> list[Any]:
    words = _texts(instances, "word")
    target = instances.kind == instances.schema.kinds.index("target")
    found = []
    for begin, end in _bounds(instances):
        middle = end - int(target[begin:end].sum())
        found.append((words[begin:middle], words[middle:end]))
    return found


def _words(instances: Instances) -> list[Any]:
    words = _texts(instances, "word")
    return [words[begin:end] for begin, end in _bounds(instances)]


def _plans(instances: Instances) -> list[Any]:
    children = instances.links["children"]
    assert children.indptr is not None
    ptr, target = children.indptr.tolist(), children.target.tolist()
    made: list[dict[str, Any]] = [{} for _ in instances.kind]
    for key in ("Node Type", *TEXTS):
        for node, said in zip(made, _texts(instances, slug(key)), strict=True):
            if said:
                node[key] = said
    for key in (*NODE_NUMBERS, *PLAN_NUMBERS):
        found = instances.values[slug(key)]
        for v, row in zip(found.vertex.tolist(), found.rows.tolist(), strict=True):
            made[v][key] = row[0]
    for v, node in enumerate(made):
        if ptr[v + 1] > ptr[v]:
            node["Plans"] = [made[child] for child in target[ptr[v] : ptr[v + 1]]]
    return [made[v] | {"Plan": made[v + 1]} for v in instances.start[:-1].tolist()]


_MADE: Mapping[str, Callable[[Instances], list[Any]]] = {
    "trees": _trees,
    "lattice": _lattices,
    "tags": _sentences,
    "pairs": _pairs,
    "words": _words,
    "plans": _plans,
}


def read_values(feed: Feed, limit: int) -> Plain:
    """The next `limit` values of what is left of a file; blank lines are none.

    The id of an object is its text or number under "id". Errors: DataError. Cost: orjson's, some 10 ns a
    byte.
    """
    for source in feed.windows(limit):
        places = source.full_lines(limit)
        if source.enough(len(places), limit, 0):
            break
    values: list[object] = []
    faults: list[Fault] = []
    for _, begin, end in places:
        text = source.data[begin:end]
        try:
            values.append(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            ahead = len(text.decode(errors="replace")[: error.pos].encode())
            faults.append(
                Fault(begin + ahead, f"this is no JSON: {error.msg}", 'a value a line: {"x": [1, 2]}')
            )
    if faults:
        source.refuse(faults)
    lines = np.array([source.line + number for number, _, _ in places], np.int32)
    numbers = feed.numbers(lines, 0)
    feed.take(source, places[-1][2] if len(places) == limit else len(source.data), len(places))
    return Plain(values, lines, numbers, [name_of(value) for value in values])


def name_of(value: object) -> str | int:
    """The id of a JSON object; '' for none."""
    name = value.get("id", "") if isinstance(value, dict) else ""
    return name if isinstance(name, str | int) and not isinstance(name, bool) else ""
