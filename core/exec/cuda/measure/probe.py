"""What a GPU does at best, measured: float32 arithmetic, memory bandwidth, barriers, launches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numba import cuda as _cuda
from numba import float32, uint32

from abw.core.exec.cuda.driver.compiled import KernelImage, compile_image
from abw.core.exec.cuda.driver.device import Device, Event
from abw.core.exec.cuda.driver.launch import Arguments, OnDevice, launch_items
from abw.core.exec.cuda.image import HEADER, ITEM, TILES
from abw.core.exec.cuda.measure.costs import Limits
from abw.core.exec.cuda.ondevice.intrinsics import grid_barrier, ld4, types

cuda: Any = _cuda

THREADS = 256
# Sums that a thread carries side by side, and additions to each in a round of its loop.
CHAINS, STEPS = 8, 4
# Loads of 16 bytes that a thread has under way at once.
ACROSS = 4


@cuda.jit
def multiply_add(out, rounds):
    """Each thread: `rounds` times CHAINS x STEPS dependent multiply-adds, in registers."""
    x = float32(cuda.threadIdx.x) * float32(1e-9) + float32(0.5)
    a0, a1, a2, a3 = x, x + x, x * x, x - x * x
    a4, a5, a6, a7 = a0 * x, a1 * x, a2 * x, a3 * x
    i = uint32(0)
    while i < rounds:
        for _ in range(STEPS):
            a0, a1, a2, a3 = a0 * x + a4, a1 * x + a5, a2 * x + a6, a3 * x + a7
            a4, a5, a6, a7 = a4 * x + a0, a5 * x + a1, a6 * x + a2, a7 * x + a3
        i += uint32(1)
    place = uint32(cuda.blockIdx.x) * uint32(cuda.blockDim.x) + uint32(cuda.threadIdx.x)
    out[place] = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7


@cuda.jit
def sweep(floats, out, fours):
    """Read `fours` times 16 bytes, all threads side by side; each writes the sum of what it read."""
    step = uint32(cuda.gridDim.x) * uint32(cuda.blockDim.x)
    place = uint32(cuda.blockIdx.x) * uint32(cuda.blockDim.x) + uint32(cuda.threadIdx.x)
    i = place
    total = float32(0)
    while i + uint32(ACROSS - 1) * step < fours:
        a, b, c, d = ld4(floats, i * uint32(4))
        e, f, g, h = ld4(floats, (i + step) * uint32(4))
        k, m, n, o = ld4(floats, (i + uint32(2) * step) * uint32(4))
        p, q, r, s = ld4(floats, (i + uint32(3) * step) * uint32(4))
        total += ((a + b) + (c + d)) + ((e + f) + (g + h)) + ((k + m) + (n + o)) + ((p + q) + (r + s))
        i += uint32(ACROSS) * step
    out[place] = total


@cuda.jit
def meet(counter, rounds):
    """All blocks wait for each other, `rounds` times."""
    i = uint32(0)
    while i < rounds:
        i += uint32(1)
        grid_barrier(counter, i * uint32(cuda.gridDim.x))


@cuda.jit
def nothing(words, at):
    """An empty kernel."""


_F, _U = types.float32[::1], types.uint32[::1]
# The kernels above with their arguments' types.
KERNELS: dict[str, tuple[Callable[..., Any], Any]] = {
    "multiply_add": (multiply_add, types.void(_F, types.uint32)),
    "sweep": (sweep, types.void(_F, _F, types.uint32)),
    "meet": (meet, types.void(_U, types.uint32)),
    "nothing": (nothing, types.void(_U, types.uint32)),
}


def compiled(arch: tuple[int, int]) -> dict[str, KernelImage]:
    """The code of the measuring kernels, made without a GPU, or from disk. Errors: AbwError."""
    text = Path(__file__).read_text(encoding="utf-8")
    return {
        name: compile_image(function, signature, THREADS, text, arch)
        for name, (function, signature) in KERNELS.items()
    }


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds of arithmetic and of barriers, bytes to read, launches; runs of each, after
    seconds of runs that let the GPU's clock rise."""

    rounds: int = 4000
    barriers: int = 2000
    bytes: int = 2 << 30
    launches: int = 2000
    runs: int = 7
    warming: float = 0.3


