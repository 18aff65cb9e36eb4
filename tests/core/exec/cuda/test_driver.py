"""Our declarations of the driver's functions beside NVIDIA's header, and the arguments we give them."""

from __future__ import annotations

import ctypes
import re
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

from abw.core.exec.cuda.driver.driver import _FUNCTIONS, CudaError, Driver
from abw.core.exec.cuda.driver.toolkit import Toolkit
from tests.core.exec.cuda.fakedriver import FakeLibrary

# Of those with a newer version, which drivers before it do not have: libraries keep what they once had.
STILL_THERE = {"cuEventElapsedTime"}
POINTERS = {"CUcontext", "CUstream", "CUevent", "CUmodule", "CUfunction"}
SCALARS: dict[str, Any] = {
    "int": c_int,
    "unsigned int": c_uint,
    "size_t": c_size_t,
    "float": c_float,
    "CUdevice": c_int,
    "CUdeviceptr": c_uint64,
    "CUresult": c_int,
    "CUdevice_attribute": c_int,
    "CUfunction_attribute": c_int,
}


def declared(text: str) -> Any:
    """The ctypes type of a parameter as the header writes it."""
    words = re.sub(r"\bconst\b", "", re.sub(r"/\*.*?\*/", "", text))
    stars = words.count("*")
    kind = " ".join(words.replace("*", " ").split()[:-1])
    if kind == "char":
        return (c_char_p, POINTER(c_char_p))[stars - 1]
    if kind == "void":
        return (c_void_p, POINTER(c_void_p))[stars - 1]
    base = c_void_p if kind in POINTERS else SCALARS[kind]
    return POINTER(base) if stars else base


def test_functions_are_those_of_the_header(toolkit: Toolkit) -> None:
    headers = [
        parent / "include" / "cuda.h"
        for parent in toolkit.nvvm.parents
        if (parent / "include" / "cuda.h").is_file()
    ]
    if not headers:
        pytest.skip("needs the driver's header cuda.h, which this toolkit comes without")
    text = headers[0].read_text()
    # the name in the library has the version that the header's macro adds
    for name, ours in _FUNCTIONS.items():
        plain = name.removesuffix("_v2")
        newer = re.search(rf"#define {plain} .*\b({plain}_v\d)\b", text)
        assert name == (newer[1] if newer and plain not in STILL_THERE else plain)
        found = re.search(rf"CUresult CUDAAPI {plain}\((.*?)\);", text, re.DOTALL)
        assert found, name
        theirs = [declared(part) for part in found[1].split(",")]
        assert len(theirs) == len(ours), name
        for mine, their in zip(ours, theirs, strict=True):
            # an array of pointers, or a pointer to bytes, may be any address
            if mine is c_void_p and their in (POINTER(c_void_p), c_void_p):
                continue
            if mine is c_char_p and their is c_void_p:
                continue
            assert mine is their, (name, mine, their)


def test_a_status_that_is_not_0_is_raised_with_what_it_means() -> None:
    driver = Driver(FakeLibrary())
    with pytest.raises(CudaError, match=r"cuDeviceGet failed: \? \(101\)"):
        driver.cuDeviceGet(ctypes.byref(c_int()), 3)
    driver.check(0, "cuInit")
    with pytest.raises(CudaError, match=r"cuInit failed: out of memory \(2\)") as caught:
        driver.check(2, "cuInit")
    assert caught.value.status == 2
    assert "abw doctor" in caught.value.hint
