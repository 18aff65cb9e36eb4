"""What the table says of each operation is what a cell, and every back end, makes of it."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.exec.cpu.llvm.functions import OWN
from abw.core.exec.cuda.text.rowwise import EXPRESSIONS, assign
from abw.core.exec.cuda.text.text import Text, number
from abw.core.ir.operations import ELSEWHERE, FUNCTIONS, OPERATIONS, SIGNS, Arrays, Form, Operation, spell
from abw.core.spec.load import load_cell

DIMS = {"m": 3, "n": 5, "k": 2}
ANY = ("n", "[m, n]")
WRITTEN = [(operation.name, form) for operation in OPERATIONS.values() for form in operation.forms]
ELEMENTWISE = [operation for operation in OPERATIONS.values() if operation.kind == "element"]
BASIC = (
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "floor",
    "less",
    "less_equal",
    "equal",
    "select",
)


def cell_of(form: Form, any_shape: str) -> str:
    """A cell of that operation alone, and a second output that has the shape said of the result."""
    args = [arg if arg != "any" else any_shape for arg in form.args]
    result = form.result if form.result != "any" else any_shape
    names = [name for name in dict.fromkeys(re.findall(r"\b\w\b", form.text)) if name in "ABxyz"][: len(args)]
    inputs = "".join(f"  {name}: {shape}\n" for name, shape in zip(names, args, strict=True))
    return (
        f"cell: one\ndims: [m, n, k]\ninputs:\n{inputs}  like: {result}\n"
        f"equations: |\n  made = {form.text}\n  same = like + 0 * made\n"
        "outputs: {made: made, same: same}\n"
    )


@pytest.mark.parametrize("any_shape", ANY)
@pytest.mark.parametrize(("name", "form"), WRITTEN, ids=lambda value: getattr(value, "text", None))
def test_each_form_has_the_shapes_said(name: str, form: Form, any_shape: str, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(cell_of(form, any_shape))
    cell = load_cell(path, {**DIMS, "m": 3 if name != "slice" else 1})
    made, same = cell.output_ports
    assert made.shape == same.shape == cell.inputs[-1].shape
    composite = OPERATIONS[name].kind == "composite"
    assert (name in [op.name for op in cell.ops]) == (not composite and form.text != "softmax(A, 0)")


def test_what_is_told_to_be_written_otherwise_is_no_function() -> None:
    assert not ELSEWHERE.keys() & FUNCTIONS.keys()


def test_what_users_do_not_write_is_known() -> None:
    unwritten = {"constant", "identity", "spread", "softmax_down"}
    assert {o.name for o in OPERATIONS.values() if not o.forms} == unwritten
    assert [*SIGNS] == ["+", "-", "*", "/", "@", "<", "<=", ">", ">=", "==", "!=", "**"]
    assert {*FUNCTIONS, *(o.name for o in SIGNS.values()), "neg", "slice", *unwritten} == {*OPERATIONS}


@pytest.mark.parametrize("own", [OWN, EXPRESSIONS, BASIC], ids=["IR", "text", "only the basic ones"])
@pytest.mark.parametrize("operation", ELEMENTWISE, ids=lambda operation: operation.name)
def test_every_back_end_has_code_for_each_step(operation: Operation, own: Collection[str]) -> None:
    done: list[str] = []

    def do(name: str, args: Sequence[str]) -> str:
        assert name in own
        done.append(name)
        return f"{name}({', '.join(args)})"

    args = ["x", "y", "z"][: len(operation.forms[-1].args)]
    spelled = spell(operation.name, args, own, do, str)
    assert (done == [operation.name]) == (operation.name in own)
    assert spelled.startswith(f"{done[-1]}(") and all(arg in spelled for arg in args)


NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False) | st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("own", [EXPRESSIONS, BASIC], ids=["text", "only the basic ones"])
@pytest.mark.parametrize("operation", ELEMENTWISE, ids=lambda operation: operation.name)
@settings(max_examples=30)
@given(numbers=st.lists(NUMBERS, min_size=3, max_size=3))
def test_what_is_spelled_is_the_meaning(
    operation: Operation, own: Collection[str], numbers: list[float]
) -> None:
    args = [np.float64(x) for x in numbers[: len(operation.forms[-1].args)]]
    basic: dict[str, Callable[..., Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "abs": np.abs, "floor": np.floor,
        "select": np.where, "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
        "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x)),
        "gelu": lambda x: x * 0.5 * math.erfc(-x * 0.5**0.5) if x != -np.inf else 0.0,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        spelled = spell(operation.name, args, own, lambda name, values: basic[name](*values), np.float64)
        meant = operation.meaning(Arrays(np), *args)
    np.testing.assert_allclose(spelled, meant, rtol=1e-12, atol=1e-300)


def test_an_operation_made_of_others_is_written_line_by_line() -> None:
    text, zero = Text(), number(0.0)
    assert assign(text, "relu", ["x"]) == "v2"
    assert assign(text, "sigmoid", ["v2"]) == "v3"
    assert str(text).splitlines() == [f"v1 = x < {zero}", f"v2 = {zero} if v1 else x", "v3 = sigmoid(v2)"]


def test_what_nothing_is_known_of_is_named() -> None:
    def spelled(name: str, own: set[str]) -> str:
        return spell(name, ["x"], own, lambda name, _: name, str)

    with pytest.raises(ValueError, match="no code for 'exp', which is made of nothing else"):
        spelled("sigmoid", {"add", "div", "neg"})
    with pytest.raises(ValueError, match="no code for 'less'"):
        spelled("relu", {"select"})


def test_specs_are_read_without_numpy(root: Path) -> None:
    code = "import sys, abw.core.spec.load; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