def measure(device: Device, effort: Effort = Effort()) -> Limits:
    """Measure a GPU. Cost: under a second, and what compiling four small kernels takes. Errors: AbwError."""
    probe = _Probe(device, effort.runs, effort.warming)
    try:
        return Limits(
            flops=probe.arithmetic(effort.rounds),
            bytes_per_second=probe.bandwidth(effort.bytes),
            barrier=probe.barrier(effort.barriers),
            launch=probe.launch(effort.launches),
        )
    finally:
        probe.close()


class _Probe:
    def __init__(self, device: Device, runs: int, warming: float) -> None:
        self._device, self._runs = device, runs
        self._codes = compiled(device.traits.arch)
        self._begin, self._end = Event(device), Event(device)
        self._modules: list[int] = []
        self._memory: list[int] = []
        self._warm = time.perf_counter() + warming

    def close(self) -> None:
        """Give everything back."""
        self._device.synchronize()
        for pointer in self._memory:
            self._device.free(pointer)
        for module in self._modules:
            self._device.unload(module)

    def arithmetic(self, rounds: int) -> float:
        """Operations a second, a multiply-add counted as two."""
        kernel = self._kernel("multiply_add")
        blocks = self._device.resident(kernel, THREADS)
        out = self._array(blocks * THREADS)
        seconds = self._seconds(kernel, blocks, Arguments([out, rounds]))
        return 2 * CHAINS * STEPS * rounds * blocks * THREADS / seconds

    def bandwidth(self, size: int) -> float:
        """Bytes a second, read from the GPU's memory."""
        kernel = self._kernel("sweep")
        blocks = self._device.resident(kernel, THREADS)
        whole = blocks * THREADS * ACROSS
        size = min(size, self._device.free_bytes() // 2)
        fours = size // 16 // whole * whole
        floats, out = self._array(4 * fours), self._array(blocks * THREADS)
        self._device.fill(floats.pointer, 4 * fours)
        return 16 * fours / self._seconds(kernel, blocks, Arguments([floats, out, fours]))

    def barrier(self, rounds: int) -> float:
        """Seconds that one takes, with a block on each SM."""
        kernel = self._kernel("meet")
        counter = self._array(1)
        arguments = Arguments([counter, rounds])
        return self._seconds(kernel, self._device.traits.processors, arguments, counter) / rounds

    def launch(self, count: int) -> float:
        """Seconds between kernels of one block that do nothing, launched one after the other."""
        kernel = self._kernel("nothing")
        words = np.zeros(HEADER + ITEM * count, np.uint32)
        words[1], words[2] = count, HEADER
        words[HEADER + TILES :: ITEM] = 1
        arguments = Arguments([self._array(1), 0])
        handles = np.array([kernel], np.uint64)

        def all_of_them() -> None:
            address = self._device.driver.address("cuLaunchKernel")
            status = launch_items(address, self._device.stream, handles, 32, words, arguments)
            self._device.driver.check(status, "cuLaunchKernel")

        return self._timed(all_of_them) / count

    def _kernel(self, name: str) -> int:
        module, handle = self._device.load(self._codes[name])
        self._modules.append(module)
        return handle

    def _array(self, items: int) -> OnDevice:
        pointer = self._device.allocate(4 * items)
        self._memory.append(pointer)
        return OnDevice(pointer, items)

    def _seconds(
        self, kernel: int, blocks: int, arguments: Arguments, counter: OnDevice | None = None
    ) -> float:
        """The median of some runs; with a counter, set to 0 before each, all blocks run at once."""

        def run() -> None:
            if counter is not None:
                self._device.fill(counter.pointer, 1)
            self._device.launch(kernel, blocks, THREADS, arguments, together=counter is not None)

        return self._timed(run)

    def _timed(self, run: Callable[[], None]) -> float:
        def once() -> float:
            self._begin.record()
            run()
            self._end.record()
            return self._end.since(self._begin)

        once()
        while time.perf_counter() < self._warm:
            once()
        return median(once() for _ in range(self._runs))
