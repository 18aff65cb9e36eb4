"""The probes compute what they are timed for, and turn times into rates."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from abw.core.exec.cuda.driver.compiled import assemble, compile_ptx
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.driver.toolkit import Toolkit
from abw.core.exec.cuda.measure import probe
from abw.core.exec.cuda.measure.probe import (
    ACROSS,
    CHAINS,
    STEPS,
    THREADS,
    Effort,
    measure,
    meet,
    multiply_add,
    sweep,
)
from tests.core.exec.cuda.conftest import float64_lines
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simgrid import launch


def test_the_sweep_reads_everything_once() -> None:
    floats = np.arange(4 * 3 * 32 * ACROSS * 2, dtype=np.float32)
    out = np.zeros(3 * 32, np.float32)
    launch(sweep, 3, 32, (floats, out, np.uint32(len(floats) // 4)))
    assert out.sum(dtype=np.float64) == floats.sum(dtype=np.float64)


def test_arithmetic_is_as_much_as_is_said() -> None:
    """Every operation counted: a number that counts stands in for the float."""
    count = 0

    class Counted:
        def __mul__(self, other: object) -> Counted:
            nonlocal count
            count += 1
            return self

        __add__ = __radd__ = __sub__ = __rmul__ = __mul__

    def operations(rounds: int) -> int:
        nonlocal count
        count = 0
        with patch.object(probe, "float32", lambda value: Counted()):
            launch(multiply_add, 1, 1, (np.zeros(1, object), np.uint32(rounds)), races=False)
        return count

    assert operations(3) - operations(1) == 2 * 2 * CHAINS * STEPS


def test_the_barriers_are_counted() -> None:
    counter = np.zeros(1, np.uint32)
    launch(meet, 3, 4, (counter, np.uint32(5)))
    assert counter[0] == 15


def test_rates_are_work_over_time() -> None:
    library = FakeLibrary(seconds=0.5, simulate=False)
    effort = Effort(rounds=10, barriers=4, bytes=1 << 20, launches=6, runs=3, warming=0.0)
    with patch.object(probe, "compile_image", library.compile):
        limits = measure(Device(Driver(library)), effort)
    blocks = 2 * 4
    assert limits.flops == pytest.approx(2 * CHAINS * STEPS * 10 * blocks * THREADS / 0.5)
    assert limits.bytes_per_second == pytest.approx((1 << 20) / 0.5, rel=0.2)
    assert limits.barrier == pytest.approx(0.5 / 4)
    assert limits.launch == pytest.approx(0.5)
    assert not library.device
    assert not library.modules
    meets = [entry for entry in library.launches if entry[3]]
    assert meets == [(meets[0][0], 4, THREADS, True)] * 4


def test_a_small_gpu_is_measured_within_its_memory() -> None:
    library = FakeLibrary(seconds=0.5, simulate=False, memory=1 << 22)
    effort = Effort(rounds=1, barriers=1, bytes=1 << 30, launches=1, runs=1, warming=0.0)
    with patch.object(probe, "compile_image", library.compile):
        limits = measure(Device(Driver(library)), effort)
    assert limits.bytes_per_second == pytest.approx((1 << 21) / 0.5, rel=0.2)


def test_runs_that_warm_up_do_not_count() -> None:
    counts = []
    for warming in (0.0, 0.05):
        library = FakeLibrary(seconds=1.0, simulate=False)
        effort = Effort(rounds=1, barriers=1, bytes=1 << 20, launches=1, runs=3, warming=warming)
        with patch.object(probe, "compile_image", library.compile):
            measure(Device(Driver(library)), effort)
        counts.append(len(library.launches))
    assert counts[0] == 4 * 4  # one to warm up and three that count, of each kernel
    assert counts[1] > counts[0]


@pytest.mark.parametrize("name", probe.KERNELS)
def test_machine_code(toolkit: Toolkit, name: str) -> None:
    function, signature = probe.KERNELS[name]
    ptx = compile_ptx(function, signature, THREADS)
    resources = assemble(ptx).resources
    assert resources is not None
    assert (resources.stack, resources.spills) == (0, 0)
    assert not float64_lines(ptx)
    if name == "multiply_add":
        assert ptx.count("fma.rn.ftz.f32") >= CHAINS * STEPS
        assert ptx.count("mul.ftz.f32") < CHAINS  # none in the loop
    if name == "sweep":
        assert ptx.count("ld.global.v4.f32") >= ACROSS
