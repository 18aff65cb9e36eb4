"""What does not fit is refused before memory is taken, with what would."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import abw
from abw.core.base import memory
from abw.core.base.errors import AbwError
from abw.core.data import links
from abw.core.data.instances import Link
from abw.core.exec import result_guard
from abw.core.exec.interface import TooLargeError
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides


def test_weights(root: Path) -> None:
    # 27 GB; random ones would be drawn for a minute before the first page is missing
    dims = {"hidden": 16384}
    with (
        patch.object(memory, "available_memory", lambda: 8_000_000_000),
        pytest.raises(AbwError, match=r"would take 27\.9\d GB of memory; 8\.00 GB are free") as caught,
    ):
        run(root / "specs" / "treelstm.yaml", Overrides(dims=dims), RunOptions(policy="depth"))
    assert "with hidden=" in caught.value.hint


def test_links_that_multiply() -> None:
    every = Link(
        np.tile(np.arange(2000, dtype=np.int32), 2000), np.arange(0, 2000 * 2000 + 1, 2000, dtype=np.int32)
    )
    with (
        patch.object(memory, "available_memory", lambda: 1_000_000_000),
        pytest.raises(AbwError, match=r"8,000,000,000 vertices, from 4,000,000, would take 224\.00 GB"),
    ):
        links.along([(every, None), (every, None)], 2000)


@pytest.mark.parametrize("executor", ["cpu", "blas"])
def test_a_mini_batch_runs_in_pieces_where_it_does_not_fit(root: Path, executor: str) -> None:
    spec = root / "specs" / "treelstm.yaml"
    trees = [(1, (2, "a"), (3, (1, "b"), (2, "c")))] * 64
    expected = abw.load(spec, policy="depth", executor=executor)(trees)["classes"].values
    model = abw.load(spec, policy="depth", executor=executor)
    with (
        patch.object(result_guard, "available_memory", lambda: 200_000),
        patch.object(model.executor, "run", wraps=model.executor.run) as runs,
    ):
        found = model(trees)["classes"].values
    assert runs.call_count > 2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    with (
        patch.object(result_guard, "available_memory", lambda: 1000),
        pytest.raises(TooLargeError, match="free on this machine"),
    ):
        abw.load(spec, policy="depth", executor=executor)(trees)
