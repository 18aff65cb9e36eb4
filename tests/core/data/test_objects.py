"""Instances given as Python objects are those of a file with the same text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, DataError
from abw.core.data.given.objects import EXPECTED, read_objects
from abw.core.data.instances import Instances
from abw.core.data.read import read
from abw.core.ir.formats import FORMATS

words = st.text(
    st.characters(min_codepoint=33, exclude_characters="()|", exclude_categories=("Z", "C")), min_size=1
)
labels = st.integers(0, 9)
trees = st.recursive(
    st.tuples(labels, words),
    lambda inner: st.tuples(labels, inner, inner) | st.tuples(labels, inner),
    max_leaves=8,
)


GOOD: dict[str, Any] = {
    "trees": (2, "Fine"),
    "lattice": [[], [(0, 5)]],
    "tags": ["It", "works"],
    "pairs": ("<s> a </s>", "<s> b c </s>"),
    "words": "It works.",
    "plans": [{"Plan": {"Node Type": "Result"}}],
    "json": {"vertices": [{"kind": "a"}]},
}


def taken(instances: list[Any], format: str) -> Instances:
    found = read_objects(instances, format)
    assert len(found) == len(instances) and found.lines.tolist() == list(range(1, len(instances) + 1))
    return found


def same(found: Instances, expected: Instances) -> None:
    np.testing.assert_array_equal(found.kind, expected.kind)
    np.testing.assert_array_equal(found.start, expected.start)
    for name, values in expected.fields.items():
        np.testing.assert_array_equal(found.fields[name], values)
    for name in expected.links:
        np.testing.assert_array_equal(found.links[name].target, expected.links[name].target)
    for name, vocabulary in expected.vocabulary.items():
        assert list(found.vocabulary[name]) == list(vocabulary)


def bracketed(tree: Any) -> str:  # noqa: ANN401
    if len(tree) == 2 and isinstance(tree[1], str):
        return f"({tree[0]} {tree[1]})"
    return f"({tree[0]} {' '.join(bracketed(child) for child in tree[1:])})"


@given(st.lists(trees, min_size=1, max_size=4))
def test_trees(given_trees: list[Any]) -> None:
    same(taken(given_trees, "trees"), taken([bracketed(tree) for tree in given_trees], "trees"))


@given(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=3))
def test_sentences_with_and_without_tags(sentences: list[list[str]]) -> None:
    tagged = [[(word, "O") for word in sentence] for sentence in sentences]
    texts = [" ".join(f"{word}|O" for word in sentence) for sentence in sentences]
    for form in (sentences, tagged):
        same(taken(form, "tags"), taken(texts, "tags"))


def test_words_are_texts_or_lists() -> None:
    texts, lists = ["It works.", "It is!"], [["It", "works."], ["It", "is!"]]
    same(taken(texts, "words"), taken(lists, "words"))
    found = read_objects(texts, "words", tokens=r"\w+|[^\w\s]")
    assert [*found.vocabulary["word"]] == ["It", "works", ".", "is", "!"]
    same(read_objects(lists, "words", tokens="[a-z]"), taken(texts, "words"))
    with pytest.raises(AbwError, match="others lists of words"):
        read_objects([texts[0], lists[1]], "words", tokens="[a-z]")


def test_every_format_from_its_own_file(root: Path, tmp_path: Path) -> None:
    lattice = [[[], [(0, 5)], [(1, 6), (0, 9)]], [[], [(0, 1)]]]
    file = tmp_path / "lattice.txt"
    file.write_text("2\n3\n0 0 0\n0\n1 0 5\n2 1 6 0 9\n2\n0 0\n0\n1 0 1\n")
    same(taken(lattice, "lattice"), read(file, "lattice"))
    pairs = [(["<s>", "a", "</s>"], "<s> b c </s>")]
    file.write_text("<s> a </s> ||| <s> b c </s>\n")
    same(taken(pairs, "pairs"), read(file, "pairs"))
    objects = [json.loads(line) for line in (root / "specs/data/fig10.jsonl").read_text().splitlines()]
    same(taken(objects, "json"), read(root / "specs/data/fig10.jsonl", "json"))
    assert EXPECTED.keys() == set(FORMATS)


@pytest.mark.parametrize(
    ("format", "instance"),
    [
        ("trees", (3, "two words")),
        ("trees", (3,)),
        ("trees", 7),
        ("trees", (3, (2, "("), (2, "a"))),
        ("lattice", [[], [(0,)]]),
        ("lattice", {"positions": 2}),
        ("tags", []),
        ("tags", [("a", "b", "c")]),
        ("tags", [""]),
        ("pairs", ("one side",)),
        ("json", [1, 2]),
        ("words", b"a"),
        ("words", ("a", 1)),
        ("words", ["a", None]),
        ("tags", [b"a"]),
        ("tags", [("a", None)]),
        ("pairs", (["<s>", 1, "</s>"], "<s> b </s>")),
        ("trees", (None, "a")),
        ("tags", "a|O\nb|O"),
        *((format, text) for format in FORMATS for text in ("", " ", "\n", "\x00", "\r", "\ud800")),
        ("pairs", "<s> a ||| b </s>"),
        ("pairs", ("a\n<s> b </s>", "<s> c </s>")),
        ("lattice", [[], [("0 5\n1", 5)]]),
        ("trees", (3, "\ud800")),
        ("json", {"vertices": [{"kind": "\ud800"}]}),
    ],
)
def test_what_is_no_instance_is_named_with_what_it_should_be(format: str, instance: Any) -> None:  # noqa: ANN401
    with pytest.raises(
        AbwError, match=r"instance 1( is|:1:1: (not JSON|nothing but control|no plan))"
    ) as raised:
        read_objects([GOOD[format], instance, GOOD[format]], format)
    assert "hint: " in str(raised.value)


@pytest.mark.parametrize("value", [np.arange(2), np.float32(2)])
def test_an_array_in_json_is_told_its_ways(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(
        AbwError, match=r"instance 0 is not an instance of format json: (.*\n)*.*\.tolist\(\)"
    ):
        taken([{"vertices": [{"kind": "a", "x": value}]}], "json")


def test_what_only_the_reader_sees_has_its_place() -> None:
    with pytest.raises(DataError, match="instance 1:1:5: the line ends inside a tree"):
        taken(["(1 a)", "(1 a"], "trees")
    with pytest.raises(DataError, match="instance 1:4:3: an arc must begin"):
        taken([GOOD["lattice"], [[], [(4, 5)]]], "lattice")
    with pytest.raises(AbwError, match="there are no instances"):
        taken([], "trees")


@pytest.mark.parametrize("format", ["trees", "tags", "pairs", "words"])
def test_a_text_of_control_characters_is_malformed(format: str) -> None:
    good = {"trees": "(1 a)", "tags": "a|O", "pairs": "a b c ||| d e f", "words": "a"}[format]
    errors: dict[int, AbwError] = {}
    found = read_objects([good, "\x00", good, " "], format, errors=errors)
    assert found.numbers.tolist() == [0, 2]
    assert "nothing but control characters" in str(errors[1]) and "blank" in str(errors[3])


def test_a_text_of_a_lattice_holds_one() -> None:
    same(taken(["\n1\n \n7\n0\n"], "lattice"), taken(["1\n7\n0"], "lattice"))
    for text in ("1\n7\n0\n1\n7\n0", "1\n7", "x\n7\n0", "²\n7\n0"):
        with pytest.raises(AbwError, match="instance 1 is not an instance of format lattice"):
            taken([GOOD["lattice"], text], "lattice")


WRONG = ["", " ", "\x00", "\ud800", 7, "a\nb ||| ("]


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_wrong_is_left_out_and_told(format: str, data: st.DataObject) -> None:
    given = data.draw(st.lists(st.sampled_from([GOOD[format], *WRONG]), min_size=1, max_size=100))
    errors: dict[int, AbwError] = {}
    schema = taken([GOOD[format]], format).schema if format == "json" else None
    found = read_objects(given, format, schema=schema, errors=errors)
    good = [number for number, instance in enumerate(given) if instance == GOOD[format]]
    assert found.numbers.tolist() == good and found.lines.tolist() == [number + 1 for number in good]
    assert list(errors) == sorted({*range(len(given))} - set(good))
    assert all(f"instance {number}" in str(error) for number, error in errors.items())
    if good:
        expected = taken([GOOD[format]] * len(good), format)
        np.testing.assert_array_equal(found.kind, expected.kind)
        np.testing.assert_array_equal(found.start, expected.start)
