"""The kernels for AArch64: compiled from the same IR, linked by a cross compiler, run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock, patch

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu import executor
from abw.core.exec.cpu.executor import _PLAN, _SCHEDULE, CpuExecutor
from abw.core.exec.cpu.llvm.walker import OF_ARENAS, OF_EXECUTOR
from abw.core.exec.cpu.target import AARCH64
from abw.core.exec.params import Params
from abw.core.ir.network import Network
from abw.core.plan.plan import Plan

TRIPLE = "aarch64-linux-gnu"
COMPILER, EMULATOR = f"{TRIPLE}-gcc", "qemu-aarch64"
MISSING = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]

DRIVER = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
%(declared)s
static void *kernels[] = {%(kernels)s};
void walk(void *, void *, int64_t, int64_t, int64_t, int64_t, void *, void *);
static int64_t head[6]; /* words to relocate, bytes, launches; where the table and scratch begin */
static char *data;
static int64_t arrived;
static void *part(void *number) {
  int64_t i = (int64_t)number;
  walk(data + head[3], data + head[4 + i], 0, head[2], i, 2, 0, &arrived);
  return 0;
}
int main(int count, char **names) {
  pthread_t other;
  FILE *file = fopen(names[1], "rb");
  if (fread(head, 8, 6, file) != 6) return 2;
  int64_t (*moves)[3] = malloc(24 * head[0] + 1);
  data = aligned_alloc(64, head[1]);
  if (fread(moves, 24, head[0], file) != head[0] || fread(data, 1, head[1], file) != head[1]) return 3;
  for (int64_t i = 0; i < head[0]; i++)
    *(void **)(data + moves[i][0]) = moves[i][2] ? kernels[moves[i][1]] : data + moves[i][1];
  if (pthread_create(&other, 0, part, (void *)1)) return 4;
  part(0);
  pthread_join(other, 0);
  file = fopen(names[2], "wb");
  return fwrite(data, 1, head[1], file) != head[1] || fclose(file);
}
"""


def machine() -> llvm.TargetMachine:
    """The other processor, code for it as `compiled.py` makes it for this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=AARCH64.cpu, features=AARCH64.features, opt=2, codemodel="jitdefault", jit=True
    )


class EmulatedExecutor(CpuExecutor):
    """The executor cpu with its walker and kernels in a process of another processor.

    Its memory goes there as one block, in which addresses are relocated, and comes back after the walk, in
    which two threads share each launch.
    """

    def __init__(self, folder: Path) -> None:
        """Files are written to `folder`."""
        super().__init__("plain")
        self._target, self._folder = AARCH64, folder

    def prepare(self, network: Network, params: Params, threads: int | None = 1) -> None:
        """Compile and link for the other processor."""
        with patch.object(executor, "compile_ir", lambda *_: Mock(address=lambda _: 0)):
            super().prepare(network, params, threads)
        text, names, _ = self._emit()
        (self._folder / "kernels.o").write_bytes(machine().emit_object(llvm.parse_assembly(text)))
        driver = DRIVER % {
            "declared": "".join(f"void {name}();\n" for name in dict.fromkeys(names)),
            "kernels": ", ".join(names),
        }
        (self._folder / "driver.c").write_text(driver)
        command = [COMPILER, "-static", "-o", "walk", "driver.c", "kernels.o"]
        subprocess.run(command, cwd=self._folder, check=True)

    def _alone(self, plan: Plan, first: int, last: int) -> None:
        block = bytearray()

        def put(array: NDArray[np.generic]) -> int:
            block.extend(bytes(-len(block) % 64))
            begin = len(block)
            block.extend(array.tobytes())
            block.extend(bytes(64))
            return begin

        moves: list[tuple[int, int, int]] = []
        arenas = [put(memory) for memory in self._memory.memory]
        arrays = [*_SCHEDULE(plan.schedule), *_PLAN(plan), *(getattr(self._arenas, n) for n in OF_ARENAS)]
        places = [put(array) for array in arrays]
        for name in OF_EXECUTOR:
            places.append(put(self._own[name]))
            pointed = {"arena": arenas, "constants": [put(c) for c in self._constants]}.get(name, [])
            if name == "kernel":
                pointed = list(range(len(self._own[name])))
            moves += [(places[-1] + 8 * i, target, name == "kernel") for i, target in enumerate(pointed)]
        table, *scratch = put(self._table), put(self._scratch[0]), put(self._scratch[0])
        moves += [(table + 8 * i, place, 0) for i, place in enumerate(places)]
        block.extend(bytes(-len(block) % 64))
        head = [len(moves), len(block), len(plan.launch_ptr) - 1, table, *scratch]
        words = np.array([*head, *(word for move in moves for word in move)], np.int64)
        (self._folder / "before").write_bytes(words.tobytes() + block)
        subprocess.run([EMULATOR, "./walk", "before", "after"], cwd=self._folder, check=True)
        after = (self._folder / "after").read_bytes()
        for memory, begin in zip(self._memory.memory, arenas, strict=True):
            memory[:] = np.frombuffer(after, memory.dtype, memory.size, begin)
