"""Reductions read in place: cells take the lists, and the reductions are no nodes any more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.graph.edges import successors
from abw.core.graph.graph import Distinct, Graph
from abw.core.ir.model import SPREADS
from abw.core.ir.network import LISTED, Constant, NetType, Network, Slot, order_of
from abw.core.jit.decorators import inner, njit

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Fusion:
    """A network without the reductions that only cells read, and the one it was made of.

    `gone` (T,) of the source's types; the others keep their order. A slot that read such a reduction has its
    kind as `Slot.reduction`, and may read all that the reduction did. `order`: see `order_of`, of `network`.
    """

    source: Network
    network: Network
    gone: NDArray[np.bool_]
    order: Ints | None


def fuse_network(network: Network) -> Fusion:
    """Take out each reduction that cells alone read: no other reduction, and no output of the model.

    Attention stays: a cell that read its list would compute it again for each of its readers. Variances stay,
    too: that of one value is no longer that value, as of a list in place it is.

    A slot that reads reductions of several kinds keeps them all. Cost: linear in types and flows.
    """
    types = network.types
    read = {p for t in types for s in t.slots for p, _ in s.producers}
    kinds = {t: kind for t in read if isinstance(kind := types[t].reduction, str) and kind not in SPREADS}
    gone = set(kinds)
    gone -= {p for _, pairs in network.outputs for p, _ in pairs}
    gone -= {p for t in types if t.reduction for s in t.slots for p, _ in s.producers}
    for slot in (s for t in types for s in t.slots):
        here = {p for p, _ in slot.producers} & gone
        if len({kinds[p] for p in here}) > 1:
            gone -= here
    kept = [t for t in range(len(types)) if t not in gone]
    number = {t: new for new, t in enumerate(kept)}

    def fused(slot: Slot) -> Slot:
        inside = [(p, o) for p, o in slot.producers if p in gone]
        behind = [types[p].slots[o] for p, o in inside]
        producers = {pair for s in (slot, *behind) for pair in s.producers if pair[0] not in gone}
        return replace(
            slot,
            producers=tuple(sorted((number[p], o) for p, o in producers)),
            constants=tuple(sorted({c for s in (slot, *behind) for c in s.constants})),
            reduction=kinds[inside[0][0]] if inside else slot.reduction,
        )

    def without(t: NetType) -> NetType:
        return replace(t, slots=tuple(fused(s) for s in t.slots))

    def renumbered(constant: Constant) -> Constant:
        if constant.kind != "kept":
            return constant
        t, o = divmod(constant.number, network.width)
        return replace(constant, number=number[t] * network.width + o)

    outputs = tuple((name, tuple((number[t], o) for t, o in pairs)) for name, pairs in network.outputs)
    made = replace(
        network,
        types=tuple(without(types[t]) for t in kept),
        outputs=outputs,
        constants=tuple(map(renumbered, network.constants)),
    )
    fused_network = made if gone else network
    absent = np.array([t in gone for t in range(len(types))])
    return Fusion(network, fused_network, absent, order_of(fused_network))


def fuse(graph: Graph, fusion: Fusion) -> Graph:
    """The graph of `fusion.source` as one of `fusion.network`. Cost: some 30 ns a node.

    Each consumer of a reduction that is gone depends on its operands instead, and forms it again. Types that
    stay have the same nodes in the same order.
    """
    if not fusion.gone.any():
        return graph
    width, left = graph.network.width, ~fusion.gone
    counts = graph.type_sizes
    slots = np.array([len(t.slots) for t in graph.network.types], np.int32)
    sizes = np.diff(graph.operand_ptr[graph.type_ptr])
    lists = int((counts * slots)[fusion.gone].sum())
    type_ptr = np.concatenate([np.zeros(1), np.cumsum(counts[left])]).astype(np.int32)
    operand_ptr, operand = np.zeros(type_ptr[-1] + 1, np.int32), np.empty(sizes[left].sum(), np.int32)
    list_ptr, list_operand = np.zeros(lists + 1, np.int32), np.empty(sizes[fusion.gone].sum(), np.int32)
    renamed = np.empty(len(graph), np.int32)
    _places(graph.type_ptr, fusion.gone, slots, width, renamed)
    _operands(
        (graph.type_ptr, fusion.gone, slots, graph.operand_ptr, graph.operand),
        renamed,
        width,
        (operand_ptr, operand, list_ptr, list_operand),
    )
    names = tuple(t.name for t in fusion.network.types)

    find = partial(successors, operand_ptr, operand, width.bit_length() - 1, list_ptr, list_operand)
    type_of = np.repeat(np.arange(len(type_ptr) - 1, dtype=np.int32), counts[left])
    stays = renamed >= 0
    return Graph(
        fusion.network,
        type_ptr,
        graph.vertex[stays],
        graph.instance[stays],
        tuple(replace(r, reference=_renamed(r.reference, renamed, width)) for r in graph.results),
        graph.instances,
        Dag(names, type_of, find, fusion.order),
        operand_ptr,
        operand,
        list_ptr,
        list_operand,
        graph.given,
        _left(graph.distinct, left),
    )


def _left(distinct: Distinct | None, left: NDArray[np.bool_]) -> Distinct | None:
    """The nodes as constructed of the types that are left."""
    if distinct is None:
        return None
    sizes = np.diff(distinct.type_ptr)
    stays, type_ptr = np.repeat(left, sizes), np.append(0, np.cumsum(sizes[left])).astype(np.int32)
    return replace(
        distinct, type_ptr=type_ptr, instance=distinct.instance[stays], place=distinct.place[stays]
    )


@njit
def _places(type_ptr: Ints, gone: NDArray[np.bool_], slots: Ints, width: int, renamed: Ints) -> None:
    """What stands for output 0 of each node: a reference; if that is a list's, output o's is o below it."""
    kept, lists = 0, 0
    for t in range(len(slots)):
        for v in range(type_ptr[t], type_ptr[t + 1]):
            if gone[t]:
                renamed[v] = LISTED - lists
                lists += slots[t]
            else:
                renamed[v] = kept * width
                kept += 1


def _renamed(references: Ints, renamed: Ints, width: int) -> Ints:
    made, computed = references.copy(), references >= 0
    node, output = np.divmod(references[computed], width)
    made[computed] = renamed[node] + np.where(renamed[node] >= 0, output, -output)
    return made


@inner
def _rename(reference: int, renamed: Ints, width: int) -> int:
    if reference < 0:
        return reference
    node = np.uint32(reference) // np.uint32(width)
    output = reference - np.int64(node) * width
    return int(renamed[node] + (output if renamed[node] >= 0 else -output))


@njit
def _operands(
    graph: tuple[Ints, NDArray[np.bool_], Ints, Ints, Ints],
    renamed: Ints,
    width: int,
    made: tuple[Ints, Ints, Ints, Ints],
) -> None:
    """Fill the operands of the nodes that stay, and the lists of those that do not."""
    type_ptr, gone, slots, operand_ptr, operand = graph
    new_ptr, new_operand, list_ptr, list_operand = made
    kept, filled, lists, listed = 0, 0, 0, 0
    for t in range(len(slots)):
        for v in range(type_ptr[t], type_ptr[t + 1]):
            begin, end = operand_ptr[v], operand_ptr[v + 1]
            if gone[t]:
                # a node's operands are its slots' lists one after the other
                links = np.uint32(end - begin) // np.uint32(slots[t])
                for _ in range(slots[t]):
                    list_ptr[lists + 1] = list_ptr[lists] + np.int64(links)
                    lists += 1
                for j in range(begin, end):
                    list_operand[listed] = _rename(operand[j], renamed, width)
                    listed += 1
            else:
                for j in range(begin, end):
                    new_operand[filled] = _rename(operand[j], renamed, width)
                    filled += 1
                kept += 1
                new_ptr[kept] = filled
