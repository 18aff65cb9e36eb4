"""The harness finds what it is there for, and goes on behind it."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import pytest

from tests.fuzz import harness
from tests.fuzz.mutate import WAYS, damaged
from tests.fuzz.pairs import all_pairs


def test_every_way_to_fail_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_LEAST", 6.0)  # many times what any case computes
    found = harness.run(["_broken", "_refused"], 10, seed=0)
    said = {number: text for cases in found["_broken"].failures.values() for number, text in cases}
    assert found["_broken"].cases == 10 and sorted(said) == [1, 2, 3, 4, 5, 6, 7]
    assert "KeyError: 'a defect'" in said[1] and "in broken" in said[1]
    assert "the worker died (-11)" in said[2] and "Segmentation fault" in said[2]
    assert said[3].startswith("no end after 6 s")
    assert "of CPU time" in said[4] and "MB are allowed" in said[5]
    assert "U+001B" in said[6] and "SystemExit" in said[7]
    assert "the corpus is refused" in found["_refused"].failures


def test_damage_is_the_same_for_a_seed_and_of_every_way() -> None:
    data = b"(3 (2 It) (4 works))\n(2 17)\n"
    some = [damaged(Random(seed), data, (b"word",), b"other\n") for seed in range(300)]
    assert some == [damaged(Random(seed), data, (b"word",), b"other\n") for seed in range(300)]
    assert len(set(some)) > 250
    for way in set(WAYS):
        for given in (data, b"", b"\n", b"\xff"):
            assert isinstance(way(Random(1), given, (), b""), bytes)


def test_all_pairs_are_there() -> None:
    options = {"a": "123", "b": "12", "c": "12345", "d": "1"}
    rows = all_pairs(options, Random(0))
    for one, other in combinations(options, 2):
        assert {(row[one], row[other]) for row in rows} == set(product(options[one], options[other]))
    assert len(rows) < 3 * 2 * 5
