"""`abw run --threads`: small mini-batches run side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.run import parallel, streaming
from tests.cli.conftest import Abw


@pytest.mark.parametrize("flags", [(), ("--check-finite",), ("--skip-bad",), ("--no-keep",)])
def test_abw_run_writes_the_same_bytes(
    abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setattr(parallel, "LEAST", 0)
    files = [tmp_path / f"{threads}.jsonl" for threads in (1, 2)]
    for threads, file in enumerate(files, 1):
        done = abw(
            "run", "specs/treelstm.yaml", "--set", "hidden=8", "--batch", "5", "--policy", "depth",
            "--output", str(file), "--threads", str(threads), "--json", *flags,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert done.json()["abreast"] == (2 if threads == 2 else 0)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("stretch", [1, 40, 10**6])
def test_what_is_left_out_stands_in_its_place(
    abw: Abw, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    """Wherever chunks end, and whichever thread meets what is wrong first."""
    monkeypatch.setattr(parallel, "LEAST", 0)
    monkeypatch.setattr(parallel, "FEWEST", 100)
    monkeypatch.setattr(streaming, "read_ahead", lambda batch: (2 * batch, 4 * batch))
    monkeypatch.setattr(streaming, "STRETCH", stretch)
    lines = (root / "specs" / "data" / "trees.txt").read_text().splitlines()[:45] * 2
    for wrong in (0, 3, 4, 11, 12, 13, 14, 15, 16, 17, 44, 89):
        lines[wrong] = "(3 (2 It)" if wrong % 2 else "nothing"
    data = tmp_path / "data.txt"
    data.write_text("\n".join(lines))
    written = []
    for threads in (1, 3):
        file = tmp_path / f"{threads}.jsonl"
        done = abw(
            "run", "specs/treelstm.yaml", "--set", "hidden=8", "--batch", "4", "--policy", "depth", "--data",
            str(data), "--skip-bad", "--output", str(file), "--threads", str(threads), "--json",
        )  # fmt: skip
        assert done.code == 0, done.err
        report = done.json()
        assert (report["instances"], report["skipped"]) == (78, 12)
        written.append((file.read_bytes(), report["lower_bound"], report["batches"], report["mini_batches"]))
    assert written[0] == written[1]
