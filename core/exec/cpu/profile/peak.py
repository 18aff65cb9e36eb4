"""The most that one core can compute: multiply-adds on registers alone."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module, splat
from abw.core.exec.cpu.target import TargetName, get_target

# Sums that do not wait for each other: more than a processor has multiply-adds under way.
CHAINS = 12
TURNS = 40_000


def peak_meter(name: TargetName | None = None) -> Callable[[], float]:
    """A function that measures once (some 0.3 ms): floating-point operations a second, by thread CPU time.

    `name`: of the target whose vectors count; None: the best that the machine has.
    """
    target = get_target(name)
    module = Module(target)
    f = Function(module, "peak", "ptr %out", public=True)
    factor = f.load("%out")
    sums = [(target.vector, splat(float(chain))) for chain in range(CHAINS)]
    totals = f.loop(TURNS, lambda _, held: [f.fma(factor, factor, h) for h in held], sums)
    for chain, value in enumerate(totals):
        f.store(value, "%out", 4 * target.lanes * chain)
    module.add(f)
    code = compile_ir(module.text(), target)
    memory = (ctypes.c_float * (CHAINS * target.lanes))()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("peak"))

    def measure() -> float:
        assert code  # the machine code lives as long as this function
        start = time.thread_time()
        call(ctypes.addressof(memory))
        return 2.0 * target.lanes * CHAINS * TURNS / (time.thread_time() - start)

    return measure
