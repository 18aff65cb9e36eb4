"""A few kills and full disks; `python -m tests.faults` has the long runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.bench import Bench
from tests.faults.disks import cannot_mount, sweep
from tests.faults.kills import kill


def test_kills_leave_nothing_half_done(tmp_path: Path, kernels_home: Path) -> None:
    with Bench(tmp_path / "folder", tmp_path / "home") as bench:
        bench.folder.mkdir()
        bench.home.mkdir()
        (kernels_home / "kernels").mkdir(exist_ok=True)
        (bench.home / "kernels").symlink_to(kernels_home / "kernels")
        tally = kill(bench, ["run into lines", "learn"], kills=2, seed=1)
    assert tally.wrong == []
    assert sum(tally.ends.values()) == 6


def test_a_full_disk_is_blamed_and_leaves_nothing_half_done(tmp_path: Path, kernels_home: Path) -> None:
    if why := cannot_mount(tmp_path / "disk"):
        pytest.skip(why)
    (kernels_home / "kernels").mkdir(exist_ok=True)
    (tmp_path / "kernels").symlink_to(kernels_home / "kernels")
    tally = sweep(tmp_path, "runs, with lines elsewhere", step=32768, enough=1)
    assert tally.wrong == []
    assert tally.ends["exit code 1"] and tally.ends["worked"] == 1
