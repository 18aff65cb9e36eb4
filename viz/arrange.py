"""Where the page puts every node: each instance laid out in layers, the instances packed in rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.viz.layered import across

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

ASPECT = 1.8
"""The width of the whole beside its height."""


def arrange(dag: Dag, instance: Ints, source: Ints) -> tuple[Floats, Floats, Ints]:
    """x, y and layer (n,) each, the least place 0, neighbours at least 1 apart; source (m,) of each edge.

    Layers run to the right where instances are mostly deeper than wide (a sentence then reads from left to
    right), else downwards. Cost: see `layered.across`.
    """
    layer = depths(dag)
    place = across(layer, instance, source, dag.succ)
    instances = int(instance.max(initial=-1)) + 1
    low, high = np.full(instances, np.inf), np.full(instances, -np.inf)
    np.minimum.at(low, instance, place)
    np.maximum.at(high, instance, place)
    deep = np.zeros(instances)
    np.maximum.at(deep, instance, layer)
    wide = np.where(high >= low, high - low, 0.0)
    place = place - low[instance]
    if deep.sum() > 1.2 * wide.sum():
        x, y, width, height = layer.astype(float), place, deep, wide
    else:
        x, y, width, height = place, layer.astype(float), wide, deep
    left, top = packed(width + 2.5, height + 2.5)
    return x + left[instance], y + top[instance], layer


def packed(width: Floats, height: Floats) -> tuple[Floats, Floats]:
    """The left upper corners of boxes (k,) in rows, in order; the whole is about ASPECT as wide as high."""
    room = max(float(width.max(initial=0)), float(np.sqrt((width * height).sum() * ASPECT)))
    left, top = np.zeros(len(width)), np.zeros(len(width))
    x = y = tallest = 0.0
    for i, (w, h) in enumerate(zip(width.tolist(), height.tolist(), strict=True)):
        if x > 0 and x + w > room:
            x, y, tallest = 0.0, y + tallest, 0.0
        left[i], top[i] = x, y
        x, tallest = x + w, max(tallest, h)
    return left, top
