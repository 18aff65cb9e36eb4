"""How far two executors' results are apart, and how much of that single precision explains.

What single precision loses in a graph, whoever computes it, is found by the reference with every operation
rounded: after each its result is moved at random, as far as rounding to single precision may move it, and on
from there in double precision (Monte Carlo arithmetic: Parker, Pierce and Eggert, CiSE 2000). How far runs
are apart in the end is what operations behind make of that: where nearly equal numbers are subtracted, it is
much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import NUMPY, run_cell
from abw.core.exec.interface import Result
from abw.core.exec.params import Params
from abw.core.exec.reference import ReferenceExecutor, attend, attention_gradients, scores_of
from abw.core.graph.equal.leaves import leaf_types
from abw.core.graph.fuse import Fusion
from abw.core.graph.graph import Distinct, Graph
from abw.core.ir.cell import Cell, Op
from abw.core.ir.model import SPREADS, Attention, AttentionGradient, Reduction
from abw.core.ir.operations import OPERATIONS

Array = NDArray[np.float64]
Ints = NDArray[np.int32]

# Half the distance between 1 and the next number of single precision.
UNIT = 2.0**-24
RUNS = 8
# An error may be so many times as large as that of the run that is furthest away.
FACTOR = 8.0


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest error of an output of a type, relative to the expected values' root mean square."""

    type: str
    output: str
    error: float


def compare(
    result: Result,
    expected: Result,
    fusion: Fusion | None = None,
    shaken: Sequence[Result] = (),
    distinct: Distinct | None = None,
) -> tuple[Difference, ...]:
    """The difference of every (type, output) that has nodes: max |a - b| / rms(b) over the mini-batch.

    What is infinite or not a number in one must be the same in the other: else the error is infinite. Where
    all expected values are zero the error is absolute. With `fusion` the result is of the network that it
    made, what is expected of the one it was made of: the types that are gone have nothing to compare. With
    `distinct` the result has one of each set of equal nodes, what is expected has all: each is compared. Of
    nodes for which `shaken` runs (`shaken_runs`) are far from what is expected, only what goes beyond what
    single precision loses there is an error.
    """
    network = expected.nodes.network
    kept = np.arange(len(network.types)) if fusion is None else np.flatnonzero(~fusion.gone)
    differences = []
    for number, t in enumerate(kept.tolist()):
        net_type = network.types[t]
        for o, port in enumerate(net_type.outputs):
            a = np.asarray(result.value(number, o), np.float64)
            if distinct is not None:
                place = distinct.place[slice(*distinct.type_ptr[number : number + 2].tolist())]
                a = np.asarray(_of_all(result, number, o, a, place), np.float64)
            b = np.asarray(expected.value(t, o), np.float64)
            if b.size and shaken:
                allowed = lost(b, [np.asarray(run.value(t, o), np.float64) for run in shaken])
                a = nearer(a, b, allowed.reshape(-1, *[1] * (b.ndim - 1)))
            if b.size:
                differences.append(Difference(net_type.name, port.name, error_of(a, b)))
    return tuple(differences)


def _of_all(result: Result, t: int, o: int, found: Array, place: Ints) -> NDArray[np.floating[Any]]:
    """The outputs o of all nodes of type t as constructed: of those `found`, or kept (`Distinct`)."""
    kept = np.flatnonzero(place < 0)
    if not len(kept):
        return found[place]
    whole = np.empty((len(place), *result.nodes.network.types[t].outputs[o].shape))
    whole[place >= 0] = found[place[place >= 0]]
    whole[kept] = result.values(leaf_types(result.nodes.network).kept[t, o] + 1 + place[kept])
    return whole


def nearer(a: Array, b: Array, allowed: Array) -> Array:
    """What of the values `a` is further from `b` than is allowed: these, nearer to `b` by that."""
    with np.errstate(invalid="ignore"):
        beyond = np.maximum(np.abs(a - b) - allowed, 0.0)
    found = np.where(np.isinf(allowed), b, b + np.sign(a - b) * beyond)
    return np.where(np.isfinite(b) & (np.isfinite(a) | np.isinf(allowed)), found, a)


def error_of(a: Array, b: Array) -> float:
    """The largest |a - b| over the root mean square of b, as `compare` has it."""
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(a[finite] - b[finite]).max())
    rms = float(np.sqrt(np.mean(np.square(b[finite]))))
    return largest / rms if rms > 0 else largest


