"""A kill of each kind on a real Ray cluster; `python -m tests.faults --engine 20` has the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.engine import WHO, kill

pytestmark = pytest.mark.filterwarnings("ignore")


def test_kills_of_workers_nodes_and_drivers_leave_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    tally = kill(tmp_path, kills=1, seed=2)
    assert tally.wrong == []
    assert sum(tally.ends.values()) == 2 * len(WHO)
