"""Tighter lower bounds than the paper's: no batch of instances is easier than two of them, and what is proven
for disjoint groups of types adds up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import heights, lower_bound, topological_order
from abw.core.graph.dag import Dag, build_dag, components, part
from abw.core.jit.decorators import njit
from abw.core.policy.search.search import Search

Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]
# The most bytes that all nodes' ancestors may take.
ROOM = 1 << 28
# The most nodes, times the words of 64 bits that an instance has, of all pairs of types: some seconds.
EFFORT = 15_000_000
# So many types are partitioned at a time, into groups of up to 2^ROUNDS.
TOGETHER, ROUNDS = 12, 2
# The most types that are partitioned, and how many instances are paired.
MOST, HARDEST = 60, 6


def tight_bound(dag: Dag) -> int:
    """So many batches, at least, any schedule has: by pairs of instances, or by groups of types."""
    return max(partition_bound(dag).at_least, pair_bound(dag).at_least)


@dataclass(frozen=True, slots=True)
class PairBound:
    """No schedule of a graph has fewer than `at_least` batches, because `components` alone need so many.

    `components` are none where the bound is the paper's (A.3).
    """

    at_least: int
    components: tuple[int, ...]


def pair_bound(dag: Dag, width: int = 1000) -> PairBound:
    """The most batches that two components (instances) of a graph are proven to need.

    A schedule of the graph, cut down to some of its instances, is one of theirs; so what two instances need
    bounds the whole. The paper's bound adds the longest chains, each of whichever instance; this one sees
    that chains stand in each other's way. The `HARDEST` instances with the largest bounds of their own,
    and those with the longest chain of a type, are paired by a narrow search, and the three pairs that seem
    to need most are searched at `width`, which proves the more the larger it is.
    """
    paper = int(lower_bound(dag).sum())
    component = components(dag)
    count = int(component.max()) + 1 if len(dag) else 0
    chains = np.zeros((count, len(dag.types)), np.int32)
    np.maximum.at(chains, (component, dag.type), heights(dag))
    hardest = np.argsort(-chains.sum(axis=1), kind="stable")[:HARDEST]
    chosen = sorted({*hardest.tolist(), *(chains.argmax(axis=0).tolist() if count else ())})
    pairs = [(pair, part(dag, np.isin(component, pair))) for pair in itertools.combinations(chosen, 2)]
    pairs.sort(key=lambda p: -len(Search(width=10, work=0).schedule(p[1])))
    best = PairBound(paper, ())
    for pair, graph in pairs[:3]:
        proven = int(Search(width=width, work=0).find(graph).at_least)
        if proven > best.at_least:
            best = PairBound(proven, pair)
    return best


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Types (numbers) and the batches that they are proven to need, whatever the other types do."""

    types: tuple[int, ...]
    at_least: int


@dataclass(frozen=True, slots=True)
class PartitionBound:
    """No schedule of a graph has fewer than `at_least` batches.

    `groups` are those of several types, which need more batches than their longest chains have nodes.
    """

    at_least: int
    groups: tuple[TypeGroup, ...]


