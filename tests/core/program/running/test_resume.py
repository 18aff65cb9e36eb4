"""Programs that wait in several ways and go on from one another: whose each call is, and what stops them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abw
from abw import Net
from abw.core.program.recording.recorder import ROUNDS
from abw.core.program.recording.segments import joined
from abw.core.program.running.fibers import Done
from abw.core.program.session import Ran
from tests.core.program.cells import small

WAYS = ("argmax", "above", "best", "value", "sample", "each", "raise", "return")
instances = st.lists(st.lists(st.sampled_from(WAYS), max_size=8), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return small(tmp_path_factory.mktemp("resume"))


def plain(net: Net, ways: list[str]) -> int:
    """Asks in these ways, one after the other; how many cells it called."""
    calls = 0
    for way in ways:
        score, gate = net.score(net.start, net.start), net.gate(net.start)
        calls += 2
        if way == "each":
            calls += sum(abw.each(lambda some: plain(net, some), [["argmax"], ["value", "argmax"]]))
        elif way == "best":
            abw.best(2, [score], [0.0])
        elif way == "raise":
            raise ValueError(calls)
        elif way == "return":
            return calls
        else:
            gate.above(0.0) if way == "above" else getattr(score, way)()
    return calls


def yielding(net: Net, ways: list[str]) -> Generator[Any, Any, int]:
    """The same as a generator function."""
    calls = 0
    for way in ways:
        score, gate = net.score(net.start, net.start), net.gate(net.start)
        calls += 2
        if way == "each":
            calls += sum((yield abw.each(lambda some: plain(net, some), [["argmax"], ["value", "argmax"]])))
        elif way == "best":
            yield abw.best(2, [score], [0.0])
        elif way == "raise":
            raise ValueError(calls)
        elif way == "return":
            return calls
        else:
            yield gate.above(0.0) if way == "above" else getattr(score, way)()
    return calls


@given(instances, st.booleans())
@settings(max_examples=40)
def test_whose_each_call_is(net: Net, drawn: list[list[str]], generators: bool) -> None:
    def generator(ways: list[str]) -> Generator[Any, Any, int]:
        return (yield from yielding(net, ways))

    def function(ways: list[str]) -> int:
        return plain(net, ways)

    found = net.run(generator if generators else function, drawn, errors="return")
    calls = [one.args[0] if isinstance(one, ValueError) else one for one in found]
    whose = joined(net._session.engine().segments).instance
    assert np.bincount(whose, minlength=len(drawn)).tolist() == calls
    for ways, one in zip(drawn, found, strict=True):
        stops = [way for way in ways if way in ("raise", "return")]
        assert isinstance(one, ValueError) == (stops[:1] == ["raise"])


@pytest.mark.parametrize("generators", [False, True])
def test_what_stops_all(net: Net, generators: bool) -> None:
    def plain(number: int) -> int:
        for step in range(3):
            net.score(net.start, net.start).argmax()
            if (number, step) == (1, 1):
                raise KeyboardInterrupt
        return number

    def yielding(number: int) -> Generator[Any, Any, int]:
        for step in range(3):
            yield net.score(net.start, net.start).argmax()
            if (number, step) == (1, 1):
                raise KeyboardInterrupt
        return number

    function: Any = yielding if generators else plain
    with pytest.raises(KeyboardInterrupt):
        net.run(function, [0, 1, 2])
    assert net.run(function, [3, 4, 5]) == [3, 4, 5]


def test_a_question_that_is_returned_was_not_yielded(net: Net) -> None:
    def program(number: int) -> Generator[Any, Any, Any]:
        yield net.score(net.start, net.start).argmax()
        if number == 1:
            return net.score(net.start, net.start).argmax()
        yield net.score(net.start, net.start).argmax()
        return number

    first, second, third = net.run(program, [0, 1, 2], errors="return")
    assert (first, third) == (0, 2) and "was not yielded" in str(second)


def test_many_wait_at_once(tmp_path: Path) -> None:
    net = small(tmp_path)

    def program(number: int) -> int:
        return sum(net.score(net.words[number % 20], net.start).argmax() for _ in range(number % 5))

    alone = [net.run(program, [number])[0] for number in range(20)]
    assert net.run(program, range(2000), batch=2000) == [alone[number % 20] for number in range(2000)]


TURNS = ("step", "masked", "above", "again", "best", "sum", "input", "value")


def turning(net: Net, ways: list[str]) -> Generator[Any, Any, list[int]]:
    """Takes many turns, each decided by the last one's answer."""
    state, found = net.start, list[int]()
    for number, way in enumerate(3 * ways):
        if way == "sum":
            state = net.sum([state, net.start, net.words[number % 20]])
        elif way == "input":
            state = net.step(net.input([number / 30] * 6), state)
        elif way == "value":
            found.append(int((yield state.value())[0] > 0))
        elif way == "above":
            found.append(int((yield net.gate(state).above(0.0))))
        else:
            score = net.score(state, net.words[(sum(found) + number) % 20])
            allowed = [number % 2 == 0, True, False] if way == "masked" else None
            found.append((yield score.argmax(allowed)))
            if way == "best":
                found.append((yield abw.best(2, [score, score], [0.0, -0.5]))[1][1])
            if way == "again":
                found.append((yield score.argmax([False, False, True])))
            state = net.step(net.did[found[-1]], state)
    return found


@given(st.lists(st.lists(st.sampled_from(TURNS), max_size=6), min_size=1, max_size=4))
@settings(max_examples=12)
def test_rounds_that_follow_each_other(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[str]]
) -> None:
    net = small(tmp_path_factory.mktemp("rounds"))
    session, numbers = net._session, range(len(drawn))

    def generator(ways: list[str]) -> Generator[Any, Any, list[int]]:
        return (yield from turning(net, ways))

    def told(ran: Ran) -> tuple[object, ...]:
        pieces = [(made.type.tolist(), np.diff(made.ptr).tolist()) for _, made in ran.engine.pieces]
        operands = [np.maximum(segment.operand, -1).tolist() for segment in ran.engine.segments]
        return [end.result for end in ran.ends if isinstance(end, Done)], ran.rounds, pieces, operands

    one = told(session.run(generator, drawn, numbers))
    assert one == told(session.run(generator, drawn, numbers, "cell", {}))  # with a log Python answers


@pytest.mark.parametrize("count", [ROUNDS - 1, ROUNDS + 2, 2 * ROUNDS + 3])
def test_more_rounds_than_follow_on_each_other(net: Net, count: int) -> None:
    def program(number: int) -> int:
        return sum(net.score(net.words[step % 20], net.start).argmax() for step in range(number))

    def generator(number: int) -> Generator[Any, Any, int]:
        found = 0
        for step in range(number):
            found += yield net.score(net.words[step % 20], net.start).argmax()
        return found

    ran = net._session.run(generator, [count], [0])
    assert ran.rounds == ran.engine.nodes == count == len(ran.engine.segments)
    assert net.run(program, [count]) == [end.result for end in ran.ends if isinstance(end, Done)]
