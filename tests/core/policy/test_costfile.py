"""Files of costs: what they mean, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import SpecError
from abw.core.policy.cost import Cost
from abw.core.policy.costfile import cost_text, read_cost

TYPES = ("char", "word", "matmul(char.Wi, 64)")


def read(folder: Path, text: str) -> Cost:
    path = folder / "cost.yaml"
    path.write_text(text, encoding="utf-8")
    return read_cost(path, TYPES)


def test_what_a_file_says(tmp_path: Path) -> None:
    cost = read(tmp_path, "word: {launch: 2e-6, row: 5e-8, tile: 8}\nchar: {row: 3}\ndefault: {launch: .5}\n")
    assert cost.launch.tolist() == [0, 2e-6, 0.5]
    assert cost.row.tolist() == [3, 5e-8, 0]
    assert cost.tile.tolist() == [1, 8, 1]
    assert read(tmp_path, "$version: 1\ndefault: {launch: 2}").launch.tolist() == [2, 2, 2]
    assert read(tmp_path, '{"default": {"launch": 1}}').launch.tolist() == [1, 1, 1]  # JSON is YAML


PRICE = st.just(0.0) | st.floats(1e-99, 1e99)


@given(
    st.lists(PRICE, min_size=3, max_size=3),
    st.lists(PRICE, min_size=3, max_size=3),
    st.lists(st.integers(1, 64), min_size=3, max_size=3),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, launch: list[float], row: list[float], tile: list[int]
) -> None:
    written = Cost(np.array(launch), np.array(row), np.array(tile, np.int32))
    found = read(tmp_path_factory.getbasetemp(), cost_text(written, TYPES, "seconds"))
    np.testing.assert_allclose(found.launch, launch, rtol=1e-3)
    np.testing.assert_allclose(found.row, row, rtol=1e-3)
    assert found.tile.tolist() == tile


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chr: {launch: 1}\ndefault: {launch: 1}", "1:1: the model has no type 'chr'"),
        ("chr: {launch: 1}\ndefault: {launch: 1}", "did you mean 'char'"),
        ("char: {launch: 1}", "no cost is given for word, matmul"),
        ("default: {lunch: 1}", "unknown key 'lunch' in the cost of 'default'"),
        ("default: {launch: -1}", "launch in the cost of 'default' is below 0"),
        ("default: {row: fast}", "row in the cost of 'default' must be a number"),
        ("default: {row: .inf}", "must be a number"),
        ("default: {row: 1e300}", "row in the cost of 'default' is neither 0 nor from 1e-100 to 1e+100"),
        ("default: {launch: 1e-300}", "launch in the cost of 'default' is neither 0 nor from 1e-100"),
        ("default: {tile: 0}", "tile in the cost of 'default' must be from 1"),
        ("default: {tile: 2000000000}", "tile in the cost of 'default' is above 1,048,576"),
        ("$version: 2\ndefault: {launch: 1}", "1:11: costs of another version: this abw reads version 1"),
        ("default: 3", "the cost of 'default' must be a mapping"),
        ("- 3", "a file of costs must be a mapping"),
        ("", "cost.yaml"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        read(tmp_path, text)
    assert said in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no file"):
        read_cost(tmp_path / "cost.yaml", TYPES)
