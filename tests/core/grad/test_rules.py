"""Every operation has a derivative, and it is right where random cells do not go."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from abw.core.cell.evaluate import NUMPY
from abw.core.grad.cell import differentiate
from abw.core.grad.rules import RULES
from abw.core.ir.cell import Shape
from abw.core.ir.operations import OPERATIONS
from tests.core.exec.builder import CellBuilder
from tests.core.exec.operations import operations_cell
from tests.core.grad.cells import backward, errors
from tests.core.grad.vjp import VJP

MADE_OF = {name for name, operation in OPERATIONS.items() if operation.kind != "composite"}
# Operations that change by steps: no gradient passes them.
WITHOUT = ("lt", "le", "gt", "ge", "eq", "ne", "floor", "ceil", "round", "sign")
ELEMENTWISE = [o for o in OPERATIONS.values() if o.kind == "element" and o.name not in WITHOUT]


def test_every_operation_has_a_derivative() -> None:
    assert RULES.keys() == VJP.keys() == MADE_OF


def test_what_changes_by_steps_passes_no_gradient_and_says_so() -> None:
    for name in WITHOUT:
        b = CellBuilder()
        args = [b.input((3,)), b.param((3,))][: len(OPERATIONS[name].forms[-1].args)]
        compared = b.op(name, *args, shape=(3,))
        made = differentiate(b.cell("steps", [compared]))
        assert made.backward is None
        assert not made.inputs
        assert not made.terms


@pytest.mark.parametrize("operation", ELEMENTWISE, ids=lambda operation: operation.name)
def test_element_by_element(operation: object) -> None:
    """On both sides of every kink, near 0 and far from it."""
    name: str = operation.name  # type: ignore[attr-defined]
    arity = len(OPERATIONS[name].forms[-1].args)
    b = CellBuilder()
    args = [b.input((1,)) for _ in range(arity)]
    cell = b.cell("one", [b.op(name, *args, shape=(1,))])
    positive = name in ("log", "sqrt", "rsqrt")
    numbers = [1e-3, 0.04, 0.06, 0.3, 1.0, 2.5, 9.0, 30.0]
    numbers = numbers if positive else [*(-x for x in numbers), *numbers]
    for x in numbers:
        row = [np.array([x]), *(np.array([v]) for v in (0.7, -1.3))][:arity]
        g = [[np.array([1.5])]]
        ((found, *others),), _ = backward(cell, [row], [], g)
        expected = VJP[name](cell.ops[0], row, _value(name, row), g[0][0])
        for a, e in zip((found, *others), expected, strict=True):
            np.testing.assert_allclose(0.0 if a is None else a, e, rtol=1e-9, atol=1e-12, err_msg=f"{x}")


@pytest.mark.parametrize(
    ("name", "row", "slopes"),
    [
        ("relu", [0.0], [0.0]),
        ("abs", [0.0], [0.0]),
        ("leaky_relu", [0.0, 0.25], [0.25, 0.0]),
        ("elu", [0.0, 0.5], [0.5, 0.0]),
        ("maximum", [2.0, 2.0], [0.5, 0.5]),
        ("minimum", [2.0, 2.0], [0.5, 0.5]),
    ],
)
def test_at_kinks_the_slope_is_pytorchs(name: str, row: list[float], slopes: list[float]) -> None:
    b = CellBuilder()
    cell = b.cell("one", [b.op(name, *(b.input((1,)) for _ in row), shape=(1,))])
    (found,), _ = backward(cell, [[np.array([x]) for x in row]], [], [[np.array([1.0])]])
    assert [0.0 if g is None else np.ravel(g)[0] for g in found] == slopes
    values = [np.array([x]) for x in row]
    assert [
        float(np.ravel(g)[0]) for g in VJP[name](cell.ops[0], values, _value(name, values), np.ones(1))
    ] == slopes


def _value(name: str, row: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(OPERATIONS[name].meaning(NUMPY, *row))


def test_gelu_near_zero_and_far_away() -> None:
    """Its derivative divides by x, which near 0 it must not."""
    b = CellBuilder()
    cell = b.cell("gelu", [b.op("gelu", b.input((6,)), shape=(6,))])
    x = np.array([0.0, 1e-30, -0.0499999, 0.0500001, -38.0, 38.0])
    with np.errstate(invalid="ignore"):
        ((found,),), _ = backward(cell, [[x]], [], [[np.ones(6)]])
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    slopes = [0.5 * math.erfc(-v / math.sqrt(2)) + v * d for v, d in zip(x, density, strict=True)]
    np.testing.assert_allclose(np.asarray(found), slopes, rtol=1e-13, atol=1e-300)


def test_equal_ones_share_the_gradient() -> None:
    b = CellBuilder()
    x, y, A = b.input((3,)), b.input((3,)), b.input((2, 3))
    outputs = [
        b.op("maximum", x, y, shape=(3,)),
        b.op("minimum", x, y, shape=(3,)),
        b.op("max", x, shape=(1,), attr=(-1.0, 1.0)),
        b.op("max", A, shape=(2,), attr=(-1.0, 0.0)),
    ]
    cell = b.cell("ties", outputs)
    rows = [
        np.array([1.0, 5.0, 5.0]),
        np.array([1.0, 4.0, 6.0]),
        np.array([[2.0, 2.0, 2.0], [0.0, 1.0, 1.0]]),
    ]
    zeros = [np.zeros(3), np.zeros(3), np.zeros(1), np.zeros(2)]

    def of(output: int) -> Sequence[np.ndarray | None]:
        given = [np.ones_like(z) if o == output else z for o, z in enumerate(zeros)]
        return backward(cell, [rows], [], [given])[0][0]

    np.testing.assert_allclose(np.stack(of(0)[:2]), [[0.5, 1, 0], [0.5, 0, 1]])  # type: ignore[arg-type]
    np.testing.assert_allclose(np.stack(of(1)[:2]), [[0.5, 0, 1], [0.5, 1, 0]])  # type: ignore[arg-type]
    np.testing.assert_allclose(np.asarray(of(2)[0]), [0, 0.5, 0.5])
    np.testing.assert_allclose(np.asarray(of(3)[2]), [[1 / 3] * 3, [0, 0.5, 0.5]])


def test_all_that_equations_can_say() -> None:
    found = None
    for seed in range(100):
        with np.errstate(all="ignore"):
            found = errors(operations_cell(), np.random.default_rng(seed))
        if found is not None:
            assert found.operations < 1e-10
            assert found.differences < 1e-6
            return
    raise AssertionError("no numbers were away from all kinks")


SHAPES: tuple[tuple[Shape, Shape, Shape], ...] = (
    ((1,), (1,), (5,)),
    ((1,), (1, 1), (2, 5)),
    ((5,), (1, 5), (2, 5)),
    ((2,), (2, 1), (2, 5)),
    ((2, 1), (2, 1), (2, 5)),
    ((1, 5), (1, 5), (2, 5)),
    ((1, 1), (1, 1), (2, 1)),
)


@pytest.mark.parametrize(("shape", "inner", "outer"), SHAPES)
def test_spread(shape: Shape, inner: Shape, outer: Shape) -> None:
    """What is repeated has the sum of what each copy has."""
    b = CellBuilder()
    x = b.input(shape)
    flat = x if len(shape) == 1 else b.op("reshape", x, shape=(max(shape),), attr=(2.0, float(max(shape))))
    wide = b.op("spread", flat, shape=outer, attr=tuple(map(float, (*inner, *outer))))
    cell = b.cell("wide", [b.op("mul", wide, b.param(outer), shape=outer)])
    found = errors(cell, np.random.default_rng(0))
    assert found is not None
    assert found.operations < 1e-14
    assert found.differences < 1e-8
