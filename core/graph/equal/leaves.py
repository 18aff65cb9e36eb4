"""Outputs of leaves kept from one mini-batch to the next, in rows that later graphs read like a table's.

A leaf is a node that reads one row of a table, and else constants of one row: a word's embedding times a
matrix, the lowest cell of a tree. Its outputs depend on that row and the weights alone, so that they can stay
in memory while these do not change. A node that reads a kept leaf reads a constant of kind `kept`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.ir.network import LISTED, Constant, NetType, Network

Ints = NDArray[np.int32]
Array = NDArray[np.floating[Any]]

# Bytes of the outputs that an executor keeps. Of 8,544 sentences as trees 4 MB spare 19 % of the arithmetic
# beside equal nodes left out, 19 MB spare 20 % (mini-batches of 64, hidden 128).
MOST_BYTES = 16 << 20
# What is kept is written once more, and read from memory far away: that pays where a float takes so many
# operations at least (a leaf of a tree LSTM from hidden 118 on), and where so many rows have room, or all.
LEAST_FLOPS, LEAST_ROWS = 350, 4096


class StaleLeavesError(Exception):
    """A plan reads leaves that were forgotten after it was made: plan the mini-batch again."""


def leaf_slot(network: Network, t: int) -> int | None:
    """The slot by whose row nodes of type t differ; None for a type whose outputs are not kept.

    Kept are outputs of cells with large products that read one row of a table and else constants of one row,
    unless the model gives them back.
    """
    net_type = network.types[t]
    if net_type.cell is None or _flops(net_type.cell) < LEAST_FLOPS * _floats(net_type):
        return None
    if any(t == producer for _, pairs in network.outputs for producer, _ in pairs):
        return None
    read = [[network.constants[c] for c in slot.constants] for slot in net_type.slots]
    if any(slot.producers for slot in net_type.slots) or any(c.kind == "field" for cs in read for c in cs):
        return None
    differ = [s for s, constants in enumerate(read) if sum(c.rows for c in constants) > 1]
    return differ[0] if len(differ) == 1 else None


def _flops(cell: Cell) -> int:
    """The operations of a cell's products with vectors."""
    return sum(2 * prod(cell.shape_of(op.args[0])) for op in cell.ops if op.name == "matmul")


def _floats(net_type: NetType) -> int:
    return sum(prod(output.shape) for output in net_type.outputs)


