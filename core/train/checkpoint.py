"""Checkpoints: weights, what the optimiser keeps, and how far training is; there whole or not at all.

A checkpoint is a file of weights like any other, `abw run SPEC --weights FILE` takes it: the parameters and
tables by their names, the vocabularies that were made of the training data (`vocabulary/TABLE`), and what
training itself needs (`train/…`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.files import replacing, writing
from abw.core.data.tensors import TRAINING, VOCABULARY, read_tensors, write_tensors
from abw.core.exec.params import Params
from abw.core.ir.network import Network

Floats = NDArray[np.float32]
# What a row of the curve has that is measured, and differs from training to training.
SPEED = "instances_per_second"


@dataclass(slots=True)
class Position:
    """How far training is: `step` steps of epoch `epoch` are done (both from 0), all in all `done`.

    `loss` and `values` sum up the epoch's losses and their values so far. `best` is the best first metric,
    of epoch `best_epoch`; `curve` has a row an epoch.
    """

    epoch: int = 0
    step: int = 0
    done: int = 0
    loss: float = 0.0
    values: int = 0
    best: float | None = None
    best_epoch: int = -1
    curve: list[dict[str, Any]] = field(default_factory=list)


def named(network: Network, params: Params) -> dict[str, Floats]:
    """A model's parameters and tables by name."""
    names = [*(p.name for p in network.params), *(t.name for t in network.tables)]
    return dict(zip(names, (*params.values, *params.tables), strict=True))


def save_checkpoint(
    path: Path,
    weights: Mapping[str, Floats],
    words: Mapping[str, tuple[str, ...]],
    position: Position,
    state: Floats | None = None,
) -> None:
    """Write a checkpoint; without `state`, what the optimiser keeps, training cannot go on from it.

    Such a file has no speeds either: the same training writes the same one. Errors: AbwError where it cannot
    be written; what was there is there still.
    """
    about = asdict(position)
    if state is None:
        about["curve"] = [{k: v for k, v in row.items() if k != SPEED} for row in position.curve]
    texts = {f"{VOCABULARY}{table}": "\n".join(rows) for table, rows in words.items()}
    texts[f"{TRAINING}position"] = json.dumps(about)
    packed = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
    tensors: dict[str, NDArray[Any]] = {**weights, **packed}
    if state is not None:
        tensors[f"{TRAINING}state"] = state
    with writing(path), replacing(path) as file:
        write_tensors(file, tensors)


def load_checkpoint(path: Path, weights: Mapping[str, Floats], state: Floats) -> Position:
    """Fill weights and the optimiser's state from a checkpoint, in place; where training was.

    Errors: AbwError where it is damaged, or of another model.
    """
    tensors = read_tensors(path).tensors
    for name, target in {**weights, f"{TRAINING}state": state}.items():
        if name not in tensors or tensors[name].shape != target.shape:
            raise AbwError(f"{path} is not a checkpoint of this model: tensor '{name}' does not fit")
        target[...] = tensors[name].read()
    try:
        return Position(**json.loads(tensors[f"{TRAINING}position"].read().tobytes()))
    except (KeyError, TypeError, ValueError) as error:
        raise AbwError(f"{path} is damaged: {error}") from None
