"""One GPU: its context and stream, its memory, and the time that things take on it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.cuda.driver.compiled import KernelImage
from abw.core.exec.cuda.driver.driver import OUT_OF_MEMORY, CudaError, Driver
from abw.core.exec.cuda.driver.launch import Arguments, OnDevice
from abw.core.exec.interface import TooLargeError

Words = NDArray[np.uint32]

# Of `cuDeviceGetAttribute`: multiprocessors, and both halves of the compute capability.
PROCESSORS, MAJOR, MINOR = 16, 75, 76
# Of `cuFuncSetAttribute`: bytes of dynamic shared memory that a launch may ask for.
MOST_SHARED = 8

# Buffers grow by this much more than is asked for, where there is room.
SPARE = 1.5
# Bytes that are copied at a time between host and device: so much of the host's memory is held for it.
PIECE = 32 << 20
# Seconds that the GPU may take for what it was asked for: mini-batches take milliseconds.
PATIENCE = 120.0
# Seconds for which the host looks without a pause whether the GPU is done; later it looks 20 times as long as
# it has waited.
EAGER = 2e-3


@dataclass(frozen=True, slots=True)
class Traits:
    """What a GPU is: `arch` its compute capability, `processors` its SMs."""

    name: str
    arch: tuple[int, int]
    processors: int
    memory_bytes: int
    driver: int

    @property
    def tf32(self) -> bool:
        """Whether tensor cores multiply numbers of TF32 so fast that three products take less than one of
        float32: 7 to 14 times as fast on A100, H100, H200, B200; on other GPUs but as fast (data sheets)."""
        return self.arch in ((8, 0), (9, 0), (10, 0))


class HungError(AbwError):
    """The GPU does not come to an end."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the GPU has not finished after {seconds:.0f} s: a kernel hangs",
            hint="if `nvidia-smi` shows no other program that keeps it busy this is a defect of abw: please "
            "report it with `abw doctor --json`; another --scheme may do meanwhile",
        )


