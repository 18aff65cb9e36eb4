"""Where NVIDIA's compiler lies: NVVM turns numba's IR into PTX, ptxas turns PTX into machine code.

Neither needs a GPU or a driver. Both come as wheels (the extra `cuda` pins them) or with a CUDA toolkit.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError, install

# The releases of the compiler and the assembler that the extra `cuda` installs.
PINNED = ("13.0", "13.0")
_RELEASE = re.compile(rb"Cuda compilation tools, release (\d+\.\d+)")
HINT = f"set CUDA_HOME to a CUDA toolkit, or {install('cuda')}"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The files of one installation. `ptxas` is None where only the compiler to PTX is there."""

    nvvm: Path
    libdevice: Path
    ptxas: Path | None

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases of the compiler and the assembler, as 13.0: the same wherever they lie."""
        return tuple(_release(path) for path in (self.nvvm, self.ptxas) if path)


def find_toolkit() -> Toolkit | None:
    """The first of: CUDA_HOME, NVIDIA's wheels beside this interpreter's packages, /usr/local/cuda."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    wheels = [f"{folder}/nvidia/{part}" for folder in sys.path for part in ("cu13", "cuda_nvcc")]
    for root in map(Path, [*named, *wheels, "/usr/local/cuda"]):
        nvvm = _first(root, "nvvm/lib64/libnvvm.so*", "lib64/libnvvm.so*", "lib/libnvvm.so*")
        libdevice = _first(root, "nvvm/libdevice/libdevice*.bc")
        if nvvm and libdevice:
            return Toolkit(nvvm, libdevice, _first(root, "bin/ptxas"))
    return None


def need_toolkit() -> Toolkit:
    """The toolkit, made the one that numba uses. Errors: AbwError where there is none."""
    toolkit = find_toolkit()
    if toolkit is None:
        raise AbwError("NVIDIA's compiler library NVVM is not here", hint=HINT)
    cuda_paths: Any = import_module("numba.cuda.cuda_paths")
    # numba looks in fewer places; it keeps what it found, in this attribute
    found = cuda_paths.get_cuda_paths
    if not hasattr(found, "_cached_result"):
        entry = cuda_paths._env_path_tuple
        paths = dict(found())
        paths["nvvm"] = entry("abw", str(toolkit.nvvm))
        paths["libdevice"] = entry("abw", str(toolkit.libdevice))
        found._cached_result = paths
    return toolkit


@cache
def _release(path: Path) -> str:
    """What the file says of itself; else its size stands for it. Cost: 10 ms, once."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = _RELEASE.search(content)
        return found[1].decode() if found else f"{len(content)} bytes"


def _first(root: Path, *patterns: str) -> Path | None:
    return next((path for pattern in patterns for path in sorted(root.glob(pattern))), None)
