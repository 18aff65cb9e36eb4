"""Decisions in NumPy, for whoever makes them again: `--verify`, teachers, programs, and what is told of runs.

Rounds make theirs in compiled code (`choices.py`), which shares nothing with this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns, FieldColumn
from abw.core.graph.bind import passes
from abw.core.ir.growth import Decision, Number, Place, Test, Tests

Bools = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]
# The values of an output of a type on vertices: `read(type, output, vertices)` (n, *shape).
Read = Callable[[int, int, Ints], Scores]

GOLDEN = 0x9E3779B97F4A7C15
WORD = 2**64 - 1
# The steps of splitmix64's finaliser: by how much a number is shifted before it is added to itself bit by
# bit, and what the sum is multiplied with.
MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


class ScoreError(Exception):
    """A score that is not a number: nothing can be chosen at `vertex`."""

    def __init__(self, decision: Decision, vertex: int) -> None:
        super().__init__(decision.name)
        self.decision, self.vertex = decision, vertex


@dataclass(frozen=True, slots=True)
class Chances:
    """What chance goes by: the seed, and each instance's number in its file (N,)."""

    seed: int
    numbers: NDArray[np.int64]

    def drawn(self, decision: Decision, columns: Columns, at: Ints) -> NDArray[np.float64]:
        """A number from 0 to below 1 for each vertex, whatever mini-batch it is in.

        splitmix64's finaliser (Steele, Lea and Flood, OOPSLA 2014) of the instance's number in the file, the
        vertex's number among its kind, the kind, the decision's name and the seed.
        """
        x = self.numbers[columns[INSTANCE][at]].astype(np.uint64) << np.uint64(32)
        x |= columns[INDEX][at].astype(np.uint64)
        x ^= columns[KIND][at].astype(np.uint64) << np.uint64(24)
        return drawn(x, salt_of(decision, self.seed))


def drawn(x: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """A number from 0 to below 1 for each of some numbers: splitmix64's finaliser, with a salt, twice."""
    x = x.copy()
    for constant in (salt, GOLDEN):
        x += np.uint64(constant)
        for shift, factor in MIXERS:
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def salt_of(decision: Decision, seed: int) -> int:
    """What tells a decision's chance from others': 64 bits of its name and the seed."""
    salt = seed * GOLDEN
    for letter in decision.name.encode():
        salt = (salt ^ letter) * 0x100000001B3
    return salt & WORD


def evaluate(value: Place | Number, columns: Columns, at: Ints) -> Ints:
    """A place or number for each vertex of `at`, -1 for none."""
    if isinstance(value, Place):
        return columns.follow(at, value.hops)
    where = evaluate(value.place, columns, at)
    found = (columns[INDEX] if value.field == "index" else columns[FieldColumn(value.field)])[where]
    return np.where(found >= 0, np.maximum(found + np.int32(value.plus), -1), np.int32(-1))


def holds(tests: Tests, columns: Columns, at: Ints) -> Bools:
    """Whether all tests hold, for each vertex of `at`."""
    found = np.ones(len(at), np.bool_)
    for test in tests:
        found &= _holds(test, evaluate(test.value, columns, at))
    return found


def _holds(test: Test, values: Ints) -> Bools:
    outcome: Bools
    if test.comparison is not None:
        outcome = passes(test.comparison, values, test.against)
    else:
        outcome = values > 0 if isinstance(test.value, Number) else values >= 0
    return ~outcome if test.negated else outcome


def allowed(decision: Decision, columns: Columns, at: Ints) -> Bools | None:
    """Which choices are allowed at each vertex (n, choices); None where all are."""
    if decision.allow is None:
        return None
    return np.stack([holds(tests, columns, at) for tests in decision.allow], axis=1)


def masked(decision: Decision, columns: Columns, at: Ints, read: Read) -> tuple[Scores, Bools | None]:
    """The scores at each vertex (n, choices), -inf where a choice is not allowed, and which are allowed.

    Raises ScoreError.
    """
    scores = read(decision.type, decision.output, at).reshape(len(at), -1)
    odd = np.isnan(scores).any(axis=1)
    if odd.any():
        raise ScoreError(decision, int(at[np.argmax(odd)]))
    may = allowed(decision, columns, at)
    return (scores if may is None else np.where(may, scores, -np.inf)), may


def decide(decision: Decision, columns: Columns, at: Ints, read: Read, chances: Chances) -> Ints:
    """What is chosen at each vertex (see `Decision`), by itself. Raises ScoreError. Linear in the scores."""
    if decision.how == "chance":
        return (chances.drawn(decision, columns, at) < decision.limit).astype(np.int32)
    scores, may = masked(decision, columns, at, read)
    if decision.how == "over":
        return (scores[:, 0] > decision.limit).astype(np.int32)
    if decision.how == "sample":
        chosen = sampled(scores, chances.drawn(decision, columns, at))
    else:
        chosen = scores.argmax(axis=1)
    if may is not None:
        chosen = np.where(may.any(axis=1), among(chosen, scores, may), -1)
    return chosen.astype(np.int32)


def among(chosen: NDArray[np.intp], scores: Scores, may: Bools) -> NDArray[np.intp]:
    """What is chosen (n,), but where all that is allowed scores -inf, the first of that."""
    some = scores[np.arange(len(chosen)), chosen] > -np.inf
    return np.where(some, chosen, may.argmax(axis=1))


def sampled(scores: Scores, drawn: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first choice up to which the softmax of the scores (n, choices) adds up to more than `drawn`."""
    ends = shares(scores)
    chosen = (ends <= drawn[:, None]).sum(axis=1)
    # where rounding leaves nothing above, the last with any share
    last = scores.shape[1] - 1 - np.argmax(scores[:, ::-1] > -np.inf, axis=1)
    found: NDArray[np.int64] = np.minimum(chosen, last)
    return found


def shares(scores: Scores) -> NDArray[np.float64]:
    """Where each choice's share of 0 to 1 ends (n, choices): the softmax, added up, in double precision."""
    ends: NDArray[np.float64] = np.cumsum(np.exp(relative(scores)), axis=1)
    return ends / ends[:, -1:]


def relative(scores: Scores) -> NDArray[np.float64]:
    """Scores less the largest of their row (n, choices), in double precision; 0 for that, if infinite too."""
    found: NDArray[np.float64] = scores.astype(np.float64)
    top = found.max(axis=1, keepdims=True)
    largest = None if np.isfinite(top).all() else found == top
    with np.errstate(invalid="ignore"):
        found -= top
    if largest is not None:
        found[largest] = 0.0
    return found
