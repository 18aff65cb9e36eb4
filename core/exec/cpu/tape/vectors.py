"""What a tape finds in long vectors, in LLVM IR: the largest element, and the best by log softmax."""

from __future__ import annotations

from collections.abc import Iterable

from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.rounds.best import Best, insert, likeliest
from abw.core.exec.cpu.rounds.choices import argmax
from abw.core.exec.cpu.rounds.state import StateFunction, Words
from abw.core.exec.cpu.tape.state import LANE, LARGEST, PLUS, STATUS
from abw.core.exec.cpu.target import Target


def compile_argmax(sizes: Iterable[int], target: Target) -> Code:
    """`argmax{size}(ptr %state, ptr %x)` for each size: the word LARGEST becomes the number of x's largest
    element, the first of equals; STATUS becomes FAILED where one is not a number.
    """
    module = Module(target)
    for size in sizes:
        f = StateFunction(module, f"argmax{size}", _words(), ", ptr %x")
        f.set("largest", argmax(f, "%x", size))
        module.add(f)
    return compile_ir(module.text(), target)


def compile_best(size: int, width: int, target: Target) -> Code:
    """`best(ptr %state, ptr %x, ptr %totals, ptr %which, ptr %element)`: put the best elements of x among the
    `width` best of several vectors, sorted, the largest first, of equals those that came first.

    A score is the word PLUS and the logarithm of the element's share, as
    `abw.core.graph.growing.beam.log_shares` has it. With it go the word LANE and the element's number. STATUS
    becomes FAILED where an element is not a number.
    """
    module = Module(target)
    f = StateFunction(module, "best", _words(), ", ptr %x, ptr %totals, ptr %which, ptr %element")
    lane = f.get("lane")

    def enter(total: str, found: str) -> None:
        insert(f, "double", "%totals", width, total, [("%which", lane), ("%element", found)])

    likeliest(f, Best(f, size, width), "%x", f.item("double", "%state", PLUS), enter)
    module.add(f)
    return compile_ir(module.text(), target)


def _words() -> Words:
    words = Words()
    words.place.update(status=STATUS, largest=LARGEST, lane=LANE)
    return words
