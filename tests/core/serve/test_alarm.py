"""Programs that run too long are stopped where they are; all others run to their ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import abw
from abw.core.program.net import session_of
from abw.core.program.running.fibers import Done, Failed, Stopped
from abw.core.serve.program import Alarm

LIBRARY = Path(abw.__file__).parent / "specs/programs/parser.yaml"


def ends(net: abw.Net, function: Callable[[Any], Any], items: list[str], full: int = 1 << 40) -> list[Any]:
    """How programs end when the first has 0.2 s; in the order in which they do."""
    session = session_of(net)
    alarm = Alarm(0.2, lambda: session.recorded, full)
    before = signal.getsignal(signal.SIGALRM)
    found: list[Any] = []
    with alarm.set():
        for some in session.run_as_they_end(function, items, range(len(items)), 1 << 20, alarm.over):
            found += [(items[at], end) for at, end in some]
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    return found


@pytest.fixture(scope="module")
def net() -> abw.Net:
    found = abw.cells(LIBRARY, dims={"hidden": 8}, allow_outside=True)
    found.run(lambda word: found.words[word], ["it"])
    return found


def hog(net: abw.Net, kind: str) -> tuple[abw.Value, abw.Value]:
    state: tuple[abw.Value, abw.Value] = net.buffer(net.words["a"], net.zeros("hidden"), net.zeros("hidden"))
    while kind == "loops":
        pass
    while kind == "calls":
        state = net.buffer(net.words["a"], *state)
    if kind == "sleeps":
        time.sleep(1000)
    return state


def check(found: list[Any]) -> None:
    """All have ended, and those with the names of hogs were stopped."""
    assert sorted(item for item, _ in found) == ["asks", "calls", "fine", "fine too", "loops", "sleeps"]
    for item, end in found:
        if item.startswith("fine"):
            assert isinstance(end, Done) and end.result.shape == (8,)
        else:
            assert isinstance(end, Failed)
            assert isinstance(end.error, abw.AbwError if item == "calls" else Stopped)
            assert ("over 1000 times" if item == "calls" else "had not ended") in str(end.error)


ITEMS = ["fine", "loops", "calls", "sleeps", "asks", "fine too"]


def test_plain_functions_are_stopped(net: abw.Net) -> None:
    pytest.importorskip("greenlet", reason='needs the extra programs: pip install ".[programs]"')

    def program(kind: str) -> abw.Value:
        state = hog(net, kind)
        asked = state[0].argmax()
        while kind == "asks":
            asked += net.buffer(net.words["a"], *state)[0].argmax()
        return state[0]

    check(ends(net, program, ITEMS, full=1000))


def test_generator_functions_are_stopped(net: abw.Net) -> None:
    def program(kind: str) -> Generator[Any, int, Any]:
        yield net.buffer(net.words["a"], net.zeros("hidden"), net.zeros("hidden"))[0].argmax()
        state = hog(net, kind)
        while kind == "asks":
            yield state[0].argmax()
        return state[0]

    check(ends(net, program, ITEMS, full=1000))


def test_who_ends_early_is_told_early_and_who_is_held_up_goes_on(net: abw.Net) -> None:
    def program(steps: int) -> Generator[Any, int, Any]:
        state = net.buffer(net.words["a"], net.zeros("hidden"), net.zeros("hidden"))
        for _ in range(steps):
            yield state[0].argmax()
            state = net.buffer(net.words["a"], *state)
        return state[0]

    order = []
    wanted = net.run(program, [7, 0, 3])
    for some in session_of(net).run_as_they_end(program, [7, 0, 3], [0, 1, 2], 1 << 20, lambda: ""):
        for at, end in some:
            assert isinstance(end, Done) and (end.result == wanted[at]).all()
            order.append(at)
    assert order == [1, 2, 0]


def test_few_nodes_begin_together(net: abw.Net) -> None:
    seen: list[int] = []

    def program(_: int) -> Generator[Any, int, Any]:
        state = net.buffer(net.words["a"], net.zeros("hidden"), net.zeros("hidden"))
        state = net.buffer(net.words["a"], *state)
        seen.append(session_of(net).recorded)
        yield state[0].argmax()
        return state[0]

    for _ in session_of(net).run_as_they_end(program, range(5), range(5), 4, lambda: ""):
        pass
    assert seen == [2, 4, 2, 4, 2]
