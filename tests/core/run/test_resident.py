"""What a process held at the marks of a run: noted when asked for, thinned, kept with the run and shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.cli.report import chosen_marks
from abw.core.base.memory import resident
from abw.core.run.observing import observers as module
from abw.core.run.observing.observers import MARKS, Resident
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run


def test_nothing_is_noted_unless_asked_for() -> None:
    held = Resident(asked=False)
    held.mark("reading")
    assert held.document() is None


def test_nor_where_no_one_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "resident", lambda: None)
    held = Resident(asked=True)
    held.mark("reading")
    assert held.document() is None


@pytest.mark.parametrize("mini_batches", [1, MARKS, MARKS + 1, 10 * MARKS + 3])
def test_of_many_mini_batches_every_so_manieth_is_kept(
    mini_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter(range(1, 10**6))
    monkeypatch.setattr(module, "resident", lambda: next(sizes))
    held = Resident(asked=True)
    held.mark("reading")
    for number in range(mini_batches):
        held.mark("mini-batch", number)
    held.mark("writing")
    marks = held.document() or []
    numbers = [mark["mini_batch"] for mark in marks[1:-1]]
    assert len(numbers) == mini_batches if mini_batches <= MARKS else MARKS / 2 <= len(numbers) <= MARKS
    assert len(set(np.diff(numbers).tolist())) <= 1  # all equally far apart
    assert numbers[0] == 0
    assert [mark["name"] for mark in (marks[0], marks[-1])] == ["reading", "writing"]
    assert [mark["seconds"] for mark in marks] == sorted(mark["seconds"] for mark in marks)


def test_of_mini_batches_three_are_shown() -> None:
    sizes = [10, 20, 50, 30, 5]
    marks = [{"name": "reading", "mini_batch": None, "seconds": 0.0, "resident_bytes": 99}] + [
        {"name": "mini-batch", "mini_batch": n, "seconds": n + 1.0, "resident_bytes": size}
        for n, size in enumerate(sizes)
    ]
    assert chosen_marks(marks) == [
        ("reading", 0.0, 99),
        ("mini-batch 0", 1.0, 10),
        ("mini-batch 2", 3.0, 50),
        ("mini-batch 4", 5.0, 5),
    ]
    assert chosen_marks([]) == []


@pytest.mark.skipif(resident() is None, reason="this system does not say what a process holds")
@pytest.mark.parametrize("profile", [True, False])
def test_a_profiled_run_keeps_it(
    profile: bool, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    changes = Overrides(dims={"hidden": 4, "embed": 4}, limit=6, batch=3)
    run(root / "specs/treelstm.yaml", changes, RunOptions(policy="agenda", profile=profile))
    found = find_run(None).report["resident"]
    if not profile:
        assert found is None
        return
    names = [(mark["name"], mark["mini_batch"]) for mark in found]
    steps = [(name, None) for name in ("reading", "compiling", "choosing the policy", "writing")]
    assert names == [*steps[:3], ("mini-batch", 0), ("mini-batch", 1), steps[3]]
    assert all(1 << 20 < mark["resident_bytes"] < 1 << 36 for mark in found)
