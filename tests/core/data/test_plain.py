"""Instances as plain objects: read as objects they are the same instances again."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import DataError
from abw.core.data.feed import ALL, Feed, open_feed
from abw.core.data.given.objects import read_objects
from abw.core.data.plain import plain, read_values
from abw.core.data.read import chunks_by, read
from tests.core.data.test_objects import same, trees

FILES = {
    "trees": "trees.txt",
    "lattice": "lattice.txt",
    "tags": "tags.txt",
    "pairs": "pairs.txt",
    "plans": "../plans/data/plans.jsonl",
}


@pytest.mark.parametrize("format", FILES)
def test_a_file_s_instances_are_those_of_its_objects(root: Path, format: str) -> None:
    instances = read(root / "specs/data" / FILES[format], format)
    found = plain(instances)
    assert len(found) == len(instances) == len(found.names) > 10
    np.testing.assert_array_equal(found.lines, instances.lines)
    again = read_objects(found.objects, format)
    if format == "lattice":  # the positions' tags are no part of the object
        instances.fields["tag"][:] = again.fields["tag"]
    same(again, instances)


@given(st.lists(trees, min_size=1, max_size=4))
def test_trees_of_any_shape(drawn: list[Any]) -> None:
    def texts(tree: Any) -> Any:  # noqa: ANN401
        return (str(tree[0]), *(child if isinstance(child, str) else texts(child) for child in tree[1:]))

    assert plain(read_objects(drawn, "trees")).objects == [texts(tree) for tree in drawn]


def test_a_sentence_is_its_words() -> None:
    found = plain(read_objects(["It works .", "Again"], "words"))
    assert found.objects == [["It", "works", "."], ["Again"]]


def test_a_tree_may_be_deep() -> None:
    text = "(1 " * 5000 + "(2 x)" + ")" * 5000
    tree = plain(read_objects([text], "trees")).objects[0]
    for _ in range(5000):
        label, tree = tree
        assert label == "1"
    assert tree == ("2", "x")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.floats(allow_nan=False, width=32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
).filter(lambda value: value not in (float("inf"), float("-inf")))


@given(st.lists(values, max_size=7), st.integers(1, 4), st.booleans())
def test_json_values_are_what_python_s_json_makes_of_them(drawn: list[Any], size: int, blank: bool) -> None:
    lines = [json.dumps(value) + ("\n  \r\n" if blank else "\n") for value in drawn]
    text = "\ufeff" * blank + "".join(lines)
    if "Infinity" in text:
        return
    feed = Feed(Path("values"), text.encode())
    parts = [chunk.instances for chunk in chunks_by(lambda n: read_values(feed, n), feed, size)]
    assert [value for part in parts for value in part.objects] == [json.loads(line) for line in lines]
    assert [n for part in parts for n in part.numbers.tolist()] == list(range(len(drawn)))
    assert [n for part in parts for n in part.lines.tolist()] == [
        1 + n * (1 + blank) for n in range(len(drawn))
    ]


def test_what_is_no_json_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text('{"id": "a"}\n[1, é]\n3\n{"id": 7, "x": tru}\n')
    with open_feed(path) as feed, pytest.raises(DataError) as caught:
        read_values(feed, ALL)
    assert [str(p.where) for p in caught.value.problems] == [f"{path}:2:5", f"{path}:4:16"]
    with open_feed(path) as feed:
        found = list(chunks_by(lambda n: read_values(feed, n), feed, 8, skip_bad=True))
    assert [part.instances.objects for part in found] == [[{"id": "a"}, 3]]
    assert found[0].instances.numbers.tolist() == [0, 2] and found[0].instances.names == ["a", ""]
    assert [bad.line for part in found for bad in part.bad] == [2, 4]


def test_values_come_as_a_pipe_gives_them() -> None:
    out, into = os.pipe()
    with io.FileIO(out) as file:
        feed = Feed(Path("pipe"), file.fileno())
        parts = chunks_by(lambda n: read_values(feed, n), feed, 8)
        os.write(into, b"1\n2\n3")
        assert next(parts).instances.objects == [1, 2]
        os.write(into, b"4\n")
        os.close(into)
        assert [part.instances.objects for part in parts] == [[34]]
