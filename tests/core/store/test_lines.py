"""JSON lines hold what was computed, bit for bit, and are whole."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.store.outputs import Column, LineFile, Output, Rows, open_outputs


@given(st.lists(st.lists(st.floats(width=32), max_size=4), min_size=1, max_size=4), st.booleans())
def test_numbers_come_back_bit_for_bit(instances: list[list[float]], last_is_bad: bool) -> None:
    if last_is_bad:
        instances[-1] = []
    counts = np.array([len(values) for values in instances])
    values = np.array([[v, -v] for own in instances for v in own], np.float32).reshape(-1, 2)
    errors = ("",) * (len(instances) - 1) + ("bad" if last_is_bad else "",)
    column = Column(values, counts, np.arange(len(values), dtype=np.int32))
    rows = Rows(
        tuple(range(len(instances))), np.arange(1, len(instances) + 1, dtype=np.int32), (column,), errors
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.jsonl"
        with open_outputs(file, (Output("y", (2,), single=False),), named=False) as writer:
            writer.write(rows)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(len(instances)))
    if last_is_bad:
        assert lines.pop()["error"] == "bad"
    found = np.array(
        [[np.nan if x is None else x for x in pair] for line in lines for pair in line["outputs"]["y"]],
        np.float32,
    ).reshape(-1, 2)
    finite = np.isfinite(values)
    assert (np.isfinite(found) == finite).all()
    assert (found.view(np.int32)[finite] == values.view(np.int32)[finite]).all()


@contextmanager
def room_for(count: int) -> Iterator[None]:
    """No file can grow beyond so many bytes: as on a full disk, a write comes back short, the next fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", range(0, 24))
@pytest.mark.parametrize("flags", [0, os.O_APPEND])
def test_a_full_disk_leaves_the_lines_that_fit_and_no_part_of_one(
    tmp_path: Path, room: int, flags: int
) -> None:
    path = tmp_path / "out.jsonl"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    lines = LineFile(file, str(path))
    with room_for(room), pytest.raises(AbwError, match=f"cannot write {path}: File too large"):
        lines.write(b"1st\n")
        lines.write(b"second\nthird\n")
        lines.write(b"a fourth line\n")
    os.close(file)
    whole = b"1st\nsecond\nthird\na fourth line\n"
    assert path.read_bytes() == whole[: whole.rfind(b"\n", 0, room) + 1]


def test_of_a_file_that_another_appends_to_nothing_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ours, theirs = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(2))
    lines = LineFile(ours, "log")

    class Theirs(bytes):
        """Lines behind which another process writes before the rest of them fails."""

        def rfind(self, *at: object) -> int:
            with room_for(100):
                os.write(theirs, b"theirs\n")
            return super().rfind(*at)  # type: ignore[arg-type]

    with room_for(10), pytest.raises(AbwError):
        lines.write(Theirs(b"first\nsecond\n"))
    assert path.read_bytes() == b"first\nsecotheirs\n"


@pytest.mark.parametrize("suffix", ["jsonl", "npz", "safetensors"])
def test_two_runs_into_one_file_are_refused_and_the_first_is_whole(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"out.{suffix}"
    outputs = (Output("y", (), single=True),)
    column = Column(np.ones(1, np.float32), np.ones(1, np.int64), np.zeros(1, np.int32))
    rows = Rows((0,), np.ones(1, np.int32), (column,), ("",))
    with open_outputs(file, outputs, named=False) as writer:
        writer.write(rows)
        with (
            pytest.raises(AbwError, match="is being written by another process"),
            open_outputs(file, outputs, named=False),
        ):
            pass
    alone = tmp_path / f"alone.{suffix}"
    with open_outputs(alone, outputs, named=False) as writer:
        writer.write(rows)
    if suffix != "npz":  # whose members have the time
        assert file.read_bytes() == alone.read_bytes()
    assert file.stat().st_size == alone.stat().st_size
    assert len(list(tmp_path.iterdir())) == 2
