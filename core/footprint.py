"""The memory that a mini-batch takes, said before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter, mul
from typing import Any

import numpy as np

from abw.core.cell.normal import size_of
from abw.core.exec.rows import row_floats
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule

LANES = 16
"""Floats of the widest vectors, to which an executor may pad rows."""

_FIELDS = {
    kind: attrgetter(*(f.name for f in fields(kind))) for kind in (Plan, Graph, Dag, Schedule, ResultRefs)
}


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a mini-batch, beside what a process has taken once its executor is prepared.

    `arenas`: all values, tables among them; `graph`: the arrays of graph, schedule and plan; `outputs`: what
    is read in the end.
    """

    arenas: int
    graph: int
    outputs: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.arenas + self.graph + self.outputs


def footprint(planned: Plan) -> Footprint:
    """What running a plan takes. O(arenas)."""
    graph, arenas = planned.graph, planned.arenas
    pitch = (row_floats(shape, LANES) for shape in arenas.shape)
    floats = sum(map(mul, planned.rows.tolist(), pitch))
    arrays = _array_bytes((planned, graph, graph.dag, planned.schedule, *graph.results))
    return Footprint(4 * floats, arrays, _output_bytes(graph))


def _output_bytes(graph: Graph) -> int:
    shapes = [
        graph.network.types[pairs[0][0]].outputs[pairs[0][1]].shape for _, pairs in graph.network.outputs
    ]
    return sum(
        4 * len(refs.reference) * size_of(shape) for refs, shape in zip(graph.results, shapes, strict=True)
    )


def _array_bytes(parts: Iterable[Any]) -> int:
    """Each array once, though several parts hold it."""
    values = (value for part in parts for value in _FIELDS[type(part)](part))
    arrays = {id(value): value.nbytes for value in values if type(value) is np.ndarray}
    return sum(arrays.values())
