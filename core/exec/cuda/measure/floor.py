"""The least time that a plan can take on a GPU: arithmetic, bytes, and that batches follow each other.

The floor of a run is the sum over its batches of the longer of two times, its arithmetic at the float32
peak and its bytes at the memory's bandwidth, and one barrier a batch. Bytes are the rows of values and
tables that a batch reads, each once, and those that it writes; weights are left out, as they may stay on
the chip from batch to batch. (The roofline of Williams, Waterman and Patterson, CACM 2009, batch by batch.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.plan.plan import Plan

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a GPU can do at best: float32 operations and bytes a second; seconds of a barrier, of a launch."""

    flops: float
    bytes_per_second: float
    barrier: float
    launch: float

    def said(self) -> str:
        """For people."""
        return (
            f"{self.flops / 1e12:.1f} TFLOP/s in float32, {self.bytes_per_second / 1e12:.2f} TB/s, "
            f"{self.barrier * 1e6:.2f} us a barrier of all SMs, {self.launch * 1e6:.2f} us a launch"
        )


# Where nothing was measured: an H200 by its clock and data sheet, a barrier as computed from the latency of
# its L2 cache, a launch as published for H100.
PUBLISHED = Limits(flops=61.8e12, bytes_per_second=4.3e12, barrier=1.3e-6, launch=2.1e-6)


@dataclass(frozen=True, slots=True)
class Demand:
    """What each of B batches asks for, (B,) each: floating-point operations, bytes read and written."""

    flops: Floats
    bytes: Floats


def floor(plan: Plan, limits: Limits) -> float:
    """Seconds below which no execution of these batches, one after the other, can go."""
    asked = demand(plan)
    arithmetic, transfer = asked.flops / limits.flops, asked.bytes / limits.bytes_per_second
    return float(np.maximum(arithmetic, transfer).sum() + limits.barrier * len(plan.schedule))


def demand(plan: Plan) -> Demand:
    """Count what every batch computes, reads and writes. Cost: sorts every operand's rows."""
    arenas, schedule = plan.arenas, plan.schedule
    kinds, lanes = schedule.type, np.diff(schedule.ptr).astype(np.int64)
    flops = lanes * (arenas.product_flops[kinds] + arenas.other_flops[kinds])
    floats = lanes * arenas.value_floats[kinds]
    for b in range(len(schedule)):
        for k in range(plan.operand_ptr[b], plan.operand_ptr[b + 1]):
            slot = k - plan.operand_ptr[b]
            width = int(arenas.row_floats[arenas.slot_arena[kinds[b], slot]])
            rows = plan.index[plan.index_ptr[k] : plan.index_ptr[k + 1]]
            floats[b] += width * len(np.unique(rows))
            if plan.list_ptr[k] >= 0:  # each row but a list's first is added to what is there
                flops[b] += int(arenas.list_flops[kinds[b], slot]) * (len(rows) - lanes[b])
    return Demand(flops.astype(np.float64), 4 * floats.astype(np.float64))
