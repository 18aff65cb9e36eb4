"""A tighter lower bound than the paper's: no batch of instances is easier than two of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from abw.core.graph.bounds import heights, lower_bound
from abw.core.graph.dag import Dag, components, part
from abw.core.policy.search.search import Search


@dataclass(frozen=True, slots=True)
class PairBound:
    """No schedule of a graph has fewer than `at_least` batches, because `components` alone need so many.

    `components` are none where the bound is the paper's (A.3).
    """

    at_least: int
    components: tuple[int, ...]


def pair_bound(dag: Dag, width: int = 1000, candidates: int = 6) -> PairBound:
    """The most batches that two components (instances) of a graph are proven to need.

    A schedule of the graph, cut down to some of its instances, is one of theirs; so what two instances need
    bounds the whole. The paper's bound adds the longest chains, each of whichever instance; this one sees
    that chains stand in each other's way. The `candidates` instances with the largest bounds of their own,
    and those with the longest chain of a type, are paired by a narrow search, and the three pairs that seem
    to need most are searched at `width`, which proves the more the larger it is.
    """
    paper = int(lower_bound(dag).sum())
    component = components(dag)
    count = int(component.max()) + 1 if len(dag) else 0
    chains = np.zeros((count, len(dag.types)), np.int32)
    np.maximum.at(chains, (component, dag.type), heights(dag))
    hardest = np.argsort(-chains.sum(axis=1), kind="stable")[:candidates]
    chosen = sorted({*hardest.tolist(), *(chains.argmax(axis=0).tolist() if count else ())})
    pairs = [(pair, part(dag, np.isin(component, pair))) for pair in itertools.combinations(chosen, 2)]
    pairs.sort(key=lambda p: -len(Search(width=10, work=0).schedule(p[1])))
    best = PairBound(paper, ())
    for pair, graph in pairs[:3]:
        proven = int(Search(width=width, work=0).find(graph).at_least)
        if proven > best.at_least:
            best = PairBound(proven, pair)
    return best
