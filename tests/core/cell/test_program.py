"""Cell programs: batches, layout, operand status, costs, and the checker that watches over them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import CheckError
from abw.core.cell.batches import SEARCHED, batch_operations, fewest_batches
from abw.core.cell.layout import (
    BROADCAST,
    CONTIGUOUS,
    COPIED,
    PACKED,
    STRIDED,
    Arrangement,
    Place,
    operand_status,
)
from abw.core.cell.normal import normalise
from abw.core.cell.program import CellProgram, assemble, cell_program
from tests.core.cell.check import check_cell_program
from tests.core.exec.builder import CellBuilder, lstm, random_cell

seeds = st.integers(0, 2**32 - 1)


def arrangement(program: CellProgram) -> Arrangement:
    return Arrangement(tuple(batch.result.values for batch in program.batches), program.position)


@given(seeds)
def test_random_cells_pass_the_checker(seed: int) -> None:
    check_cell_program(cell_program(random_cell(np.random.default_rng(seed), "cell")))


@given(seeds)
def test_any_layout_passes_the_checker(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = cell_program(random_cell(rng, "cell"))
    held = [v for v, p in enumerate(program.position) if p >= 0]
    position = list(program.position)
    for value, rank in zip(held, rng.permutation(len(held)), strict=True):
        position[value] = int(rank)
    check_cell_program(assemble(program.normal, replace(arrangement(program), position=tuple(position))))


@given(seeds, st.integers(1, 7), st.integers(1, 3))
def test_the_search_finds_the_fewest_batches(seed: int, n: int, types: int) -> None:
    rng = np.random.default_rng(seed)
    keys: list[Hashable] = rng.integers(types, size=n).tolist()
    needs = [sum(1 << j for j in range(i) if rng.integers(3) == 0) for i in range(n)]
    found = fewest_batches(keys, needs)
    check_batches(found, keys, needs)
    assert len(found) == fewest_by_all_orders(keys, needs)


@given(seeds, st.integers(SEARCHED + 1, SEARCHED + 40), st.integers(1, 5))
def test_cells_too_large_to_search_are_batched_all_the_same(seed: int, n: int, types: int) -> None:
    rng = np.random.default_rng(seed)
    keys: list[Hashable] = rng.integers(types, size=n).tolist()
    needs = [0] + [
        sum(1 << j for j in {*rng.integers(i, size=2).tolist()} if rng.integers(2)) for i in range(1, n)
    ]
    check_batches(fewest_batches(keys, needs), keys, needs)


def test_a_large_cell_takes_no_more_batches_than_it_must() -> None:
    # four gates of a chain of 200 steps: as many batches as steps, whatever the order
    keys: list[Hashable] = ["gate"] * 800
    needs = [0] * 4 + [0b1111 << (i // 4 - 1) * 4 for i in range(4, 800)]
    assert len(fewest_batches(keys, needs)) == 200


def check_batches(found: list[list[int]], keys: list[Hashable], needs: list[int]) -> None:
    done = 0
    for batch in found:
        assert len({keys[i] for i in batch}) == 1
        assert all(needs[i] & ~done == 0 for i in batch)
        done |= sum(1 << i for i in batch)
    assert sorted(i for batch in found for i in batch) == list(range(len(keys)))


def fewest_by_all_orders(keys: list[Hashable], needs: list[int]) -> int:
    """Over all orders of the operations, cut where the type changes or an input is missing."""
    best = len(keys)
    for order in permutations(range(len(keys))):
        done, batch, count, right = 0, 0, 0, True
        for i in order:
            if needs[i] & ~(done | batch):
                right = False
                break
            last = batch.bit_length() - 1
            if not batch or needs[i] & batch or keys[i] != keys[last]:
                done, batch, count = done | batch, 0, count + 1
            batch |= 1 << i
        if right:
            best = min(best, count)
    return best


def test_an_lstm_is_laid_out_without_copies() -> None:
    program = cell_program(lstm(4))
    check_cell_program(program)
    assert [(batch.op, len(batch.result.values)) for batch in program.batches] == [
        ("matmul", 4),
        ("matmul", 4),
        ("add", 4),
        ("add", 4),
        ("sigmoid", 3),
        ("tanh", 1),
        ("mul", 2),
        ("add", 1),
        ("tanh", 1),
        ("mul", 1),
    ]
    assert program.copies == 0
    # c lies beside u, with which it is multiplied in one batch; x and h are read where they are
    assert program.staged == (False, False, True)
    assert [source.status for source in program.batches[0].sources] == [PACKED, BROADCAST]


def test_a_layout_in_declaration_order_copies() -> None:
    normal = normalise(lstm(4))
    batches = batch_operations(normal)
    outputs = {value for _, value in normal.cell.outputs}
    held = [v for v in normal.batched if v not in outputs]
    position = tuple(held.index(v) if v in held else -1 for v in range(len(normal.static)))
    program = assemble(normal, Arrangement(batches, position))
    check_cell_program(program)
    assert program.copies == sum(o.status == COPIED for b in program.batches for o in b.operands) > 0
    assert program.copied_floats == sum(
        4 * len(o.values) for b in program.batches for o in b.operands if o.status == COPIED
    )


def test_costs_of_an_lstm() -> None:
    costs = cell_program(lstm(4)).costs
    assert costs.product_flops == 8 * 2 * 4 * 4
    # 8 additions for the gates, 4 gates, f * c, i * u, their sum, tanh, o * tanh
    assert costs.other_flops == (8 + 4 + 5) * 4


def test_what_depends_on_parameters_alone_is_not_batched() -> None:
    b = CellBuilder()
    x, w = b.input((3,)), b.param((3, 3))
    product = b.op("matmul", b.op("transpose", w, shape=(3, 3)), x, shape=(3,))
    unused = b.op("tanh", x, shape=(3,))
    program = cell_program(b.cell("c", [product, w]))
    check_cell_program(program)
    assert [batch.op for batch in program.batches] == ["matmul", "identity"]
    assert unused[1] == 2


def test_slices_cost_nothing() -> None:
    b = CellBuilder()
    x = b.input((3,))
    gates = b.op("matmul", b.param((9, 3)), x, shape=(9,))
    parts = [b.op("slice", gates, shape=(3,), attr=(i, i + 3.0)) for i in (0.0, 3.0, 6.0)]
    squashed = [b.op("sigmoid", part, shape=(3,)) for part in parts]
    total = b.op("add", b.op("mul", squashed[0], squashed[1], shape=(3,)), squashed[2], shape=(3,))
    program = cell_program(b.cell("c", [total]))
    check_cell_program(program)
    assert [(batch.op, len(batch.result.values)) for batch in program.batches] == [
        ("matmul", 1),
        ("sigmoid", 3),
        ("mul", 1),
        ("add", 1),
    ]
    assert program.batches[1].sources[0].status == STRIDED
    assert program.copies == 0


@pytest.mark.parametrize(
    ("offsets", "status"),
    [
        ([0, 4, 8], CONTIGUOUS),
        ([4], CONTIGUOUS),
        ([8, 4, 0], STRIDED),
        ([0, 8, 16], STRIDED),
        ([4, 4, 4], BROADCAST),
        ([0, 4, 12], COPIED),
        ([0, 4, 4], COPIED),
    ],
)
def test_operand_status(offsets: list[int], status: int) -> None:
    assert operand_status([Place(0, offset, 0, 4) for offset in offsets], 4)[0] == status


def test_operand_status_across_homes() -> None:
    assert operand_status([Place(0, 0, 0, 4), Place(1, 4, 0, 4)], 4)[0] == COPIED
    assert operand_status([Place(-1, 0, 0, 4), Place(-1, 0, 0, 4)], 4)[0] == PACKED
    with pytest.raises(ValueError, match="mixes"):
        operand_status([Place(0, 0, 0, 4), Place(-1, 0, 0, 4)], 4)


def test_the_checker_catches_faults() -> None:
    program = cell_program(lstm(4))
    first, second, third = program.batches[:3]
    result = third.result
    faults = {
        "overlap": replace(
            program, place=tuple(p if i != 30 else replace(p, offset=0) for i, p in enumerate(program.place))
        ),
        "not computed yet": replace(program, batches=(third, first, second, *program.batches[3:])),
        "never computed": replace(program, batches=program.batches[:-1]),
        "computes a value again": replace(program, batches=(first, *program.batches)),
        "wrong sources": replace(
            program,
            batches=(
                first,
                second,
                replace(third, result=replace(result, values=(*result.values[1::-1], *result.values[2:]))),
                *program.batches[3:],
            ),
        ),
        "lie elsewhere": replace(
            program,
            batches=(
                first,
                second,
                replace(third, result=replace(result, status=STRIDED, step=8)),
                *program.batches[3:],
            ),
        ),
        "not a broadcast": replace(
            program,
            batches=(
                first,
                second,
                replace(third, result=replace(result, status=BROADCAST)),
                *program.batches[3:],
            ),
        ),
        "too narrow": replace(program, width=program.width - 1),
    }
    for message, faulty in faults.items():
        with pytest.raises(CheckError, match=message):
            check_cell_program(faulty)
