"""The report of `abw doctor`: what of this machine abw can use."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from abw.core.base.errors import install
from abw.core.base.parallel import usable_cores
from abw.core.exec.cuda.available import Finding, inspect


def examine() -> list[Finding]:
    """Look at the interpreter, the packages, the processor, BLAS, the GPU, its compiler and Graphviz."""
    python = f"{platform.python_version()} on {platform.platform()}"
    packages = ("abw", "numpy", "numba", "llvmlite", "pyyaml", "typer", "rich", "graphviz")
    return [
        Finding("python", True, python),
        *map(_package, packages),
        _processor(),
        _blas(),
        _compiler_cache(),
        _kernels(),
        *inspect(),
        _graphviz(),
    ]


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "absent", install() if name == "abw" else f"pip install {name}")


def _processor() -> Finding:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    wide = [name for name in ("avx512f", "avx2", "fma", "neon") if features.get(name)]
    name = binding.get_host_cpu_name()
    return Finding("processor", True, f"{usable_cores()} cores, {name} ({', '.join(wide) or 'plain'})")


def _blas() -> Finding:
    import numpy as np  # noqa: F401  (loads its BLAS, which is what is looked for)
    from threadpoolctl import threadpool_info

    libraries = [i for i in threadpool_info() if i["user_api"] == "blas"]
    if not libraries:
        return Finding(
            "blas", False, "NumPy's library is not one whose threads can be set", "--threads has no effect"
        )
    b = libraries[0]
    return Finding("blas", True, f"{b['internal_api']} {b['version']}, {b['num_threads']} threads")


def _compiler_cache() -> Finding:
    from abw.core.jit import decorators

    folder = os.environ.get("NUMBA_CACHE_DIR") or os.path.dirname(decorators.__file__)  # noqa: PTH120
    kept = "between runs" if os.access(folder, os.W_OK) else "in the user's cache folder"
    return Finding("compiled code", True, f"kept {kept}")


def _kernels() -> Finding:
    from abw.core.exec.codecache import LIMIT, contents, kernels_folder

    folder = kernels_folder()
    kept = contents(folder)
    size = sum(k.size for k in kept) / 2**20
    there = next(place for place in (folder, *folder.parents) if place.exists())
    value = f"{folder}: {len(kept)} kept, {size:.1f} of at most {LIMIT // 2**20} MiB"
    if os.access(there, os.W_OK):
        return Finding("kernels", True, value, "may be deleted at any time")
    return Finding("kernels", False, f"{folder} cannot be written", "compiled anew each time; set ABW_HOME")


def _graphviz() -> Finding:
    dot = shutil.which("dot")
    if not dot:
        hint = "optional; for DOT pictures: apt install graphviz, brew install graphviz, or from graphviz.org"
        return Finding("dot", False, "Graphviz's program `dot` is not on the PATH", hint)
    shown = subprocess.run([dot, "-V"], capture_output=True, text=True, check=False)
    return Finding("dot", True, (shown.stderr or shown.stdout).strip())
