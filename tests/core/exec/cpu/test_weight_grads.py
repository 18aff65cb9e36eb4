"""Weight gradients: products of rows summed over rows that lie anywhere, and what packs weights again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.cell.normal import normalise
from abw.core.exec.cpu.repack import packing_of
from abw.core.exec.cpu.target import TARGETS, TargetName, get_target
from abw.core.exec.cpu.team import Team
from abw.core.exec.cpu.tiling import layout_of, packed_constants
from abw.core.exec.cpu.weight_grads import RowSums, TableSums
from tests.core.exec.builder import lstm, random_cell

LANES = 16


def rows(random: np.random.Generator, count: int, floats: int) -> np.ndarray:
    """Rows with room for a vector behind each, where anything may be."""
    made = random.standard_normal((count, floats + LANES), np.float32)
    made[:, floats:] = random.choice(np.array([np.nan, 1e-40], np.float32), (count, LANES))
    return made


def job(dw: np.ndarray, z: np.ndarray, z_rows: np.ndarray, x: np.ndarray, x_rows: np.ndarray) -> list[int]:
    """A job of arrays, whose last axes are contiguous."""

    def side(rows: np.ndarray, numbers: np.ndarray) -> list[int]:
        return [rows.ctypes.data, numbers.ctypes.data, numbers.strides[0], rows.strides[0]]

    return [dw.ctypes.data, dw.strides[0], *side(z, z_rows), *side(x, x_rows), len(z_rows), *dw.shape]


ONES = np.ones((1, LANES), np.float32)


def columns(out: np.ndarray, z: np.ndarray, z_rows: np.ndarray) -> list[int]:
    """The job that adds the sum of rows to `out`."""
    return job(out[None], ONES, np.broadcast_to(np.int32(0), len(z_rows)), z, z_rows)


@given(
    st.sampled_from(TARGETS[TARGETS.index(get_target().name) :]),
    st.integers(0, 300),
    st.integers(1, 320),
    st.integers(1, 80),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_sums_of_products_are_numpys(target: TargetName, n: int, m: int, c: int, seed: int) -> None:
    sums = RowSums(get_target(target))
    random = np.random.default_rng(seed)
    z, x = rows(random, 50, m), rows(random, 70, c)
    z_rows = random.integers(0, 50, n).astype(np.int32)
    x_rows = random.integers(0, 70, n).astype(np.int32)
    room = random.standard_normal((m + 1, c + 3)).astype(np.float32)
    exact = room.astype(np.float64)
    exact[:m, :c] += z[z_rows, :m].T.astype(np.float64) @ x[x_rows, :c]
    out = np.ones(m + 5, np.float32)
    sums.add(np.array([job(room[:m, :c], z, z_rows, x, x_rows), columns(out[:m], z, z_rows)]))
    np.testing.assert_allclose(room, exact, atol=2e-6 * max(1, n))
    np.testing.assert_allclose(out[:m], 1 + z[z_rows, :m].sum(axis=0, dtype=np.float64), atol=1e-6 * (n + 1))
    assert (out[m:] == 1).all()


@pytest.mark.parametrize(("m", "c"), [(7, 33), (64, 64), (600, 20)])
def test_threads_give_the_same_bits(m: int, c: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    z, x = rows(random, 50, m), rows(random, 70, c)
    z_rows = random.integers(0, 50, 1000).astype(np.int32)
    x_rows = random.integers(0, 70, 1000).astype(np.int32)
    found = []
    for threads in (1, 2, 3):
        team = Team(threads) if threads > 1 else None
        if team:
            monkeypatch.setattr(team, "do", lambda shared, *_, team=team: team.share(shared))
        dw = np.zeros((m, c), np.float32)
        out = np.zeros(m, np.float32)
        jobs = [job(dw, z, z_rows, x, x_rows), columns(out, z, z_rows)]
        RowSums(get_target(), team, threads).add(np.array(jobs))
        found.append(np.append(dw, out))
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_a_long_sum_keeps_its_digits() -> None:
    n = 40_000
    z = np.full((1, 1 + LANES), 0.1, np.float32)
    at = np.zeros(n, np.int32)
    dw = np.zeros((1, 1), np.float32)
    RowSums(get_target()).add(np.array([job(dw, z, at, z, at)]))
    assert abs(dw[0, 0] / (n * float(z[0, 0]) ** 2) - 1) < 2e-6


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 2**32))
@settings(deadline=None)
def test_rows_of_a_table_are_summed_in_order(table: int, floats: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sums = TableSums(table, floats)
    for _ in range(2):  # again after a clear
        expected: dict[int, np.ndarray] = {}  # in double precision
        for _ in range(3):
            z = rows(random, 20, floats)
            number = random.integers(0, table, 40).astype(np.int32)
            z_rows = random.integers(0, 20, 40).astype(np.int32)
            sums.add(number, z, z_rows)
            for row, at in zip(number.tolist(), z_rows.tolist(), strict=True):
                known = expected.get(row)
                one = z[at, :floats].astype(np.float64)
                expected[row] = one if known is None else known + one
        assert sums.rows.tolist() == list(expected)
        np.testing.assert_allclose(sums.values, np.stack(list(expected.values())), rtol=2e-7, atol=1e-5)
        sums.clear()
        assert not len(sums.rows)


def test_an_infinite_sum_stays_infinite() -> None:
    sums = TableSums(1, LANES)
    z = np.array([[np.inf], [1]], np.float32) * np.ones(LANES, np.float32)
    sums.add(np.zeros(4, np.int32), z, np.array([1, 0, 1, 1], np.int32))
    assert np.isposinf(sums.values).all()


def test_a_row_that_is_read_often_keeps_its_digits() -> None:
    sums, n = TableSums(3, LANES), 40_000
    z = np.full((1, LANES), 0.1, np.float32)
    for _ in range(2):
        sums.add(np.ones(n, np.int32), z, np.zeros(n, np.int32))
    np.testing.assert_allclose(sums.values, np.full((1, LANES), 2 * n * float(z[0, 0])), rtol=1e-7)


@pytest.mark.parametrize("seed", range(30))
def test_packing_again_is_packing(seed: int) -> None:
    random = np.random.default_rng(seed)
    cell = random_cell(random, "cell") if seed else lstm(7)
    layout = layout_of(normalise(cell), get_target(), tuple(None for _ in cell.inputs))
    sizes = [int(np.prod(p.shape)) for p in cell.params]
    begin = np.cumsum([3, *sizes])[:-1].tolist()
    theta = random.standard_normal(3 + sum(sizes)).astype(np.float32)
    params = [
        theta[first : first + size].reshape(p.shape)
        for first, size, p in zip(begin, sizes, cell.params, strict=True)
    ]
    packing = packing_of(layout, params, begin)
    assert packing is not None or seed  # an LSTM's weights are only moved
    if packing is None:
        return
    memory = np.full(layout.constants, np.nan, np.float32)
    packing.write(theta, memory)
    assert np.array_equal(memory, packed_constants(layout, params))
