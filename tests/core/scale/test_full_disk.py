"""A disk that is full while parts are written: one error, nothing lost, and it is gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from tests.core.scale.runs import Spread, spread
from tests.faults.disks import cannot_mount, fill, small_disk

__all__ = ["spread"]


def test_parts_on_a_full_disk_are_gone_on_with(spread: Spread, tmp_path: Path) -> None:
    if why := cannot_mount(tmp_path / "disk"):
        pytest.skip(why)
    wanted = spread.expected()
    kept: list[str] = []
    with small_disk(tmp_path / "disk"):
        spread.output = tmp_path / "disk" / "out.jsonl"
        refused = 0
        for free in range(0, 1 << 20, 16384):
            filler = fill(tmp_path / "disk", free)
            try:
                spread(resume=True)
                break
            except AbwError as error:
                refused += 1
                assert "No space left on device" in error.message and str(spread.output) in error.message
                assert set(kept) <= set(spread.parts), "a part that was whole is gone"
                kept = spread.parts
            finally:
                filler.unlink()
        assert refused > 2 and kept
        assert spread.output.read_bytes() == wanted
