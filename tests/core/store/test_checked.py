"""Stored mini-batches: whatever number is changed, one is refused, or still what compiled code can follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.depth import Depth
from abw.core.policy.schedule import ready_counts
from abw.core.store.checked import read_arrays, read_batch, read_outputs
from tests.core.policy import graphs

DAG = graphs.dag("ab", [0, 0, 0, 1], [(0, 2), (1, 2), (2, 3)])
SCHEDULE = Depth().schedule(DAG)
RIGHT: dict[str, Any] = {
    "types": np.array(DAG.types),
    "type": DAG.type,
    "succ_ptr": DAG.succ_ptr,
    "succ": DAG.succ,
    "vertex": np.arange(4, dtype=np.int32),
    "instance": np.array([0, 0, 1, 1], np.int32),
    "batch_type": SCHEDULE.type,
    "batch_ptr": SCHEDULE.ptr,
    "nodes": SCHEDULE.nodes,
}


def saved(path: Path, **changed: Any) -> Path:  # noqa: ANN401
    np.savez(path, **{**RIGHT, **changed})
    return path


def test_what_is_right_comes_back(tmp_path: Path) -> None:
    dag, schedule, instance, vertex = read_batch(saved(tmp_path / "0.npz"), 2)
    assert dag.types == DAG.types
    for name in ("type", "succ_ptr", "succ", "indegree"):
        np.testing.assert_array_equal(getattr(dag, name), getattr(DAG, name))
    for name in SCHEDULE.__slots__:
        np.testing.assert_array_equal(getattr(schedule, name), getattr(SCHEDULE, name))
    assert (instance.tolist(), vertex.tolist()) == ([0, 0, 1, 1], [0, 1, 2, 3])


@given(st.data())
def test_no_number_reaches_compiled_code_unchecked(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([name for name in RIGHT if name != "types"]))
    values = RIGHT[name].tolist()
    number = st.integers(-2, 6) | st.sampled_from([-(2**31), 2**31 - 1, 100_000])
    at = data.draw(st.integers(0, len(values)))
    values[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(number, max_size=2))
    path = saved(tmp_path_factory.mktemp("run") / "0.npz", **{name: np.array(values, np.int32)})
    try:
        dag, schedule, instance, _ = read_batch(path, 2)
    except AbwError as error:
        assert error.message.startswith(f"{path} is damaged: ")
        return
    check_schedule(dag, schedule)
    assert len(instance) == len(dag) and set(instance.tolist()) <= {0, 1}
    assert ready_counts(dag, schedule).shape == (len(schedule), 2)
    Depth().schedule(dag)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"succ": np.array([2, 2, 2**31 - 1], np.int32)}, "'succ' holds 2147483647 at 2"),
        ({"succ_ptr": np.array([0, 5, 2, 3, 3], np.int32)}, "offsets 'succ_ptr' do not rise"),
        ({"type": np.array([0, 0, 0, 9], np.int32)}, "'type' holds 9 at 3"),
        ({"type": np.array([0, 0, 0, 1], np.int64)}, "'type' is not a vector of 32-bit integers"),
        ({"type": RIGHT["type"][None]}, "'type' is not a vector of 32-bit integers"),
        ({"batch_ptr": np.array([0, -5, 3, 4], np.int32)}, "batch"),
        ({"nodes": np.array([0, 1, 2, 1000000], np.int32)}, "node numbers"),
        ({"succ": np.array([2, 2, 0], np.int32)}, "reads node"),
        ({"instance": np.array([0, 0, 1, 2], np.int32)}, "'instance' holds 2 at 3"),
        ({"vertex": np.zeros(3, np.int32)}, "'vertex' has 3 numbers for 4"),
        ({"types": np.array(["a", "a"])}, "names a type twice"),
        ({"types": np.zeros(2)}, "'types' are not names"),
        ({"nodes": np.array([None] * 4)}, "holds Python objects"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(AbwError, match=message):
        read_batch(saved(tmp_path / "0.npz", **changed), 2)


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = saved(tmp_path / "0.npz")
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(AbwError, match=r"0\.npz is damaged: "):
            read_arrays(path)
    with pytest.raises(AbwError, match="does not exist"):
        read_arrays(tmp_path / "1.npz")
    np.savez_compressed(path, type=np.zeros(10**7, np.int32))
    with pytest.raises(AbwError, match="'type' is compressed"):
        read_arrays(path)


@settings(max_examples=300)
@given(st.data())
def test_no_byte_ends_in_anything_but_an_error_with_the_place(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    path = saved(tmp_path_factory.mktemp("run") / "0.npz")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        read_batch(path, 2)
    except AbwError as error:
        assert error.message.startswith(str(path))


OFFSETS = np.array([0, 2, 2, 5], np.int64)
VALUES = np.arange(10, dtype=np.float32).reshape(5, 2)


def test_outputs_of_some_instances(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    arrays: dict[str, Any] = {"tags": VALUES, "tags.offsets": OFFSETS, "one": VALUES[:3]}
    np.savez(path, **arrays)
    found = read_outputs(path, ("tags", "one", "none"), 1, 3)
    assert sorted(found) == ["one", "tags"]
    assert found["tags"].tolist() == VALUES[2:5].tolist()
    assert found["one"].tolist() == VALUES[1:3].tolist()


@pytest.mark.parametrize(
    "changed",
    [
        {"tags.offsets": np.array([0, 9, 2, 5])},
        {"tags.offsets": np.array([0, 2, 2, 6])},
        {"tags.offsets": np.array(3)},
        {"tags.offsets": OFFSETS[:2]},
        {"tags.offsets": OFFSETS.astype(np.float64)},
        {"tags": VALUES.astype("S2")},
        {"tags": np.float32(1)},
    ],
)
def test_damaged_outputs(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "outputs.npz"
    arrays: dict[str, Any] = {"tags": VALUES, "tags.offsets": OFFSETS}
    np.savez(path, **arrays | changed)
    with pytest.raises(AbwError, match=r"outputs\.npz is damaged"):
        read_outputs(path, ["tags"], 1, 3)
