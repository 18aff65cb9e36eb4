"""Reductions read in place: cells take the lists, and the reductions are no nodes any more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.graph.network import LISTED, NetType, Network, Slot

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Fusion:
    """A network without the reductions that only cells read, and the one it was made of.

    `gone` (T,) of the source's types; the others keep their order. A slot that read such a reduction has its
    kind as `Slot.reduction`, and may read all that the reduction did.
    """

    source: Network
    network: Network
    gone: NDArray[np.bool_]


def fuse_network(network: Network) -> Fusion:
    """Take out each reduction that cells alone read: no other reduction, and no output of the model.

    A slot that reads reductions of several kinds keeps them all. Cost: linear in types and flows.
    """
    types = network.types
    read = {p for t in types for s in t.slots for p, _ in s.producers}
    gone = {t for t in read if types[t].reduction}
    gone -= {p for _, pairs in network.outputs for p, _ in pairs}
    gone -= {p for t in types if t.reduction for s in t.slots for p, _ in s.producers}
    for slot in (s for t in types for s in t.slots):
        here = {p for p, _ in slot.producers} & gone
        if len({types[p].reduction for p in here}) > 1:
            gone -= here
    kept = [t for t in range(len(types)) if t not in gone]
    number = {t: place for place, t in enumerate(kept)}

    def fused(slot: Slot) -> Slot:
        inside = [(p, o) for p, o in slot.producers if p in gone]
        behind = [types[p].slots[o] for p, o in inside]
        producers = {pair for s in (slot, *behind) for pair in s.producers if pair[0] not in gone}
        return replace(
            slot,
            producers=tuple(sorted((number[p], o) for p, o in producers)),
            constants=tuple(sorted({c for s in (slot, *behind) for c in s.constants})),
            reduction=types[inside[0][0]].reduction if inside else slot.reduction,
        )

    def without(t: NetType) -> NetType:
        return replace(t, slots=tuple(fused(s) for s in t.slots))

    outputs = tuple((name, tuple((number[t], o) for t, o in pairs)) for name, pairs in network.outputs)
    made = replace(network, types=tuple(without(types[t]) for t in kept), outputs=outputs)
    return Fusion(network, made if gone else network, np.array([t in gone for t in range(len(types))]))


def fuse(graph: Graph, fusion: Fusion) -> Graph:
    """The graph of `fusion.source` as one of `fusion.network`. Linear in nodes and operands.

    Each consumer of a reduction that is gone depends on its operands instead, and forms it again. Types that
    stay have the same nodes in the same order.
    """
    if not fusion.gone.any():
        return graph
    width, counts = graph.network.width, np.diff(graph.type_ptr)
    stays = np.repeat(~fusion.gone, counts)
    number = np.cumsum(stays, dtype=np.int32) - np.int32(1)
    value = (number[:, None] * np.int32(width) + np.arange(width, dtype=np.int32)).ravel()
    sizes = [np.zeros(1, np.int32)]
    lists = 0
    for t in np.flatnonzero(fusion.gone).tolist():
        first, last = graph.type_ptr[t : t + 2].tolist()
        slots = len(graph.network.types[t].slots)
        # a node's operands are its slots' lists one after the other
        sizes.append(np.repeat(np.diff(graph.operand_ptr[first : last + 1]) // np.int32(slots), slots))
        named = LISTED - lists - np.arange((last - first) * slots, dtype=np.int32)
        value.reshape(-1, width)[first:last, :slots] = named.reshape(-1, slots)
        lists += len(named)

    def renamed(references: Ints) -> Ints:
        found, computed = references.copy(), references >= 0
        found[computed] = value[references[computed]]
        return found

    def operands(types: NDArray[np.bool_]) -> Ints:
        spans = [graph.operand[graph.operand_ptr[a] : graph.operand_ptr[b]] for a, b in _spans(graph, types)]
        return renamed(np.concatenate([np.zeros(0, np.int32), *spans]))

    lengths = np.diff(graph.operand_ptr)[stays]
    operand, list_operand = operands(~fusion.gone), operands(fusion.gone)
    list_ptr = np.cumsum(np.concatenate(sizes), dtype=np.int32)
    source, target = _edges(np.repeat(number[stays], lengths), operand, list_ptr, list_operand)
    type_of = np.repeat(np.arange(len(fusion.network.types), dtype=np.int32), counts[~fusion.gone])
    names = tuple(t.name for t in fusion.network.types)
    return Graph(
        network=fusion.network,
        dag=build_dag(names, type_of, source // np.int32(width), target),
        type_ptr=np.concatenate([np.zeros(1), np.cumsum(counts[~fusion.gone])]).astype(np.int32),
        vertex=graph.vertex[stays],
        instance=graph.instance[stays],
        operand_ptr=np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)]),
        operand=operand,
        results=tuple(replace(r, reference=renamed(r.reference)) for r in graph.results),
        instances=graph.instances,
        list_ptr=list_ptr,
        list_operand=list_operand,
    )


def _spans(graph: Graph, types: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last node of these types."""
    return [(int(graph.type_ptr[t]), int(graph.type_ptr[t + 1])) for t in np.flatnonzero(types)]


def _edges(owner: Ints, operand: Ints, list_ptr: Ints, list_operand: Ints) -> tuple[Ints, Ints]:
    """The computed values that are read, those in lists included, and the nodes that read them."""
    listed = operand <= LISTED
    many = np.diff(list_ptr)[LISTED - operand[listed]]
    begin = list_ptr[LISTED - operand[listed]]
    place = np.arange(many.sum()) + np.repeat(begin - (np.cumsum(many) - many), many)
    value = np.concatenate([operand, list_operand[place]])
    reader = np.concatenate([owner, np.repeat(owner[listed], many)])
    return value[value >= 0], reader[value >= 0]
