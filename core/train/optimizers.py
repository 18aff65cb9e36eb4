"""Optimisers: how a gradient changes the parameters, by the formulas of PyTorch's `torch.optim`.

A step changes only the rows of tables that the mini-batch has read, with their moments and their decay, as
PyTorch's `SparseAdam` does. Without momentum and decay a dense update would give the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.gradient import Gradient
from abw.core.exec.params import Params
from abw.core.exec.values import single
from abw.core.ir.training import Optimizer, RateSchedule
from abw.core.jit.decorators import inner, njit

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]

# How many numbers an optimiser keeps for each parameter.
STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "adagrad": 1}
_CODES = {name: code for code, name in enumerate(STATES)}
_SGD, _MOMENTUM, _ADAM, _ADAMW, _ADAGRAD = range(5)


Share = Callable[[Callable[[int, int], object], int, str], None]


def at_once(work: Callable[[int, int], object], amount: int, kind: str) -> None:
    """Do all of some work on this thread."""
    work(0, 1)


def rate_at(schedule: RateSchedule, step: int, steps: int, each: int) -> float:
    """The factor of the learning rate at step `step` (from 0) of `steps`; an epoch has `each`."""
    warm = schedule.warmup
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    match schedule.name:
        case "linear":
            return max(0.0, 1 - done)
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        case "inverse-root":
            return math.sqrt(max(1, warm) / (step + 1)) if step >= max(1, warm) else 1.0
        case "exponential":
            return schedule.factor ** ((step - warm) // max(1, each))
        case _:
            return 1.0


class Stepper:
    """An `optimizer` with what it keeps: `state` (STATES, floats of `params.flat`) and the steps `done`."""

    def __init__(self, optimizer: Optimizer, params: Params, trained: int) -> None:
        """`params` in one vector; of its values the first `trained` are learned, and all tables."""
        assert params.flat is not None
        self.optimizer = optimizer
        self._params, self._trained = params, trained
        self.state = np.zeros((STATES[optimizer.name], params.flat.size), np.float32)
        self.done = 0
        values = params.values[:trained]
        self._floats = np.array([value.size for value in values], np.int64)
        self._begin = np.cumsum(self._floats) - self._floats
        self._decay = np.full(len(values), optimizer.decay, np.float32)

    def step(self, gradient: Gradient, factor: float = 1.0, share: Share = at_once) -> None:
        """Change the parameters in place, with the learning rate multiplied by `factor`. Cost: O(changed).

        `share` divides the work among threads (see `Executor.share`).
        """
        self.done += 1
        flat, made = self._params.flat, self.optimizer
        assert flat is not None
        numbers = (
            np.float32(made.rate * factor),
            np.float32(made.momentum if made.name == "momentum" else made.beta1),
            np.float32(made.beta2),
            np.float32(made.epsilon),
            np.float32(1 - made.beta1**self.done),
            np.float32(1 - made.beta2**self.done),
            np.float32(1 - made.beta1),
            np.float32(1 - made.beta2),
        )
        code = _CODES[made.name]
        # what an optimiser does not keep is not touched
        first, second = (self.state[i] if i < len(self.state) else flat for i in range(2))
        theirs = single(gradient.values)
        state = flat, first, second

        def change(part: int, parts: int) -> None:
            _change(code, state, self._begin, self._floats, self._decay, theirs, numbers, (part, parts))

        share(change, theirs.size, "step")
        if made.name == "adam":  # SparseAdam adds epsilon to the root before it is made larger
            numbers = (*numbers[:3], np.float32(made.epsilon / math.sqrt(numbers[5])), *numbers[4:])
        at = sum(value.size for value in self._params.values)
        for number, table in enumerate(self._params.tables):
            if number in gradient.rows and len(gradient.rows[number]):
                own = single(gradient.tables[number].ravel())
                rows, floats = gradient.rows[number].astype(np.int64), table.size // len(table)
                begin, each = at + rows * floats, np.full(len(rows), floats)
                decay = np.full(len(rows), made.decay, np.float32)
                _change(code, state, begin, each, decay, own, numbers, (0, 1))
            at += table.size


F = np.float32
# Rate, momentum or beta1, beta2, epsilon, what corrects the two means, and 1 less the betas, which has five
# places more where it is rounded after the difference.
Numbers = tuple[F, F, F, F, F, F, F, F]


@njit
def _change(
    code: int,
    state: tuple[Floats, Floats, Floats],
    begin: Longs,
    floats: Longs,
    decay: Floats,
    gradient: Floats,
    numbers: Numbers,
    share: tuple[int, int],
) -> None:
    """Change the `floats[k]` numbers from `begin[k]` on, and what is kept of them; their gradients lie one
    behind the other. Of these gradients part `share[0]` of `share[1]` alone is taken.
    """
    theta, first, second = state
    low, high = (len(gradient) * share[0] // share[1], len(gradient) * (share[0] + 1) // share[1])
    done = 0
    for k in range(len(begin)):
        start, stop = max(low, done), min(high, done + floats[k])
        at, size = begin[k] + start - done, stop - start
        done += floats[k]
        if size <= 0:
            continue
        own, g = theta[at : at + size], gradient[start:stop]
        one, two = first[at : at + size], second[at : at + size]
        if code == _SGD:
            _sgd(own, g, decay[k], numbers)
        elif code == _MOMENTUM:
            _momentum(own, g, one, decay[k], numbers)
        elif code == _ADAGRAD:
            _adagrad(own, g, one, decay[k], numbers)
        else:
            _adam(own, g, one, two, decay[k], code == _ADAMW, numbers)


@inner
def _sgd(theta: Floats, gradient: Floats, decay: np.float32, numbers: Numbers) -> None:
    rate = numbers[0]
    for i in range(len(theta)):
        theta[i] -= rate * (gradient[i] + decay * theta[i])


@inner
def _momentum(theta: Floats, gradient: Floats, kept: Floats, decay: np.float32, numbers: Numbers) -> None:
    rate, momentum = numbers[0], numbers[1]
    for i in range(len(theta)):
        kept[i] = momentum * kept[i] + (gradient[i] + decay * theta[i])
        theta[i] -= rate * kept[i]


@inner
def _adagrad(theta: Floats, gradient: Floats, squares: Floats, decay: np.float32, numbers: Numbers) -> None:
    rate, epsilon = numbers[0], numbers[3]
    for i in range(len(theta)):
        g = gradient[i] + decay * theta[i]
        squares[i] += g * g
        theta[i] -= rate * g / (np.sqrt(squares[i]) + epsilon)


@inner
def _adam(
    theta: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    decay: np.float32,
    apart: bool,
    numbers: Numbers,
) -> None:
    rate, beta1, beta2, epsilon, bias1, bias2, rest1, rest2 = numbers
    one = np.float32(1)
    shrink = one - rate * decay if apart else one
    added = np.float32(0) if apart else decay
    for i in range(len(theta)):
        g = gradient[i] + added * theta[i]
        mean[i] = beta1 * mean[i] + rest1 * g
        square[i] = beta2 * square[i] + rest2 * g * g
        theta[i] = shrink * theta[i] - rate / bias1 * mean[i] / (np.sqrt(square[i] / bias2) + epsilon)
