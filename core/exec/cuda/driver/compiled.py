"""A kernel to PTX and machine code, with no GPU and no driver, kept on disk under what it was made of."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from inspect import signature as parameters_of
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from abw.core.base.errors import AbwError, install
from abw.core.exec.codecache import cache_path, read_cache, write_cache
from abw.core.exec.cuda.driver.toolkit import PINNED, find_toolkit, need_toolkit

# The compute capability of H100 and H200, for which kernels are checked where there is no GPU.
SM_90 = (9, 0)

# What PTX is made for: the last one that a GPU is no older than. Newer GPUs take PTX of older ones.
TARGETS = ((7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0))

# Of the files with machine code.
SUFFIX = ".cubin"

# Threads of a block that an SM has registers for, whatever their kernel takes.
ALWAYS_FIT = 256

_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
# Shared arrays: numba aligns them to an element, but they are read 16 bytes at a time.
_ALIGNED = re.compile(r"(\.shared \.align) [1248] ")
_UNKNOWN = re.compile(r"Value 'sm_\d+' is not defined for option 'gpu-name'")
_USED = re.compile(r"Used (\d+) registers")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas says of a kernel: registers a thread; bytes of stack, spills (a thread), shared memory."""

    registers: int
    stack: int
    spills: int
    shared: int


@dataclass(frozen=True, slots=True)
class KernelImage:
    """What a driver loads: `code`, PTX text or machine code, with the kernel's name in it.

    `resources` are None where there is no ptxas that knows the GPU: then the driver compiles the PTX.
    """

    entry: str
    code: bytes
    resources: Resources | None


def compile_image(
    function: Callable[..., Any], signature: Any, threads: int, text: str, arch: tuple[int, int] = SM_90
) -> KernelImage:
    """The image of a kernel, from disk where it was compiled before.

    `text`: what the function was made of, all that it depends on outside this package: names it on disk,
    with the releases of the compilers, wherever they lie: code can be made on another machine, also for one
    that has none, by those of the extra `cuda`.
    `signature`: numba's types of the arguments. `threads`: the most a block has; registers are limited for
    them. Cost: 0.3 to 12 s, from disk under a millisecond. Errors: AbwError.
    """
    toolkit = find_toolkit()
    parts = [
        _own_text(),
        *(toolkit.releases if toolkit else PINNED),
        str(signature),
        str(threads),
        str(arch),
        text,
    ]
    path = cache_path(
        "\n".join([function.__name__, *parts]), SUFFIX if not toolkit or toolkit.ptxas else ".ptx"
    )
    kept = read_cache(path)
    if kept is not None:
        head, _, code = kept.partition(b"\n")
        entry, resources = json.loads(head)
        return KernelImage(entry, code, resources and Resources(**resources))
    toolkit = need_toolkit()
    ptx = compile_ptx(function, signature, threads, arch)
    image = assemble(ptx, arch) if toolkit.ptxas else KernelImage(entry_of(ptx), ptx.encode() + b"\0", None)
    head = json.dumps([image.entry, image.resources and asdict(image.resources)]).encode()
    write_cache(path, head + b"\n" + image.code)
    return image


def compile_ptx(
    function: Callable[..., Any], signature: Any, threads: int, arch: tuple[int, int] = SM_90
) -> str:
    """A kernel's PTX, for blocks of at most `threads` threads. Errors: AbwError without NVVM, or where it
    refuses."""
    need_toolkit()
    cuda: Any = import_module("numba.cuda")
    refused: Any = import_module("numba.cuda.cudadrv.error").NvvmError
    with _no_device(arch):
        plain = getattr(function, "py_func", function)
        try:
            ptx, _ = cuda.compile_ptx(plain, signature, fastmath=True, cc=arch)
        except refused as error:
            raise AbwError(
                f"NVVM refuses a kernel for compute capability {arch[0]}.{arch[1]}: {error}",
                hint="CUDA 13 supports 7.5 and newer: set CUDA_HOME to a toolkit of CUDA 12",
            ) from None
    head, brace, body = _ALIGNED.sub(r"\1 16 ", str(ptx)).partition("\n{")
    # with 255 registers a thread, the most there are, a larger block cannot be launched; where there is no
    # need to say so it is left out, as ptxas then spills registers to make room for more blocks
    limit = f"\n.maxntid {threads}, 1, 1" if threads > ALWAYS_FIT else ""
    return head + limit + brace + body


def assemble(ptx: str, arch: tuple[int, int] = SM_90) -> KernelImage:
    """Machine code from PTX, with what it takes; the PTX itself for a GPU that ptxas is too old for, but not
    its driver. Errors: AbwError without ptxas, or where it refuses."""
    toolkit = need_toolkit()
    if toolkit.ptxas is None:
        raise AbwError("NVIDIA's assembler ptxas is not here", hint=install("cuda"))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [
            str(toolkit.ptxas),
            "-v",
            "-O3",
            f"-arch=sm_{arch[0]}{arch[1]}",
            str(source),
            "-o",
            str(target),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if _UNKNOWN.search(said):
            return KernelImage(entry_of(ptx), ptx.encode() + b"\0", None)
        if done.returncode:
            raise AbwError(f"ptxas refuses a kernel: {said.strip()[:2000]}", hint="this is a defect of abw")
        return KernelImage(entry_of(ptx), target.read_bytes(), _resources(said))


def entry_of(ptx: str) -> str:
    """The name of the kernel in PTX text."""
    entries = _ENTRY.findall(ptx)
    if len(entries) != 1:
        raise ValueError(f"{len(entries)} kernels in the text, not one")
    return str(entries[0])


def _resources(said: str) -> Resources:
    used, frames, shared = _USED.findall(said), _FRAME.findall(said), _SHARED.findall(said)
    if not used or not frames:
        raise AbwError(f"ptxas does not report registers: {said[:500]}", hint="another version of ptxas?")
    # functions that were not inlined have a line each
    stack = sum(int(frame[0]) for frame in frames)
    spills = sum(int(frame[1]) + int(frame[2]) for frame in frames)
    return Resources(max(map(int, used)), stack, spills, max(map(int, shared), default=0))


@contextmanager
def _no_device(arch: tuple[int, int]) -> Iterator[None]:
    """Let numba compile device functions, for which it would ask the driver what the device can do.

    Nor is the CUDA runtime asked what the compiler can do: it may not be there. And let everything be
    inlined: NVVM leaves large functions apart, and their results on a stack.
    """
    compiler: Any = import_module("numba.cuda.compiler")
    dispatcher: Any = import_module("numba.cuda.dispatcher")
    nvvm: Any = import_module("numba.cuda.cudadrv.nvvm")
    closest = getattr(nvvm, "find_closest_arch", None)  # numba-cuda has none, and asks NVRTC
    asked, compiled = dispatcher.get_current_device, compiler.compile_cuda
    option = "forceinline" if "forceinline" in parameters_of(compiled).parameters else "inline"

    def inlined(*args: Any, **options: Any) -> Any:
        return compiled(*args, **{**options, option: True})

    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=arch, id=0)
    compiler.compile_cuda = dispatcher.compile_cuda = inlined
    nvvm.find_closest_arch = lambda wanted: max(target for target in TARGETS if target <= wanted)
    try:
        yield
    finally:
        dispatcher.get_current_device = asked
        compiler.compile_cuda = dispatcher.compile_cuda = compiled
        nvvm.find_closest_arch = closest


@cache
def _own_text() -> str:
    """The text of the executor and the versions of the compilers: what every kernel depends on."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    return "\n".join([version("numba"), version("llvmlite"), *texts])
