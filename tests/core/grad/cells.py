"""Random cells: backward cells beside single operations' derivatives beside finite differences.

`python -m tests.core.grad.cells --count 2000 --seed 0` takes so many and says how far they were apart.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import cell_values, run_cell
from abw.core.exec.gradient import param_gradients, static_gradients
from abw.core.grad.cell import Operand, differentiate
from abw.core.ir.cell import Cell
from tests.core.exec.builder import random_cell
from tests.core.grad.vjp import cell_vjp

Array = NDArray[np.float64]

# Closer than this to where a function has a kink no finite difference is taken.
APART = 1e-3


@dataclass(frozen=True)
class Errors:
    """The largest differences: of backward cells from operations' derivatives, of these from differences."""

    operations: float
    differences: float


def backward(
    cell: Cell, inputs: list[list[Array]], params: list[Array], gradients: list[list[Array]]
) -> tuple[list[list[Array | None]], list[Array]]:
    """The gradients of each row's inputs and of the parameters, by the backward cell and its terms."""
    made = differentiate(cell)
    saved = [run_cell(made.forward, row, params) for row in inputs]
    if made.backward is None:
        return [[None] * len(row) for row in inputs], [np.zeros(p.shape) for p in cell.params]
    found = []
    for row in range(len(inputs)):
        sources = {"input": inputs[row], "saved": saved[row], "gradient": gradients[row]}
        read = [sources[leaf.source][leaf.number] for leaf in made.reads]
        found.append(run_cell(made.backward, read, [params[p] for p in made.params]))

    def x(operand: Operand) -> Array:
        values = inputs if operand.source == "input" else saved
        rows = np.stack([row[operand.number].ravel() for row in values])
        return rows[:, operand.start : operand.start + operand.length]

    statics = static_gradients(made, lambda o: np.stack([row[o] for row in found]), x)
    of_params = param_gradients(made, statics, params)
    of_inputs = [
        [row[made.inputs[i]] if i in made.inputs else None for i in range(len(cell.inputs))] for row in found
    ]
    return of_inputs, [of_params.get(p, np.zeros(param.shape)) for p, param in enumerate(cell.params)]


def apart(a: Array | None, b: Array | None) -> float:
    """The largest difference, relative where numbers are large; None stands for zeros."""
    if a is None or b is None:
        there = a if a is not None else b
        return 0.0 if there is None else float(np.abs(there).max(initial=0))
    return float(np.abs(a - b).max(initial=0) / (1 + np.abs(b).max(initial=0)))


def errors(cell: Cell, rng: np.random.Generator, rows: int = 2, eps: float = 1e-6) -> Errors | None:
    """How far gradients are apart on random numbers; None where some are near a kink or a pole, or large."""
    inputs = [[rng.standard_normal(p.shape) * 0.5 for p in cell.inputs] for _ in range(rows)]
    params = [rng.standard_normal(p.shape) * 0.5 for p in cell.params]
    gradients = [[rng.standard_normal(p.shape) for p in cell.output_ports] for _ in range(rows)]
    if not all(_smooth(cell, cell_values(cell, row, params)) for row in inputs):
        return None
    expected = [cell_vjp(cell, row, params, g) for row, g in zip(inputs, gradients, strict=True)]
    found, of_params = backward(cell, inputs, params, gradients)
    count = len(cell.inputs)
    pairs = [pair for f, e in zip(found, expected, strict=True) for pair in zip(f, e[:count], strict=True)]
    for p, of_param in enumerate(of_params):
        parts = [e[count + p] for e in expected]
        pairs.append((of_param, np.sum([part for part in parts if part is not None], axis=0) + 0 * of_param))
    worst = max((apart(a, b) for a, b in pairs), default=0.0)

    steps = [[rng.standard_normal(a.shape) for a in row] for row in inputs]
    param_steps = [rng.standard_normal(a.shape) for a in params]

    def loss(size: float) -> float:
        moved = [p + size * step for p, step in zip(params, param_steps, strict=True)]
        total = 0.0
        for row, step, gs in zip(inputs, steps, gradients, strict=True):
            outputs = run_cell(cell, [a + size * s for a, s in zip(row, step, strict=True)], moved)
            total += sum(float((g * y).sum()) for g, y in zip(gs, outputs, strict=True))
        return total

    slope = (loss(eps) - loss(-eps)) / (2 * eps)
    along = sum(
        float((e * s).sum())
        for gradient, step in zip(expected, steps, strict=True)
        for e, s in zip(gradient, [*step, *param_steps], strict=True)
        if e is not None
    )
    return Errors(worst, abs(slope - along) / (1 + abs(along)))


def _smooth(cell: Cell, values: list[Array]) -> bool:
    """Whether all numbers are usual ones, and no operation is at a kink."""
    if any(not np.isfinite(v).all() or np.abs(v).max(initial=0) > 1e3 for v in values):
        return False
    for op in cell.ops:
        args = [values[a] for a in op.args]
        match op.name:
            case "relu" | "abs" | "leaky_relu" | "elu" if (np.abs(args[0]) < APART).any():
                return False
            case "div" if (np.abs(args[1]) < 0.1).any():
                return False
            case "sqrt" | "rsqrt" | "log" if (args[0] < 0.1).any():
                return False
            case "maximum" | "minimum" | "lt" | "le" | "gt" | "ge" | "eq" | "ne":
                difference = np.abs(args[0] - args[1])
                if ((difference < APART) & (op.args[0] != op.args[1])).any():
                    return False
            case "max":
                ordered = np.sort(args[0], axis=int(op.attr[0])).swapaxes(int(op.attr[0]), -1)
                if (np.diff(ordered[..., -2:], axis=-1) < APART).any():
                    return False
    return True


def main() -> None:
    """Try many cells, and say what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found: list[Errors] = []
    operations: Counter[str] = Counter()
    tried = 0
    while len(found) < asked.count:
        rng = np.random.default_rng([asked.seed, tried])
        tried += 1
        cell = random_cell(rng, "random")
        with np.errstate(all="ignore"):
            result = errors(cell, rng)
        if result is not None:
            found.append(result)
            operations.update(op.name for op in cell.ops)
            if result.operations > 1e-9 or result.differences > 1e-5:
                print(f"cell {tried - 1}: {result}")
    print(f"{len(found)} cells of {tried}; the others are at kinks, poles or too large")
    print(", ".join(f"{name} {count}" for name, count in operations.most_common()))
    print(f"backward cells from single operations: {max(e.operations for e in found):.1e}")
    print(f"these from finite differences: {max(e.differences for e in found):.1e}")


if __name__ == "__main__":
    main()
