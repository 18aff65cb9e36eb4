"""`abw bench operations`: each is measured, and right."""

from __future__ import annotations

import pytest

from abw.bench.executors import operations
from tests.cli.conftest import Abw


def test_every_operation_is_right_beside_numpy(monkeypatch: pytest.MonkeyPatch, abw: Abw) -> None:
    for name, value in (("LANES", 3), ("WIDTH", 20), ("TURNS", 1)):
        monkeypatch.setattr(operations, name, value)
    report = abw("bench", "operations", "--runs", "1", "--json").json()
    assert [row["operation"] for row in report["rows"]] == [*operations.EXPRESSIONS]
    assert {*operations.EXPRESSIONS} == {*operations.NUMPY}
    for row in report["rows"]:
        assert row["error"] < 2e-6, row
