"""The coin and derived links, against their definitions in plain Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.data.derive import field, link, with_derived
from abw.core.data.instances import Instances
from abw.core.data.read import read
from abw.core.ir.schema import Derived


def coin(instance: int, p: int, seed: int) -> int:
    x = ((instance << 32 | p) + seed * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return (x ^ x >> 31) >> 63


@pytest.mark.parametrize("seed", [0, 1, 7, 2**40 + 3, -1])
def test_the_coin_is_the_stated_hash(seed: int, root: Path) -> None:
    trees = read(root / "specs/data/trees.txt", "trees")
    tossed = field(trees, "coin", seed)
    for i in range(len(trees)):
        start, end = trees.start[i : i + 2]
        assert tossed[start] == coin(i, 2**32 - 1, seed)
        assert tossed[start + 1 : end].tolist() == [coin(i, p, seed) for p in range(end - start - 1)]


def test_known_tosses(tmp_path: Path) -> None:
    """Fixed for ever: results of earlier runs depend on them."""
    path = tmp_path / "trees.txt"
    path.write_text("(0 (0 a) (0 (0 b) (0 (0 c) (0 (0 d) (0 e)))))\n" * 4)
    trees = read(path, "trees")
    start = trees.start
    assert field(trees, "coin", 0)[start[0] + 1 : start[1]].tolist() == [0, 0, 1, 0, 1, 1, 1, 0, 1]
    assert field(trees, "coin", 1)[start[3] + 1 : start[4]].tolist() == [0, 1, 0, 0, 1, 1, 0, 1, 0]
    # of splitmix64 itself, begun at 0: e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec
    assert [int(field(trees, "coin", seed)[1]) for seed in (1, 2, 3, 4)] == [1, 0, 0, 1]


def test_the_coin_is_that_of_the_instance_in_the_file(root: Path) -> None:
    path = root / "specs/data/trees.txt"
    every, part = read(path, "trees"), read(path, "trees", skip=5, limit=3)
    first, last = every.start[5], every.start[8]
    assert np.array_equal(field(part, "coin", 3), field(every, "coin", 3)[first:last])


def test_the_coin_is_fair(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("(0 (0 a) (0 b))\n" * 10_000)
    for seed in range(3):
        tossed = field(read(path, "trees"), "coin", seed)
        assert abs(tossed.mean() - 0.5) < 0.015  # six deviations of a fair coin tossed 40,000 times
    other = field(read(path, "trees"), "coin", 5)
    assert abs(np.mean(other == tossed) - 0.5) < 0.015


def test_names_that_are_not_there(root: Path) -> None:
    trees = read(root / "specs/data/trees.txt", "trees", limit=1)
    with pytest.raises(KeyError):
        link(trees, "from")
    with pytest.raises(KeyError):
        field(trees, "byte")


@given(st.data())
def test_derived_links_are_what_they_say(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4))
    owner = {kind: [i for i, size in enumerate(sizes) for _ in range(size[k])] for k, kind in enumerate("ab")}
    kinds = {kind: {"instance": np.array(given, int)} for kind, given in owner.items()}
    pairs = [
        (x, y)
        for x in range(len(owner["b"]))
        for y in range(len(owner["b"]))
        if owner["b"][x] == owner["b"][y]
    ]
    edges = data.draw(st.lists(st.sampled_from(pairs), max_size=12))
    index = np.array(edges, int).reshape(-1, 2).T
    plain = Instances.from_arrays(kinds, {"l": ("b", "b", index)})
    made = {
        "back": Derived("reverse", "l"),
        "again": Derived("reverse", "back"),
        "before": Derived("previous", "b"),
        "behind": Derived("next", "b"),
        "every": Derived("all", "b"),
        "home": Derived("reverse", "b"),
    }
    found = with_derived(plain, replace(plain.schema, derived=made))

    def to(name: str, vertex: int) -> list[int]:
        way = link(found, name)
        if way.indptr is None:
            return [int(way.target[vertex])] if way.target[vertex] >= 0 else []
        return [int(v) for v in way.target[way.indptr[vertex] : way.indptr[vertex + 1]]]

    number = {kind: found.schema.kinds.index(kind) for kind in "ab"}
    for i in range(len(found)):
        vertices = range(int(found.start[i]), int(found.start[i + 1]))
        bs = [v for v in vertices if found.kind[v] == number["b"]]
        for v in vertices:
            assert to("back", v) == sorted(u for u in vertices for w in to("l", u) if w == v)
            assert sorted(to("again", v)) == sorted(to("l", v))
            assert to("every", v) == bs
            assert to("home", v) == ([vertices[0]] if v in bs else [])
            place = bs.index(v) if v in bs else None
            assert to("before", v) == ([bs[place - 1]] if place else [])
            assert to("behind", v) == (bs[place + 1 : place + 2] if place is not None else [])
    assert with_derived(found, replace(plain.schema, derived=made)) is found
