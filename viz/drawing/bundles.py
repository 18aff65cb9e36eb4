"""Bundles: edges from many nodes to the same readers run through one point, a hub.

Attention over k nodes by t readers is k + t lines then, not k * t. A list that gets longer from reader to
reader goes on from the hub of the shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

# The fewest nodes of a type that are bundled.
MANY = 3


@dataclass(frozen=True, slots=True)
class Bundled:
    """A graph of n nodes with hubs behind them: `layer`, `group` (n + hubs,); `source`, `target` (m,).

    Layers are twice those given, so that hubs lie between them, in odd ones.
    """

    layer: Ints
    group: Ints
    source: Ints
    target: Ints


def bundled(type: Ints, group: Ints, layer: Ints, source: Ints, target: Ints) -> Bundled:
    """Replace the edges (m,) from `MANY` nodes of a type or more to a node by those through a hub.

    Edges stay as they are where a hub would have one reader right below. O(m log m).
    """
    kept, readers = _readers(type, source, target)
    hubs: list[int] = []  # their layers
    owner: list[int] = []  # a node of their group
    latest: dict[int, tuple[frozenset[int], int]] = {}
    for members, into in sorted(readers.items(), key=lambda item: len(item[0])):
        deepest = int(layer[list(members)].max())
        if len(into) == 1 and (layer[list(members)] == layer[into[0]] - 1).all():
            kept += [(u, into[0]) for u in members]
            continue
        hub = len(layer) + len(hubs)
        rest, shorter = frozenset(members), latest.get(members[0])
        if shorter and shorter[0] < rest and hubs[shorter[1] - len(layer)] < 2 * deepest + 1:
            kept.append((shorter[1], hub))
            rest -= shorter[0]
        kept += [(u, hub) for u in sorted(rest)]
        kept += [(hub, v) for v in into]
        latest[members[0]] = frozenset(members), hub
        hubs.append(2 * deepest + 1)
        owner.append(members[0])
    ends = np.array(kept, np.int32).reshape(-1, 2)
    return Bundled(
        np.concatenate([2 * layer, np.array(hubs, np.int32)]).astype(np.int32),
        np.concatenate([group, group[np.array(owner, np.int32)]]).astype(np.int32),
        ends[:, 0],
        ends[:, 1],
    )


def _readers(
    type: Ints, source: Ints, target: Ints
) -> tuple[list[tuple[int, int]], dict[Sequence[int], list[int]]]:
    """The edges that are not bundled, and for each of the sets of nodes that are, who reads it."""
    order = np.lexsort((source, type[source], target))
    source, target = source[order], target[order]
    kind = type[source]
    change = (target[1:] != target[:-1]) | (kind[1:] != kind[:-1])
    bounds = [0, *(np.flatnonzero(change) + 1).tolist(), len(source)]
    kept: list[tuple[int, int]] = []
    readers: dict[Sequence[int], list[int]] = {}
    for first, last in pairwise(bounds):
        members = tuple(source[first:last].tolist())
        if len(members) < MANY:
            kept += [(u, int(target[first])) for u in members]
        else:
            readers.setdefault(members, []).append(int(target[first]))
    return kept, readers
