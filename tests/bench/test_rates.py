"""What reading memory takes."""

from __future__ import annotations

from abw.bench.rates import read_seconds


def test_more_takes_longer() -> None:
    assert 0 < read_seconds(1 << 12) < read_seconds(1 << 24)