def partition_bound(dag: Dag, width: int = 100) -> PartitionBound:
    """The most batches that a partition of the types into groups is proven to need.

    A schedule's batches of some types are a schedule of their nodes alone, with an edge wherever a path leads
    through others; so what disjoint groups of types need adds up. The paper's bound (A.3) is that of groups
    of one type. Here the `MOST` types with the longest chains are taken, `TOGETHER` at a time, and paired so
    that the most is gained, and the pairs again. A group is searched at `width`. Some hundredths of a second
    for a mini-batch of 64, some seconds for the largest graphs, of which fewer types are taken; where all
    nodes' ancestors take more than 256 MB, the paper's bound.
    """
    chains = lower_bound(dag)
    paper = int(chains.sum())
    if 8 * Paths.words(dag) * len(dag) > ROOM:
        return PartitionBound(paper, ())
    paths = Paths.of(dag)
    pairs = EFFORT // max(1, paths.ancestors.size)  # as many as can be afforded
    block = TOGETHER * (TOGETHER - 1) // 2
    most = min(MOST, math.isqrt(2 * pairs) if pairs < block else TOGETHER * (pairs // block))

    def needed(types: tuple[int, ...]) -> int:
        found = Search(width=width, work=0).find(paths.between(types))
        return math.ceil(found.at_least - 1e-6)

    alone = [
        TypeGroup((t,), int(chains[t])) for t in np.argsort(-chains, kind="stable").tolist() if chains[t]
    ]
    groups: list[TypeGroup] = []
    for first in range(0, min(most, len(alone)), TOGETHER):
        some = alone[first : min(most, first + TOGETHER)]
        for _ in range(ROUNDS):
            some = _joined(some, needed)
        groups += [group for group in some if len(group.types) > 1]
    gained = sum(group.at_least - int(chains[list(group.types)].sum()) for group in groups)
    return PartitionBound(paper + gained, tuple(groups))


def _joined(groups: Sequence[TypeGroup], needed: Callable[[tuple[int, ...]], int]) -> list[TypeGroup]:
    """Join pairs of groups so that the most is gained; those that gain nothing stay alone."""
    joined: dict[tuple[int, int], TypeGroup] = {}
    gain = np.zeros((len(groups), len(groups)), np.int64)
    for i, j in itertools.combinations(range(len(groups)), 2):
        types = tuple(sorted(groups[i].types + groups[j].types))
        joined[i, j] = TypeGroup(types, needed(types))
        gain[i, j] = max(0, joined[i, j].at_least - groups[i].at_least - groups[j].at_least)
    pairs = [pair for pair in matching(gain) if gain[pair] > 0]
    left = sorted(set(range(len(groups))).difference(*pairs))
    return [joined[pair] for pair in pairs] + [groups[i] for i in left]


def matching(gain: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Disjoint pairs (i, j), i < j, with the largest sum of `gain[i, j]` (n, n). O(2^n n).

    Meant for 12 or so; no gain is negative.
    """
    n = len(gain)
    best = [0] * (1 << n)  # of the members in a mask
    partner = [-1] * (1 << n)  # of the mask's last member; -1: alone
    for mask in range(1, 1 << n):
        last = mask.bit_length() - 1
        rest = mask ^ (1 << last)
        best[mask] = best[rest]
        for i in range(last):
            if rest >> i & 1 and best[rest ^ (1 << i)] + gain[i, last] > best[mask]:
                best[mask], partner[mask] = best[rest ^ (1 << i)] + int(gain[i, last]), i
    pairs, mask = [], (1 << n) - 1
    while mask:
        last, i = mask.bit_length() - 1, partner[mask]
        mask ^= 1 << last
        if i >= 0:
            pairs.append((i, last))
            mask ^= 1 << i
    return pairs


@dataclass(frozen=True, slots=True)
class Paths:
    """Which nodes of a dag depend on which.

    `order` (n,): the nodes by component (instance), each after its producers; those of component c are
    `order[ptr[c]:ptr[c + 1]]`. Bit b of `ancestors[i]` (n, words): `order[i]` depends on the b-th of its
    component.
    """

    dag: Dag
    order: Ints
    ptr: Ints
    ancestors: Keys

    @classmethod
    def of(cls, dag: Dag) -> Paths:
        """Find them. O(m * words)."""
        component, order = components(dag), topological_order(dag)
        order = order[np.argsort(component[order], kind="stable")]
        rank = np.empty(len(dag), np.int32)
        rank[order] = np.arange(len(dag), dtype=np.int32)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(component))]).astype(np.int32)
        ancestors = np.zeros((len(dag), cls.words(dag)), np.uint64)
        _find(order, rank, ptr, dag.succ_ptr, dag.succ, ancestors)
        return cls(dag, order, ptr, ancestors)

    @staticmethod
    def words(dag: Dag) -> int:
        """How many words of 64 bits the nodes of the largest component take."""
        return (int(np.bincount(components(dag), minlength=1).max()) + 63) // 64

    def between(self, types: tuple[int, ...]) -> Dag:
        """The nodes of some types, with an edge for each path between two of them that meets no third."""
        number = np.full(len(self.dag.types), -1, np.int32)
        number[list(types)] = np.arange(len(types), dtype=np.int32)
        type = number[self.dag.type[self.order]]
        kept = np.where(type >= 0, np.cumsum(type >= 0) - 1, -1).astype(np.int32)
        scratch = np.zeros((2, self.ancestors.shape[1]), np.uint64)
        edges = np.empty((2, 0), np.int32)
        edges = np.empty((2, _edges(kept, self.ptr, self.ancestors, scratch, edges)), np.int32)
        _edges(kept, self.ptr, self.ancestors, scratch, edges)
        return build_dag(tuple(self.dag.types[t] for t in types), type[type >= 0], edges[0], edges[1])


@njit
def _find(order: Ints, rank: Ints, ptr: Ints, succ_ptr: Ints, succ: Ints, ancestors: Keys) -> None:
    for c in range(len(ptr) - 1):
        for i in range(ptr[c], ptr[c + 1]):
            b = i - ptr[c]
            for e in range(succ_ptr[order[i]], succ_ptr[order[i] + 1]):
                j = rank[succ[e]]
                for w in range(ancestors.shape[1]):
                    ancestors[j, w] |= ancestors[i, w]
                ancestors[j, b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@njit
def _edges(kept: Ints, ptr: Ints, ancestors: Keys, scratch: Keys, edges: Ints) -> int:
    """Write the edges between kept nodes, numbered `kept` (n,; -1: not kept), as far as there is room.

    Returns how many there are. The last ancestor that is kept is a producer; what it depends on is none.
    """
    count, words = 0, ancestors.shape[1]
    mask, left = scratch[0], scratch[1]
    for c in range(len(ptr) - 1):
        for w in range(words):
            mask[w] = 0
        for i in range(ptr[c], ptr[c + 1]):
            if kept[i] < 0:
                continue
            b = i - ptr[c]
            mask[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
            for w in range(words):
                left[w] = ancestors[i, w] & mask[w]
            for w in range(words - 1, -1, -1):
                for bit in range(63, -1, -1):
                    if (left[w] >> np.uint64(bit)) & np.uint64(1) == 0:
                        continue
                    u = ptr[c] + 64 * w + bit
                    if count < edges.shape[1]:
                        edges[0, count], edges[1, count] = kept[u], kept[i]
                    count += 1
                    left[w] ^= np.uint64(1) << np.uint64(bit)
                    for x in range(w + 1):
                        left[x] &= ~ancestors[u, x]
    return count
