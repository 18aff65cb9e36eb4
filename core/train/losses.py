"""Losses: what a model's outputs cost beside their targets, and the gradient of that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.training import LossKind
from abw.core.jit.decorators import njit

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def loss_of(kind: LossKind, values: Floats, target: NDArray[Any], weight: Floats, gradient: Floats) -> float:
    """The weighted sum of the losses of `values` (m, k); its gradient is written to `gradient` (m, k).

    Of cross-entropy `target` (m,) are classes, and `weight` (m,) that of each row: minus the logarithm of the
    class's probability under softmax. Of `binary` `target` (m, k) are probabilities, of which the values are
    the logits; of `squared` values, from which half the squared distance counts. Sums are in double precision
    and in the order of the rows.
    """
    if kind == "cross-entropy":
        return float(_cross_entropy(values, target, weight, gradient, np.empty(values.shape[1])))
    if kind == "binary":
        return float(_binary(values, target, weight, gradient))
    return float(_squared(values, target, weight, gradient))


@njit
def _cross_entropy(
    values: Floats, target: Ints, weight: Floats, gradient: Floats, power: NDArray[np.float64]
) -> float:
    total = 0.0
    for i in range(len(values)):
        most = values[i, 0]
        for j in range(1, values.shape[1]):
            most = max(most, values[i, j])
        size = 0.0
        for j in range(values.shape[1]):
            power[j] = np.exp(np.float64(values[i, j] - most))
            size += power[j]
        total += weight[i] * (np.log(size) - np.float64(values[i, target[i]] - most))
        for j in range(values.shape[1]):
            gradient[i, j] = weight[i] * (power[j] / size - (j == target[i]))
    return total


@njit
def _binary(values: Floats, target: Floats, weight: Floats, gradient: Floats) -> float:
    total = 0.0
    for i in range(len(values)):
        for j in range(values.shape[1]):
            y, t = np.float64(values[i, j]), np.float64(target[i, j])
            small = np.exp(-abs(y))
            total += weight[i] * (max(y, 0.0) - y * t + np.log1p(small))
            chance = 1 / (1 + small) if y >= 0 else small / (1 + small)
            gradient[i, j] = weight[i] * (chance - t)
    return total


@njit
def _squared(values: Floats, target: Floats, weight: Floats, gradient: Floats) -> float:
    total = 0.0
    for i in range(len(values)):
        for j in range(values.shape[1]):
            away = np.float64(values[i, j]) - np.float64(target[i, j])
            total += weight[i] * 0.5 * away * away
            gradient[i, j] = weight[i] * away
    return total
