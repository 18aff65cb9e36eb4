"""A small library for tests, and programs over it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import abw
from abw import Net
from abw.core.exec.interface import Executor

LIBRARY = """\
library: small
dims: {hidden: 6, actions: 3}
tables: {words: {dim: hidden, rows: 20}, did: {dim: hidden, rows: actions}}
params: {start: hidden}
cells:
  rnn:
    dims: [hidden]
    inputs: {x: hidden, h: hidden}
    params: {W: [hidden, hidden], U: [hidden, hidden], b: hidden}
    equations: |
      y = tanh(W @ x + U @ h + b)
    outputs: {y: y}
  two:
    dims: [hidden]
    inputs: {x: hidden}
    params: {W: [hidden, hidden]}
    equations: |
      a = sigmoid(W @ x)
      b = a * x
    outputs: {a: a, b: b}
  score:
    dims: [hidden, actions]
    inputs: {x: hidden, y: hidden}
    params: {A: [actions, hidden], B: [actions, hidden]}
    equations: |
      s = A @ x + B @ y
    outputs: {s: s}
  gate:
    dims: [hidden]
    inputs: {x: hidden}
    params: {w: [1, hidden]}
    equations: |
      g = w @ x
    outputs: {g: g}
types: {step: rnn, join: rnn}
"""


def small(folder: Path, executor: str | Executor = "cpu", policy: str = "critical", threads: int = 1) -> Net:
    path = folder / "small.yaml"
    path.write_text(LIBRARY)
    return abw.cells(path, executor=executor, policy=policy, threads=threads)


class Number:
    """A value of `Plain`: an array that is asked like a value of a net."""

    def __init__(self, array: NDArray[np.float64]) -> None:
        self.array = array

    def argmax(self, allowed: Sequence[bool] | None = None) -> int:
        may = [True] * len(self.array) if allowed is None else allowed
        scores = [(float(score), -i) for i, score in enumerate(self.array) if may[i]]
        return -max(scores)[1]

    def above(self, limit: float) -> bool:
        return float(self.array[0]) > limit

    def value(self) -> NDArray[np.float64]:
        return self.array


class Plain:
    """`LIBRARY` in NumPy: what programs mean, with nothing of abw but the parameters' numbers."""

    def __init__(self, params: Mapping[str, NDArray[np.float32]]) -> None:
        self.p = {name: np.asarray(value, np.float64) for name, value in params.items()}
        self.start = Number(self.p["start"])
        self.words = [Number(row) for row in self.p["words"]]
        self.did = [Number(row) for row in self.p["did"]]

    def zeros(self, _: str) -> Number:
        return Number(np.zeros(6))

    def _rnn(self, name: str, x: Number, h: Number) -> Number:
        w, u, b = (self.p[f"{name}.{part}"] for part in "WUb")
        return Number(np.tanh(w @ x.array + u @ h.array + b))

    def step(self, x: Number, h: Number) -> Number:
        return self._rnn("step", x, h)

    def input(self, numbers: Sequence[float]) -> Number:
        return Number(np.asarray(numbers, np.float32).astype(np.float64))

    def join(self, x: Number, h: Number | Sequence[float]) -> Number:
        if not isinstance(h, Number):
            h = self.input(h)
        return self._rnn("join", x, h)

    def two(self, x: Number) -> tuple[Number, Number]:
        a = 1 / (1 + np.exp(-(self.p["two.W"] @ x.array)))
        return Number(a), Number(a * x.array)

    def score(self, x: Number, y: Number) -> Number:
        return Number(self.p["score.A"] @ x.array + self.p["score.B"] @ y.array)

    def gate(self, x: Number) -> Number:
        return Number(self.p["gate.w"] @ x.array)

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [function(item) for item in items]


class Programs:
    """Programs over `small`."""

    def __init__(self, net: Net | Plain) -> None:
        self.net: Any = net

    def parse(self, sentence: list[int]) -> tuple[list[int], Any]:
        """A transition parser with a stack of its own."""
        net = self.net
        stack, past, front, done = [(None, net.start)], net.zeros("hidden"), 0, []
        while front < len(sentence) or len(stack) > 2:
            allowed = [front < len(sentence), len(stack) > 2, len(stack) > 2]
            action = net.score(stack[-1][1], past).argmax(allowed)
            if action == 0:
                value, front = net.words[sentence[front]], front + 1
            else:
                (b, _), (a, _) = stack.pop(), stack.pop()
                value = net.join(a, b) if action == 1 else net.join(b, a)
            stack.append((value, net.step(value, stack[-1][1])))
            past = net.step(net.did[action], past)
            done.append(action)
        return done, stack[-1][1]

    def yielding(self, sentence: list[int]) -> Generator[Any, Any, Any]:
        """The same as a generator function."""
        net = self.net
        stack, past, front, done = [(None, net.start)], net.zeros("hidden"), 0, []
        while front < len(sentence) or len(stack) > 2:
            allowed = [front < len(sentence), len(stack) > 2, len(stack) > 2]
            action = yield net.score(stack[-1][1], past).argmax(allowed)
            if action == 0:
                value, front = net.words[sentence[front]], front + 1
            else:
                (b, _), (a, _) = stack.pop(), stack.pop()
                value = net.join(a, b) if action == 1 else net.join(b, a)
            stack.append((value, net.step(value, stack[-1][1])))
            past = net.step(net.did[action], past)
            done.append(action)
        return done, stack[-1][1]
