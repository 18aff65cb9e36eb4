"""Losses that programs state, and the graph that a mini-batch of them has recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.graph.equal.consing import rename
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Shape
from abw.core.ir.training import LossKind
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.segments import Ints
from abw.core.program.recording.values import BITS, Value
from abw.core.program.running.fibers import Done, Failed

# A class, or numbers as the value has.
Target = int | NDArray[np.float32]


class Wanted(NamedTuple):
    """A loss that a program has stated: the value's shape and handle, and its target."""

    shape: Shape
    handle: int
    kind: LossKind
    target: Target
    weight: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """How the programs of a mini-batch ended, and the graph of all that their losses are made of.

    Results have values, not arrays: what no program asked for was not computed. Node v of the run, from
    number `base` of all runs' on, is `local[v]` of the graph, -1 where it is not in it. `wanted`: the losses,
    as they were said. `engine` has what was computed, until another run takes its memory.
    """

    ends: Sequence[Done | Failed]
    graph: Graph
    local: Ints
    base: int
    wanted: Sequence[Wanted]
    engine: Engine | None = None

    def references(self, handles: Sequence[int]) -> Ints:
        """The references, in the graph, of values that this run has made, or of constants.

        Raises ValueError for those of other runs, and for what an instance brought along: no gradient has it.
        """
        network, width = self.graph.network, self.graph.network.width
        found = np.array(handles, np.int64)
        constants = rename(found, BITS, self.base * width, self.local, width.bit_length() - 1)
        if constants < 0:
            raise ValueError("a value of another run has no gradient in this one")
        rows = found[found < 0].tolist() if constants else []
        if not {network.constant_of(row)[0] for row in rows}.isdisjoint(network.given):
            raise ValueError("numbers of an instance have no gradient")
        return found.astype(np.int32)


def wanted_of(value: Value, kind: str, target: Any, weight: float) -> Wanted:  # noqa: ANN401
    """Make a loss of a value, after checking its arguments. Errors: AbwError."""
    if kind not in get_args(LossKind):
        raise AbwError(f"loss cannot be '{kind}'", hint=did_you_mean(kind, get_args(LossKind)))
    if len(value.shape) != 1:
        raise AbwError(f"a loss needs a vector, not {list(value.shape)}")
    (size,) = value.shape
    found: Target
    if kind == "cross-entropy":
        if not isinstance(target, int | np.integer) or isinstance(target, bool):
            raise AbwError(f"the target of cross-entropy must be the number of a class, not {target!r}")
        if not 0 <= target < size:
            raise AbwError(
                f"target {target} is not one of {size} classes", hint=f"classes are 0 to {size - 1}"
            )
        found = int(target)
    else:
        try:
            found = np.asarray(target, np.float32).reshape(-1)
        except (TypeError, ValueError):
            raise AbwError(f"the target of {kind} is numbers, not {target!r}") from None
        if found.shape != (size,) or not np.isfinite(found).all():
            raise AbwError(f"the target of {kind} is {size} finite numbers, not {target!r}")
    if not np.isfinite(weight):
        raise AbwError(f"the weight of a loss cannot be {weight}")
    return Wanted(value.shape, value.ref, kind, found, float(weight))  # type: ignore[arg-type]
