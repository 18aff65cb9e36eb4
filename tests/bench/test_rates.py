"""What reading memory takes."""

from __future__ import annotations

from abw.bench.rates import read_seconds


def test_more_takes_longer() -> None:
    small, large = read_seconds(1 << 16), read_seconds(1 << 24)
    assert 0 < 64 * small < large
