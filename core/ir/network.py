"""What the nodes of a model's graphs are, at one granularity: the part that no instance changes.

At granularity `cell` the types are the model's; at granularity `op` every type is one operation (see
`abw.core.graph.ops`). Everything after the graph (plans, executors) knows networks, not models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.cell import Cell, Param, Port, Shape
from abw.core.ir.model import QUERY, Attention, AttentionGradient, Reduction, Table

Granularity = Literal["cell", "op"]
# How a cell's variables lie in memory: by the planner; results as they come, batch after batch, as DyNet has
# them; by the paper's Algorithm 2.
LayoutName = Literal["planned", "declared", "paper"]

# `LISTED - l` is the reference of list l (see `Graph`); references of constants are all above it.
LISTED = -(2**30)


@dataclass(frozen=True, slots=True)
class Constant:
    """Values that no node computes: `rows` values of one shape, numbered from `first`.

    `kind` is 'zeros' (one row), 'param' (one row: parameter `number`), 'table' (table `number`, all its
    rows), 'field' (field `number` of the vertices: each mini-batch has its own rows, see `Graph.given`;
    `rows` is how many these may be) or 'kept' (what earlier mini-batches have computed as output
    `number % width` of type `number // width`, see `abw.core.graph.equal.leaves`).
    """

    kind: Literal["zeros", "param", "table", "field", "kept"]
    number: int
    shape: Shape
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One input of a type: everything that may flow into it, at any node.

    `producers` are (type number, output number), `constants` numbers into `Network.constants`. What a
    reduction over one link passes on is in here under its own producer. Where a cell's slot has a `reduction`
    a node may have several values there: the cell reads their sum, mean or maximum.
    """

    name: str
    shape: Shape
    producers: tuple[tuple[int, int], ...]
    constants: tuple[int, ...]
    reduction: Reduction | None = None


@dataclass(frozen=True, slots=True)
class NetType:
    """A type of nodes: a cell (`cell` set; slot s feeds the cell's input s) or a reduction.

    A reduction has one output for each slot; at a node with k operands a slot holds k values, k >= 2.
    Attention is a reduction too, of three slots and one output; its query's slot holds one value k times.
    `params[i]` is the number in `Network.params` behind the cell's parameter i.
    """

    name: str
    cell: Cell | None
    reduction: Reduction | Attention | AttentionGradient | None
    slots: tuple[Slot, ...]
    outputs: tuple[Port, ...]
    params: tuple[int, ...]

    @property
    def lists(self) -> int:
        """How many slots, the first ones, hold the values of all neighbours: all but an attention's query."""
        if self.cell is not None:
            return 0
        return QUERY if isinstance(self.reduction, Attention) else len(self.slots)


@dataclass(frozen=True, slots=True)
class Network:
    """All types of a graph, with the parameters, tables and constants they use.

    `width` is a power of two, no smaller than a type's number of outputs: the value `output` of node v has
    the reference `v * width + output`; row r of constant c has the reference `-1 - (constants[c].first + r)`.
    `outputs` maps a result's name to the (type, output) pairs that provide it. `fields` are those of the
    vertices that flow in as they are. `layout` is that of the cells'
    variables, for executors that have these in memory.
    """

    name: str
    granularity: Granularity
    types: tuple[NetType, ...]
    params: tuple[Param, ...]
    tables: tuple[Table, ...]
    constants: tuple[Constant, ...]
    outputs: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    width: int
    layout: LayoutName = "planned"
    fields: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[int, ...]:
        """The numbers of the constants that are fields, in the order of `fields`."""
        return tuple(number for number, constant in enumerate(self.constants) if constant.kind == "field")

    def constant_of(self, reference: int) -> tuple[int, int]:
        """The (constant number, row) that a negative reference means."""
        index = -1 - reference
        for number, constant in enumerate(self.constants):
            if constant.first <= index < constant.first + constant.rows:
                return number, index - constant.first
        raise ValueError(f"no constant has the reference {reference}")


def loops_of(network: Network) -> NDArray[np.int32]:
    """(T,): types that feed each other, directly or through others, have the same number; others -1."""
    reach = reach_of(network)
    both = reach & reach.T
    return np.where(both.any(axis=1), both.argmax(axis=1), -1).astype(np.int32)


def order_of(network: Network) -> NDArray[np.int32] | None:
    """The types (T,), each behind all that feed it; None where some feed themselves or each other."""
    reach = reach_of(network)
    if reach.diagonal().any():
        return None
    # what feeds a type is fed by fewer types than it
    return np.argsort(reach.sum(axis=1), kind="stable").astype(np.int32)


def reach_of(network: Network) -> NDArray[np.bool_]:
    """(T, T): whether type t is fed by type p, directly or through others."""
    count = len(network.types)
    reach = np.zeros((count, count), bool)
    for t, net_type in enumerate(network.types):
        for slot in net_type.slots:
            reach[t, [p for p, _ in slot.producers]] = True
    for middle in range(count):
        reach |= np.outer(reach[:, middle], reach[middle])
    return reach
