"""`abw run --threads`: small mini-batches run side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.run import minibatches
from tests.cli.conftest import Abw


@pytest.mark.parametrize("flags", [(), ("--check-finite",), ("--skip-bad",), ("--no-keep",)])
def test_abw_run_writes_the_same_bytes(
    abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setattr(minibatches, "LEAST", 0)
    files = [tmp_path / f"{threads}.jsonl" for threads in (1, 2)]
    for threads, file in enumerate(files, 1):
        done = abw(
            "run", "specs/treelstm.yaml", "--set", "hidden=8", "--batch", "5", "--policy", "depth",
            "--output", str(file), "--threads", str(threads), "--json", *flags,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert done.json()["abreast"] == (2 if threads == 2 else 0)
    assert files[0].read_bytes() == files[1].read_bytes()
