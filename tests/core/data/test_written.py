"""Objects written by the compiled walk are what Python writes of them, or are left to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.data.given import written
from abw.core.data.given.objects import text_of
from abw.core.data.given.written import FORMATS, Writer


@cache
def writer(format: str) -> Writer:
    return Writer(format)


def by_python(format: str, instances: list[Any]) -> bytes | None:
    """What Python writes; None where it refuses."""
    parting = b"\n\x01\n" if format == "lattice" else b"\n"
    try:
        return parting.join(text_of(number, each, format) for number, each in enumerate(instances))
    except AbwError:
        return None


def by_walk(format: str, instances: list[Any]) -> bytes | None:
    found = writer(format).write(instances)
    return None if found is None else found.tobytes()


def compare(format: str, instances: list[Any], *, plain: bool = True) -> None:
    """Both write the same; of JSON the same values. What is `plain` the walk does not leave."""
    mine, expected = by_walk(format, instances), by_python(format, instances)
    if plain and all(instances) and (format != "pairs" or all(map(all, instances))):
        assert mine is not None
    if mine is None:
        return
    if format in ("json", "plans") and expected is not None:
        lines = mine.decode().split("\n")
        assert [
            i if isinstance(i, str) else json.loads(m) for m, i in zip(lines, instances, strict=True)
        ] == instances
    elif format == "lattice":  # blank lines mean nothing
        assert mine.split() == (expected or mine).split()
    else:
        assert mine == expected


# with all that may part words
letters = st.text('ab(|é—“中 \u2003\u3000\xa0\x85\t"\\', max_size=5) | st.text(max_size=3)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
anything = letters | numbers | st.none()
plain_word = st.text("abé—“中", min_size=1, max_size=30)
plain_number = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)


Drawn = st.SearchStrategy[Any]


def trees(labels: Drawn, words: Drawn) -> Drawn:
    leaf = st.tuples(labels, words)
    return st.recursive(
        leaf, lambda t: st.tuples(labels, t, t) | st.lists(t, min_size=1).map(lambda c: [3, *c])
    )


SHAPES: dict[str, Callable[[Drawn, Drawn], Drawn]] = {
    "trees": trees,
    "tags": lambda a, b: st.lists(b | st.tuples(b, a), max_size=6),
    "words": lambda a, b: st.lists(b, max_size=6) | st.lists(b).map(tuple),
    "pairs": lambda a, b: st.tuples(st.lists(b, max_size=4), st.lists(b, max_size=4)),
    "lattice": lambda a, b: st.lists(st.lists(st.tuples(a, a), max_size=3), max_size=5),
    "plans": lambda a, b: st.fixed_dictionaries(
        {"Plan": st.dictionaries(b, st.lists(a | st.booleans() | st.none()))}
    ),
    "json": lambda a, b: st.dictionaries(
        b, st.recursive(a | b, lambda v: st.lists(v) | st.dictionaries(b, v))
    ),
}


@settings(max_examples=100)
@given(st.data(), st.sampled_from(sorted(FORMATS)))
def test_plain_objects_are_written_as_python_writes_them(data: st.DataObject, format: str) -> None:
    some = data.draw(st.lists(SHAPES[format](plain_number, plain_word), min_size=1, max_size=3))
    compare(format, some)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(sorted(FORMATS)))
def test_other_objects_are_written_so_or_left(data: st.DataObject, format: str) -> None:
    some = data.draw(st.lists(SHAPES[format](anything, letters) | anything, min_size=1, max_size=3))
    compare(format, some, plain=False)


@pytest.mark.parametrize(
    ("format", "instance"),
    [
        ("trees", "(1 a)\n"), ("trees", "\ufeff(1 a)"), ("trees", ""), ("trees", "\ud800"),
        ("trees", (1, "\ud800")), ("trees", (1,)), ("trees", (1, 2)), ("trees", ((1,), "a")),
        ("trees", {}), ("trees", np.float32(1)),
        ("words", [1]), ("words", []), ("pairs", ("a\nb", "c")), ("pairs", ("a",)),
        ("lattice", "1\n0\n0\n\x01"),
        ("lattice", [[(0,)]]), ("tags", [("a", "b", "c")]), ("json", [1]), ("json", {1: 2}),
        ("plans", {1: 2}),
        ("plans", "a\nb"),
        ("json", {"a": np.ones(2)}), ("json", {"a": 'b"'}), ("json", {"a": "\n"}), ("json", 1),
    ],
)  # fmt: skip
def test_what_is_left_to_python(format: str, instance: object) -> None:
    assert by_walk(format, [instance]) is None


def test_deep_objects_and_long_ones() -> None:
    deep: Any = (1, "a")
    for _ in range(written.DEEP - 2):
        deep = (1, deep, deep[:2] if isinstance(deep[1], str) else (2, "b"))
    assert by_walk("trees", [deep]) is not None
    for _ in range(4):
        deep = (1, deep)
    assert by_walk("trees", [deep]) is None
    long = [f"word{n}" for n in range(20_000)]
    assert by_walk("words", [long, long]) == by_python("words", [long, long])


def test_objects_are_not_kept() -> None:
    word = "".join(["a", "b"] * 500)
    before = sys.getrefcount(word)
    for _ in range(100):
        by_walk("trees", [(1.5, word)])
    assert sys.getrefcount(word) == before