class ShakenExecutor(ReferenceExecutor):
    """The reference with rounding errors, drawn from a seed. Cost: about twice the reference's."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def _moved(self, value: Array, size: Array) -> Array:
        return value + UNIT * size * self._random.uniform(-1, 1, np.shape(value))

    def _rounded(self, op: Op, arguments: Sequence[Array], value: Array) -> Array:
        """An operation's result, moved by what a sum can lose of its terms, or by its last digits."""
        operation = OPERATIONS[op.name]
        if operation.kind == "copy" or op.name == "max":
            return value
        if operation.kind == "product" or op.name == "sum":
            terms = operation.meaning(NUMPY, *map(np.abs, arguments), *op.attr)
            count = arguments[0].shape[-1] if operation.kind == "product" else arguments[0].size / value.size
            return self._moved(value, np.sqrt(count) * terms)
        return self._moved(value, 2 * np.abs(value))

    def _cell(self, cell: Cell, operands: Sequence[Array], params: Sequence[Array]) -> list[Array]:
        return run_cell(cell, operands, params, self._rounded)

    def _reduced(self, reduction: Reduction, rows: Array) -> Array:
        value = super()._reduced(reduction, rows)
        if reduction == "max":
            return value
        if reduction in SPREADS:
            # the mean's error adds its square
            size = np.sqrt(rows.shape[-1]) * super()._reduced("mean", np.abs(rows))
            spread = super()._reduced("var", rows)
            spread = self._moved(spread, 2 * np.sqrt(rows.shape[-1]) * spread + UNIT * size * size)
            return spread if reduction == "var" else np.sqrt(np.maximum(spread, 0))
        return self._moved(value, np.sqrt(rows.shape[-1]) * super()._reduced(reduction, np.abs(rows)))

    def _attended(self, attention: Attention, values: Array, keys: Array, query: Array) -> list[Array]:
        """Attention with scores and sums rounded."""
        size = np.sqrt(len(query)) * np.abs(scores_of(attention, np.abs(keys), np.abs(query)))
        value, *others = attend(attention, values, keys, query, self._moved(np.zeros(size.shape), size))
        sums = attend(attention, np.abs(values), keys, query)[0]
        logs = [self._moved(each, 2 * np.abs(each) + np.sqrt(len(values))) for each in others]
        return [self._moved(value, np.sqrt(len(values)) * sums), *logs]

    def _attention_gradient(
        self, made: AttentionGradient, values: Array, keys: Array, states: Array
    ) -> Array:
        """Its terms with scores and sums rounded: products of values and gradients may cancel each other."""
        heads, deep, wide = made.attention.heads, keys.shape[1], values.shape[1]
        queries = states[:, :deep]
        size = [
            scores_of(made.attention, *each)[0]
            for each in zip(np.abs(keys)[:, None], np.abs(queries), strict=True)
        ]
        moved = self._moved(np.zeros((len(keys), heads)), np.sqrt(deep) * np.abs(np.stack(size)))
        apart = states.copy()
        level = np.abs(states[:, deep : deep + wide] * values).reshape(len(values), heads, -1).sum(axis=-1)
        apart[:, -heads:] = self._moved(apart[:, -heads:], np.sqrt(wide) * level)
        rows = attention_gradients(made, values, keys, apart, moved)
        return self._moved(rows.sum(axis=0), np.sqrt(len(rows)) * np.abs(rows).sum(axis=0))


def shaken_runs(graph: Graph, params: Params) -> tuple[Result, ...]:
    """The graph's values with other rounding errors each time. Cost: `RUNS` times twice the reference's."""
    found = []
    for seed in range(RUNS):
        executor = ShakenExecutor(seed)
        executor.prepare(graph.network, params)
        found.append(executor.run_graph(graph))
    return tuple(found)


def lost(expected: Array, shaken: Sequence[Array]) -> Array:
    """By node what single precision may lose of its values (nodes, *shape), (nodes,): at most that is right.

    Infinite where a run ends in what is infinite or not a number, and what is expected does not.
    """
    finite = np.isfinite(expected)
    furthest = np.zeros(len(expected))
    for run in shaken:
        with np.errstate(invalid="ignore"):
            away = np.where(finite, np.abs(run - expected), 0.0)
        away[np.isnan(away)] = np.inf
        furthest = np.maximum(furthest, away.reshape(len(away), -1).max(axis=1, initial=0.0))
    return FACTOR * furthest