class Device:
    """The context, stream and modules of one GPU, for the thread that made it and those that `enter` it."""

    def __init__(self, driver: Driver, number: int = 0, patience: float = PATIENCE) -> None:
        """`patience`: seconds after which what it was asked for counts as hung. Errors: CudaError where there
        is no such GPU."""
        self.driver, self._patience, self._lost = driver, patience, False
        driver.cuInit(0)
        device, context, stream, version = c_int(), c_void_p(), c_void_p(), c_int()
        driver.cuDeviceGet(byref(device), number)
        self._context, self._number = context, device
        driver.cuDevicePrimaryCtxRetain(byref(context), device)
        self.enter()
        driver.cuStreamCreate(byref(stream), 1)  # 1: does not wait for the legacy stream
        self.stream: int = stream.value or 0
        name = ctypes.create_string_buffer(128)
        driver.cuDeviceGetName(name, 128, device)
        driver.cuDriverGetVersion(byref(version))

        def attribute(which: int) -> int:
            value = c_int()
            driver.cuDeviceGetAttribute(byref(value), which, device)
            return value.value

        self.traits = Traits(
            name.value.decode(),
            (attribute(MAJOR), attribute(MINOR)),
            attribute(PROCESSORS),
            self._memory()[1],
            version.value,
        )

    def close(self) -> None:
        """Give the context back, after all that was made on it: no more than that others may need the GPU."""
        self.driver.cuStreamDestroy_v2(c_void_p(self.stream))
        self.driver.cuDevicePrimaryCtxRelease_v2(self._number)

    def enter(self) -> None:
        """Make this GPU the one that the calling thread's calls mean."""
        self.driver.cuCtxSetCurrent(self._context)

    def load(self, code: KernelImage) -> tuple[int, int]:
        """A kernel's module and handle."""
        module, function = c_void_p(), c_void_p()
        self.driver.cuModuleLoadData(byref(module), c_char_p(code.code))
        self.driver.cuModuleGetFunction(byref(function), module, code.entry.encode())
        return module.value or 0, function.value or 0

    def unload(self, module: int) -> None:
        """Give a module back, after all that was asked for."""
        self.synchronize()
        self.driver.cuModuleUnload(c_void_p(module))

    def allow(self, kernel: int, shared: int) -> None:
        """Let a kernel be launched with so many bytes of dynamic shared memory. Errors: CudaError."""
        self.driver.cuFuncSetAttribute(c_void_p(kernel), MOST_SHARED, shared)

    def resident(self, kernel: int, threads: int, shared: int = 0) -> int:
        """How many blocks of a kernel, with so much dynamic shared memory, run at once on the whole GPU."""
        blocks = c_int()
        self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            byref(blocks), c_void_p(kernel), threads, shared
        )
        return blocks.value * self.traits.processors

    def launch(
        self,
        kernel: int,
        blocks: int,
        threads: int,
        arguments: Arguments,
        *,
        shared: int = 0,
        together: bool = False,
    ) -> None:
        """Ask for a kernel's run, with so many bytes of dynamic shared memory.

        `together`: all its blocks at once or CudaError: they may wait.
        """
        function = self.driver.cuLaunchCooperativeKernel if together else self.driver.cuLaunchKernel
        more = () if together else (None,)
        table, stream = c_void_p(arguments.table.at), c_void_p(self.stream)
        function(c_void_p(kernel), blocks, 1, 1, threads, 1, 1, shared, stream, table, *more)

    def synchronize(self) -> None:
        """Wait for all that was asked for; other Python threads run. Errors: CudaError, HungError."""
        self.wait(lambda: self.driver.done("cuStreamQuery", self.stream))

    def wait(self, ready: Callable[[], bool], patience: float | None = None) -> None:
        """Wait until something is so.

        The driver's own functions that wait return to nobody while a kernel hangs, not for Ctrl-C either.
        Errors: HungError.
        """
        patience = self._patience if patience is None else patience
        begun = time.perf_counter()
        while not ready():
            waited = time.perf_counter() - begun
            if waited > patience:
                raise HungError(waited)
            if waited > EAGER:
                time.sleep(min(waited / 20, 0.05))

    def settled(self) -> bool:
        """Whether the GPU is well and done with what it was asked for, after a second at most.

        Else nothing can be given back, now or later: the driver would wait, or refuse.
        """
        if not self._lost:
            self._lost = True
            with suppress(CudaError, HungError):
                self.enter()
                self.wait(lambda: self.driver.done("cuStreamQuery", self.stream), 1.0)
                self._lost = False
        return not self._lost

    def free_bytes(self) -> int:
        """The free device memory in bytes."""
        return self._memory()[0]

    def _memory(self) -> tuple[int, int]:
        free, total = c_size_t(), c_size_t()
        self.driver.cuMemGetInfo_v2(byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Device memory of so many bytes. Errors: TooLargeError where there is not so much."""
        pointer = c_uint64()
        try:
            self.driver.cuMemAlloc_v2(byref(pointer), size)
        except CudaError as error:
            if error.status != OUT_OF_MEMORY:
                raise
            raise TooLargeError(size, self.free_bytes(), self.traits.name) from None
        return pointer.value

    def free(self, pointer: int) -> None:
        """Give device memory back, after all that was asked for."""
        self.driver.cuMemFree_v2(c_uint64(pointer))

    def fill(self, pointer: int, words: int, value: int = 0) -> None:
        """Set 32-bit words."""
        self.driver.cuMemsetD32Async(c_uint64(pointer), value, words, c_void_p(self.stream))


class Buffer:
    """Device memory that is kept and grows: what lies in it is lost when it does."""

    def __init__(self, device: Device) -> None:
        self._device, self.pointer, self.size = device, 0, 0

    def reserve(self, size: int) -> bool:
        """Have at least so many bytes; whether they are new. Errors: TooLargeError; then all is as it was."""
        if size <= self.size:
            return False
        device = self._device
        if size > self.size + device.free_bytes():
            raise TooLargeError(size, self.size + device.free_bytes(), device.traits.name)
        if self.pointer:
            device.synchronize()
            device.free(self.pointer)
            self.pointer = self.size = 0
        ample = int(size * SPARE)
        try:
            self.pointer, self.size = device.allocate(ample), ample
        except TooLargeError:
            self.pointer, self.size = device.allocate(size), size
        return True

    def __del__(self) -> None:
        # at the end of the process the driver may be gone, and the memory with it
        if self.pointer and self._device.settled():
            self._device.free(self.pointer)

    def array(self, items: int) -> OnDevice:
        """The first so many 4-byte elements."""
        return OnDevice(self.pointer, items)


class Staging:
    """Host memory that the GPU copies from and to at full speed, while the host goes on."""

    def __init__(self, device: Device) -> None:
        self._device, self._size, self._pointer = device, 0, c_void_p()
        self._free = Event(device)
        self._free.record()

    def upload(self, target: int, values: NDArray[Any]) -> None:
        """Copy an array to the device, in order with all else; it may be changed at once."""
        for begin in range(0, values.nbytes, PIECE):
            size = min(PIECE, values.nbytes - begin)
            self._free.wait()
            ctypes.memmove(self._room(size), values.ctypes.data + begin, size)
            place, stream = c_uint64(target + begin), c_void_p(self._device.stream)
            self._device.driver.cuMemcpyHtoDAsync_v2(place, self._pointer, size, stream)
            self._free.record()

    def download(self, source: int, out: NDArray[Any]) -> None:
        """Fill an array from the device, after all that was asked for."""
        for begin in range(0, out.nbytes, PIECE):
            size = min(PIECE, out.nbytes - begin)
            self._free.wait()
            room, stream = self._room(size), c_void_p(self._device.stream)
            self._device.driver.cuMemcpyDtoHAsync_v2(self._pointer, c_uint64(source + begin), size, stream)
            self._free.record()
            self._free.wait()
            ctypes.memmove(out.ctypes.data + begin, room, size)

    def _room(self, size: int) -> int:
        """Host memory of so many bytes, once the copies before are done with it."""
        if size > self._size:
            self._give_back()
            ample = min(int(size * SPARE), PIECE)
            self._device.driver.cuMemAllocHost_v2(byref(self._pointer), ample)
            self._size = ample
        return self._pointer.value or 0

    def _give_back(self) -> None:
        pointer, self._pointer, self._size = self._pointer, c_void_p(), 0
        if pointer.value:
            self._device.driver.cuMemFreeHost(pointer)

    def __del__(self) -> None:
        if self._pointer.value and self._device.settled():
            self._give_back()


class Event:
    """A moment in the order of what the GPU is asked for."""

    def __init__(self, device: Device) -> None:
        self._device, self._event = device, c_void_p()
        device.driver.cuEventCreate(byref(self._event), 0)

    def record(self) -> None:
        """This moment: after all that was asked for so far."""
        self._device.driver.cuEventRecord(self._event, c_void_p(self._device.stream))

    def wait(self) -> None:
        """Until the GPU is there. Errors: CudaError, HungError."""
        self._device.wait(lambda: self._device.driver.done("cuEventQuery", self._event.value))

    def since(self, earlier: Event) -> float:
        """Seconds between two moments on the GPU, once it is past both; 0.5 us fine."""
        self.wait()
        milliseconds = c_float()
        self._device.driver.cuEventElapsedTime(byref(milliseconds), earlier._event, self._event)
        return milliseconds.value / 1e3
