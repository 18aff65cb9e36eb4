"""Initialisations by name: how parameters and tables begin."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.params import Params
from abw.core.ir.network import Network
from abw.core.ir.training import Init

Floats = NDArray[np.float32]


def initialise(network: Network, params: Params, inits: Sequence[Init], seed: int) -> None:
    """Draw the parameters and tables anew whose names fit a pattern, the last one that does; in place.

    Each from its own stream, by the seed and its name alone. Of a table the sizes are those of a row.
    """
    named = [
        *(
            (param.name, value, value.shape)
            for param, value in zip(network.params, params.values, strict=True)
        ),
        *((table.name, rows, table.shape) for table, rows in zip(network.tables, params.tables, strict=True)),
    ]
    for name, value, shape in named:
        fitting = [init for init in inits if fnmatchcase(name, init.pattern)]
        if fitting:
            digest = hashlib.sha256(f"{seed} init {name}".encode()).digest()
            random = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
            value[...] = drawn(fitting[-1], value.shape, shape, random)


def drawn(init: Init, shape: Sequence[int], of: Sequence[int], random: np.random.Generator) -> Floats:
    """Numbers of a shape; `of` is that of a matrix or vector, which a table has many of.

    - `uniform(a)`: between -a and a; `normal(s)`: of deviation s;
    - `linear`: uniform with a = 1 / sqrt(columns), as PyTorch's nn.Linear;
    - `glorot-`: variance 2 / (rows + columns) (Glorot, 2010); `he-`: 2 / columns (He, 2015);
    - `orthogonal`: Q of a random matrix's QR (Saxe et al., 2014).

    A vector has one row for those: its length counts as its columns.
    """
    rows, columns = (of[0], of[1]) if len(of) == 2 else (1, of[0] if of else 1)
    match init.name:
        case "zeros" | "ones" | "constant":
            value = {"zeros": 0.0, "ones": 1.0}.get(init.name, (*init.numbers, 0.0)[0])
            return np.full(shape, value, np.float32)
        case "uniform":
            return _uniform(init.numbers[0], shape, random)
        case "normal":
            return _normal(init.numbers[0], shape, random)
        case "linear":
            return _uniform(1 / math.sqrt(columns), shape, random)
        case "glorot-uniform":
            return _uniform(math.sqrt(6 / (rows + columns)), shape, random)
        case "glorot-normal":
            return _normal(math.sqrt(2 / (rows + columns)), shape, random)
        case "he-uniform":
            return _uniform(math.sqrt(6 / columns), shape, random)
        case "he-normal":
            return _normal(math.sqrt(2 / columns), shape, random)
        case "orthogonal":
            many = random.standard_normal((math.prod(shape) // (rows * columns), rows, columns))
            return np.stack([_orthogonal(one) for one in many]).astype(np.float32).reshape(shape)
        case _:
            raise ValueError(f"no initialisation is called {init.name}")


def _uniform(bound: float, shape: Sequence[int], random: np.random.Generator) -> Floats:
    return ((2 * random.random(tuple(shape), np.float32) - 1) * np.float32(bound)).astype(np.float32)


def _normal(deviation: float, shape: Sequence[int], random: np.random.Generator) -> Floats:
    return (random.standard_normal(tuple(shape), np.float32) * np.float32(deviation)).astype(np.float32)


def _orthogonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    turned = matrix.T if matrix.shape[0] < matrix.shape[1] else matrix
    q, r = np.linalg.qr(turned)
    q = q * np.sign(np.diag(r))
    return q.T if matrix.shape[0] < matrix.shape[1] else q
