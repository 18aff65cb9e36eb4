"""JSON lines hold what was computed, bit for bit."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.store.outputs import Column, Output, Rows, open_outputs


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
