"""Instances in another order are those that a file in that order has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.data.instances import Instances
from abw.core.data.read import read
from abw.core.data.vertices import permuted

DATA = Path(__file__).parents[3] / "specs" / "data"


def same(one: Instances, other: Instances) -> None:
    """All but the lines, and the order of the vocabulary."""
    assert np.array_equal(one.kind, other.kind)
    assert np.array_equal(one.start, other.start)
    for name in other.links:
        assert np.array_equal(one.links[name].target, other.links[name].target)
        if other.links[name].indptr is not None:
            assert np.array_equal(one.links[name].indptr, other.links[name].indptr)  # type: ignore[arg-type]
    for name in other.fields:
        ours, theirs = one.fields[name], other.fields[name]
        if name in other.vocabulary:
            words, known = one.vocabulary[name], other.vocabulary[name]
            assert [words[i] for i in ours[ours >= 0]] == [known[i] for i in theirs[theirs >= 0]]
        else:
            assert np.array_equal(ours, theirs)
    for name in other.values:
        assert np.array_equal(one.values[name].vertex, other.values[name].vertex)
        assert np.array_equal(one.values[name].rows, other.values[name].rows)


@pytest.mark.parametrize("form", ["trees", "tags", "words"])
def test_lines_in_another_order(form: str, tmp_path: Path) -> None:
    name = {"trees": "trees.txt", "tags": "tags.txt", "words": "sentences.txt"}[form]
    text = (DATA / name).read_text()
    parts = text.splitlines()
    whole = read(DATA / name, form)
    parts = parts[: len(whole)]
    order = np.random.default_rng(0).permutation(len(parts))[: len(parts) // 2 + 1]
    (tmp_path / "shuffled").write_text("\n".join(parts[i] for i in order) + "\n")
    found = permuted(whole, order)
    same(found, read(tmp_path / "shuffled", form))
    assert np.array_equal(found.numbers, order)


def test_arrays_in_another_order() -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((6, 2)).astype(np.float32)
    owner = np.array([0, 0, 0, 1, 2, 2])
    instances = Instances.from_arrays(
        {"atom": {"instance": owner, "x": vectors}}, {"bond": np.array([[0, 0, 4, 5], [1, 2, 5, 4]])}
    )
    order = np.array([2, 0])
    expected = Instances.from_arrays(
        {"atom": {"instance": [0, 0, 1, 1, 1], "x": vectors[[4, 5, 0, 1, 2]]}},
        {"bond": np.array([[0, 1, 2, 2], [1, 0, 3, 4]])},
    )
    same(permuted(instances, order), expected)
