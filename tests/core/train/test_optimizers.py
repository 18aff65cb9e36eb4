"""Optimisers beside PyTorch's, kept as golden numbers (tests/golden/torch/make_optimizers.py)."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.gradient import Gradient
from abw.core.exec.params import Params
from abw.core.ir.training import OPTIMIZERS, Optimizer, RateSchedule
from abw.core.train.optimizers import Stepper, rate_at

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "torch" / "optimizers.npz")
RATES = {"sgd": 0.1, "momentum": 0.05, "adam": 0.01, "adamw": 0.01, "adagrad": 0.05}


def optimizer(name: str, decay: float = 0.1) -> Optimizer:
    """One with the golden numbers' settings."""
    epsilon = 1e-10 if name == "adagrad" else 1e-8
    return Optimizer(name, RATES[name], decay, epsilon=epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_pytorchs(name: str) -> None:
    """Matrix, vector and a table of which each step reads all rows; all decay."""
    params = Params((GOLDEN["W"], GOLDEN["b"]), (GOLDEN["T"],)).flattened()
    stepper = Stepper(optimizer(name), params, 2)
    rows = np.arange(len(GOLDEN["T"]), dtype=np.int32)
    for step in range(6):
        values = np.concatenate([GOLDEN[f"grad.{step}.{p}"].ravel() for p in ("W", "b")])
        stepper.step(Gradient(values, {0: rows}, {0: GOLDEN[f"grad.{step}.T"]}))
        for p, value in zip(("W", "b", "T"), (*params.values, *params.tables), strict=True):
            np.testing.assert_allclose(value, GOLDEN[f"{name}.{step}.{p}"], rtol=2e-5, atol=1e-6)


def test_defaults_are_pytorchs() -> None:
    """As its documentation has them, and where it is installed as it has them itself."""
    adam = {"rate": 0.001, "decay": 0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    documented: dict[str, dict[str, float]] = {
        "sgd": {"rate": 0.001, "decay": 0},
        "momentum": {"rate": 0.001, "decay": 0, "momentum": 0.9},
        "adam": adam,
        "adamw": {**adam, "decay": 0.01},
        "adagrad": {"rate": 0.01, "decay": 0, "epsilon": 1e-10},
    }
    assert documented == OPTIMIZERS
    optim = pytest.importorskip("torch.optim", reason="needs PyTorch: pip install torch")
    tensor = pytest.importorskip("torch").zeros(1)
    made = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW, "adagrad": optim.Adagrad}
    for name, kind in made.items():
        theirs = kind([tensor]).defaults
        found = {"rate": theirs["lr"], "decay": theirs["weight_decay"]}
        if "adam" in name:
            found |= {"beta1": theirs["betas"][0], "beta2": theirs["betas"][1]}
        if name != "sgd":
            found["epsilon"] = theirs["eps"]
        assert found == OPTIMIZERS[name], name  # type: ignore[index]
    assert optim.SGD([tensor]).defaults["lr"] == OPTIMIZERS["momentum"]["rate"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_of_a_table_change_as_a_vector_does_and_others_stay(name: str) -> None:
    random = np.random.default_rng(0)
    table = random.standard_normal((5, 3)).astype(np.float32)
    params = Params((np.zeros((1, 1), np.float32),), (table,)).flattened()
    alone = Params((table[3].copy(),), ()).flattened()
    stepper, other = Stepper(optimizer(name), params, 1), Stepper(optimizer(name), alone, 1)
    for _ in range(4):
        g = random.standard_normal((1, 3)).astype(np.float32)
        stepper.step(Gradient(np.zeros(1, np.float32), {0: np.array([3], np.int32)}, {0: g}))
        other.step(Gradient(g[0], {}, {}))
    # SparseAdam's epsilon differs by some 1e-7
    np.testing.assert_allclose(params.tables[0][3], alone.values[0], rtol=0, atol=1e-6 * (name == "adam"))
    assert np.array_equal(np.delete(params.tables[0], 3, 0), np.delete(table, 3, 0))


def test_what_is_not_learned_stays() -> None:
    params = Params((np.ones((2, 2), np.float32), np.ones(3, np.float32)), ()).flattened()
    Stepper(optimizer("sgd"), params, 1).step(Gradient(np.ones(4, np.float32), {}, {}))
    assert (params.values[0] != 1).all()
    assert (params.values[1] == 1).all()


def test_clipping_keeps_the_direction() -> None:
    gradient = Gradient(
        np.array([3, 0], np.float32), {0: np.array([1], np.int32)}, {0: np.full((1, 1), 4, np.float32)}
    )
    assert gradient.clip(10) == 5
    assert gradient.values.tolist() == [3, 0]
    assert gradient.clip(1) == 5
    np.testing.assert_allclose([*gradient.values, *gradient.tables[0][0]], [0.6, 0, 0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (RateSchedule(), [1, 1, 1]),
        (RateSchedule("linear"), [1, 0.5, 0]),
        (RateSchedule("cosine"), [1, 0.5, 0]),
        (RateSchedule("exponential", factor=0.5), [1, 0.5, 0.25]),
        (RateSchedule("constant", warmup=50), [1 / 50, 1, 1]),
        (RateSchedule("inverse-root", warmup=25), [1 / 25, math.sqrt(25 / 51), math.sqrt(25 / 101)]),
    ],
)
def test_rates(schedule: RateSchedule, expected: list[float]) -> None:
    found = [rate_at(schedule, step, 100, 50) for step in (0, 50, 100)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse-root", "exponential"])
def test_warming_up_ends_where_the_schedule_begins(name: str) -> None:
    schedule = RateSchedule(name, warmup=10)  # type: ignore[arg-type]
    rates = [rate_at(schedule, step, 1000, 100) for step in range(30)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert 0.9 < rates[10] <= 1
    assert all(a >= b for a, b in pairwise(rates[10:]))