def with_leaves(network: Network) -> Network:
    """The network with constants of kind `kept` for the outputs of leaves, `MOST_BYTES` in all.

    It is the same network where nothing can be kept. Each leaf's type has as many rows as its tables, or as
    fit. Cost: linear in types and slots.
    """
    read = {pair for t in network.types for slot in t.slots for pair in slot.producers}
    slots = {t: s for t in range(len(network.types)) if (s := leaf_slot(network, t)) is not None}
    slots = {t: s for t, s in slots.items() if any(t == producer for producer, _ in read)}
    row_bytes = 4 * sum(_floats(network.types[t]) for t in slots)
    first = max((c.first + c.rows for c in network.constants), default=0)
    made: dict[tuple[int, int], int] = {}
    constants = list(network.constants)
    for t, s in slots.items():
        there = sum(network.constants[c].rows for c in network.types[t].slots[s].constants)
        rows = min(there, MOST_BYTES // row_bytes)
        if rows < min(there, LEAST_ROWS):
            continue
        for o, output in enumerate(network.types[t].outputs):
            made[t, o] = len(constants)
            constants.append(Constant("kept", t * network.width + o, output.shape, first, rows))
            first += rows
    if not made or first > -LISTED:
        return network
    types = tuple(
        replace(
            t,
            slots=tuple(
                replace(s, constants=s.constants + tuple(made[p] for p in s.producers if p in made))
                for s in t.slots
            ),
        )
        for t in network.types
    )
    return replace(network, types=types, constants=tuple(constants))


# No two executors have the same epoch: a plan that was made for one does not read another's rows.
_EPOCHS = count()


@dataclass(frozen=True, slots=True)
class LeafTypes:
    """The types of a network made by `with_leaves` whose outputs are kept, of T types with W outputs at most.

    `slot`, `at` (T,): of such a type the slot by whose row its nodes differ, and where its part of
    `Leaves.row_of` begins; -1 for others. `kept` (T, W): the reference of the first row of each output.
    `rows`: how many rows each type has; `length`: of `row_of`.
    """

    slot: Ints
    at: NDArray[np.int64]
    kept: Ints
    rows: dict[int, int]
    length: int


def leaf_types(network: Network) -> LeafTypes:
    """The types of leaves whose outputs have rows in a network. Cost: linear in types and slots."""
    several, rows = len(network.types), dict[int, int]()
    slot, at = np.full(several, -1, np.int32), np.full(several, -1, np.int64)
    kept = np.zeros((several, network.width), np.int32)
    # of what leaves may read: a training network has others behind fields, with numbers of many megabytes
    span = max((c.first + c.rows for c in _known_by(network) if c.kind not in ("field", "kept")), default=0)
    for constant in network.constants:
        if constant.kind == "kept":
            t, o = divmod(constant.number, network.width)
            kept[t, o] = -1 - constant.first
            if o == 0:
                slot[t], at[t], rows[t] = leaf_slot(network, t) or 0, len(rows) * span, constant.rows
    return LeafTypes(slot, at, kept, rows, len(rows) * span)


def _known_by(network: Network) -> list[Constant]:
    """The constants by whose rows leaves that are kept differ."""
    kept = {c.number // network.width for c in network.constants if c.kind == "kept"}
    slots = [network.types[t].slots[leaf_slot(network, t) or 0] for t in kept]
    return [network.constants[number] for slot in slots for number in slot.constants]


class Leaves:
    """Which leaves an executor keeps, of a network made by `with_leaves`.

    A leaf of type t that reads the reference -1 - r has row `row_of[types.at[t] + r]` of its outputs'
    constants, -1 if it is not kept. Rows are only added: what a plan reads stays until all is forgotten,
    which begins another `epoch`.
    """

    def __init__(self, network: Network) -> None:
        """Nothing is kept yet."""
        self.types, self._network = leaf_types(network), network
        self.row_of = np.empty(self.types.length, np.int32)
        self.forget()

    def forget(self) -> None:
        """Keep no leaf any more: the weights are others, the memory has moved, or all rows are taken."""
        self.row_of.fill(-1)
        self._taken = dict.fromkeys(self.types.rows, 0)
        self.epoch = next(_EPOCHS)

    def require(self, graph: Graph) -> None:
        """Raise StaleLeavesError for a graph that reads leaves which are not there any more."""
        found = graph.distinct
        if found is not None and found.kept and found.epoch != self.epoch:
            raise StaleLeavesError

    def store(
        self,
        graph: tuple[Ints, Ints, Ints],
        row: Ints,
        memory: Sequence[Array],
        output_arena: Ints,
        first: Ints,
        *,
        divided: bool = False,
    ) -> None:
        """Copy outputs of the leaves that a graph has computed to rows that stay.

        `graph`: its `type_ptr`, `operand_ptr` and `operand`; if it is `divided`, equal leaves may be computed
        in several of its parts. `row`: where each value lies (`Plan.row`). `memory[output_arena[t, o]]` has
        the outputs o of type t; `first` (T, W): the first of the rows there that stay.
        """
        types, width = self.types, self._network.width
        type_ptr, operand_ptr, operand = graph
        for t, rows in types.rows.items():
            begin, end = type_ptr[t : t + 2].tolist()
            index = types.at[t] - 1 - operand[operand_ptr[begin:end] + types.slot[t]]
            new = np.flatnonzero(self.row_of[index] < 0)
            if divided:
                new = new[np.unique(index[new], return_index=True)[1]]
            fresh, taken = len(new), self._taken[t]
            if taken + fresh > rows:
                if 2 * fresh > rows:  # all would be forgotten again and again
                    continue
                self.forget()
                return
            for o in range(len(self._network.types[t].outputs)):
                values, to = memory[output_arena[t, o]], int(first[t, o]) + taken
                values[to : to + fresh] = values[row[(begin + new) * width + o]]
            self.row_of[index[new]] = np.arange(taken, taken + fresh, dtype=np.int32)
            self._taken[t] = taken + fresh


def with_fresh(keep: Ints, graph: Graph, types: LeafTypes) -> Ints:
    """What a plan shall keep, with references to the outputs of all leaves that its graph computes."""
    width, found = graph.network.width, [keep]
    for t in types.rows:
        begin, end = graph.type_ptr[t : t + 2].tolist()
        outputs = np.arange(len(graph.network.types[t].outputs))
        found.append((np.arange(begin, end)[:, None] * width + outputs).ravel().astype(np.int32))
    return np.concatenate(found)
