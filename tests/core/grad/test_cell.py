"""Cells differentiated: right, and saving no more than they have to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from abw.core.grad.cell import differentiate
from abw.core.grad.explain import explain
from abw.core.ir.cell import Cell, Op, Param, Port
from abw.core.spec.load import load_cell
from tests.core.exec.builder import CellBuilder, random_cell
from tests.core.grad.cells import errors


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_random_cells(seed: int) -> None:
    """Thousands more: `python -m tests.core.grad.cells`."""
    rng = np.random.default_rng(seed)
    cell = random_cell(rng, "random")
    with np.errstate(all="ignore"):
        found = errors(cell, rng)
    assume(found is not None)
    assert found is not None
    assert found.operations < 1e-9
    assert found.differences < 1e-5


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.core.grad import rules

    rng = np.random.default_rng(0)
    b = CellBuilder()
    cell = b.cell(
        "one", [b.op("tanh", b.op("matmul", b.param((3, 3)), b.input((3,)), shape=(3,)), shape=(3,))]
    )
    right = errors(cell, rng)
    monkeypatch.setitem(rules.RULES, "tanh", lambda s, i: s.g * (1 - s.y))
    wrong = errors(cell, rng)
    assert right is not None
    assert wrong is not None
    assert right.operations < 1e-14
    assert wrong.operations > 0.01


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("lstm", {"i", "f", "o", "u"}),
        ("torch-lstm", {"i", "f", "g", "o"}),
        ("treelstm", {"i", "fl", "fr", "o", "u"}),
        ("gru", {"z", "r", "u", "u.2"}),
        ("mv", {"v.1", "v.2"}),
        ("linear", set()),
    ],
)
def test_what_is_saved(name: str, saved: set[str], root: Path) -> None:
    """Gates, and what products read: the hyperbolic tangent of a state is computed again."""
    cell = load_cell(root / "specs" / "cells" / f"{name}.yaml", {})
    assert set(explain(cell, differentiate(cell)).saved) == saved


def test_only_what_is_wanted_is_computed(root: Path) -> None:
    cell = load_cell(root / "specs" / "cells" / "lstm.yaml", {})
    made = differentiate(cell, wanted=[1], given=[0])
    assert list(made.inputs) == [1]
    assert made.backward is not None
    assert "g_c" not in [port.name for port in made.backward.inputs]
    assert {cell.params[p].name for p in made.params} == {"Ui", "Uf", "Uo", "Uu"}
    assert len(made.terms) == 12


def test_the_parts_of_a_concatenation_have_products_of_their_own() -> None:
    b = CellBuilder()
    x, h, W = b.input((2,)), b.input((3,)), b.param((4, 5))
    joined = b.op("concat", x, h, shape=(5,))
    made = differentiate(b.cell("joined", [b.op("matmul", W, joined, shape=(4,))]))
    assert made.backward is not None
    assert "concat" not in [op.name for op in made.backward.ops]
    operands = {(t.column, t.x.number, t.x.length) for t in made.terms if t.x}
    assert operands == {(0, 0, 2), (2, 1, 3)}
    assert len(made.forward.outputs) == 1


def test_slices_of_one_product_are_joined_again(root: Path) -> None:
    cell = load_cell(root / "specs" / "cells" / "torch-lstm.yaml", {})
    made = differentiate(cell)
    assert made.backward is not None
    assert [op.name for op in made.backward.ops].count("concat") == 1
    assert {term.dz for term in made.terms} == {3}


def test_what_weights_are_made_of_has_their_gradient() -> None:
    """Two matrices added, a row cut out, a softmax of weights: all before any lane reads them."""
    shape = (3, 3)
    b = CellBuilder()
    x = b.input((3,))
    both = b.op("add", b.param(shape), b.param(shape), shape=shape)
    soft = b.op("softmax", b.op("transpose", both, shape=shape), shape=shape)
    cut = b.op("slice", soft, shape=(2, 3), attr=(1.0, 3.0))
    cell = b.cell("made", [b.op("matmul", cut, x, shape=(2,)), b.op("tanh", both, shape=shape)])
    found = errors(cell, np.random.default_rng(3))
    assert found is not None
    assert found.operations < 1e-13
    assert found.differences < 1e-8


def test_an_input_read_twice_and_one_not_at_all() -> None:
    cell = Cell(
        "twice",
        (Port("x", (2,)), Port("unused", (2,))),
        (Param("w", (2,)),),
        (Op("mul", (0, 0), (2,)), Op("mul", (3, 2), (2,))),
        (("y", 4),),
    )
    made = differentiate(cell)
    assert list(made.inputs) == [0]
    assert explain(cell, made).none == ("unused",)
    found = errors(cell, np.random.default_rng(0))
    assert found is not None
    assert found.differences < 1e-8
