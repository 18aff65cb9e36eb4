"""Measure the rate at which a core reads weights, and the least time that a plan's products take."""

from __future__ import annotations

import ctypes
import time

import numpy as np

from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module, splat
from abw.core.exec.cpu.target import get_target
from abw.core.exec.memory import on_huge_pages
from abw.core.jit.pointers import address
from abw.core.plan.plan import Plan
from abw.core.run.observing.footprint import packed_bytes

# Vectors read in a turn, each added to a sum of its own: the sums do not wait for each other.
CHAINS = 8
TRIES, ENOUGH = 9, 1 << 24


def read_seconds(size: int) -> float:
    """Time reading `size` bytes that were just read: the best of TRIES, in seconds of CPU time.

    They are on huge pages, like large weights, where the system has such. Cost: some 20 ms.
    """
    target = get_target()
    step = 4 * target.lanes * CHAINS
    module = Module(target)
    f = Function(module, "read", "ptr %values, i64 %turns, i64 %times, ptr %out", public=True)

    def turn(index: str, held: list[str]) -> list[str]:
        here = f.at("%values", f.i64("mul", index, step))
        return [f.vec("fadd", h, f.load(here, 4 * target.lanes * c)) for c, h in enumerate(held)]

    def whole(_: str, held: list[str]) -> list[str]:
        return f.loop("%turns", turn, [(target.vector, h) for h in held])

    totals = f.loop("%times", whole, [(target.vector, splat(0.0))] * CHAINS)
    for chain, total in enumerate(totals):
        f.store(total, "%out", 4 * target.lanes * chain)
    module.add(f)
    code = compile_ir(module.text(), target)
    turns = -(-size // step)
    values, out = on_huge_pages(turns * step // 4), on_huge_pages(step // 4)
    values[:] = 0.0
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    read = ctypes.CFUNCTYPE(None, pointer, number, number, pointer)(code.address("read"))
    times = 1 + ENOUGH // size  # so that a call from Python is nothing
    best = float("inf")
    for _ in range(TRIES):
        start = time.thread_time()
        read(address(values), turns, times, address(out))
        best = min(best, (time.thread_time() - start) / times)
    return best


def least_seconds(planned: Plan, peak: float) -> float:
    """Return the least seconds that a thread needs for a plan's products at a `peak` in operations a second.

    Each batch takes its arithmetic at the peak, or, where that takes longer, the reading of its type's
    weights at the rate at which the weights of all types together are read again.
    """
    network, schedule = planned.graph.network, planned.schedule
    packed = packed_bytes(network)
    rate = sum(packed.values()) / read_seconds(sum(packed.values()))
    lanes = np.diff(schedule.ptr)
    weights = np.array([packed.get(t, 0) for t in range(len(network.types))])[schedule.type]
    return float(np.maximum(lanes * planned.arenas.product_flops[schedule.type] / peak, weights / rate).sum())
