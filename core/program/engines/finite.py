"""Where a program's numbers stop being finite: the first NaN or infinity that a mini-batch computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abw.core.program.engines.engine import Engine
from abw.core.program.recording.recorder import joined


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A node's output that holds `value`: its type and output by name, and its instance's place in the
    mini-batch. What the node reads is finite.
    """

    type: str
    output: str
    instance: int
    value: float


def not_finite(engine: Engine) -> NotFinite | None:
    """The first of the run's nodes, as they were recorded, with an output that is not finite.

    Cost: reading all values.
    """
    network, segment = engine.network, joined(engine.segments)
    first = len(segment)
    found: NotFinite | None = None
    for t in np.unique(segment.type).tolist():
        nodes = np.flatnonzero(segment.type == t)
        for o, port in enumerate(network.types[t].outputs):
            values = engine.computed(nodes * network.width + o).reshape(len(nodes), -1)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad) and nodes[bad[0]] < first:
                first, value = int(nodes[bad[0]]), values[bad[0]]
                odd = float(value[~np.isfinite(value)][0])
                found = NotFinite(network.types[t].name, port.name, int(segment.instance[first]), odd)
    return found
