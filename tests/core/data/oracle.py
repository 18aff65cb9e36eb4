"""Slow readers in plain Python, written apart from the fast ones, and instances in the same plain form."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from abw.core.data.derive import field as field_of
from abw.core.data.derive import link as link_of
from abw.core.data.instances import Instances
from abw.core.ir.formats import SCHEMAS

Value = int | str | tuple[float, ...]


@dataclass
class Plain:
    """An instance: vertex 0 is its own; links and fields hold only what is there."""

    line: int
    kinds: list[str]
    links: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    fields: dict[str, dict[int, Value]] = field(default_factory=dict)

    def add(self, kind: str, **fields: Value) -> int:
        self.kinds.append(kind)
        for name, value in fields.items():
            self.fields.setdefault(name, {})[len(self.kinds) - 1] = value
        return len(self.kinds) - 1

    def join(self, name: str, source: int, target: int) -> None:
        self.links.setdefault(name, {}).setdefault(source, []).append(target)

    def chain(self, vertices: list[int]) -> None:
        for a, b in pairwise(vertices):
            self.join("next", a, b)
            self.join("prev", b, a)


def plain(instances: Instances) -> list[Plain]:
    """What the arrays say, own links and fields only."""
    schema, starts, kinds = instances.schema, instances.start.tolist(), instances.kind.tolist()
    links: dict[str, list[list[int]]] = {}
    for name in instances.links:
        way = link_of(instances, name)
        to = way.target.tolist()
        if way.indptr is None:
            links[name] = [[target] if target >= 0 else [] for target in to]
        else:
            links[name] = [to[a:b] for a, b in pairwise(way.indptr.tolist())]
    fields = {name: field_of(instances, name).tolist() for name in instances.fields}
    rows = {
        n: dict(zip(f.vertex.tolist(), f.rows.tolist(), strict=True)) for n, f in instances.values.items()
    }
    result = []
    for line, start, end in zip(instances.lines.tolist(), starts[:-1], starts[1:], strict=True):
        one = Plain(line, [schema.kinds[k] for k in kinds[start:end]])
        for name, targets in links.items():
            joined = {v - start: [t - start for t in targets[v]] for v in range(start, end) if targets[v]}
            assert all(0 <= t < end - start for some in joined.values() for t in some), (
                "a link leaves its instance"
            )
            if joined:
                one.links[name] = joined
        for name, numbers in fields.items():
            words = instances.vocabulary.get(name)
            found: dict[int, Value] = {
                v - start: numbers[v] if words is None else words[numbers[v]]
                for v in range(start, end)
                if numbers[v] >= 0
            }
            if found:
                one.fields[name] = found
        for name, item in rows.items():
            if valued := {v - start: tuple(item[v]) for v in range(start, end) if v in item}:
                one.fields[name] = {**one.fields.get(name, {}), **valued}
        result.append(one)
    return result


def check_arrays(instances: Instances) -> None:
    """Shapes, types and the common links and fields, each against the kinds alone."""
    count, schema = len(instances.kind), instances.schema
    assert instances.start[0] == 0 and instances.start[-1] == count
    assert np.all(np.diff(instances.start) >= 2), "an instance without vertices"
    assert len(instances.lines) == len(instances) and np.all(
        np.diff(instances.lines) >= (schema.format != "plans")
    )
    for name in schema.links:
        way = link_of(instances, name)
        assert way.target.dtype == np.int32
        assert way.target.flags.c_contiguous
        assert (way.indptr is not None) == schema.links[name].many, name
        degree = np.diff(way.indptr) if way.indptr is not None else (way.target >= 0).astype(int)
        assert len(degree) == count
        may = np.array([kind in schema.links[name].source for kind in schema.kinds])
        assert not np.any(degree[~may[instances.kind]]), f"{name} where the schema has none"
        reached = instances.kind[way.target[way.target >= 0]]
        assert {schema.kinds[k] for k in np.unique(reached)} <= schema.links[name].target, name
    owner, index = link_of(instances, "instance").target, field_of(instances, "index")
    groups = (*schema.kinds[1:], *schema.groups)
    members = [(link_of(instances, g), np.isin(schema.kinds, list(schema.members(g)))) for g in groups]
    kind_of, numbers = instances.kind.tolist(), index.tolist()
    for start, end in pairwise(instances.start.tolist()):
        assert instances.kind[start] == 0 and owner[start] == -1 and np.all(owner[start + 1 : end] == start)
        assert np.all(instances.kind[start + 1 : end] != 0)
        seen: Counter[int] = Counter()
        for v in range(start, end):
            assert numbers[v] == seen[kind_of[v]]
            seen[kind_of[v]] += 1
        for way, member in members:
            assert way.indptr is not None
            expected = start + np.flatnonzero(member[instances.kind[start:end]])
            assert np.array_equal(way.target[way.indptr[start] : way.indptr[start + 1]], expected)
            assert way.indptr[start + 1] == way.indptr[end]
    for name, values in instances.fields.items():
        assert values.dtype == np.int32 and values.shape == (count,)
        may = np.array([kind in schema.fields[name].kinds for kind in schema.kinds])
        assert np.all(values[~may[instances.kind]] == -1)
        if name in instances.vocabulary:
            words = list(instances.vocabulary[name])
            assert len(words) == len(set(words))

    for name, item in instances.values.items():
        size, kinds = schema.fields[name].size, schema.fields[name].kinds
        assert item.vertex.dtype == np.int32 and np.all(np.diff(item.vertex) > 0)
        assert item.rows.dtype == np.float32 and item.rows.shape == (len(item.vertex), size)
        assert {schema.kinds[k] for k in instances.kind[item.vertex]} <= kinds
        assert np.isfinite(item.rows).all()


def _lines(text: str) -> list[tuple[int, list[str]]]:
    parts = [(n, re.split(r"[\x00-\x20]+", line)) for n, line in enumerate(text.split("\n"), 1)]
    split = [(n, [word for word in words if word]) for n, words in parts]
    return [(n, words) for n, words in split if words]


def trees(text: str) -> list[Plain]:
    result = []
    for number, line in enumerate(text.split("\n"), 1):
        tokens = re.findall(r"[()]|[^()\x00-\x20]+", line)
        if not tokens:
            continue
        one = Plain(number, ["instance"])
        stack: list[int] = []
        for at, token in enumerate(tokens):
            if token == "(":
                v = one.add("leaf", label=tokens[at + 1])
                if stack:
                    one.kinds[stack[-1]] = "internal"
                    one.join("children", stack[-1], v)
                    one.join("parent", v, stack[-1])
                else:
                    one.join("root", 0, v)
                stack.append(v)
            elif token == ")":
                stack.pop()
            elif tokens[at - 1] != "(":
                one.fields.setdefault("word", {})[stack[-1]] = token
        for v, children in one.links.get("children", {}).copy().items():
            one.join("left", v, children[0])
            one.join("right", v, children[-1])
        result.append(one)
    return result


def lattice(text: str) -> list[Plain]:
    lines = iter([(n, [int(word) for word in words]) for n, words in _lines(text)])
    result = []
    for _ in range(next(lines)[1][0]):
        number, (length,) = next(lines)
        one = Plain(number, ["instance"])
        positions: list[int] = []
        for tag in next(lines)[1]:
            _, (count, *arcs) = next(lines)
            ending = []
            for origin, identity in zip(arcs[::2], arcs[1::2], strict=True):
                arc = one.add("char-arc" if origin == len(positions) - 1 else "word-arc", id=identity)
                one.join("from", arc, positions[origin])
                ending.append(arc)
                count -= 1
            assert count == 0
            here = one.add("position", tag=tag)
            for arc in ending:
                one.join("to", arc, here)
                one.join("arcs", here, arc)
            positions.append(here)
        assert len(positions) == length
        one.chain(positions)
        result.append(one)
    return result


def tags(text: str, frequency: int = 0) -> list[Plain]:
    sentences = [(n, [token.rsplit("|", 1) for token in tokens]) for n, tokens in _lines(text)]
    count = Counter(word for _, tokens in sentences for word, _ in tokens)
    result = []
    for number, tokens in sentences:
        one = Plain(number, ["instance"])
        kinds = ["rare" if count[word] < frequency else "common" for word, _ in tokens]
        vertices = [one.add(k, word=w, tag=t) for k, (w, t) in zip(kinds, tokens, strict=True)]
        one.chain(vertices)
        one.join("first", 0, vertices[0])
        one.join("last", 0, vertices[-1])
        for v, (word, _) in zip(vertices, tokens, strict=True):
            if one.kinds[v] == "rare":
                spelt = [one.add("char", byte=b) for b in (0, *word.encode(), 0)]
                one.chain(spelt)
                for c in spelt:
                    one.join("chars", v, c)
                    one.join("of", c, v)
        result.append(one)
    return result


def pairs(text: str) -> list[Plain]:
    result = []
    for number, words in _lines(text):
        middle = words.index("|||")
        sides = words[:middle], words[middle + 1 :]
        if min(map(len, sides)) >= 3:
            one = Plain(number, ["instance"])
            for kind, side in zip(("source", "target"), sides, strict=True):
                one.chain([one.add(kind, word=word) for word in side])
            result.append(one)
    return result


def words(text: str, tokens: str = "") -> list[Plain]:
    result = []
    for number, found in _lines(text):
        if tokens:
            line = text.split("\n")[number - 1].strip("".join(map(chr, range(33))))
            found = [match[0] for match in re.finditer(tokens, line)]
        one = Plain(number, ["instance"])
        if not found:
            raise ValueError(f"no token on line {number}")
        vertices = [one.add("token", word=word) for word in found]
        one.chain(vertices)
        one.join("first", 0, vertices[0])
        one.join("last", 0, vertices[-1])
        result.append(one)
    return result


def json_lines(text: str) -> list[Plain]:
    result = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            value = json.loads(line)
            one = Plain(number, ["instance"])
            for vertex in value["vertices"]:
                one.add(**vertex)
            for name, edges in value.get("links", {}).items():
                for edge in edges if isinstance(edges, list) else [edges]:
                    a, b = edge if isinstance(edge, list) else (-1, edge)
                    one.join(name, a + 1, b + 1)
            result.append(one)
    every = [values for one in result for values in one.fields.items()]
    for name in {name for name, _ in every}:
        found = [value for other, values in every if other == name for value in values.values()]
        if not all(isinstance(v, str) or (isinstance(v, int) and 0 <= v < 2**31) for v in found):
            for one in result:
                for v, value in one.fields.get(name, {}).items():
                    row: Any = value if isinstance(value, list) else [value]
                    one.fields[name][v] = tuple(float(np.float32(number)) for number in row)
    return result


TYPE_KEYS = ("Node Type", "operator_name", "operator_type", "name")
# Fields of plans that no key gives by its name.
MADE = ("node-type", "kind", "child-count")


def plans(text: str) -> list[Plain]:
    """Plans that stand on whole lines, or are members of arrays."""
    result: list[Plain] = []
    at, decoder = 0, json.JSONDecoder()
    while at < len(text):
        if text[at] != "{":
            assert text[at] in "[], \t\r\n"
            at += 1
            continue
        value, end = decoder.raw_decode(text, at)
        one = Plain(text.count("\n", 0, at) + 1, ["instance"])
        root = value.get("Plan", value)
        if not any(key in root for key in TYPE_KEYS):
            (root,) = root["children"]
        for key in ("Planning Time", "Execution Time", "latency"):
            if isinstance(value.get(key), int | float):
                one.fields.setdefault(key.lower().replace(" ", "-"), {})[0] = (float(np.float32(value[key])),)
        one.join("root", 0, _plan_node(one, root))
        result.append(one)
        at = end
    return result


def _plan_node(one: Plain, node: dict[str, Any]) -> int:
    schema = SCHEMAS["plans"]
    name = next(node[key] for key in node if key in TYPE_KEYS).rstrip(" ")
    kind = re.sub("[ _]", "-", name.lower())
    v = one.add(kind if kind in schema.kinds[1:] else "other")
    one.fields.setdefault("node-type", {})[v] = name
    one.fields.setdefault("kind", {})[v] = schema.kinds.index(one.kinds[v])
    for key, value in [*node.items(), *node.get("extra_info", {}).items()]:
        field_name = re.sub("[ _]", "-", key.lower())
        item = schema.fields.get(field_name)
        if item is None or value is None or field_name in MADE or "instance" in item.kinds:
            continue
        found: Any = value if item.text else (float(np.float32(float(value))),)
        one.fields.setdefault(field_name, {})[v] = found
    places, count = iter(("left", "right")), 0
    for child in [*node.get("Plans", []), *node.get("children", [])]:
        u = _plan_node(one, child)
        one.join("children", v, u)
        one.join("parent", u, v)
        if child.get("Parent Relationship") not in ("InitPlan", "SubPlan"):
            count += 1
            if place := next(places, ""):
                one.join(place, v, u)
    one.fields.setdefault("child-count", {})[v] = count
    return v


READERS = {
    "trees": trees,
    "lattice": lattice,
    "tags": tags,
    "pairs": pairs,
    "words": words,
    "plans": plans,
    "json": json_lines,
}
assert SCHEMAS.keys() < READERS.keys()
