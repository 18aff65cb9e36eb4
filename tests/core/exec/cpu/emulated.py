"""The kernels for AArch64: compiled from the same IR, linked by a cross compiler, run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm

from abw.core.exec.cpu.target import AARCH64
from tests.core.exec.cpu.outside import Program

TRIPLE = "aarch64-linux-gnu"
COMPILER, EMULATOR = f"{TRIPLE}-gcc", "qemu-aarch64"
MISSING = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]


def machine() -> llvm.TargetMachine:
    """The other processor, code for it as `compiled.py` makes it for this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=AARCH64.cpu, features=AARCH64.features, opt=2, codemodel="jitdefault", jit=True
    )


class Emulated(Program):
    """A program for the other processor."""

    def __init__(self, folder: Path) -> None:
        super().__init__(AARCH64, folder)

    def link(self, text: str) -> None:
        """Compile for the other processor."""
        (self.folder / "kernels.o").write_bytes(machine().emit_object(llvm.parse_assembly(text)))
        command = [COMPILER, "-static", "-o", "work", "driver.c", "kernels.o"]
        subprocess.run(command, cwd=self.folder, check=True)

    def start(self) -> list[str]:
        """By the emulator."""
        return [EMULATOR, "./work"]
