"""How kept mini-batches have grown, on disk: `growth/NNNN.npz` in a run's folder, the arrays of a `History`.

Their names are those of its attributes, and `version`. Runs of earlier versions, and of models that do not
grow, have no such files.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from abw.core.graph.growing.history.history import History
from abw.core.graph.growing.history.margins import DROPPED
from abw.core.ir.growth import How
from abw.core.store.checked import (
    Array,
    arrays_file,
    damaged,
    read_arrays,
    require_names,
    require_range,
    require_row,
    write_arrays,
)

# The version of the files: other ones are not read.
VERSION = 1
_NAMES = ("kinds", "decisions", "hows", "words")


def save_history(folder: Path, number: int, history: History) -> None:
    """Write a mini-batch's history into a run's folder. Errors: AbwError."""
    arrays: dict[str, Any] = {"version": np.array([VERSION], np.int32)}
    for field in fields(History):
        value = getattr(history, field.name)
        if field.name in _NAMES:
            value = np.array(value, dtype=np.str_)
        arrays[field.name] = np.array([value], np.int32) if isinstance(value, int) else value
    write_arrays(folder, "growth", number, arrays)


def load_history(folder: Path, number: int, nodes: int, instances: int) -> History | None:
    """Read what `save_history` wrote of a mini-batch of `nodes`, at most `instances`; None if nothing.

    Errors: AbwError where the file is damaged: all numbers must be in range.
    """
    path = arrays_file(folder, "growth", number)
    if not path.is_file():
        return None
    found = read_arrays(path, ("version", *(field.name for field in fields(History))))
    with damaged(path):
        return _checked(found, nodes, instances)


def _checked(found: dict[str, Array], nodes: int, instances: int) -> History:
    names = {name: require_names(name, found.pop(name)) for name in _NAMES}
    scores = ("score", "second_score")
    floats = {name: require_row(name, found.pop(name), np.float32) for name in scores}
    cut = found.pop("cut")
    if cut.dtype != np.int32 or cut.ndim != 2 or cut.shape[1] != 3:
        raise ValueError(f"'cut' must be kinds, instances and rounds, not {cut.shape} of {cut.dtype}")
    ints = {name: require_row(name, array) for name, array in found.items()}
    (version,), (rounds,) = _one("version", ints.pop("version")), _one("rounds", ints.pop("rounds"))
    if version != VERSION:
        raise ValueError(f"it has version {version}, this abw reads {VERSION}")
    if set(names["hows"]) - set(get_args(How)) or len(names["hows"]) != len(names["decisions"]):
        raise ValueError("'hows' are not kinds of decisions")
    vertices, choices = len(ints["kind"]), len(ints["decision"])
    require_range("rounds", np.array([rounds], np.int32), vertices + 1)
    kinds, words = len(names["kinds"]), len(names["words"])
    for name, low, end, length in (
        ("most", -1, 2**31, kinds),
        ("kind", 0, kinds, vertices),
        ("index", 0, vertices, vertices),
        ("instance", 0, instances, vertices),
        ("round", 0, rounds + 1, vertices),
        ("node_round", 0, rounds + 2, nodes),
        ("decision", 0, len(names["hows"]), choices),
        ("vertex", 0, vertices, choices),
        ("chosen", -1, 2**31, choices),
        ("second", -1, 2**31, choices),
        ("fate", 0, DROPPED + 1, choices),
        ("word", -1, words, choices),
        ("second_word", -1, words, choices),
    ):
        require_range(name, ints[name], end, length, low)
    for name, values in floats.items():
        if len(values) != choices:
            raise ValueError(f"'{name}' has {len(values)} numbers for {choices} choices")
    for column, end in enumerate((kinds, instances, rounds + 1)):
        require_range("cut", np.ascontiguousarray(cut[:, column]), end)
    return History(rounds=rounds, **names, **floats, cut=cut, **ints)  # type: ignore[arg-type]


def _one(name: str, array: Array) -> list[int]:
    if len(array) != 1:
        raise ValueError(f"'{name}' is not a number")
    found: list[int] = array.tolist()
    return found
