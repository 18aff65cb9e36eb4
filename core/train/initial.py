"""What tables and parameters begin with: words of the training data, numbers by an initialisation."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances
from abw.core.exec.params import Params
from abw.core.ir.model import Model, TableSource
from abw.core.ir.network import Network
from abw.core.ir.training import Init
from abw.core.train.checkpoint import named

Floats = NDArray[np.float32]

# Row 0: what stands for all words that have no row of their own.
UNKNOWN = "<unk>"


def vocabularies(model: Model, instances: Instances, least: int) -> dict[str, tuple[str, ...]]:
    """By table the words of its rows: UNKNOWN, then those that are there `least` times, the most frequent
    first. Of tables that have a vocabulary, or are of numbers, nothing.
    """
    fields: dict[int, set[str]] = {}
    for source in (s for t in model.types for i in t.inputs for s in i.sources):
        if isinstance(source, TableSource) and source.field in instances.vocabulary:
            fields.setdefault(source.table, set()).add(source.field)
    found = {}
    for number, names in sorted(fields.items()):
        table = model.tables[number]
        if table.vocab is None:
            counts: dict[str, int] = {}
            for name in sorted(names):
                ids = instances.fields[name]
                times = np.bincount(ids[ids >= 0], minlength=len(instances.vocabulary[name])).tolist()
                for word, count in zip(instances.vocabulary[name], times, strict=True):
                    counts[word] = counts.get(word, 0) + count
            known = sorted((-n, w) for w, n in counts.items() if n >= least and w != UNKNOWN)
            found[table.name] = (UNKNOWN, *(word for _, word in known))
    return found


def initialise(network: Network, params: Params, inits: Sequence[Init], seed: int) -> None:
    """Draw the parameters and tables anew whose names fit a pattern, the last one that does; in place.

    Each from its own stream, by the seed and its name alone. Of a table the sizes are those of a row.
    """
    shapes = [*(value.shape for value in params.values), *(table.shape for table in network.tables)]
    for (name, value), shape in zip(named(network, params).items(), shapes, strict=True):
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
    if init.name in ("zeros", "ones", "constant"):
        value = {"zeros": 0.0, "ones": 1.0}.get(init.name, (*init.numbers, 0.0)[0])
        return np.full(shape, value, np.float32)
    if init.name == "orthogonal":
        many = random.standard_normal((math.prod(shape) // (rows * columns), rows, columns))
        return np.stack([_orthogonal(one) for one in many]).astype(np.float32).reshape(shape)
    scale = {
        "linear": 1 / math.sqrt(columns),
        "glorot-uniform": math.sqrt(6 / (rows + columns)),
        "glorot-normal": math.sqrt(2 / (rows + columns)),
        "he-uniform": math.sqrt(6 / columns),
        "he-normal": math.sqrt(2 / columns),
    }.get(init.name, (*init.numbers, 0.0)[0])
    size = tuple(shape)
    if init.name.endswith("normal"):
        drawn = random.standard_normal(size, np.float32)
    else:
        drawn = 2 * random.random(size, np.float32) - 1
    return (drawn * np.float32(scale)).astype(np.float32)


def _orthogonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    turned = matrix.T if matrix.shape[0] < matrix.shape[1] else matrix
    q, r = np.linalg.qr(turned)
    q = q * np.sign(np.diag(r))
    return q.T if matrix.shape[0] < matrix.shape[1] else q
