"""The dataflow graph of a mini-batch: its nodes, and which values each of them reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.graph.network import Network

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ResultRefs:
    """What a model gives back under one name: m values, in the order of their instances and vertices.

    `reference` (m,) are value references (see `Network.width`), `vertex` (m,) and `instance` (m,) say whose
    they are, as in `Graph`.
    """

    name: str
    reference: Ints
    vertex: Ints
    instance: Ints


@dataclass(frozen=True, slots=True)
class Graph:
    """n nodes with their operands.

    Node v belongs to `vertex[v]` (n,), a vertex number counted from the mini-batch's first, and to
    instance `instance[v]` (n,) of the mini-batch. Nodes of one type are numbered one after the other (at
    granularity `cell` in the order of their vertices): type t has the nodes `type_ptr[t]:type_ptr[t + 1]`.
    It reads the values `operand[operand_ptr[v]:operand_ptr[v + 1]]` (references: see `Network.width`). Of a
    cell there is one for each slot; of a reduction with k neighbours, slot s has the s-th run of k.
    """

    network: Network
    dag: Dag
    type_ptr: Ints
    vertex: Ints
    instance: Ints
    operand_ptr: Ints
    operand: Ints
    results: tuple[ResultRefs, ...]
    instances: int

    def __len__(self) -> int:
        return len(self.vertex)
