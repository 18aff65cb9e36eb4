"""Arrays that grow on disk."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.store.arrays import ArrayFile, write_npz, write_safetensors

quick = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(parts=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=5))
def test_what_was_appended_is_there(parts: list[list[int]], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with ArrayFile(path, write_npz) as file:
        file.add("x", np.float32, (2,))
        file.add("ends", np.int64, ends=True)
        for part in parts:
            file.append("x", np.array([[n, -n] for n in part], np.float64).reshape(-1, 2))
            file.append("ends", np.array(part, np.int64))
    whole = [n for part in parts for n in part]
    with np.load(path) as kept:
        assert kept["x"].dtype == np.float32 and kept["x"].tolist() == [[n, -n] for n in whole]
        assert kept["ends"].tolist() == [0, *np.cumsum(whole).tolist()]
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_a_file_is_not_replaced_where_the_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_text("as it was")
    with pytest.raises(KeyError), ArrayFile(path, write_npz) as file:
        file.add("x", np.int32)
        raise KeyError
    assert path.read_text() == "as it was"
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_elements_of_a_safetensors_file_lie_aligned_and_without_gaps(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    types = {"a": np.uint8, "b": np.float32, "c": np.int64, "d": np.bool_, "e": np.int32}
    with ArrayFile(path, write_safetensors) as file:
        for number, (name, dtype) in enumerate(types.items()):
            file.add(name, dtype)
            file.append(name, np.ones(number + 1, dtype))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert size % 8 == 0
    places = sorted(entry["data_offsets"] for entry in header.values())
    assert places[0][0] == 0 and places[-1][1] == len(data) - 8 - size
    assert all(a[1] == b[0] for a, b in pairwise(places))
    for name, dtype in types.items():
        assert header[name]["data_offsets"][0] % np.dtype(dtype).itemsize == 0
