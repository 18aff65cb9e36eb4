"""Cells as Python functions: the same as of equations, with the same mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import abw
from abw import AbwError, SpecError
from abw.core.ir.cell import Cell
from abw.core.ir.operations import FUNCTIONS
from abw.core.program.net import Net
from abw.core.spec.cells.traced import traced
from abw.core.spec.load import load_cell
from tests.core.program.cells import small

DIMS = {"hidden": 6, "wide": 4}
VECTORS = ("x", "y", "b")
SINGLE = ("tanh", "sigmoid", "relu", "exp", "square", "softmax", "gelu", "abs")


def expressions() -> st.SearchStrategy[str]:
    """What means a vector of `hidden` in equations and in Python alike."""
    leaf = st.sampled_from([*VECTORS, "W @ x", "V @ y[0:wide]", "x[0:hidden]", "transpose(W) @ y"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(SINGLE), inner).map(lambda p: f"{p[0]}({p[1]})"),
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
            st.tuples(st.sampled_from(("0.5", "2", "1 - 0.25")), inner).map(lambda p: f"({p[0]}) * ({p[1]})"),
            st.tuples(inner, inner).map(lambda p: f"where({p[0]} < {p[1]}, {p[1]}, maximum({p[0]}, 0.1))"),
            inner.map(lambda e: f"-({e})"),
            inner.map(lambda e: f"sin(-({e}) ** 2) ** -1.5 + 2 ** ({e})"),
            inner.map(lambda e: f"W @ ({e})"),
            inner.map(lambda e: f"softmax({e}) * sum({e}, axis=0)"),
        ),
        max_leaves=8,
    )


def unlabelled(cell: Cell) -> Cell:
    return replace(cell, ops=tuple(replace(op, label="") for op in cell.ops))


@given(expressions())
def test_a_function_means_what_the_same_equation_does(tmp_path_factory: Any, text: str) -> None:  # noqa: ANN401
    names = "W @ x + V @ y[0:wide] + b"
    whole = f"{text} + 0.0 * ({names})"
    path = tmp_path_factory.mktemp("cell") / "made.yaml"
    path.write_text(
        "cell: made\ndims: [hidden, wide]\ninputs: {x: hidden, y: hidden}\n"
        "params: {W: [hidden, hidden], V: [hidden, wide], b: {shape: hidden, init: 0.5}}\n"
        f"equations: |\n  z = {whole}\noutputs: {{y: z}}\n"
    )
    try:
        wanted = load_cell(path, DIMS)
    except SpecError:
        assume(False)
    scope: dict[str, Any] = {name: getattr(abw, name) for name in FUNCTIONS}
    source = (
        'def made(x="hidden", y="hidden", *, W=("hidden", "hidden"), V=("hidden", "wide"), '
        f'b={{"shape": "hidden", "init": 0.5}}):\n    wide, hidden = 4, 6\n    return {whole}\n'
    )
    exec(source, scope)
    assert unlabelled(traced(scope["made"], DIMS).cell) == unlabelled(wanted)


@pytest.fixture
def net(tmp_path: Path) -> Net:
    made: Net = small(tmp_path)
    return made


def test_cells_called_in_a_cell_are_one_node_with_their_parameters(net: Net) -> None:
    @net.cell
    def twice(x: Any = "hidden", *, W: Any = ("hidden", "hidden")) -> Any:  # noqa: ANN401
        gate, product = net.two(net.join(x, x))
        return {"h": abw.tanh(W @ product), "gate": gate}

    def inside(word: int) -> Any:  # noqa: ANN401
        return twice(net.words[word])

    def outside(word: int) -> Any:  # noqa: ANN401
        value = net.words[word]
        gate, product = net.two(net.join(value, value))
        return product, gate

    assert len(net.library.types[-1].params) == 1 + 1 + 3
    found, parts = net.run(inside, range(9)), net.run(outside, range(9))
    assert net._session.last is not None and net.verify(inside, range(9)).ok
    weights = net.params["twice.W"]
    for (h, gate), (product, wanted) in zip(found, parts, strict=True):
        np.testing.assert_allclose(gate, wanted, atol=1e-6)
        np.testing.assert_allclose(h, np.tanh(weights @ product), atol=1e-6)


def test_cells_can_be_made_between_runs(net: Net) -> None:
    before, step = net.start, net.step
    (first,) = net.run(lambda _: step(before, before), [0])

    @net.cell
    def many(x: Any = "hidden") -> Any:  # noqa: ANN401
        return x + 1, x + 2, x + 3

    def program(_: int) -> Any:  # noqa: ANN401
        return step(before, before), net.many(before), step(many(before)[2], net.zeros(6))

    again, three, _ = net.run(program, [0])[0]
    assert again.tobytes() == first.tobytes()
    np.testing.assert_allclose(three, [net.params["start"] + k for k in (1, 2, 3)], atol=1e-6)
    assert net.verify(program, [0]).ok


def wrong_shape(x: Any = "hidden", *, W: Any = ("hidden", 3)) -> Any:  # noqa: ANN401
    return W @ x


def unused(x: Any = "hidden", y: Any = "hidden") -> Any:  # noqa: ANN401
    return abw.tanh(x)


def no_size(x: Any) -> Any:  # noqa: ANN401
    return abw.tanh(x)


def no_dim(x: Any = "hiden") -> Any:  # noqa: ANN401
    return abw.tanh(x)


def starred(*x: Any) -> Any:  # noqa: ANN401
    return abw.tanh(x[0])


def nothing(x: Any = "hidden") -> Any:  # noqa: ANN401
    return x, 3


def counted(x: Any = "hidden") -> Any:  # noqa: ANN401
    return abw.where(x, x)


def sized(x: Any = ("hidden", None)) -> Any:  # noqa: ANN401
    return x


MISTAKES: dict[Callable[..., Any], tuple[str, int]] = {
    wrong_shape: (r"W @ x: \[hidden=6, 3\] @ \[hidden=6\]: the inner sizes differ", 1),
    unused: ("input 'y' is never used", 0),
    no_size: ("input 'x' has no size", 0),
    no_dim: ("unknown dim 'hiden'", 0),
    starred: (r"'\*x' is no input of a cell", 0),
    nothing: ("output 'y1' is no value: int", 0),
    counted: ("where takes 3, not 2", 1),
    sized: ("has None for a size", 0),
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_mistakes_are_told_at_the_function_s_lines(net: Net, function: Callable[..., Any]) -> None:
    message, line = MISTAKES[function]
    with pytest.raises(SpecError, match=message) as caught:
        net.cell(function)
    (problem,) = caught.value.problems
    assert problem.where is not None and problem.where.file == __file__
    assert problem.where.line == function.__code__.co_firstlineno + line
    assert not hasattr(net, function.__name__)


def test_what_is_called_with_wrong_shapes_inside_is_told_there(net: Net) -> None:
    def caller(x: Any = "hidden") -> Any:  # noqa: ANN401
        return net.join(x, x[0:2])

    with pytest.raises(SpecError, match=r"input 'h' of join wants \[6\], this is \[2\]") as caught:
        net.cell(caller)
    where = caught.value.problems[0].where
    assert where is not None and where.text.strip() == "return net.join(x, x[0:2])"


def test_what_a_cell_cannot_do_is_refused(net: Net) -> None:
    def branches(x: Any = "hidden") -> Any:  # noqa: ANN401
        return x if x else -x

    def reads(x: Any = "hidden") -> Any:  # noqa: ANN401
        return x + net.start

    with pytest.raises(TypeError, match="no branches"):
        net.cell(branches)
    with pytest.raises(SpecError, match="Value is neither a symbol nor a number"):
        net.cell(reads)
    with pytest.raises(AbwError, match="tanh is for cells"):
        abw.tanh(3)
    with pytest.raises(AbwError, match="already has 'step'"):
        net.cell(lambda_called("step"))
    with pytest.raises(AbwError, match="already has 'run'"):
        net.cell(lambda_called("run"))
    with pytest.raises(AbwError, match="cells cannot be added while the net runs"):
        net.run(lambda _: net.cell(reads), [0])


def lambda_called(name: str) -> Callable[..., Any]:
    def made(x: Any = "hidden") -> Any:  # noqa: ANN401
        return abw.tanh(x)

    made.__name__ = name
    return made
