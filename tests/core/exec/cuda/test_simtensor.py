"""Tensor cores and asynchronous copies, simulated: fragments as in NVIDIA's manual, data when it is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda as typed_cuda
from numba import float32, njit, uint32
from numpy.typing import NDArray

from abw.core.exec.cuda.ondevice.intrinsics import copy4, end_copies, few_copies_left, mma, split
from tests.core.exec.cuda.races import RaceError
from tests.core.exec.cuda.simgrid import (
    DeadlockError,
    DivergenceError,
    MisalignedError,
    SimulationError,
    launch,
)
from tests.core.exec.cuda.simtensor import cut, is_tf32
from tests.core.exec.cuda.simtensor import split as simulated_split

cuda: Any = typed_cuda
Floats = NDArray[np.float32]
FULL = 0xFFFFFFFF


def tf32(rng: np.random.Generator, *shape: int) -> Floats:
    """Random numbers of TF32."""
    return simulated_split(rng.normal(size=shape).astype(np.float32))[0]


# ---- products


def multiply(a, b, c, out):
    """One warp's A B + C; element by element as in "Matrix Fragments for mma.m16n8k8" of the PTX manual."""
    lane = cuda.threadIdx.x
    group, member = lane >> 2, lane % 4
    c0, c1, c2, c3 = mma(
        a[group * 8 + member],
        a[(group + 8) * 8 + member],
        a[group * 8 + member + 4],
        a[(group + 8) * 8 + member + 4],
        b[member * 8 + group],
        b[(member + 4) * 8 + group],
        c[group * 8 + member * 2],
        c[group * 8 + member * 2 + 1],
        c[(group + 8) * 8 + member * 2],
        c[(group + 8) * 8 + member * 2 + 1],
    )
    out[group * 8 + member * 2] = c0
    out[group * 8 + member * 2 + 1] = c1
    out[(group + 8) * 8 + member * 2] = c2
    out[(group + 8) * 8 + member * 2 + 1] = c3


def run_multiply(a: Floats, b: Floats, c: Floats, seed: int | None = None) -> Floats:
    out = np.full((16, 8), np.nan, np.float32)
    launch(multiply, 1, 32, [a.ravel(), b.ravel(), c.ravel(), out.ravel()], seed=seed)
    return out


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_warp_multiplies_its_fragments(seed: int | None) -> None:
    rng = np.random.default_rng(3)
    a, b, c = tf32(rng, 16, 8), tf32(rng, 8, 8), rng.normal(size=(16, 8)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c
    found = run_multiply(a, b, c, seed)
    assert np.abs(found - exact).max() <= 2.0**-23 * np.abs(exact).max()
    assert (np.abs(found) <= np.abs(exact)).all()  # cut off, not rounded
    assert not np.array_equal(found, exact.astype(np.float32))


def test_each_element_of_an_operand_has_one_place() -> None:
    for row in range(16):
        a = np.zeros((16, 8), np.float32)
        a[row] = np.arange(1, 9)
        b = np.arange(64, dtype=np.float32).reshape(8, 8)
        assert np.array_equal(run_multiply(a, b, np.zeros((16, 8), np.float32)), a @ b)


def test_operands_of_more_bits_are_refused() -> None:
    fine, zero = np.ones((16, 8), np.float32), np.zeros((16, 8), np.float32)
    rough = fine.copy()
    rough[5, 3] += 2.0**-11
    with pytest.raises(SimulationError, match="TF32"):
        run_multiply(rough, fine[:8], zero)
    with pytest.raises(SimulationError, match="TF32"):
        run_multiply(fine, rough[:8], zero)
    run_multiply(fine, fine[:8], rough)


def half_a_warp(out):
    if cuda.threadIdx.x < 16:
        out[cuda.threadIdx.x] = mma(*[float32(1)] * 10)[0]


def the_others_wait(out):
    if cuda.threadIdx.x < 16:
        out[cuda.threadIdx.x] = mma(*[float32(1)] * 10)[0]
    else:
        cuda.syncthreads()


def the_others_shuffle(out):
    if cuda.threadIdx.x < 16:
        out[cuda.threadIdx.x] = mma(*[float32(1)] * 10)[0]
    else:
        out[cuda.threadIdx.x] = cuda.shfl_xor_sync(FULL, float32(1), 1)


def two_places(out):
    if cuda.threadIdx.x < 16:
        out[cuda.threadIdx.x] = mma(*[float32(1)] * 10)[0]
    else:
        out[cuda.threadIdx.x] = mma(*[float32(1)] * 10)[0]


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        (half_a_warp, SimulationError),
        (the_others_wait, DeadlockError),
        (the_others_shuffle, DivergenceError),
        (two_places, DivergenceError),
    ],
)
def test_a_warp_multiplies_together_or_not_at_all(kernel: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        launch(kernel, 1, 32, [np.zeros(32, np.float32)])


# ---- numbers


def parts_of(values: Floats, large: Floats, small: Floats) -> None:
    """Made by `split` as it is compiled."""
    for i in range(len(values)):
        large[i], small[i] = split(values[i])


@pytest.mark.skipif(
    typed_cuda.implementation == "NVIDIA", reason="intrinsics of numba-cuda cannot be compiled for the CPU"
)
def test_split_is_what_its_simulation_says() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20000, np.uint64).astype(np.uint32)
    edges = np.array([0, -0.0, 1, 1e-45, 3e38, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    values = np.concatenate([edges, bits.view(np.float32)])
    large, small = np.empty_like(values), np.empty_like(values)
    compiled: Any = njit(parts_of)
    compiled(values, large, small)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = simulated_split(values)
    assert np.array_equal(large, expected[0], equal_nan=True)
    assert np.array_equal(small, expected[1], equal_nan=True)


@given(st.floats(-(2.0**126), 2.0**126, width=32, allow_subnormal=False))
def test_split_loses_next_to_nothing(number: float) -> None:
    value = np.array([number], np.float32)
    large, small = simulated_split(value)
    assert is_tf32(large) and is_tf32(small)
    lost = abs(float(value[0]) - float(large[0]) - float(small[0]))
    # numbers so small that the rest has not all its bits lose what those are worth
    assert lost <= max(2.0**-23 * abs(number), 2.0**-136)


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0x7FC00000, 0xFFFFFFFF, 0x7F800001])
def test_what_is_not_a_number_stays_so_when_split(bits: int) -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.add(*simulated_split(np.array([bits], np.uint32).view(np.float32))))


