"""Where the page puts every node of an instance; the page itself packs the instances it shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.viz.drawing.layered import across

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


def arrange(dag: Dag, instance: Ints, source: Ints) -> tuple[Floats, Floats, Ints]:
    """x, y and layer (n,) each: every instance from (0, 0) on, its nodes at least 1 apart in x or in y.

    `source` (m,) of each edge. Layers run to the right where instances are mostly deeper than wide (a
    sentence then reads from left to right), else downwards. Cost: see `layered.across`.
    """
    layer = depths(dag)
    place = across(layer, instance, source, dag.succ)
    instances = int(instance.max(initial=-1)) + 1
    low, wide, deep = np.full(instances, np.inf), np.zeros(instances), np.zeros(instances)
    np.minimum.at(low, instance, place)
    place = place - low[instance]
    np.maximum.at(wide, instance, place)
    np.maximum.at(deep, instance, layer)
    down = layer.astype(float)
    return (down, place, layer) if deep.sum() > 1.2 * wide.sum() else (place, down, layer)
