"""What docs/reference.md says of each operation is what a cell makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from abw.core.spec.cell import OpName
from abw.core.spec.load import load_cell
from abw.core.spec.operations import OPERATIONS, Written

DIMS = {"m": 3, "n": 5, "k": 2}
ANY = ("n", "[m, n]")


def cell_of(written: Written, any_shape: str) -> str:
    """A cell of that operation alone, and a second output that has the shape said of the result."""
    args = [arg if arg != "any" else any_shape for arg in written.args]
    result = written.result if written.result != "any" else any_shape
    names = [c for c in dict.fromkeys(written.form) if c in "ABxy"][: len(args)]
    inputs = "".join(f"  {name}: {shape}\n" for name, shape in zip(names, args, strict=True))
    return (
        f"cell: one\ndims: [m, n, k]\ninputs:\n{inputs}  like: {result}\n"
        f"equations: |\n  made = {written.form}\n  same = like + 0 * made\n"
        "outputs: {made: made, same: same}\n"
    )


@pytest.mark.parametrize("any_shape", ANY)
@pytest.mark.parametrize("written", OPERATIONS, ids=lambda written: written.form)
def test_each_form_has_the_shapes_said(written: Written, any_shape: str, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(cell_of(written, any_shape))
    cell = load_cell(path, {**DIMS, "m": 3 if written.op != "slice" else 1})
    assert cell.ops[0].name == written.op


def test_every_operation_that_can_be_written_is_there() -> None:
    assert {written.op for written in OPERATIONS} == {*get_args(OpName)} - {"constant", "identity"}
