"""The planner asked about cells: what it calls free is free in the program, and its layouts are right."""

from __future__ import annotations

from typing import get_args
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.cell.arrange import CellLayout, solve
from abw.core.cell.batches import batch_operations
from abw.core.cell.layout import COPIED
from abw.core.cell.normal import normalise
from abw.core.cell.program import CellProgram, cell_program
from abw.core.ir.cell import Cell
from abw.core.ir.network import LayoutName
from tests.core.cell.check import check_cell_program
from tests.core.exec.builder import CellBuilder, lstm, random_cell

seeds = st.integers(0, 2**32 - 1)


def solved(cell: Cell, how: LayoutName = "planned") -> tuple[CellLayout, CellProgram]:
    """A cell's layout and the program of just that: another search may find another one in its time."""
    normal = normalise(cell)
    found = solve(normal, batch_operations(normal), how)
    with patch("abw.core.cell.arrange.solve", lambda *_: found):
        return found, cell_program.__wrapped__(cell, how)  # none that is kept


@pytest.mark.parametrize("how", get_args(LayoutName))
@given(seed=seeds)
def test_every_layout_is_right_and_free_operands_are_not_copied(how: LayoutName, seed: int) -> None:
    cell = random_cell(np.random.default_rng(seed), "cell")
    found, program = solved(cell, how)
    check_cell_program(program)
    for batch, asked, laid in zip(program.batches, found.operands, found.layout.operands, strict=True):
        for k, operand in zip(asked, laid, strict=True):
            if not operand.moved:
                assert batch.operands[k].status != COPIED


@given(seeds)
def test_counts_are_the_plans(seed: int) -> None:
    # of cells without slices, which the planner sees whole
    cell = random_cell(np.random.default_rng(seed), "cell")
    if any(op.name == "slice" for op in cell.ops):
        cell = lstm(3)
    found, program = solved(cell)
    layout = found.layout
    # the program also reads lanes backwards
    assert program.copies <= layout.kernels
    assert 4 * program.copied_floats <= layout.bytes_moved
    if layout.ideal:
        assert program.copies == 0


def test_planning_copies_no_more_than_the_baselines() -> None:
    planned = declared = paper = 0
    for seed in range(60):
        cell = random_cell(np.random.default_rng(seed), "cell")
        planned += cell_program(cell).copies
        declared += cell_program(cell, "declared").copies
        paper += cell_program(cell, "paper").copies
    assert planned < paper <= declared


def tree_gru() -> Cell:
    """The inner node of a tree GRU: no order makes all its operands contiguous."""
    b = CellBuilder()
    left, right = b.input((3,)), b.input((3,))
    gates = []
    for _ in range(3):
        products = [b.op("matmul", b.param((3, 3)), child, shape=(3,)) for child in (left, right)]
        gates.append(b.op("sigmoid", b.op("add", *products, shape=(3,)), shape=(3,)))
    parts = [b.op("mul", gate, child, shape=(3,)) for gate, child in zip(gates, (left, right), strict=False)]
    both = b.op("mul", gates[2], b.op("add", left, right, shape=(3,)), shape=(3,))
    return b.cell("tree", [b.op("add", b.op("add", *parts, shape=(3,)), both, shape=(3,))])


def test_strides_serve_where_no_order_is_ideal() -> None:
    cell = tree_gru()
    program = cell_program(cell)
    check_cell_program(program)
    assert program.copies == 0
    assert cell_program(cell, "declared").copies > 0
    assert all(program.staged)
