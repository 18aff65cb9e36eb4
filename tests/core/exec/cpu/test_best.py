"""The best of a row of scores, and what a softmax divides them by: as beams have them that Python drives."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.base.errors import Span
from abw.core.data.vertices import Columns
from abw.core.exec.cpu.llvm.best import Best, ScoresFunction, whole
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.target import TARGETS, TargetName, get_target
from abw.core.exec.memory import aligned
from abw.core.graph.growing.beam import continuations, exponentials, log_shares
from abw.core.graph.growing.choices import IN_UNITS, UNIT
from abw.core.graph.growing.decide import relative
from abw.core.graph.growing.state import FAILED, STATUS
from abw.core.ir.growth import Decision
from abw.core.jit.pointers import address

HERE = TARGETS[TARGETS.index(get_target().name) :]
Scores = NDArray[np.float32]


@cache
def compiled(name: TargetName, count: int, width: int) -> Code:
    """A function that finds the best of a row, and their common divisor."""
    target = get_target(name)
    module = Module(target)
    f = ScoresFunction(module, "find", ", ptr %scores, ptr %numbers, ptr %divisor")
    best = Best(f, count, width)
    top = best.find("%scores")
    f.put("double", whole(f, "%scores", count, top), "%divisor", 0)
    f.repeat(best.width, lambda place: f.put_int(best.number(place), "%numbers", place))
    module.add(f)
    return compile_ir(module.text(), target)


def found(name: TargetName, scores: Scores, width: int) -> tuple[list[int], float] | None:
    """The numbers of the best, and the divisor's logarithm; None where the function fails."""
    code = compiled(name, len(scores), width)
    row = aligned(len(scores) + 64)
    row[:] = np.nan  # behind the scores lies anything
    row[: len(scores)] = scores
    numbers, divisor, state = np.full(width, -1, np.int32), np.zeros(1), np.zeros(1, np.int64)
    find = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.address("find"))
    find(address(state), address(row), address(numbers), address(divisor))
    if state[STATUS] == FAILED:
        return None
    return numbers[numbers >= 0].tolist(), float(divisor[0])


@settings(max_examples=40)
@given(
    name=st.sampled_from(HERE),
    count=st.sampled_from([1, 2, 5, 16, 40, 64, 200]),
    width=st.sampled_from([1, 3, 4, 70]),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["some", "equal", "wide", "infinite", "nothing"]),
)
def test_the_best_and_their_divisor_to_the_bit(
    name: TargetName, count: int, width: int, seed: int, kind: str
) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.normal(scale=30 if kind == "wide" else 2, size=count).astype(np.float32)
    if kind == "equal":
        scores = np.round(scores)
    elif kind in ("infinite", "nothing"):
        scores[draw.random(count) < 0.3] = np.inf if seed % 2 else -np.inf
        scores[draw.random(count) < 0.3] = -np.inf
        scores = np.full_like(scores, -np.inf) if kind == "nothing" else scores
    made = found(name, scores, width)
    assert made is not None
    numbers, divisor = made
    decision = Decision("next", "best", 0, 0, 0.0, None, None, Span("test", 1), width)
    at = np.zeros(1, np.int32)
    best = continuations(decision, Columns(1), at, lambda *_: scores[None], np.zeros(1))
    # where nothing has a share the first is taken, which is the beam's to do
    assert (numbers or [0]) == best.number.tolist()
    one = np.array([int(scores.argmax())])
    assert (IN_UNITS - divisor) - IN_UNITS == log_shares(scores[None], at, one)[0]
    assert divisor == pytest.approx(np.log(np.exp(relative(scores[None])).sum()), abs=1e-8)


def test_what_is_no_number_fails() -> None:
    scores = np.zeros(37, np.float32)
    for place in (0, 20, 36):
        broken = scores.copy()
        broken[place] = np.nan
        assert found(TARGETS[-1], broken, 4) is None
    assert found(TARGETS[-1], scores, 4) is not None


@given(st.lists(st.floats(-800, 0), min_size=1))
def test_exponentials_in_whole_units(numbers: list[float]) -> None:
    made = exponentials(np.array(numbers))
    np.testing.assert_allclose(made * UNIT, np.exp(numbers), 1e-8, UNIT)
    assert exponentials(np.zeros(1))[0] * UNIT == 1
    np.testing.assert_array_equal(made, [exponentials(np.array([number]))[0] for number in numbers])
