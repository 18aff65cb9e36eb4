"""Losses beside their definitions in double precision, and their gradients beside finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.ir.training import LOSSES, Init
from abw.core.train.dropout import draw
from abw.core.train.initial import drawn
from abw.core.train.metrics import Score, spans
from abw.core.train.targets import loss_of


def plain(kind: str, values: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
    """A loss as a textbook writes it."""
    values = values.astype(np.float64)
    if kind == "cross-entropy":
        share = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
        return float(-(weight * np.log(share[np.arange(len(values)), target])).sum())
    if kind == "binary":
        chance = 1 / (1 + np.exp(-values))
        each = -(target * np.log(chance) + (1 - target) * np.log(1 - chance))
        return float((weight[:, None] * each).sum())
    if kind == "q-error":
        share = np.exp(values - target)
        return float((weight[:, None] * np.maximum(share, 1 / share)).sum())
    return float((weight[:, None] * (values - target) ** 2).sum() / 2)


@pytest.mark.parametrize("kind", LOSSES)
@given(m=st.integers(0, 6), k=st.integers(1, 5), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_losses_and_their_gradients(kind: str, m: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = (3 * random.standard_normal((m, k))).astype(np.float32)
    target = random.random((m, k)).astype(np.float32)
    if kind == "cross-entropy":
        target = random.integers(0, k, m).astype(np.int32)
    weight = random.random(m).astype(np.float32)
    gradient = np.empty_like(values)
    found = loss_of(kind, values, target, weight, gradient)  # type: ignore[arg-type]
    assert found == pytest.approx(plain(kind, values, target, weight), rel=1e-6, abs=1e-9)
    wide, step = values.astype(np.float64), 1e-5
    for i, j in np.ndindex(m, k):
        moved = [wide.copy(), wide.copy()]
        moved[0][i, j] += step
        moved[1][i, j] -= step
        slope = (plain(kind, moved[0], target, weight) - plain(kind, moved[1], target, weight)) / (2 * step)
        assert gradient[i, j] == pytest.approx(slope, abs=2e-6, rel=1e-5)


@pytest.mark.parametrize("kind", ["cross-entropy", "binary"])
def test_scores_far_apart_overflow_nothing(kind: str) -> None:
    values = np.array([[1e4, -1e4]], np.float32)
    gradient = np.empty_like(values)
    target = np.array([1], np.int32) if kind == "cross-entropy" else np.array([[0, 1]], np.float32)
    found = loss_of(kind, values, target, np.ones(1, np.float32), gradient)  # type: ignore[arg-type]
    assert found == 2e4
    assert gradient.tolist() == [[1, -1]]


def test_a_q_error_far_off_overflows_nothing() -> None:
    values, gradient = np.array([[1e4]], np.float32), np.empty((1, 1), np.float32)
    found = loss_of("q-error", values, np.zeros((1, 1), np.float32), np.ones(1, np.float32), gradient)
    assert found == pytest.approx(math.exp(20) * (1 + 1e4 - 20))
    assert gradient[0, 0] == pytest.approx(math.exp(20))


@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=50))
def test_quantiles_of_q_errors(logarithms: list[float]) -> None:
    given_values, wanted = (
        np.array(logarithms, np.float32)[:, None],
        np.ones((len(logarithms), 1), np.float32),
    )
    errors = sorted(max(math.exp(x - 1), math.exp(1 - x)) for x in logarithms)
    for name, share in (("median-q-error", 0.5), ("p90-q-error", 0.9), ("p99-q-error", 0.99)):
        score = Score(name)  # type: ignore[arg-type]
        score.add_q_errors(given_values[:3], wanted[:3])
        score.add_q_errors(given_values[3:], wanted[3:])
        at = share * (len(errors) - 1)
        low, high = errors[math.floor(at)], errors[math.ceil(at)]
        assert score.value == pytest.approx(low + (at - math.floor(at)) * (high - low), rel=1e-5)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-A I-A O", {(1, 3, "A")}),
        ("B-A B-A I-B O I-C", {(0, 1, "A"), (1, 2, "A"), (2, 3, "B"), (4, 5, "C")}),
        ("S-A B-B I-B E-B S-A", {(0, 1, "A"), (1, 4, "B"), (4, 5, "A")}),
        ("B-A M-A M-A E-A O M-B E-B M-A", {(0, 4, "A"), (5, 7, "B"), (7, 8, "A")}),
        ("I-A I-A O I-A", {(0, 2, "A"), (3, 4, "A")}),
        ("", set()),
    ],
)
def test_spans(tags: str, expected: set[tuple[int, int, str]]) -> None:
    assert spans(tags.split()) == expected


def test_metrics() -> None:
    accuracy = Score("accuracy")
    assert math.isnan(accuracy.value)
    accuracy.add_labels(np.array([1, 2, 3]), np.array([1, 0, 3]))
    assert accuracy.value == 2 / 3
    f1 = Score("span-f1")
    f1.add_spans(["B-A", "O", "B-B"], ["B-A", "O", "O"])
    f1.add_spans(["O"], ["B-C"])
    assert f1.value == 2 * 1 / (2 + 2)
    perplexity = Score("perplexity")
    perplexity.add_sum(3 * math.log(7), 3)
    assert perplexity.value == pytest.approx(7)


def test_what_is_left_out_does_not_depend_on_what_it_stands_beside() -> None:
    instance = np.repeat(np.arange(50, dtype=np.int32), 40)
    vertex = np.tile(np.arange(40, dtype=np.int32), 50)
    numbers, start, nodes = np.arange(50), np.zeros(50, np.int64), np.arange(2000)

    def kept(*keys: int, order: np.ndarray = nodes) -> np.ndarray:
        rows = np.empty((len(order), 3), np.float32)
        one, two, three = (np.uint64(key) for key in keys)
        draw((one, two, three), (vertex[order], instance[order], start, numbers), 0.1, rows)
        return rows > 0

    whole = kept(1, 2, 3)
    order = np.random.default_rng(0).permutation(len(whole))
    assert np.array_equal(kept(1, 2, 3, order=order), whole[order])
    assert abs(whole.mean() - 0.9) < 0.03
    for other in (kept(2, 2, 3), kept(1, 3, 3), kept(1, 2, 4), whole[:, [1, 2, 0]]):
        assert abs(np.corrcoef(whole.ravel(), other.ravel())[0, 1]) < 0.1


UNIFORM: Callable[[float], float] = lambda bound: bound / math.sqrt(3)  # noqa: E731


@pytest.mark.parametrize(
    ("name", "numbers", "deviation"),
    [
        ("uniform", (0.3,), UNIFORM(0.3)),
        ("normal", (0.2,), 0.2),
        ("linear", (), UNIFORM(0.1)),
        ("glorot-uniform", (), math.sqrt(2 / 150)),
        ("glorot-normal", (), math.sqrt(2 / 150)),
        ("he-uniform", (), math.sqrt(2 / 100)),
        ("he-normal", (), math.sqrt(2 / 100)),
        ("orthogonal", (), math.sqrt(1 / 100)),
        ("zeros", (), 0),
        ("constant", (4.0,), 0),
    ],
)
def test_initialisations(name: str, numbers: tuple[float, ...], deviation: float) -> None:
    value = drawn(Init("*", name, numbers), (50, 100), (50, 100), np.random.default_rng(0))
    assert value.dtype == np.float32
    assert value.std() == pytest.approx(deviation, rel=0.05)
    if name == "orthogonal":
        np.testing.assert_allclose(value @ value.T, np.eye(50), atol=1e-5)
    if name == "constant":
        assert (value == 4).all()
