"""Who is waited for is said after a minute, two, four; and what goes on when an answer has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.data.feed import Section
from abw.core.scale import cluster
from abw.core.scale.on_ray import _waited_for
from abw.core.store.shard_files import Part, writers, writing_part


class Told:
    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []

    def phase(self, name: str, total: int | None = None) -> None:
        self.phases.append((name, total))

    def reached(self, step: int, note: object = "") -> None:
        raise AssertionError


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    told = Told()
    silence = cluster.Silence(told, "run", 8)
    for second in range(300):
        now[0] = float(second)
        silence.look(lambda: "part 3")
    assert [name for name, _ in told.phases] == [
        f"no answer for {seconds} s, and still waiting: part 3" for seconds in (60, 120, 240)
    ]
    silence.heard()
    assert told.phases[-1] == ("run", 8)
    silence.heard()
    silence.look(lambda: "part 4")
    assert len(told.phases) == 4


def test_who_writes_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    monkeypatch.setattr("os.getpid", lambda: 4321)
    part, other = (Part(tmp_path / "out.jsonl", number, 9) for number in (3, 4))
    section = Section(0, 10, 17, 16, 2)
    with writing_part(part, {}, section) as draft:
        draft.path.write_bytes(b"x")
        assert writers(part) == ["process 4321 on node-7"] and not writers(other)
        said = _waited_for([(part, section), (other, section)] * 3)
        assert said.startswith("part 3 of 9 (from line 17 on; process 4321 on node-7), part 4 of 9")
        assert "no process has begun it" in said and said.endswith(", and 3 more")
    assert not writers(part)
