"""One GPU: its context and stream, its memory, and the time that things take on it."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cuda.compiled import Image as Code
from abw.core.exec.cuda.driver import OUT_OF_MEMORY, CudaError, Driver
from abw.core.exec.cuda.launch import Arguments, OnDevice
from abw.core.exec.interface import TooLargeError

Words = NDArray[np.uint32]

SPARE = 1.5
"""Buffers grow by this much more than is asked for, where there is room."""


class _Attribute(IntEnum):
    """Of `cuDeviceGetAttribute`."""

    PROCESSORS = 16
    MAJOR = 75
    MINOR = 76


@dataclass(frozen=True, slots=True)
class Traits:
    """What a GPU is: `arch` its compute capability, `processors` its SMs."""

    name: str
    arch: tuple[int, int]
    processors: int
    memory_bytes: int
    driver: int


class Device:
    """The context, stream and modules of one GPU, for the thread that made it and those that `enter` it."""

    def __init__(self, driver: Driver, number: int = 0) -> None:
        """Errors: CudaError where there is no such GPU."""
        self.driver = driver
        driver.cuInit(0)
        device, context, stream, version = c_int(), c_void_p(), c_void_p(), c_int()
        driver.cuDeviceGet(byref(device), number)
        self._context = context
        driver.cuDevicePrimaryCtxRetain(byref(context), device)
        self.enter()
        driver.cuStreamCreate(byref(stream), 1)  # 1: does not wait for the legacy stream
        self.stream: int = stream.value or 0
        name = ctypes.create_string_buffer(128)
        driver.cuDeviceGetName(name, 128, device)
        driver.cuDriverGetVersion(byref(version))

        def attribute(which: _Attribute) -> int:
            found = c_int()
            driver.cuDeviceGetAttribute(byref(found), int(which), device)
            return found.value

        self.traits = Traits(
            name.value.decode(),
            (attribute(_Attribute.MAJOR), attribute(_Attribute.MINOR)),
            attribute(_Attribute.PROCESSORS),
            self._memory()[1],
            version.value,
        )

    def enter(self) -> None:
        """Make this GPU the one that the calling thread's calls mean."""
        self.driver.cuCtxSetCurrent(self._context)

    def load(self, code: Code) -> tuple[int, int]:
        """A kernel's module and handle."""
        module, function = c_void_p(), c_void_p()
        self.driver.cuModuleLoadData(byref(module), c_char_p(code.code))
        self.driver.cuModuleGetFunction(byref(function), module, code.entry.encode())
        return module.value or 0, function.value or 0

    def unload(self, module: int) -> None:
        """Give a module back, after all that was asked for."""
        self.synchronize()
        self.driver.cuModuleUnload(c_void_p(module))

    def resident(self, kernel: int, threads: int) -> int:
        """How many blocks of a kernel run at once on the whole GPU."""
        blocks = c_int()
        self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(blocks), c_void_p(kernel), threads, 0)
        return blocks.value * self.traits.processors

    def launch(
        self, kernel: int, blocks: int, threads: int, arguments: Arguments, *, together: bool = False
    ) -> None:
        """Ask for a kernel's run. `together`: all its blocks at once or CudaError: they may wait."""
        function = self.driver.cuLaunchCooperativeKernel if together else self.driver.cuLaunchKernel
        more = () if together else (None,)
        table, stream = c_void_p(arguments.address), c_void_p(self.stream)
        function(c_void_p(kernel), blocks, 1, 1, threads, 1, 1, 0, stream, table, *more)

    def synchronize(self) -> None:
        """Wait for all that was asked for. Other Python threads run meanwhile."""
        self.driver.cuStreamSynchronize(c_void_p(self.stream))

    def free_bytes(self) -> int:
        """Device memory that nobody has taken."""
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

    def clear(self, pointer: int, words: int) -> None:
        """Set 32-bit words to 0."""
        self.driver.cuMemsetD32Async(c_uint64(pointer), 0, words, c_void_p(self.stream))


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
        with suppress(CudaError):
            if self.pointer:
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
        if values.nbytes:
            self._free.wait()
            ctypes.memmove(self._room(values.nbytes), values.ctypes.data, values.nbytes)
            stream = c_void_p(self._device.stream)
            self._device.driver.cuMemcpyHtoDAsync_v2(c_uint64(target), self._pointer, values.nbytes, stream)
            self._free.record()

    def download(self, source: int, out: NDArray[Any]) -> None:
        """Fill an array from the device, after all that was asked for."""
        if out.nbytes:
            self._free.wait()
            room, stream = self._room(out.nbytes), c_void_p(self._device.stream)
            self._device.driver.cuMemcpyDtoHAsync_v2(self._pointer, c_uint64(source), out.nbytes, stream)
            self._device.synchronize()
            ctypes.memmove(out.ctypes.data, room, out.nbytes)

    def _room(self, size: int) -> int:
        if size > self._size:
            driver = self._device.driver
            if self._pointer.value:
                driver.cuMemFreeHost(self._pointer)
                self._size = 0
            driver.cuMemAllocHost_v2(byref(self._pointer), int(size * SPARE))
            self._size = int(size * SPARE)
        return self._pointer.value or 0


class Event:
    """A moment in the order of what the GPU is asked for."""

    def __init__(self, device: Device) -> None:
        self._device, self._event = device, c_void_p()
        device.driver.cuEventCreate(byref(self._event), 0)

    def record(self) -> None:
        """This moment: after all that was asked for so far."""
        self._device.driver.cuEventRecord(self._event, c_void_p(self._device.stream))

    def wait(self) -> None:
        """Until the GPU is there."""
        self._device.driver.cuEventSynchronize(self._event)

    def since(self, earlier: Event) -> float:
        """Seconds between two moments on the GPU, once it is past both; 0.5 us fine."""
        self.wait()
        milliseconds = c_float()
        self._device.driver.cuEventElapsedTime(byref(milliseconds), earlier._event, self._event)
        return milliseconds.value / 1e3
