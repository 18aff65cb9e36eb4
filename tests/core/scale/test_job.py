"""What runs over many processes do whatever the engine: here one that runs shards in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import abw
from abw.core.base.errors import AbwError, InterruptedWorkError
from abw.core.data.feed import Section
from abw.core.scale.job import Done, Scale
from abw.core.scale.on_ray import _Late
from abw.core.scale.worker import Parcel, run_shard
from abw.core.store.shard_files import Part
from tests.core.scale.runs import Spread, inline, spread

__all__ = ["spread"]


def test_it_is_what_one_run_writes(spread: Spread) -> None:
    report = spread()
    assert spread.output.read_bytes() == spread.expected()
    assert report["instances"] == 48 and report["shards"] > 5 and not report["resumed"]
    assert spread.parts == []


def test_a_model_that_grows_with_a_policy_learned_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    grows = Spread(tmp_path, "greedy", policy="auto")
    assert grows(shard=1000)["shards"] > 1
    assert len(list((tmp_path / "home/policies").iterdir())) == 1
    assert grows.output.read_bytes() == grows.expected()


def only(wanted: Callable[[int], bool]) -> Any:  # noqa: ANN401
    """An engine that runs some parts, and says of the others that they are lost."""

    def engine(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
        for part, section in tasks:
            found = run_shard(sent, part, section) if wanted(part.number) else {"lost": True}
            done((part, section), found)

    return engine


def test_what_is_lost_is_named_and_the_others_are_kept(spread: Spread) -> None:
    with pytest.raises(
        AbwError, match=r"part 3 of \d+ \(from line \d+ on, \d+ instances\) ends each"
    ) as told:
        spread(only(lambda number: number != 3))
    assert "--resume takes them" in told.value.hint
    kept = spread.parts
    assert "part-00003-of" not in "".join(kept)
    report = spread(only(lambda number: number == 3), resume=True)
    assert report["resumed"] == len(kept) == report["shards"] - 1
    assert spread.output.read_bytes() == spread.expected()


def test_nothing_more_is_tried_where_every_shard_fails(spread: Spread) -> None:
    tried = []

    def engine(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
        for task in tasks:
            tried.append(task)
            done(task, {"lost": True})

    with pytest.raises(AbwError, match=r"parts 1, 2, 3 of \d+ end each process"):
        spread(engine)
    assert len(tried) == 3


def test_a_malformed_line_in_the_last_shard(spread: Spread) -> None:
    with spread.data.open("a") as file:
        file.write("(3 (2 It)\n")
    with pytest.raises(AbwError, match=r"data\.txt:49:10: the line ends inside a tree") as told:
        spread()
    assert "parts are kept" in told.value.hint and len(spread.parts) > 5


def test_input_changed_between_runs_is_refused(spread: Spread) -> None:
    with pytest.raises(AbwError, match="part 1 of"):
        spread(only(lambda number: number != 1))
    text = spread.data.read_text()
    spread.data.write_text(text.replace("(3", "(1", 1))
    with pytest.raises(AbwError, match="of another run: it differs in data"):
        spread(resume=True)
    spread.data.write_text(text)
    spread.dims = {"hidden": 4}
    with pytest.raises(AbwError, match="of another run: it differs in dims"):
        spread(resume=True)


def test_input_changed_while_it_is_run_is_refused(spread: Spread) -> None:
    def engine(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
        first, second, *_ = tasks
        done(first, run_shard(sent, *first))
        spread.data.write_text(spread.data.read_text() + "\n")
        done(second, run_shard(sent, *second))

    with pytest.raises(AbwError, match=r"data\.txt has changed since"):
        spread(engine)
    assert len(spread.parts) == 1


def test_another_version_of_abw_is_refused(spread: Spread, monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
        monkeypatch.setattr(abw, "__version__", "0.0.1")
        inline(sent, tasks, count, done, progress)

    with pytest.raises(AbwError, match=r"abw 0\.0\.1 is installed on .*, and .* began the run"):
        spread(engine)


def test_an_interrupt_says_what_is_kept(spread: Spread) -> None:
    def engine(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
        first = next(tasks)
        done(first, run_shard(sent, *first))
        raise KeyboardInterrupt

    with pytest.raises(
        InterruptedWorkError, match=r"interrupted: 1 of \d+ parts are kept in .*; --resume"
    ) as told:
        spread(engine)
    assert told.value.exit_code == 130


def test_late_shards_are_started_once_more() -> None:
    late = _Late()
    parts = [(Part(Path("out.jsonl"), n, 4), Section(0, 0, 1, 0, 0)) for n in range(1, 5)]
    assert late.next(1e9) is None
    for n, task in enumerate(parts):
        late.started(task, float(n))
    assert late.next(1e9) is None  # nobody knows what is usual
    late.ended(parts[1], 3.0)
    late.ended(parts[3], 5.0)  # both took 2 s
    assert late.next(6.0) is None
    assert late.next(6.5) == parts[0]
    late.started(parts[0], 6.5)
    assert late.next(6.5) is None and late.next(8.5) == parts[2]
    late.ended(parts[0], 9.0)
    late.started(parts[2], 9.0)
    assert late.next(1e9) is None and list(late.running) == [parts[2]]


@pytest.mark.parametrize(
    ("size", "shards"),
    [(0, 1), (1, 1), (4 << 20, 1), ((4 << 20) + 1, 2), (1 << 36, 1 << 14), (1 << 40, 1 << 14)],
)
def test_the_size_of_shards_suits_the_data(size: int, shards: int) -> None:
    assert Scale().shards(size) == shards
    assert Scale(1000).shards(10_001) == 11


def test_parts_may_be_left(spread: Spread) -> None:
    report = spread(leave_parts=True)
    assert len(spread.parts) == report["shards"] and not spread.output.exists()
    left = b"".join(path.read_bytes() for path in abw.open_outputs(spread.output).files)
    assert left == spread.expected()
