"""The simulator: right kernels give what they should in every order, wrong ones are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda as typed_cuda
from numba import float32, uint32

from abw.core.exec.cuda.ondevice.intrinsics import (
    ex2,
    grid_barrier,
    ld4,
    ld_acquire,
    rcp,
    red_release,
    st4,
)
from tests.core.exec.cuda.races import RaceError
from tests.core.exec.cuda.simgrid import (
    DeadlockError,
    DivergenceError,
    MisalignedError,
    SimulationError,
    launch,
)

cuda: Any = typed_cuda
FULL = 0xFFFFFFFF
SEEDS = [None, 1, 2]


def reverse(a, out):
    """Each block turns its part round, through shared memory."""
    held = cuda.shared.array(64, float32)
    t, n, first = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x * cuda.blockDim.x
    held[t] = a[first + t]
    cuda.syncthreads()
    out[first + t] = held[n - 1 - t]


def reverse_without_barrier(a, out):
    held = cuda.shared.array(64, float32)
    t, n, first = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x * cuda.blockDim.x
    held[t] = a[first + t]
    out[first + t] = held[n - 1 - t]


def refill(a, out):
    """The same memory twice: between the two, a barrier after the reads."""
    held = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for step in range(2):
        held[t] = a[step * 64 + t]
        cuda.syncthreads()
        out[step * 64 + t] = held[63 - t]
        cuda.syncthreads()


def refill_without_second(a, out):
    held = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for step in range(2):
        held[t] = a[step * 64 + t]
        cuda.syncthreads()
        out[step * 64 + t] = held[63 - t]


def pass_on(values, counter, steps):
    """Each block takes over from its left neighbour, step after step."""
    b, blocks = cuda.blockIdx.x, cuda.gridDim.x
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    for s in range(steps):
        left = (b + blocks - 1) % blocks
        values[((s + 1) * blocks + b) * n + t] = values[(s * blocks + left) * n + (t + 1) % n] + 1
        grid_barrier(counter, uint32(blocks * (s + 1)))


def pass_on_too_early(values, counter, steps):
    b, blocks = cuda.blockIdx.x, cuda.gridDim.x
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    for s in range(steps):
        left = (b + blocks - 1) % blocks
        values[((s + 1) * blocks + b) * n + t] = values[(s * blocks + left) * n + (t + 1) % n] + 1
        grid_barrier(counter, uint32(blocks * s))


def pass_on_for_ever(values, counter, steps):
    for s in range(steps):
        grid_barrier(counter, uint32(cuda.gridDim.x * (s + 1) + 1))


def barrier_without_the_first_wait(counter, arrivals):
    if cuda.threadIdx.x == 0:
        red_release(counter, uint32(0), uint32(1))
        while ld_acquire(counter, uint32(0)) < arrivals:
            pass
    cuda.syncthreads()


def barrier_without_the_second_wait(counter, arrivals):
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        red_release(counter, uint32(0), uint32(1))
        while ld_acquire(counter, uint32(0)) < arrivals:
            pass


def hand_over(values, counter, wait):
    values[cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x] = 1.0
    wait(counter, uint32(cuda.gridDim.x))
    other = (cuda.blockIdx.x + 1) % cuda.gridDim.x
    if values[other * cuda.blockDim.x + cuda.threadIdx.x] != 1.0:
        values[0] = -1.0


def sum_of_warp(a, out):
    value = a[cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x]
    step = 16
    while step:
        value += cuda.shfl_xor_sync(FULL, value, step)
        step //= 2
    if cuda.laneid == 0:
        out[(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // 32] = value


def swap(a):
    """Lanes of a warp exchange through memory, ordered by syncwarp alone."""
    held = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    held[t] = a[t]
    cuda.syncwarp()
    a[t] = held[t ^ 1]


def swap_without_order(a):
    held = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    held[t] = a[t]
    cuda.shfl_sync(FULL, t, 0)
    a[t] = held[t ^ 1]


def divergent(a):
    if cuda.threadIdx.x < 32:
        cuda.syncthreads()
    else:
        cuda.syncthreads()


def fours(a, b, shift):
    i = uint32(cuda.threadIdx.x * 4 + shift)
    x, y, z, w = ld4(a, i)
    p, q, r, s = ld4(a, i)
    st4(b, i, ex2(x), rcp(y), z + r, w - s + p * q)


def stale(out):
    held = cuda.shared.array(32, float32)
    numbers = cuda.shared.array(32, uint32)
    out[cuda.threadIdx.x] = held[cuda.threadIdx.x]
    out[32 + cuda.threadIdx.x] = float32(numbers[cuda.threadIdx.x])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("jitted", [False, True])
def test_blocks_have_shared_memory_of_their_own(seed: int | None, jitted: bool) -> None:
    a, out = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    launch(cuda.jit(reverse) if jitted else reverse, 3, 64, (a, out), seed=seed)
    assert (out.reshape(3, 64) == a.reshape(3, 64)[:, ::-1]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_barrier_is_a_race_in_every_order(seed: int | None) -> None:
    a, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    launch(refill, 1, 64, (a, out), seed=seed)
    assert (out.reshape(2, 64) == a.reshape(2, 64)[:, ::-1]).all()
    for wrong in (reverse_without_barrier, refill_without_second):
        with pytest.raises(RaceError):
            launch(wrong, 1, 64, (a, out), seed=seed)


def test_a_missing_barrier_also_shows_in_the_values() -> None:
    def wrong(seed: int) -> bool:
        a, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        launch(reverse_without_barrier, 1, 64, (a, out), seed=seed, races=False)
        return not (out == a[::-1]).all()

    assert all(wrong(seed) for seed in range(3))


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_the_grid_waits_for_all_its_blocks(blocks: int, steps: int, seed: int) -> None:
    threads = 4
    values = np.full((steps + 1) * blocks * threads, np.nan, np.float32)
    values[: blocks * threads] = start = np.arange(blocks * threads)
    counter = np.zeros(1, np.uint32)
    launch(pass_on, blocks, threads, (values, counter, steps), seed=seed)
    expected = np.roll(np.roll(start.reshape(blocks, threads), steps, axis=0), -steps, axis=1) + steps
    assert (values.reshape(-1, blocks, threads)[-1] == expected).all()
    assert counter[0] == blocks * steps


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_barrier_of_the_grid_is_told(seed: int | None) -> None:
    def run(kernel: Callable[..., None]) -> None:
        values = np.zeros(4 * 3 * 8, np.float32)
        launch(kernel, 3, 8, (values, np.zeros(1, np.uint32), 3), seed=seed)

    run(pass_on)
    with pytest.raises(RaceError):
        run(pass_on_too_early)
    with pytest.raises(DeadlockError):
        run(pass_on_for_ever)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_waits_of_the_barrier_are_needed(seed: int | None) -> None:
    def run(wait: Any) -> None:
        def kernel(values, counter):
            hand_over(values, counter, wait)

        values, counter = np.zeros(3 * 8, np.float32), np.zeros(1, np.uint32)
        launch(kernel, 3, 8, (values, counter), seed=seed)
        assert (values == 1).all()

    run(grid_barrier)
    for wait in (barrier_without_the_first_wait, barrier_without_the_second_wait):
        with pytest.raises(RaceError):
            run(wait)


def test_more_blocks_than_are_resident_wait_for_ever_at_a_barrier() -> None:
    values = np.zeros(4 * 5 * 8, np.float32)
    with pytest.raises(DeadlockError):
        launch(pass_on, 5, 8, (values, np.zeros(1, np.uint32), 3), resident=4)
    a, out = np.arange(320, dtype=np.float32), np.zeros(320, np.float32)
    launch(reverse, 5, 64, (a, out), resident=1)  # without one they take turns
    assert (out.reshape(5, 64) == a.reshape(5, 64)[:, ::-1]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_warps(seed: int | None) -> None:
    a, out = np.arange(128, dtype=np.float32), np.zeros(4, np.float32)
    launch(sum_of_warp, 2, 64, (a, out), seed=seed)
    assert (out == a.reshape(4, 32).sum(1)).all()
    b = a[:64].copy()
    launch(swap, 1, 64, (b,), seed=seed)
    assert (b == a[:64].reshape(32, 2)[:, ::-1].ravel()).all()
    with pytest.raises(RaceError):
        launch(swap_without_order, 1, 64, (b,), seed=seed)


def test_what_a_device_would_not_take() -> None:
    a, b = np.ones(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(DivergenceError):
        launch(divergent, 1, 64, (a,))
    with pytest.raises(MisalignedError):
        launch(fours, 1, 4, (a, b, 1))
    with pytest.raises(IndexError):
        launch(fours, 1, 32, (a, b, 0))
    with pytest.raises(SimulationError, match="1024"):
        launch(divergent, 1, 2048, (a,))


def test_intrinsics_mean_what_they_say() -> None:
    a, b = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32)
    launch(fours, 1, 16, (a, b, 0))
    x, y, z, w = a.reshape(16, 4).T
    expected = np.stack([np.exp2(x), 1 / y, 2 * z, x * y + w - w], 1)
    assert np.allclose(b.reshape(16, 4), expected, rtol=1e-6)


def test_shared_memory_begins_as_nan_and_wild_numbers() -> None:
    out = np.zeros(64, np.float32)
    launch(stale, 1, 32, (out,))
    assert np.isnan(out[:32]).all()
    assert (out[32:] == 2.0**32).all()
