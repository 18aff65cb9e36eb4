"""Graphs for tests of bounds and policies: small ones built by hand or at random, real ones from data."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag, Reads, build_dag

Edge = tuple[int, int]


def dag(types: Sequence[str], type: Sequence[int], edges: Iterable[Edge]) -> Dag:
    """A dag from plain Python values."""
    pairs = np.array(list(edges), np.int32).reshape(-1, 2)
    return build_dag(tuple(types), np.array(type, np.int32), pairs[:, 0].copy(), pairs[:, 1].copy())


def with_reads(found: Dag) -> Dag:
    """The same dag with what its nodes read: producers of two outputs, some of them twice, and constants."""
    read: list[list[int]] = [[] for _ in found.type]
    for v in range(len(found)):
        for w in found.succ[found.succ_ptr[v] : found.succ_ptr[v + 1]]:
            read[w] += [2 * v, -1 - v, 2 * v + 1] if (v + w) % 2 else [2 * v + 1]
    ptr = np.cumsum([0, *map(len, read)]).astype(np.int32)
    operand = np.array([reference for each in read for reference in each], np.int32)
    return replace(found, reads=Reads(ptr, operand, 1))


def random_dag(seed: int, nodes: int, types: int, density: float) -> Dag:
    """Each pair of nodes is joined with probability `density`; the numbering is no topological order."""
    rng = random.Random(seed)
    name = rng.sample(range(nodes), nodes)
    edges = [(name[u], name[v]) for v in range(nodes) for u in range(v) if rng.random() < density]
    rng.shuffle(edges)
    return dag([chr(97 + t) for t in range(types)], [rng.randrange(types) for _ in range(nodes)], edges)


def ordered_dag(seed: int, nodes: int, density: float) -> Dag:
    """The same, of types that have an order: a node reads from those of types before its own alone."""
    found = random_dag(seed, nodes, 1, density)
    depth = depths(found)
    order = np.array(random.Random(seed).sample(range(nodes + 1), nodes + 1), np.int32)
    return Dag(tuple(f"t{t}" for t in range(nodes + 1)), order[depth], lambda: found.edges, order)


def strings(words: Sequence[str]) -> Dag:
    """Chains of letters: a schedule is a common supersequence of the words (paper, A.1)."""
    letters = sorted(set("".join(words)))
    type = [letters.index(c) for word in words for c in word]
    edges, first = [], 0
    for word in words:
        edges += [(first + i, first + i + 1) for i in range(len(word) - 1)]
        first += len(word)
    return dag(letters, type, edges)


def fig1() -> Dag:
    """The paper's Fig. 1: a tree of three nested internal nodes over four leaves, an output each, one R."""
    leaf, internal, output, readout = range(4)
    type = [leaf] * 4 + [internal] * 3 + [output] * 7 + [readout]
    edges = [(0, 4), (1, 4), (4, 5), (2, 5), (5, 6), (3, 6)]
    edges += [(v, 7 + v) for v in range(7)] + [(7 + v, 14) for v in range(7)]
    return dag(["leaf", "internal", "output", "readout"], type, edges)


def fig10(trees: int = 1, depth: int = 3) -> Dag:
    """As the paper's Fig. 10: chains of cells, each with an output; the types swap in the second half."""
    type: list[int] = []
    edges: list[Edge] = []
    for _ in range(trees):
        last = -1
        for cell, output in ((0, 1), (1, 0)):
            for _ in range(depth):
                v = len(type)
                type += [cell, output]
                edges.append((v, v + 1))
                if last >= 0:
                    edges.append((last, v))
                last = v
    return dag(["a", "b"], type, edges)


def trees(path: Path, count: int, skip: int = 0, coin: int | None = None) -> Dag:
    """The first trees of a bracketed file: types leaf, internal, output (an output at every tree node).

    With `coin`, a seed, each internal node is of one of two types.
    """
    rng = random.Random(coin)
    lines = path.read_text(encoding="utf-8").splitlines()[skip : skip + count]
    leaves: list[int] = []  # preorder numbers of the tree nodes
    inner: list[int] = []
    children: list[Edge] = []
    total = 0
    for line in lines:
        stack: list[list[int]] = []  # the open brackets: own number, then the children's
        for token in re.findall(r"\([^ ]+|\)|[^() ]+", line):
            if token[0] == "(":
                if stack:
                    stack[-1].append(total)
                stack.append([total])
                total += 1
            elif token == ")":
                parent, *below = stack.pop()
                children += [(child, parent) for child in below]
                (inner if below else leaves).append(parent)
    kinds = 1 if coin is None else 2
    kind = {v: rng.randrange(kinds) for v in sorted(inner)}
    cells = sorted(leaves) + sorted(inner, key=lambda v: (kind[v], v))
    number = {v: i for i, v in enumerate(cells)}
    type = [0 if v not in kind else 1 + kind[v] for v in cells] + [1 + kinds] * total
    edges = [(number[u], number[v]) for u, v in children]
    edges += [(number[v], total + v) for v in range(total)]
    return dag(["leaf", *["internal", "internal2"][:kinds], "output"], type, edges)


def lattices(path: Path, count: int, skip: int = 0) -> Dag:
    """The first lattices of a file: types char, word, state (a sum of two or more arcs), tag.

    Nodes are numbered type by type, in file order within a type.
    """
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    char, word, state, tag = range(4)
    nodes: list[list[Edge]] = [[], [], [], []]  # of each type: (serial number, 0)
    edges: list[Edge] = []
    serial = 0

    def new(type: int, inputs: Iterable[int]) -> int:
        nonlocal serial
        nodes[type].append((serial, 0))
        edges.extend((u, serial) for u in inputs)
        serial += 1
        return serial - 1

    for index in range(min(int(next(lines)), skip + count)):
        length = int(next(lines))
        next(lines)
        values: list[int | None] = []  # the node that holds a position's state
        for position in range(length):
            fields = [int(x) for x in next(lines).split()]
            if index < skip:
                continue
            arcs = []
            for start in fields[1::2]:
                before = values[start]
                kind = char if start == position - 1 else word
                arcs.append(new(kind, [] if before is None else [before]))
            value = None if not arcs else arcs[0] if len(arcs) == 1 else new(state, arcs)
            values.append(value)
            new(tag, [] if value is None else [value])
        next(lines)
    order = [v for column in nodes for v, _ in column]
    number = {v: i for i, v in enumerate(order)}
    type = [t for t, column in enumerate(nodes) for _ in column]
    return dag(["char", "word", "state", "tag"], type, [(number[u], number[v]) for u, v in edges])
