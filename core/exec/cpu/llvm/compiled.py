"""IR to machine code, kept on disk under what it was made of."""

from __future__ import annotations

from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from abw.core.base.interrupts import finished_before_interrupt
from abw.core.base.progress import compiling
from abw.core.exec.codecache import cache_path, read_cache, write_cache
from abw.core.exec.cpu.target import Target

# how much LLVM's code generator optimises, 0 to 3
LEVEL = 2


class Code:
    """Machine code in memory, there as long as this object is."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        """`engine` holds it."""
        self._engine = engine

    def address(self, name: str) -> int:
        """Where a function begins."""
        return int(self._engine.get_function_address(name))


def compile_ir(text: str, target: Target, folder: Path | None = None) -> Code:
    """The code of a module, from `folder` (default: `kernels_folder()`) where it was compiled before.

    A file that is damaged is replaced; where the folder cannot be written the code is compiled each time.
    Cost: some 0.2 s, from a file 3 ms.
    """
    made_by = [llvmlite.__version__, str(llvm.llvm_version_info), str(LEVEL), target.cpu, target.features]
    key = "\n".join([*made_by, text])
    path = cache_path(key, ".o", folder)
    with finished_before_interrupt(), compiling():  # amid it, LLVM's objects would be freed twice
        code = read_cache(path)
        if code is None:
            code = _compile(text, target)
            write_cache(path, code)
        return _load(code, target)


def _machine(target: Target) -> llvm.TargetMachine:
    triple = llvm.Target.from_default_triple()
    return triple.create_target_machine(
        cpu=target.cpu, features=target.features, opt=LEVEL, codemodel="jitdefault", jit=True
    )


def _compile(text: str, target: Target) -> bytes:
    # the IR is in its final form: LLVM's passes would cost more than they bring
    return bytes(_machine(target).emit_object(llvm.parse_assembly(text)))


def _load(code: bytes, target: Target) -> Code:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(target))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Code(engine)
