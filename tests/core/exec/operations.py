"""A cell of all that equations can say beyond products, and what NumPy makes of its inputs."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.cell import Cell
from abw.core.spec.load import load_cell

Array = NDArray[np.float64]

TEXT = """\
cell: operations
dims: [n, m]
inputs: {x: n, y: n, v: m, A: [m, n], B: [m, 1], s: 1}
params: {g: n, b: n, w: m, P: [m, n], q: 1}
constants: {half: 0.5, steps: [1, 2, 3], table: [[1, 2, 3], [4, 5, 6]], ones: {shape: [m, n], value: 1}}
equations: |
  gates    = where(x < y, gelu(x), silu(y)) + elu(x, 0.5) * leaky_relu(y, 0.2) - softplus(x - y)
  roots    = sqrt(abs(x)) + rsqrt(square(y) + 1) + log(abs(x) + half)
  limited  = maximum(x, minimum(y, half))
  compared = (x <= y) + 2 * (x > y) + 4 * (x >= y) + 8 * (x == x) + 16 * (x != y)
  sums     = concat(sum(x), mean(y), max(A), min(A), norm(A), dot(x, y), s * sum(x * g) + q)
  columns  = sum(A, 0) + mean(A, axis=0) * max(A, 0) - min(A, 0) / (1 + norm(A, 0))
  rows     = sum(A, 1) + mean(A, axis=1) * max(A, 1) - min(A, 1) / (1 + norm(A, 1))
  spread   = A * x + reshape(v, m, 1) * A - B * x + B * w[0:1] + s * P + (x + b)[0:n] * ones
  softened = softmax(A, 0) * softmax(A) + transpose(A) @ softmax(v)
  product  = outer(v, x) @ reshape(reshape(A, m * n), n, m) + outer(w, v)
  spreads  = var(A, 0) + var(x) * std(y)
  across   = var(A, 1) + std(A, axis=1)
  norms    = layernorm(x, g, b) + layernorm(y, 1, 0, 0.1)
  layers   = layernorm(A, g, P) + transpose(reshape(A, n, m))
  waves    = sin(3 * x) * cos(y - x) + erf(x) * erf(0.1 * y) + s ** 2 * sin(10 * s)
  powers   = x ** 3 - (1 + y * y) ** -0.5 + (x * x + 0.1) ** 1.5 + (y * y + 1) ** x + 1 / abs(x + 9) ** 2
  stepped  = floor(x) + 10 * ceil(y) + 50 * round(2 * x) + 0.25 * sign(y)
  literal  = steps * x[0:3] + reshape(table, 3, 2) @ (table @ y[0:3])
outputs:
  {gates: gates, roots: roots, limited: limited,
   compared: compared, sums: sums, columns: columns, rows: rows, spread: spread, waves: waves, powers: powers,
   softened: softened, product: product, spreads: spreads, across: across, norms: norms, layers: layers,
   stepped: stepped, literal: literal}
"""
DIMS = {"n": 5, "m": 2}


def operations_cell() -> Cell:
    """The cell, with sizes that are no multiple of any vector's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.yaml"
        path.write_text(TEXT)
        return load_cell(path, DIMS)


def by_numpy(x: Array, y: Array, v: Array, A: Array, B: Array, s: Array,
             g: Array, b: Array, w: Array, P: Array, q: Array) -> dict[str, Array]:  # fmt: skip
    """The outputs of one lane."""
    erf = np.vectorize(math.erf)
    gelu = 0.5 * x * (1 + erf(x / math.sqrt(2)))
    elu, leaky = np.where(x > 0, x, 0.5 * np.expm1(x)), np.where(y > 0, y, 0.2 * y)
    bits = (x <= y) + 2.0 * (x > y) + 4.0 * (x >= y) + 8 + 16.0 * (x != y)
    table = np.array([[1.0, 2, 3], [4, 5, 6]])

    def along(axis: int) -> Array:
        low = A.min(axis) / (1 + np.linalg.norm(A, axis=axis))
        return np.asarray(A.sum(axis) + A.mean(axis) * A.max(axis) - low)

    def soft(a: Array, axis: int) -> Array:
        e = np.exp(a)
        return np.asarray(e / e.sum(axis, keepdims=True))

    def layernorm(a: Array, gain: Array | int, bias: Array | int, epsilon: float = 1e-5) -> Array:
        apart = a - a.mean(-1, keepdims=True)
        return np.asarray(apart / np.sqrt(a.var(-1, keepdims=True) + epsilon) * gain + bias)

    return {
        "gates": np.where(x < y, gelu, y / (1 + np.exp(-y))) + elu * leaky - np.logaddexp(0, x - y),
        "roots": np.sqrt(np.abs(x)) + 1 / np.sqrt(y * y + 1) + np.log(np.abs(x) + 0.5),
        "limited": np.maximum(x, np.minimum(y, 0.5)),
        "compared": bits,
        "sums": np.array(
            [x.sum(), y.mean(), A.max(), A.min(), np.linalg.norm(A), x @ y, s[0] * (x @ g) + q[0]]
        ),
        "columns": along(0),
        "rows": along(1),
        "spread": A * x + v[:, None] * A - B * x + B * w[:1] + s * P + (x + b) * np.ones_like(A),
        "softened": soft(A, 0) * soft(A, 1) + A.T @ soft(v, 0),
        "product": np.outer(v, x) @ A.reshape(5, 2) + np.outer(w, v),
        "spreads": A.var(0) + x.var() * y.std(),
        "across": A.var(1) + A.std(1),
        "norms": layernorm(x, g, b) + layernorm(y, 1, 0, 0.1),
        "layers": layernorm(A, g, P) + A.reshape(5, 2).T,
        "waves": np.sin(3 * x) * np.cos(y - x) + erf(x) * erf(0.1 * y) + s**2 * np.sin(10 * s),
        "powers": x**3 - (1 + y * y) ** -0.5 + (x * x + 0.1) ** 1.5 + (y * y + 1) ** x + 1 / (x + 9) ** 2,
        "stepped": np.floor(x) + 10 * np.ceil(y) + 50 * np.rint(2 * x) + 0.25 * np.sign(y),
        "literal": np.array([1, 2, 3]) * x[:3] + table.reshape(3, 2) @ (table @ y[:3]),
    }