def test_cut_rounds_towards_zero() -> None:
    values = np.array([1 + 2.0**-24, 1 + 1.9 * 2.0**-23, -1 - 1.9 * 2.0**-23, 0.5, 0])
    assert cut(values).tolist() == [1, 1 + 2.0**-23, -1 - 2.0**-23, 0.5, 0]


# ---- copies


def pass_round(a, out, floats):
    """Each thread's four floats to its neighbour; two groups, of which the second need not be there."""
    held = cuda.shared.array(512, float32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    copy4(held, uint32(4 * t), a, uint32(4 * t), uint32(floats))
    end_copies()
    copy4(held, uint32(256 + 4 * t), a, uint32(4 * t), uint32(4))
    end_copies()
    few_copies_left()
    cuda.syncthreads()
    for k in range(4):
        out[4 * t + k] = held[4 * ((t + 1) % n) + k]
    end_copies()
    few_copies_left()


def without_waiting(a, out, floats):
    held = cuda.shared.array(512, float32)
    t = cuda.threadIdx.x
    copy4(held, uint32(4 * t), a, uint32(4 * t), uint32(floats))
    end_copies()
    out[t] = held[4 * t]
    end_copies()
    few_copies_left()


def without_barrier(a, out, floats):
    held = cuda.shared.array(512, float32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    copy4(held, uint32(4 * t), a, uint32(4 * t), uint32(floats))
    end_copies()
    end_copies()
    few_copies_left()
    out[t] = held[4 * ((t + 1) % n)]


def barrier_before_the_wait(a, out, floats):
    held = cuda.shared.array(512, float32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    copy4(held, uint32(4 * t), a, uint32(4 * t), uint32(floats))
    end_copies()
    end_copies()
    cuda.syncthreads()
    few_copies_left()
    out[t] = held[4 * ((t + 1) % n)]


def source_changed(a, out, floats):
    held = cuda.shared.array(512, float32)
    t = cuda.threadIdx.x
    copy4(held, uint32(4 * t), a, uint32(4 * t), uint32(floats))
    a[4 * ((t + 1) % cuda.blockDim.x)] = 1.0
    end_copies()
    end_copies()
    few_copies_left()


def never_there(a, out, floats):
    held = cuda.shared.array(512, float32)
    copy4(held, uint32(4 * cuda.threadIdx.x), a, uint32(0), uint32(floats))
    end_copies()


def misaligned(a, out, floats):
    held = cuda.shared.array(512, float32)
    copy4(held, uint32(4 * cuda.threadIdx.x), a, uint32(2), uint32(floats))


def memory() -> tuple[Floats, Floats]:
    whole = np.zeros(132, np.float32)
    begin = -whole.ctypes.data // 4 % 4
    return np.arange(128, dtype=np.float32), whole[begin : begin + 128]


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("floats", range(5))
def test_copies_are_there_after_the_wait_and_zero_beyond_their_floats(seed: int | None, floats: int) -> None:
    values, a = memory()
    a[:] = values
    out = np.zeros(128, np.float32)
    launch(pass_round, 1, 32, [a, out, floats], seed=seed)
    kept = np.roll(values.reshape(32, 4), -1, axis=0) * (np.arange(4) < floats)
    assert np.array_equal(out, kept.ravel())


def test_data_is_not_there_before_the_wait() -> None:
    values, a = memory()
    a[:] = values
    out = np.zeros(128, np.float32)
    launch(without_waiting, 1, 32, [a, out, 4])
    assert np.isnan(out[:32]).all()


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        (without_barrier, RaceError),
        (barrier_before_the_wait, RaceError),
        (source_changed, RaceError),
        (never_there, SimulationError),
        (misaligned, MisalignedError),
    ],
)
def test_wrong_copies_are_told(kernel: Any, error: type[Exception]) -> None:
    _, a = memory()
    with pytest.raises(error):
        launch(kernel, 1, 32, [a, np.zeros(128, np.float32), 4])
