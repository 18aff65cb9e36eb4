"""IR to machine code, kept on disk under what it was made of."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from abw.core.exec.cpu.target import Target

MAGIC = b"abw1"
"""Begins every file of machine code; a digest of the rest follows."""


class Code:
    """Machine code in memory, there as long as this object is."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        """`engine` holds it."""
        self._engine = engine

    def address(self, name: str) -> int:
        """Where a function begins."""
        return int(self._engine.get_function_address(name))


def kernels_folder() -> Path:
    """Where machine code is kept: under ABW_HOME if that is set, else with the user's caches.

    Not in the `.abw` of a project: the code is the machine's, and every project's.
    """
    if home := os.environ.get("ABW_HOME"):
        return Path(home) / "kernels"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "abw" / "kernels"


def compile_ir(text: str, target: Target, folder: Path | None = None) -> Code:
    """The code of a module, from `folder` (default: `kernels_folder()`) where it was compiled before.

    A file that is damaged is replaced; where the folder cannot be written the code is compiled each time.
    Cost: some 0.2 s, from a file 3 ms.
    """
    key = "\n".join([llvmlite.__version__, str(llvm.llvm_version_info), target.cpu, target.features, text])
    path = (folder or kernels_folder()) / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.o"
    code = _read(path)
    if code is None:
        code = _compile(text, target)
        _write(path, code)
    return _load(code, target)


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    code = content[len(MAGIC) + 32 :]
    return code if content == MAGIC + hashlib.sha256(code).digest() + code else None


def _write(path: Path, code: bytes) -> None:
    """Beside its place, then renamed: another process sees the whole file or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".draft-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(code).digest() + code)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return  # code that cannot be kept is no less good


def _machine(target: Target) -> llvm.TargetMachine:
    triple = llvm.Target.from_default_triple()
    return triple.create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, codemodel="jitdefault", jit=True
    )


def _compile(text: str, target: Target) -> bytes:
    # the IR is in its final form: LLVM's passes would cost more than they bring
    return bytes(_machine(target).emit_object(llvm.parse_assembly(text)))


def _load(code: bytes, target: Target) -> Code:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(target))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Code(engine)
