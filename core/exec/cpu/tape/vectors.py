"""What is found in long vectors in LLVM IR: the largest element, and the best by log softmax."""

from __future__ import annotations

from collections.abc import Iterable

from abw.core.exec.cpu.llvm.best import emit_argmax, emit_best
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.target import Target


def compile_argmax(sizes: Iterable[int], target: Target) -> Code:
    """Functions for each size: see `emit_argmax`."""
    module = Module(target)
    for size in sizes:
        emit_argmax(module, size)
    return compile_ir(module.text(), target)


def compile_best(size: int, width: int, target: Target) -> Code:
    """A function for vectors of a size: see `emit_best`."""
    module = Module(target)
    emit_best(module, size, width)
    return compile_ir(module.text(), target)
