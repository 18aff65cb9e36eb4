"""What compiled rounds have picked: the arrays that they fill, and what these say in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import INSTANCE, Columns
from abw.core.exec.cpu.rounds.clauses import ROUND
from abw.core.graph.growing.beam import PICK, Beam, Candidates

Ints = NDArray[np.int32]
Name = tuple[str, str]
Arrays = Mapping[Name, NDArray[Any]]

# What a thread notes of its picks (see `Beams`).
OF_PICKS = {
    ("pick", "vertex"): np.int32,
    ("pick", "number"): np.int32,
    ("pick", "total"): np.float64,
    ("pick", "ended"): np.int8,
    ("kept", "pick"): np.int32,
    ("kept", "round"): np.int32,
}


def of_instances(count: int, width: int) -> Arrays:
    """What is noted of so many instances: nothing yet."""
    return {
        ("beam", "round"): np.zeros(count, np.int64),
        ("beam", "kept"): np.full(count * width, -1, np.int32),
        ("beam", "total"): np.empty(count * width, np.float64),
        ("beam", "vertex"): np.empty(count * width, np.int32),
        ("beam", "number"): np.empty(count * width, np.int32),
    }


def longer(arrays: Arrays, count: int) -> Arrays:
    """Room for so many picks, with those that are there."""
    found = {}
    for name, kind in OF_PICKS.items():
        found[name] = np.zeros(count, kind)
        if name in arrays:
            found[name][: len(arrays[name])] = arrays[name]
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """What one thread has picked, of the instances from `first` on: so many `picks`, so often `kept` one."""

    first: int
    arrays: Arrays
    picks: int
    kept: int


def take(beam: Beam, columns: Columns, parts: Sequence[Part], of: Arrays, compared: Ints) -> None:
    """Give a beam all that was picked; the parts' picks are numbered one part after the other.

    `compared` are the vertices at which there was a choice, `of` is what is noted of instances.
    """
    begins = np.append(0, np.cumsum([part.picks for part in parts]))[:-1].astype(np.int32)
    firsts = [part.first for part in parts]

    def numbered(picks: Ints, instance: Ints) -> Ints:
        return np.where(picks >= 0, picks + begins[np.searchsorted(firsts, instance, side="right") - 1], -1)

    def together(name: Name, count: str) -> NDArray[Any]:
        return np.concatenate([part.arrays[name][: getattr(part, count)] for part in parts])

    by = columns[PICK][: columns.count]
    by[:] = numbered(by, columns[INSTANCE][: columns.count])
    kept = of["beam", "kept"]
    width = len(kept) // len(of["beam", "round"])
    kept = numbered(kept, np.repeat(np.arange(len(of["beam", "round"]), dtype=np.int32), width))
    when = together(("kept", "round"), "kept")
    shift = np.repeat(begins, [part.kept for part in parts])
    count = int(when.max(initial=0))
    ways = zip(
        _by_round(compared, np.maximum(columns[ROUND][compared], 0) + 1, count),
        _by_round(together(("kept", "pick"), "kept") + shift, when, count),
        strict=True,
    )
    made = Candidates(*(together(("pick", name), "picks") for name in ("vertex", "number", "total")))
    ended = together(("pick", "ended"), "picks") > 0
    beam.take(columns, made, ended, kept[kept >= 0], [way for way in ways if len(way[0])])


def _by_round(values: Ints, rounds: Ints, count: int) -> list[Ints]:
    """Those of round 1 to `count`, each in their order."""
    order = np.argsort(rounds, kind="stable")
    bounds = np.searchsorted(rounds[order], np.arange(1, count + 2))
    return [values[order[a:b]] for a, b in pairwise(bounds.tolist())]
