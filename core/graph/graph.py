"""The dataflow graph of a mini-batch: its nodes, and which values each of them reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.ir.network import LISTED, Network

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ResultRefs:
    """An output of a model: m values, in the order of their instances and vertices.

    `reference` (m,) are value references (see `Network.width`), `vertex` (m,) and `instance` (m,) say whose
    they are, as in `Graph`.
    """

    name: str
    reference: Ints
    vertex: Ints
    instance: Ints


def merged(name: str, parts: Sequence[tuple[Ints, Ints, Ints]]) -> ResultRefs:
    """What several types give back under one name (references, vertices, instances) in order of vertices."""
    reference, vertex, instance = parts[0]
    if len(parts) > 1:
        together = np.concatenate(parts, axis=1)
        reference, vertex, instance = together.take(np.argsort(together[1], kind="stable"), axis=1)
    return ResultRefs(name, reference, vertex, instance)


@dataclass(frozen=True, slots=True, repr=False)
class Nodes:
    """n nodes, whose they are, and what they give back: a graph without its edges.

    Node v belongs to `vertex[v]` (n,), a vertex number counted from the mini-batch's first, and to
    instance `instance[v]` (n,) of the mini-batch's `instances`. Nodes of one type are numbered one after the
    other (at granularity `cell` in the order of their vertices): type t has the nodes
    `type_ptr[t]:type_ptr[t + 1]`.
    """

    network: Network
    type_ptr: Ints
    vertex: Ints
    instance: Ints
    results: tuple[ResultRefs, ...]
    instances: int

    def __len__(self) -> int:
        return len(self.vertex)

    @property
    def type_sizes(self) -> Ints:
        """How many nodes each type has (T,)."""
        return self.type_ptr[1:] - self.type_ptr[:-1]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Which nodes of a graph stand for those of the graph as constructed, which had n nodes.

    `type_ptr` (T + 1,) and `instance` (n,) are those of the graph as constructed, without reductions that
    cells read in place. Its node v of type t is computed by node `place[v]` (n,), counted from the first of
    type t. With `part` (instances,) no node stands for one of an instance in another part.

    Where `place[v]` is negative, an earlier mini-batch has computed node v, and its outputs lie in row
    `-1 - place[v]` of the type's kept leaves (`equal/leaves.py`): `kept` such nodes. `epoch`: that of the
    kept leaves; None where they were not looked at.
    """

    type_ptr: Ints
    instance: Ints
    place: Ints
    part: Ints | None = None
    epoch: int | None = None
    kept: int = 0

    def nodes(self, type_ptr: Ints) -> Ints:
        """The node (n,) that stands for each, in the graph with this `type_ptr`; -1 for kept leaves."""
        found = self.place + np.repeat(type_ptr[:-1], np.diff(self.type_ptr))
        if self.kept:
            found[self.place < 0] = -1
        return found


@dataclass(frozen=True, slots=True, repr=False)
class Graph(Nodes):
    """n nodes with their operands.

    Node v reads the values `operand[operand_ptr[v]:operand_ptr[v + 1]]` (references: see `Network.width`).
    Of a cell there is one for each slot; of a reduction with k neighbours, slot s has the s-th run of k (that
    of an attention's query is the same value k times).

    A slot with a reduction of its own may have a list there, of two values or more: list l has the reference
    `LISTED - l` and the values `list_operand[list_ptr[l]:list_ptr[l + 1]]`. Lists that no slot names may be
    shorter.

    `given` are the rows of the constants that are fields of vertices (`Network.given`), of each (rows, size).

    `distinct` says which nodes were left out because an equal one computes the same
    (`abw.core.graph.equal.dedup`); None where none was looked for.
    """

    dag: Dag
    operand_ptr: Ints
    operand: Ints
    list_ptr: Ints = field(default_factory=lambda: np.zeros(1, np.int32))
    list_operand: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    given: tuple[NDArray[np.float32], ...] = ()
    distinct: Distinct | None = None

    def __repr__(self) -> str:
        counts = zip(self.type_sizes.tolist(), self.dag.types, strict=True)
        types = ", ".join(f"{count} {name}" for count, name in counts if count)
        whose = f"{self.instances} instance{'s' * (self.instances != 1)}"
        return f"Graph of {self.network.name}: {len(self)} nodes of {whose} ({types})"

    def values_of(self, reference: int) -> list[int]:
        """The references that one stands for: those of a list, else itself."""
        if reference > LISTED:
            return [reference]
        number = LISTED - reference
        return list(self.list_operand[self.list_ptr[number] : self.list_ptr[number + 1]].tolist())
