"""A driver without a GPU: memory is the host's, kernels run in the simulator, time is what is said.

`FakeLibrary` stands where ctypes puts libcuda, so all of our own code runs, down to the driver's arguments
and the launches from compiled code. `compile_image` must be replaced by the library's `compile`, which
remembers the Python function by the name of the kernel.
"""

# ruff: noqa: N802 (the driver's own names)

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from ctypes import c_int, c_uint, c_void_p
from typing import Any

import numpy as np

from abw.core.exec.cuda.driver.compiled import KernelImage
from abw.core.exec.cuda.driver.driver import NOT_READY, OUT_OF_MEMORY
from tests.core.exec.cuda import simgrid

LAUNCH_FAILED = 719
TOO_LARGE = 720
_ATTRIBUTES = {16: 4, 75: 9, 76: 0, 97: 227 << 10}
_TOGETHER = ctypes.CFUNCTYPE(c_int, c_void_p, *[c_uint] * 7, c_void_p, c_void_p)
_LAUNCH = ctypes.CFUNCTYPE(c_int, c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p)


def _at(pointer: int, count: int, dtype: Any) -> Any:
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_char * size).from_address(pointer), dtype)


def _int(value: Any) -> int:
    return int(getattr(value, "value", value) or 0)


class FakeLibrary:
    """libcuda with one GPU of `processors` SMs, each with room for `occupancy` blocks of any kernel.

    `most`: bytes of device memory that were taken at a time.
    `seconds`: what each launch takes on the GPU's clock. `simulate` False: launches are only counted.
    `hangs`: what it is asked for never ends, once that is set.
    """

    def __init__(
        self,
        memory: int = 1 << 30,
        occupancy: int = 2,
        seconds: float = 1e-3,
        simulate: bool = True,
        seed: int | None = None,
    ) -> None:
        self.memory, self.occupancy, self.seconds = memory, occupancy, seconds
        self.simulate, self.seed = simulate, seed
        self.clock = 0.0
        self.hangs = False
        self.retained = 0
        self.most = 0
        self.kernels: dict[str, tuple[Callable[..., Any], Any]] = {}
        self.modules: dict[int, str] = {}
        self.functions: dict[int, str] = {}
        self.allowed: dict[str, int] = {}
        self.device: dict[int, Any] = {}
        self.host: dict[int, Any] = {}
        self.events: dict[int, float] = {}
        self.launches: list[tuple[str, int, int, bool]] = []
        self.copies: list[tuple[str, int]] = []
        self.failed: BaseException | None = None
        self._handles = 1000
        self.cuLaunchKernel = _LAUNCH(lambda *a: self._launch(False, *a))
        self.cuLaunchCooperativeKernel = _TOGETHER(lambda *a: self._launch(True, *a))

    def compile(
        self, function: Callable[..., Any], signature: Any, threads: int, text: str, arch: tuple[int, int]
    ) -> KernelImage:
        """In place of `compile_image`."""
        entry = f"kernel{len(self.kernels)}"
        self.kernels[entry] = (function, signature)
        return KernelImage(entry, entry.encode(), None)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return _Function(getattr(self, "_" + name.removesuffix("_v2")))

    def _handle(self) -> int:
        self._handles += 1
        return self._handles

    def _cuInit(self, flags: Any) -> int:
        return 0

    def _cuDriverGetVersion(self, out: Any) -> int:
        out._obj.value = 13000
        return 0

    def _cuGetErrorString(self, status: Any, out: Any) -> int:
        out._obj.value = {2: b"out of memory", 719: b"unspecified launch failure"}.get(_int(status), b"?")
        return 0

    def _cuDeviceGetCount(self, out: Any) -> int:
        out._obj.value = 1
        return 0

    def _cuDeviceGet(self, out: Any, number: Any) -> int:
        out._obj.value = number
        return 0 if number == 0 else 101

    def _cuDeviceGetName(self, out: Any, size: Any, device: Any) -> int:
        out.value = b"Simulated GPU"
        return 0

    def _cuDeviceGetAttribute(self, out: Any, which: Any, device: Any) -> int:
        out._obj.value = _ATTRIBUTES[which]
        return 0

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: Any) -> int:
        self.retained += 1
        out._obj.value = self._handle()
        return 0

    def _cuDevicePrimaryCtxRelease(self, device: Any) -> int:
        self.retained -= 1
        return 0

    def _cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def _cuStreamCreate(self, out: Any, flags: Any) -> int:
        out._obj.value = self._handle()
        return 0

    def _cuStreamDestroy(self, stream: Any) -> int:
        return 0

    def _cuStreamQuery(self, stream: Any) -> int:
        return NOT_READY if self.hangs else LAUNCH_FAILED if self.failed else 0

    def _cuEventCreate(self, out: Any, flags: Any) -> int:
        out._obj.value = self._handle()
        return 0

    def _cuEventRecord(self, event: Any, stream: Any) -> int:
        self.events[_int(event)] = self.clock
        return 0

    def _cuEventQuery(self, event: Any) -> int:
        return self._cuStreamQuery(0) if _int(event) in self.events else 400

    def _cuEventElapsedTime(self, out: Any, begin: Any, end: Any) -> int:
        out._obj.value = 1e3 * (self.events[_int(end)] - self.events[_int(begin)])
        return 0

    def _cuModuleLoadData(self, out: Any, code: Any) -> int:
        handle = self._handle()
        self.modules[handle] = code.value.decode()
        out._obj.value = handle
        return 0

    def _cuModuleUnload(self, module: Any) -> int:
        name = self.modules.pop(_int(module))
        self.functions = {handle: found for handle, found in self.functions.items() if found != name}
        return 0

    def _cuModuleGetFunction(self, out: Any, module: Any, name: Any) -> int:
        name = name.decode()
        assert self.modules[_int(module)] == name
        handle = self._handle()
        self.functions[handle] = name
        out._obj.value = handle
        return 0

    def _cuFuncSetAttribute(self, function: Any, which: Any, value: Any) -> int:
        assert which == 8
        self.allowed[self.functions[_int(function)]] = value
        return 0 if value <= _ATTRIBUTES[97] else 1

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, out: Any, function: Any, threads: Any, shared: Any
    ) -> int:
        out._obj.value = self.occupancy
        return 0

    def _used(self) -> int:
        return sum(len(memory) for memory in self.device.values())

    def _cuMemGetInfo(self, free: Any, total: Any) -> int:
        free._obj.value, total._obj.value = self.memory - self._used(), self.memory
        return 0

    def _cuMemAlloc(self, out: Any, size: Any) -> int:
        if self._used() + size > self.memory:
            return OUT_OF_MEMORY
        out._obj.value = self._take(self.device, size)
        self.most = max(self.most, self._used())
        return 0

    def _take(self, where: dict[int, Any], size: int) -> int:
        made = np.full(size + 256, 0xFF, np.uint8)
        begin = made.ctypes.data
        aligned = (begin + 255) // 256 * 256
        where[aligned] = made[aligned - begin : aligned - begin + size]
        return aligned

    def _cuMemFree(self, pointer: Any) -> int:
        del self.device[_int(pointer)]
        return 0

    def _cuMemAllocHost(self, out: Any, size: Any) -> int:
        out._obj.value = self._take(self.host, size)
        return 0

    def _cuMemFreeHost(self, pointer: Any) -> int:
        del self.host[_int(pointer)]
        return 0

    def _inside(self, pointer: int, size: int, where: dict[int, Any]) -> None:
        assert any(p <= pointer and pointer + size <= p + len(m) for p, m in where.items())

    def _cuMemcpyHtoDAsync(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        self._inside(_int(target), size, self.device)
        self._inside(_int(source), size, self.host)
        ctypes.memmove(_int(target), _int(source), size)
        self.copies.append(("up", size))
        return 0

    def _cuMemcpyDtoHAsync(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        self._inside(_int(source), size, self.device)
        self._inside(_int(target), size, self.host)
        ctypes.memmove(_int(target), _int(source), size)
        self.copies.append(("down", size))
        return 0

    def _cuMemsetD32Async(self, pointer: Any, value: Any, words: Any, stream: Any) -> int:
        self._inside(_int(pointer), 4 * words, self.device)
        _at(_int(pointer), words, np.uint32)[:] = value
        return 0

    def _launch(
        self, cooperative: bool, function: int, x: int, y: int, z: int, threads: int, ty: int, tz: int,
        shared: int, stream: int, table: int, extra: int = 0,
    ) -> int:  # fmt: skip
        try:
            assert (y, z, ty, tz) == (1, 1, 1, 1)
            assert x > 0 and 0 < threads <= 1024
            name = self.functions[function]
            kernel, signature = self.kernels[name]
            assert shared <= self.allowed.get(name, 48 << 10)
            resident = self.occupancy * _ATTRIBUTES[16]
            if cooperative and x > resident:
                return TOO_LARGE
            self.launches.append((name, x, threads, cooperative))
            self.clock += self.seconds
            if self.simulate:
                arguments = _decode(table, signature)
                simgrid.launch(
                    kernel, x, threads, arguments, shared=shared, seed=self.seed, resident=resident
                )
        except BaseException as error:  # none may pass through the caller's machine code
            self.failed = error
            return LAUNCH_FAILED
        return 0


class _Function:
    """Takes argtypes and restype as ctypes' functions do."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> int:
        return self._function(*arguments)


def _decode(table: int, signature: Any) -> list[Any]:
    """Arguments as a kernel compiled by numba for `signature` would read them."""
    arguments: list[Any] = []
    place = 0

    def word(k: int) -> int:
        pointer = struct.unpack("=Q", ctypes.string_at(table + 8 * (place + k), 8))[0]
        return int(struct.unpack("=Q", ctypes.string_at(pointer, 8))[0])

    for kind in signature.args:
        if hasattr(kind, "ndim"):
            dtype = np.dtype(str(kind.dtype))
            items, size, pointer, shape, stride = (word(k) for k in range(2, 7))
            assert (size, stride, shape) == (dtype.itemsize, dtype.itemsize, items)
            arguments.append(_at(pointer, items, dtype))
            place += 7
        else:
            arguments.append(np.dtype(str(kind)).type(word(0)))
            place += 1
    return arguments
