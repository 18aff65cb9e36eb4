"""What a GPU's launches, barriers and arithmetic cost, measured once and kept, or as published for one; and
the least time that a plan can take: arithmetic, bytes, and that batches follow each other.

The floor of a run is the sum over its batches of the longer of two times, its arithmetic at the float32
peak and its bytes at the memory's bandwidth, and one barrier a batch. Bytes are the rows of values and
tables that a batch reads, each once, and those that it writes; weights are left out, as they may stay on
the chip from batch to batch. (The roofline of Williams, Waterman and Patterson, CACM 2009, batch by batch.)
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abw.core.base.files import replacing
from abw.core.exec.codecache import kernels_folder
from abw.core.exec.cuda.backend import Scheme
from abw.core.plan.plan import Plan

if TYPE_CHECKING:
    from abw.core.exec.cuda.driver.device import Traits

Floats = NDArray[np.float64]

# By so much are products slower in the plan's kernel, which has as many registers as its greediest step
# (computed).
CROWDED = 0.1


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
class Times:
    """The seconds of a scheme: so many a `step` (an item's launch, or a phase) and an operation (`flop`)."""

    step: float
    flop: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What is known of a GPU; `path` is where it is kept, None for what was published.

    `batch`, `plan`: the schemes' times, fitted to runs; None where there were none: then they are launches
    and barriers, and products at the peak.
    """

    limits: Limits = PUBLISHED
    batch: Times | None = None
    plan: Times | None = None
    path: Path | None = None

    def choose(self, items: int, phases: int, product_flops: int) -> Scheme:
        """The scheme that is faster."""
        batch = self.batch or Times(self.limits.launch, 1 / self.limits.flops)
        plan = self.plan or Times(self.limits.barrier, (1 + CROWDED) / self.limits.flops)
        a, b = batch.step * items + batch.flop * product_flops, plan.step * phases + plan.flop * product_flops
        return "batch" if a < b else "plan"


UNMEASURED = Costs()


def costs_of(traits: Traits) -> Costs:
    """What was measured on a GPU of this kind, else what was published."""
    path = _path(traits)
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_bytes())
        limits = Limits(**{name: float(kept[name]) for name in asdict(PUBLISHED)})
        batch, plan = (Times(**kept[scheme]) if kept[scheme] else None for scheme in ("batch", "plan"))
        if min(asdict(limits).values()) > 0:
            return Costs(limits, batch, plan, path)
    return UNMEASURED


def keep_costs(
    traits: Traits, limits: Limits, batch: Times | None = None, plan: Times | None = None
) -> Costs:
    """Keep what was measured on a GPU; times that were fitted before stay where none are given.

    Errors: OSError where the folder cannot be written.
    """
    before = costs_of(traits)
    costs = Costs(limits, batch or before.batch, plan or before.plan, _path(traits))
    times = {scheme: getattr(costs, scheme) for scheme in ("batch", "plan")}
    document = {
        "gpu": traits.name,
        **asdict(limits),
        **{scheme: found and asdict(found) for scheme, found in times.items()},
    }
    with replacing(_path(traits)) as file:
        file.write((json.dumps(document, indent=1) + "\n").encode())
    return costs


def _path(traits: Traits) -> Path:
    """Beside the kernels: GPUs of one name differ in processors where they are shared out."""
    name = re.sub(r"[^a-z0-9]+", "-", traits.name.lower()).strip("-")
    return kernels_folder().parent / "gpus" / f"{name}-{traits.processors}.json"


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
