"""What a GPU's launches, barriers and arithmetic cost: measured once and kept, or as published for one."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abw.core.base.files import replacing
from abw.core.exec.codecache import kernels_folder
from abw.core.exec.cuda.backend import Scheme
from abw.core.exec.cuda.measure.floor import PUBLISHED, Limits

if TYPE_CHECKING:
    from abw.core.exec.cuda.driver.device import Traits

# By so much are products slower in the plan's kernel, which has as many registers as its greediest step
# (computed).
CROWDED = 0.1


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
