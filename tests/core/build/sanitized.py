"""Builds libraries of which AddressSanitizer watches loops and kernels: `python -m …sanitized FOLDER SPEC…`.

numba makes no vectors in this process: clang does not know all vector operations of numba's LLVM.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import llvmlite.binding as llvm

from abw.core.build import machine
from abw.core.exec.cpu.target import Target
from tests.core.build.library import loaded
from tests.core.exec.cpu.sanitized import CLANG

# For the process: numba's machine code of this kind is kept apart.
ENVIRONMENT = {
    "NUMBA_LOOP_VECTORIZE": "0",
    "NUMBA_SLP_VECTORIZE": "0",
    "CC": f"{CLANG} -fsanitize=address -shared-libasan",
}


def watched(folder: Path, module: llvm.ModuleRef, target: Target) -> bytes:
    """A module's object file, with every access to memory checked."""
    text = re.sub(r"(?m)^(define .*)\{$", r"\1sanitize_address {", str(module))
    # words of the IR that this compiler does not know yet, and that change no meaning
    text = re.sub(r" ((?:captures|memory)\([^)]*\)|samesign|nusw|nocreateundeforpoison)(?=[ ,)])", "", text)
    text = re.sub(r"(?m)^.*@llvm\.lifetime\..*$", "", text)  # which have other arguments there
    # to this compiler the alignment of masked loads and stores is an argument
    masked = r"@llvm\.masked\.[\w.]+\([^\n]*?\bptr>?"
    text = re.sub(rf"(call [^@\n]*{masked}) align (\d+)( [^,\n]+),", r"\1\3, i32 \2,", text)
    text = re.sub(rf"(declare [^@\n]*{masked}[^,\n]*),", r"\1, i32 immarg,", text)
    (folder / "loops.ll").write_text(text)
    command = [
        CLANG,
        "-O1",
        "-fPIC",
        f"-march={target.cpu}",
        "-fsanitize=address",
        "-c",
        "loops.ll",
        "-o",
        "loops.o",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / "loops.o").read_bytes()


def main() -> None:
    """Build the library of each spec."""
    folder = Path(sys.argv[1])
    vars(machine)["emitted"] = partial(watched, folder)
    for spec in sys.argv[2:]:
        loaded(spec).build(folder / f"{spec}.so", target="plain")


if __name__ == "__main__":
    main()
