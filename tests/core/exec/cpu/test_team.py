"""What a team of threads decides by, and where its threads run."""

from __future__ import annotations

import os
import threading
import time

import pytest

from abw.core.base.parallel import current_core, leave
from abw.core.exec.cpu import team
from abw.core.exec.cpu.team import LONGEST_REST, Team


class Clock:
    """Time that passes only when told."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(team, "time", made)
    return made


def done(made: Team, clock: Clock, alone: float, shared: float, kind: str = "") -> str:
    """Do a piece that takes so long either way; which it was."""

    def takes(seconds: float) -> None:
        clock.now += seconds

    was = made.do(lambda thread: takes(shared if thread == 0 else 0), lambda: takes(alone), 1, kind)
    return "s" if was else "a"


def test_pieces_are_compared_with_others_of_their_kind(clock: Clock) -> None:
    """A kind that takes ten times as long for what it calls an amount is shared none the less."""
    two = Team(2)
    found = [
        done(two, clock, alone, alone / 1.8, kind) for _ in range(9) for alone, kind in ((1, "x"), (10, "y"))
    ]
    assert "".join(found) == "aa" + "ss" * 8


def test_a_kind_that_is_slower_shared_leaves_the_others(clock: Clock) -> None:
    two = Team(2)
    small, large = "", ""
    for _ in range(20):
        small += done(two, clock, 1, 2, "small")
        large += done(two, clock, 10, 6, "large")
    assert large == "a" + "s" * 19
    assert small.count("s") < 4


def test_what_a_piece_takes_alone_is_learned_again(clock: Clock) -> None:
    """Where another process takes the processors, what counts is how long it takes alone now."""
    two = Team(2)
    found = "".join(done(two, clock, 1, 1.5) for _ in range(300))
    assert found.count("s") < 300 / LONGEST_REST + 6
    later = "".join(done(two, clock, 3, 2) for _ in range(300))
    assert later.endswith("s" * 50)


@pytest.mark.skipif(current_core() < 0, reason="the system does not say where a thread runs")
def test_a_thread_leaves_a_core_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    usable, moved = os.sched_getaffinity(0), []
    move = os.sched_setaffinity

    def noted(process: int, cores: set[int]) -> None:
        moved.append(set(cores))
        move(process, cores)

    monkeypatch.setattr(os, "sched_setaffinity", noted)
    leave(-1)
    leave(max(usable) + 1)
    assert moved == []
    end = time.monotonic() + 10
    while not moved and time.monotonic() < end:  # where it runs may change between two looks
        left = current_core()
        leave(left)
        if len(usable) == 1:
            break
    assert moved == ([] if len(usable) == 1 else [usable - {left}, usable])
    assert os.sched_getaffinity(0) == usable


def test_each_thread_of_a_team_is_the_same_one_for_every_piece() -> None:
    """So all are there when pieces begin that wait for each other, whichever had ended early before."""
    four, found = Team(4), list[dict[int, int]]()
    met = threading.Barrier(4)

    def short(thread: int) -> None:
        found[-1][thread] = threading.get_ident()

    def together(thread: int) -> None:
        short(thread)
        met.wait(timeout=30)

    for piece in (short, short, together):
        found.append({})
        four.share(piece)
    assert found[0] == found[1] == found[2]
    assert len(set(found[0].values())) == 4
    assert found[0][0] == threading.get_ident()


def test_an_error_of_the_first_thread_is_raised_when_the_others_have_ended() -> None:
    """What they work on is the caller's."""
    failed, events = threading.Event(), list[int]()

    def work(thread: int) -> None:
        if thread == 0:
            failed.set()
            raise ValueError("of the first thread")
        failed.wait(timeout=30)
        events.append(thread)

    with pytest.raises(ValueError, match="of the first thread"):
        Team(3).share(work)
    assert sorted(events) == [1, 2]
