"""Types of one structure taken together: what a policy then sees."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.ir.network import NetType, Network

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Groups:
    """G groups of a network's T types: `names` (G) and each type's group (T,), numbered by first type."""

    names: tuple[str, ...]
    group: Ints

    @property
    def trivial(self) -> bool:
        """Whether every type is a group of its own."""
        return len(self.names) == len(self.group)

    def apply(self, dag: Dag) -> Dag:
        """The dag with groups for types, of the same nodes and edges. O(n)."""
        return Dag(self.names, self.group[dag.type], lambda: dag.edges, reads=dag.reads)


def group_types(network: Network) -> Groups:
    """Types that compute the same from inputs of the same shapes, with parameters of their own, are a group.

    One launch can execute nodes of several of them if it chooses each row's parameters (a grouped kernel).
    A group is called by its types' names joined by +.
    """
    number: dict[Hashable, int] = {}
    group = [number.setdefault(structure(t), len(number)) for t in network.types]
    names = tuple(
        "+".join(t.name for t, g in zip(network.types, group, strict=True) if g == wanted)
        for wanted in range(len(number))
    )
    return Groups(names, np.array(group, np.int32))


def structure(net_type: NetType) -> Hashable:
    """All that two types' kernels must share: everything but names, parameters and where inputs come from."""
    shapes = tuple((s.shape, s.reduction) for s in net_type.slots)
    if net_type.cell is None:
        return net_type.reduction, shapes
    cell = net_type.cell
    params = tuple(p.shape for p in cell.params)
    ops = tuple((op.name, op.args, op.shape, op.attr) for op in cell.ops)
    return shapes, params, ops, tuple(value for _, value in cell.outputs)
