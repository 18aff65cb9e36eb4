"""The decisions of a mini-batch that has grown, made again from the reference executor's values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import Columns
from abw.core.exec.interface import Array, Result
from abw.core.graph.growing.batch import GrowthData
from abw.core.graph.growing.decide import Chances, Read, ScoreError, allowed, decide, shares
from abw.core.graph.growing.finished import nodes_on
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.picks import Picks
from abw.core.ir.growth import Decision
from abw.core.run.growing.recheck_beam import recheck_beam


@dataclass(frozen=True, slots=True)
class Rechecked:
    """How many decisions were made again, and how many of them came out otherwise, within the tolerance."""

    decisions: int
    close: int


def recheck(
    growth_model: GrowthModel,
    instances: Instances,
    expected: Result,
    tolerance: float,
    executor: str,
    picks: Picks | None = None,
) -> Rechecked:
    """Make all decisions of finished instances again from `expected`, the values of their graph.

    One may differ where both choices are as good within `tolerance` of the scores' root mean square, twice:
    once for each of the two. `picks`: what a decision `best` picked (`recheck_beam`). Errors: AbwError for
    one that differs by more.
    """
    growing = GrowthData(growth_model, instances)
    columns = growing.columns(0, len(instances))
    chances = Chances(growth_model.model.data.seed, instances.numbers)
    names = instances.schema.kinds
    total, close = 0, 0

    def read(t: int, output: int, vertices: Ints) -> Array:
        return expected.values(nodes_on(expected.nodes, t, vertices) * expected.nodes.network.width + output)

    for kind in growth_model.growth.kinds:
        numbers = [number for number, name in enumerate(names) if name in kind.kinds]
        at = np.flatnonzero(np.isin(instances.kind, numbers)).astype(np.int32)
        for decision in kind.decisions if len(at) else ():
            made = instances.fields[decision.name][at]
            try:
                if decision.how == "best":
                    assert picks is not None
                    unit = tolerance * _scale(read(decision.type, decision.output, at))
                    wrong, others = recheck_beam(decision, columns, read, picks, unit)
                    wrong = np.concatenate([wrong, at[made != picks.chosen()[at]]])
                    if len(wrong):
                        raise AbwError(_wrong(executor, decision, instances, int(wrong[0])), hint=_HINT)
                    total, close = total + len(picks.vertex), close + others
                    continue
                again = decide(decision, columns, at, read, chances)
            except ScoreError:
                raise AbwError(_wrong(executor, decision, instances, int(at[0])), hint=_HINT) from None
            other = made != again
            total += len(at)
            close += int(other.sum())
            if not other.any():
                continue
            here = at[other]
            apart = _apart(decision, columns, here, read, chances, made[other], again[other])
            scores = read(decision.type, decision.output, at)
            scale = _scale(scores)
            if decision.how == "sample":
                scale = max(scale, 1.0)
            far = ~(apart <= 2 * tolerance * scale)
            if far.any():
                vertex = int(here[np.argmax(far)])
                raise AbwError(_wrong(executor, decision, instances, vertex), hint=_HINT)
    return Rechecked(total, close)


_HINT = "this is a defect of abw, not of your model: please report it with the spec and the data"


def _wrong(executor: str, decision: Decision, instances: Instances, vertex: int) -> str:
    number = int(np.searchsorted(instances.start, vertex, side="right")) - 1
    return (
        f"executor '{executor}' is wrong: decision '{decision.name}' of instance "
        f"{int(instances.numbers[number])} ({instances.source}:{int(instances.lines[number])}) "
        "is not the reference's"
    )


def _scale(scores: Array) -> float:
    """The root mean square of the scores that are finite; 1 where there are none, or all are 0."""
    finite = scores[np.isfinite(scores)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.any() else 1.0


def _apart(
    decision: Decision,
    columns: Columns,
    at: Ints,
    read: Read,
    chances: Chances,
    made: Ints,
    again: Ints,
) -> NDArray[np.float64]:
    """By how much two choices differ at each vertex, in the scores' unit; infinite where one cannot be."""
    if decision.how == "chance":
        return np.full(len(at), np.inf)
    scores = np.asarray(read(decision.type, decision.output, at), np.float64).reshape(len(at), -1)
    row = np.arange(len(at))
    if decision.how == "over":
        return np.abs(scores[:, 0] - decision.limit)
    may = allowed(decision, columns, at)
    if may is not None:
        scores = np.where(may, scores, -np.inf)
    if decision.how == "argmax":
        with np.errstate(invalid="ignore"):
            found = np.abs(scores[row, made] - scores[row, again])
    else:  # the chance lies between the ends of shares that are next to each other
        ends, drawn = shares(scores), chances.drawn(decision, columns, at)
        found = np.abs(ends[row, np.minimum(made, again)] - drawn)
        between = np.maximum(made, again) - np.minimum(made, again)
        found = np.where(
            between >= 1, np.maximum(found, np.abs(ends[row, np.maximum(made, again) - 1] - drawn)), found
        )
    return np.where((made >= 0) & (again >= 0) & ~np.isnan(found), found, np.inf)
