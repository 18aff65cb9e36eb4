"""Files are hashed as the description of xxHash64 says, whatever their length."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.filehash import BLOCK, file_hash

KNOWN = {
    b"": "ef46db3751d8e999",
    b"a": "d24ec4f1a98c6e5b",
    b"abc": "44bc2cf5ad770999",
    b"Nobody inspects the spammish repetition": "fbcea83c8a378bf1",
}
"""Published values."""
P = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)
M = 2**64


def oracle(data: bytes) -> int:
    """The same, a word at a time, as the description has it."""

    def turned(x: int, r: int) -> int:
        return (x << r) % M | x >> (64 - r)

    def mixed(acc: int, lane: int) -> int:
        return turned((acc + lane * P[1]) % M, 31) * P[0] % M

    at, n = 0, len(data)
    if n >= 32:
        acc = [(P[0] + P[1]) % M, P[1], 0, -P[0] % M]
        while at + 32 <= n:
            for lane in range(4):
                acc[lane] = mixed(acc[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        h = (turned(acc[0], 1) + turned(acc[1], 7) + turned(acc[2], 12) + turned(acc[3], 18)) % M
        for lane in range(4):
            h = ((h ^ mixed(0, acc[lane])) * P[0] + P[3]) % M
    else:
        h = P[4]
    h = (h + n) % M
    while at + 8 <= n:
        h = (turned(h ^ mixed(0, int.from_bytes(data[at : at + 8], "little")), 27) * P[0] + P[3]) % M
        at += 8
    if at + 4 <= n:
        h = (turned(h ^ int.from_bytes(data[at : at + 4], "little") * P[0] % M, 23) * P[1] + P[2]) % M
        at += 4
    for byte in data[at:]:
        h = turned(h ^ byte * P[4] % M, 11) * P[0] % M
    h = (h ^ h >> 33) * P[1] % M
    h = (h ^ h >> 29) * P[2] % M
    return h ^ h >> 32


@pytest.mark.parametrize("data", KNOWN)
def test_published_values(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert file_hash(tmp_path / "file") == KNOWN[data] == f"{oracle(data):016x}"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert file_hash(tmp_path / "file") == f"{oracle(data):016x}"


@pytest.mark.parametrize("more", [-33, -1, 0, 1, 45])
def test_blocks(tmp_path: Path, more: int) -> None:
    data = bytes(i * i % 251 for i in range(1000)) * (BLOCK // 1000 + 1)
    data = data[: BLOCK + more]
    (tmp_path / "file").write_bytes(data)
    assert file_hash(tmp_path / "file") == f"{oracle(data):016x}"
