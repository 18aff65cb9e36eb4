"""`abw.best`: by the tape, and without one: the same; and a plain oracle."""

from __future__ import annotations

from collections.abc import Generator
from math import exp, fsum, inf, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import abw
from abw import AbwError, Net
from abw.core.program.recording.asks import best

LIBRARY = """\
library: logs
dims: {few: 3, many: 40}
cells:
  few: {dims: [few], inputs: {x: few}, equations: "y = log(x)", outputs: {y: y}}
  many: {dims: [many], inputs: {x: many}, equations: "y = log(x)", outputs: {y: y}}
"""
SIZES = {"few": 3, "many": 40}
# A cell, how many elements, of how many values, what they begin with, and a seed for their numbers.
Question = tuple[str, int, int, list[float] | None, int]


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> list[Net]:
    """By the tape, and by an executor without one."""
    path = tmp_path_factory.mktemp("best") / "logs.yaml"
    path.write_text(LIBRARY)
    return [abw.cells(path, threads=1), abw.cells(path, executor="blas")]


def numbers(seed: int, size: int) -> list[float]:
    """Shares: some equal, some 0."""
    draw = np.random.default_rng(seed)
    found = draw.choice([0.0, 0.25, 0.5, *draw.random(5)], size)
    found[draw.integers(size)] = 1.0
    return [*map(float, found)]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    count, seed = draw(st.integers(1, 5)), draw(st.integers(0, 2**32 - 1))
    plus = st.lists(st.sampled_from([0.0, -1.5, -inf]), min_size=count, max_size=count)
    cell, k = draw(st.sampled_from([*SIZES])), draw(st.sampled_from([1, 4, 70]))
    return cell, k, count, draw(st.none() | plus), seed


instances = st.lists(st.tuples(st.booleans(), st.lists(questions(), max_size=4)), min_size=1, max_size=5)


def program(net: Net, instance: tuple[bool, list[Question]]) -> Any:  # noqa: ANN401
    """Each question, some after another one to the same values; between them one of another kind."""
    again, asked = instance
    found = []
    for cell, k, count, plus, seed in asked:
        values = [getattr(net, cell)(numbers(seed + i, SIZES[cell])) for i in range(count)]
        if again:
            found.append(values[-1].argmax())
        found.append((abw.best(k, values, plus), values))
    return found


def yielding(net: Net, instance: tuple[bool, list[Question]]) -> Generator[Any, Any, Any]:
    """The same as a generator function."""
    again, asked = instance
    found: list[Any] = []
    for cell, k, count, plus, seed in asked:
        values = [getattr(net, cell)(numbers(seed + i, SIZES[cell])) for i in range(count)]
        if again:
            found.append((yield values[-1].argmax()))
        found.append(((yield abw.best(k, values, plus)), values))
    return found


@given(instances)
@example([(False, [("few", 1, 1, None, 0), ("few", 4, 2, [0.0, -inf], 71)])])  # more than 4 without a share
@settings(max_examples=20)
def test_however_it_is_asked_and_answered(nets: list[Net], drawn: list[tuple[bool, list[Question]]]) -> None:
    runs = [net.run(lambda instance, net=net: program(net, instance), drawn) for net in nets]

    def generator(instance: tuple[bool, list[Question]]) -> Any:  # noqa: ANN401
        return (yield from yielding(nets[0], instance))

    runs.append(nets[0].run(generator, drawn))
    for run in runs:
        for (_, asked), found in zip(drawn, run, strict=True):
            answers = [one for one in found if isinstance(one, tuple)]
            for (_, k, count, plus, _), (picked, values) in zip(asked, answers, strict=True):
                begin = plus or [0.0] * count
                assert picked == best(np.stack(values), k, begin)
                check(picked, [value.tolist() for value in values], k, begin)
    assert [*map(repr, runs[0])] == [*map(repr, runs[2])]


def check(picked: list[tuple[int, int, float]], rows: list[list[float]], k: int, plus: list[float]) -> None:
    """Beside log softmax by plain sums."""
    total = {
        (which, at): begin + score - log(fsum(map(exp, row)))
        for which, (row, begin) in enumerate(zip(rows, plus, strict=True))
        for at, score in enumerate(row)
    }
    assert len(picked) == min(k, len(total)) == len({one[:2] for one in picked})
    right = sorted(total.values(), reverse=True)[:k]
    for (which, at, score), wanted in zip(picked, right, strict=True):
        assert score == pytest.approx(wanted, abs=1e-7) and score == pytest.approx(total[which, at], abs=1e-7)


def test_of_equals_the_first(nets: list[Net]) -> None:
    for net in nets:
        (found,) = net.run(lambda _, net=net: abw.best(4, [net.few([0.5, 1, 1])] * 2, [-1.0, -1.0]), [0])
        assert [one[:2] for one in found] == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("plus", [[inf], [np.nan], ["x"]])
def test_what_scores_cannot_begin_with(nets: list[Net], plus: list[Any]) -> None:
    for net in nets:
        with pytest.raises((AbwError, ValueError), match=r"plus contains NaN or infinity|could not convert"):
            net.run(lambda _, net=net: abw.best(1, [net.few([1, 1, 1])], plus), [0])


def test_one_that_is_not_a_number_concerns_its_instance_alone(nets: list[Net]) -> None:
    for net in nets:
        good, bad = net.run(
            lambda least, net=net: abw.best(2, [net.few([1, 1, least])], [0.0]), [0, -1], errors="return"
        )
        assert [one[:2] for one in good] == [(0, 0), (0, 1)]
        assert isinstance(bad, AbwError) and "not a number" in str(bad)


def test_more_questions_than_there_was_room_for(nets: list[Net]) -> None:
    def some(number: int) -> list[int]:
        values = [nets[0].few([1.0, 0.5, number / 600])] * 40
        return [one[1] for one in abw.best(41, values, [0.0] * 40)]

    for _ in range(2):
        wanted = [[0] * 40 + [1 + (number > 300)] for number in range(600)]
        assert nets[0].run(some, range(600), batch=600) == wanted


def test_all_wait_for_the_same_rounds(nets: list[Net], tmp_path: Path) -> None:
    def steps(count: int) -> int:
        for _ in range(count):
            abw.best(2, [nets[0].few([1, 2, 3])], [0.0])
        return count

    assert nets[0].run(steps, [3, 1, 2]) == [3, 1, 2]
    assert nets[0]._session.last is not None and nets[0]._session.last.rounds == 3
