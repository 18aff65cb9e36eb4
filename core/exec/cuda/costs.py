"""What a GPU's launches, barriers and arithmetic cost: measured once and kept, or as published for one."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abw.core.exec.cuda.backend import Scheme
from abw.core.exec.cuda.floor import PUBLISHED, Limits
from abw.core.exec.kept import kernels_folder, write_whole

if TYPE_CHECKING:
    from abw.core.exec.cuda.device import Traits

CROWDED = 0.1
"""By so much are products slower in the plan's kernel, which has as many registers as its greediest step
(computed)."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What is known of a GPU; `path` is where it is kept, None for what was published."""

    limits: Limits = PUBLISHED
    path: Path | None = None

    def choose(self, items: int, phases: int, product_flops: int) -> Scheme:
        """The scheme that is faster: launches against barriers, and the plan's one kernel against kernels
        that fit each step."""
        launches, barriers = self.limits.launch * items, self.limits.barrier * phases
        crowded = CROWDED * product_flops / self.limits.flops
        return "batch" if launches < barriers + crowded else "plan"


UNMEASURED = Costs()


def costs_of(traits: Traits) -> Costs:
    """What was measured on a GPU of this kind, else what was published."""
    path = _path(traits)
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_text())
        limits = Limits(**{name: float(kept[name]) for name in asdict(PUBLISHED)})
        if min(asdict(limits).values()) > 0:
            return Costs(limits, path)
    return UNMEASURED


def keep_costs(traits: Traits, limits: Limits) -> Costs:
    """Keep what was measured on a GPU. Errors: OSError where the folder cannot be written."""
    path = _path(traits)
    write_whole(path, (json.dumps({"gpu": traits.name, **asdict(limits)}, indent=1) + "\n").encode())
    return Costs(limits, path)


def _path(traits: Traits) -> Path:
    """Beside the kernels: GPUs of one name differ in processors where they are shared out."""
    name = re.sub(r"[^a-z0-9]+", "-", traits.name.lower()).strip("-")
    return kernels_folder().parent / "gpus" / f"{name}-{traits.processors}.json"
