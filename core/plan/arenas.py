"""Which values share one piece of memory: the part of a plan that no graph changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.normal import CellCosts, NormalCell, cell_costs, normalise, size_of
from abw.core.ir.cell import Shape
from abw.core.ir.model import KEYS, QUERY, VALUES, Attention, AttentionGradient
from abw.core.ir.network import NetType, Network

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Arenas:
    """A arenas of a network with T types, at most S slots and W outputs a type, and C constants.

    An arena is a float32 buffer of rows of one shape. All (type, output) pairs and tables that can flow into
    one slot share an arena, so that a slot reads one buffer; so does what a reduction makes of its slot.
    Zeros and parameters have a row in each arena that needs them; tables, kept leaves and these rows come
    first: `head` (A,) rows before the first of a node. Fields of vertices come behind them, as many rows as a
    mini-batch has of them.

    `shape[a]`, `row_floats` (A,): what a row holds. `output_arena` (T, W) and `slot_arena` (T, S): arena
    numbers, -1 where a type has fewer. `constant_row` (A, C): first row of constant c in arena a, -1 where it
    is not; where it is a field, its rows are a plan's own, in arena `field_arena[c]` (C,). `constant_first`,
    `constant_end` (C,): the constant's references (see `Network`).
    `outputs`, `slots` (T,): how many a type has. `reduces` (T,) bool; `reduced` (T, S) bool: a lane may read
    several rows there; `most_reduced`: the most such slots of a type. `read` (T,) bool: some type reads its
    results; `loose` (T,) bool: none does, and it does not reduce. `value_floats` (T,): of all its
    outputs, `most_floats` the most of a type.
    `cells[t]`: the type's cell in normal form, None for a reduction. A lane takes `product_flops`,
    `other_flops` (T,), and for each row of a list but the first `list_flops` (T, S) more.
    """

    shape: tuple[Shape, ...]
    head: Ints
    row_floats: Ints
    output_arena: Ints
    slot_arena: Ints
    constant_row: Ints
    field_arena: Ints
    constant_first: Ints
    constant_end: Ints
    outputs: Ints
    slots: Ints
    reduces: NDArray[np.bool_]
    reduced: NDArray[np.bool_]
    most_reduced: int
    read: NDArray[np.bool_]
    loose: NDArray[np.bool_]
    value_floats: Longs
    most_floats: int
    cells: tuple[NormalCell | None, ...]
    product_flops: Longs
    other_flops: Longs
    list_flops: Ints


def once_a_network(make: Callable[[Network], Made]) -> Callable[[Network], Made]:
    """Call a function once for each network, of which the eight last ones are remembered."""
    # by identity: hashing a network takes longer than planning a small graph. The entry holds the network,
    # so its id cannot be given to another one.
    kept: dict[int, tuple[Network, Made]] = {}

    @wraps(make)
    def remembered(network: Network) -> Made:
        entry = kept.get(id(network))
        if entry is None:
            while len(kept) >= 8:
                kept.pop(next(iter(kept)))
            entry = kept[id(network)] = (network, make(network))
        return entry[1]

    return remembered


@once_a_network
def arenas_of(network: Network) -> Arenas:
    """The arenas of a network; computed once for it. Cost: some 100 us, nothing from then on."""
    types, constants = network.types, network.constants
    slot_count = max((len(t.slots) for t in types), default=0)
    groups, group_of_slot = _groups(network)
    output_arena = np.full((len(types), network.width), -1, np.int32)
    slot_arena = np.full((len(types), slot_count), -1, np.int32)
    count = 1 + max([*groups.values(), *group_of_slot.values()], default=-1)
    shape: list[Shape] = [()] * count
    head = np.zeros(count, np.int32)
    constant_row = np.full((count, len(constants)), -1, np.int32)
    field_arena = np.full(len(constants), -1, np.int32)
    for (t, o), group in groups.items():
        shape[group] = types[t].outputs[o].shape if t >= 0 else constants[o].shape
        if t >= 0:
            output_arena[t, o] = group
    for (t, s), group in group_of_slot.items():
        slot = types[t].slots[s]
        shape[group], slot_arena[t, s] = slot.shape, group
        # tables first: then a table alone in its arena begins at row 0
        for c in sorted(slot.constants, key=lambda c: (constants[c].kind != "table", c)):
            if constants[c].kind == "field":
                field_arena[c] = group
            elif constant_row[group, c] < 0:
                constant_row[group, c] = head[group]
                head[group] += constants[c].rows

    cells = tuple(None if t.cell is None else normalise(t.cell) for t in types)
    costs = [None if cell is None else cell_costs(cell) for cell in cells]
    list_flops, reduced = np.zeros(slot_arena.shape, np.int32), np.zeros(slot_arena.shape, np.bool_)
    for t, net_type in enumerate(types):
        own = slice(len(net_type.slots))
        list_flops[t, own] = _list_flops(net_type)
        reduced[t, own] = [net_type.cell is None or slot.reduction is not None for slot in net_type.slots]
    slots = np.array([len(t.slots) for t in types], np.int32)
    reduces = np.array([t.cell is None for t in types], np.bool_)
    producers = {t for some in types for slot in some.slots for t, _ in slot.producers}
    read = np.array([t in producers for t in range(len(types))], np.bool_)
    value_floats = np.array([sum(size_of(o.shape) for o in t.outputs) for t in types], np.int64)
    return Arenas(
        shape=tuple(shape),
        head=head,
        row_floats=np.array([size_of(s) for s in shape], np.int32),
        output_arena=output_arena,
        slot_arena=slot_arena,
        constant_row=constant_row,
        field_arena=field_arena,
        constant_first=np.array([c.first for c in constants], np.int32),
        constant_end=np.array([c.first + c.rows for c in constants], np.int32),
        outputs=np.array([len(t.outputs) for t in types], np.int32),
        slots=slots,
        reduces=reduces,
        reduced=reduced,
        most_reduced=int(reduced.sum(axis=1).max(initial=0)),
        read=read,
        loose=~(read | reduces),
        value_floats=value_floats,
        most_floats=int(value_floats.max(initial=0)),
        cells=cells,
        product_flops=np.array([c.product_flops if c else 0 for c in costs], np.int64),
        other_flops=np.array([_other_flops(*each) for each in zip(types, costs, strict=True)], np.int64),
        list_flops=list_flops,
    )


def _list_flops(net_type: NetType) -> list[int]:
    """What a further row of each slot takes: an addition or comparison a float; of attention's values and
    keys a multiplication and an addition, and some for each head's weight.
    """
    sizes = [size_of(slot.shape) for slot in net_type.slots]
    match net_type.reduction:
        case Attention(heads):
            return [2 * sizes[VALUES], 2 * sizes[KEYS] + 4 * heads, 0]
        case AttentionGradient(Attention(heads), of):
            return [
                2 * sizes[VALUES],
                2 * sizes[KEYS] + 6 * heads,
                2 * sizes[of] if of != QUERY else 2 * sizes[KEYS],
            ]
    return sizes


def _other_flops(net_type: NetType, costs: CellCosts | None) -> int:
    """What a lane takes beside products; of attention, what its first row does."""
    if costs is not None:
        return costs.other_flops
    attends = isinstance(net_type.reduction, Attention | AttentionGradient)
    return sum(_list_flops(net_type)) if attends else 0


def _groups(network: Network) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """Union-find over slots: the arena of each (type, output) or (-1, table or field), and of each slot."""
    parent: dict[tuple[int, ...], tuple[int, ...]] = {}

    def find(x: tuple[int, ...]) -> tuple[int, ...]:
        parent.setdefault(x, x)
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    # a slot is a key of three, so that it is no (type, output)
    for t, net_type in enumerate(network.types):
        for o in range(len(net_type.outputs)):
            find((t, o))
        for s, slot in enumerate(net_type.slots):
            attends = isinstance(net_type.reduction, Attention) and s == VALUES
            reduced = attends or isinstance(net_type.reduction, str)
            flows = [
                *slot.producers,
                *((-1, c) for c in slot.constants if network.constants[c].kind in ("table", "field", "kept")),
                # a list's only value stands for what it is reduced to
                *([(t, s)] if reduced and s < len(net_type.outputs) else ()),
            ]
            for flow in flows:
                parent[find(flow)] = find((t, s, 0))
            find((t, s, 0))
    number: dict[tuple[int, ...], int] = {}
    for key in parent:
        number.setdefault(find(key), len(number))
    values = {(k[0], k[1]): number[find(k)] for k in parent if len(k) == 2}
    slots = {(k[0], k[1]): number[find(k)] for k in parent if len(k) == 3}
    return values, slots
