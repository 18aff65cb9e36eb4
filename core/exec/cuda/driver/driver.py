"""NVIDIA's driver through ctypes: the few functions that the executor calls, and its errors.

numba has a driver layer of its own, but a launch through it costs 7 us and 6 more an array; here a launch
is a call of `cuLaunchKernel` from compiled code (`launch.py`). The functions are those of the CUDA driver
API, by their names there; all return a status.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from abw.core.base.errors import AbwError

OUT_OF_MEMORY = 2
NOT_READY = 600

_REPORT = (
    "a kernel failed, and with it everything on this GPU until the program ends: this is a defect of abw, "
    "please report it with `abw doctor --json`; another --scheme may do meanwhile"
)
_OLD_DRIVER = (
    "the driver is older than the compiler: install NVIDIA's driver 580 or newer, or set CUDA_HOME to a "
    "toolkit as old as the driver"
)
# What to do about a status of the driver, where more can be said than what it is.
_HINTS = {
    **dict.fromkeys((200, 209, 222), _OLD_DRIVER),  # an image of another kind, for another GPU; PTX too new
    **dict.fromkeys((700, 714, 715, 716, 717, 718, 719), _REPORT),  # what kernels do wrong
    702: "the driver stops kernels that take seconds where a GPU drives a display: smaller mini-batches",
    801: "this GPU cannot start all blocks of a kernel together, as under some virtual machines: "
    "--scheme batch",
}

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemAllocHost_v2": (POINTER(c_void_p), c_size_t),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemsetD32Async": (c_uint64, c_uint, c_size_t, c_void_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
    "cuLaunchCooperativeKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p),
}


class CudaError(AbwError):
    """A function of the driver failed; `status` is what it returned."""

    def __init__(self, function: str, status: int, said: str) -> None:
        hint = _HINTS.get(status, "`abw doctor` says what is here")
        super().__init__(f"{function} failed: {said} ({status})", hint=hint)
        self.status = status


class Driver:
    """The driver's functions as methods: `driver.cuMemFree_v2(pointer)`; a status that is not 0 is raised."""

    def __init__(self, library: Any) -> None:
        """`library`: what ctypes loaded, or anything with functions of these names."""
        self._library = library

    def __getattr__(self, name: str) -> Any:
        """A function that raises CudaError."""
        function = self._function(name)

        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                self.check(status, name)

        setattr(self, name, call)
        return call

    def done(self, query: str, handle: int | None) -> bool:
        """Whether a stream (`cuStreamQuery`) or an event (`cuEventQuery`) is through. Errors: CudaError."""
        status = self._function(query)(c_void_p(handle))
        if status == NOT_READY:
            return False
        self.check(status, query)
        return True

    def _function(self, name: str) -> Any:
        function = getattr(self._library, name)
        function.argtypes, function.restype = _FUNCTIONS[name], c_int
        return function

    def address(self, name: str) -> int:
        """Where a function begins, for compiled code."""
        return ctypes.cast(getattr(self._library, name), c_void_p).value or 0

    def check(self, status: int, function: str) -> None:
        """Raise CudaError for a status that is not 0."""
        if status == 0:
            return
        said = c_char_p()
        self._library.cuGetErrorString(c_int(status), ctypes.byref(said))
        raise CudaError(function, status, (said.value or b"unknown error").decode())


def load_driver() -> Driver | None:
    """The driver of this machine; None where none is installed. Nothing is initialised."""
    names = ["nvcuda.dll"] if sys.platform == "win32" else ["libcuda.so.1", "libcuda.so"]
    for name in names:
        try:
            return Driver(ctypes.CDLL(name))
        except OSError:
            continue
    return None
