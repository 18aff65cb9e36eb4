"""What compiled loops need to know of a training network: as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from abw.core.grad.network import Training

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# Who gives the gradient of what a slot reads: nobody; a part, at the node, for each of its neighbours, or at
# each edge; the gradient of the node's own output; a part at the node, once, or at each value that is read.
NONE, NODE, EDGE, SUM, ONCE, VALUE = range(6)

# What a part reads, as in `Read`: HOLDER is the edge's node.
OPERAND, OUTPUT, GRADIENT, OWN, HOLDER, EDGES, COUNT = range(7)

KINDS = ("operand", "output", "gradient", "own", "node", "edges", "count")


@dataclass(frozen=True, slots=True)
class Program:
    """T forward types, P parts (the types T to T + P - 1), R reads, Q types that sum (behind these).

    `slots`, `reduces` (T,): how many slots, and whether a slot is a run of operands. `gives` (T, S, 3): who
    gives a slot's gradient, and of a part its type and output. `part_ptr` (T + 1,): a type's parts. `source`,
    `edge`, `reduction` (P,): of each part the forward type, whether it has a node for each edge, and whether
    it reduces; `lists` (P,): how many lists of edges its nodes sum. `groups` (G, 2): the type of a part that
    has a node for each value read, and the slot that reads; `group` (P,) which a part is, or -1; `feeds`
    (G, T, W): the outputs that may be read there. `reads` (R, 4) with `read_ptr` (P + 1,):
    kind, slot or output, the type that is read or -1, and its output, or the reference of a constant.
    `sums` (Q, 3): type, output, and the reference of zeros; `summing` (T, S) the type that sums an output's
    gradient, -1 where none does. `most`: so many batches the backward pass of one has at most. `names`: of
    all types.
    """

    slots: Ints
    reduces: Bools
    gives: Ints
    part_ptr: Ints
    source: Ints
    edge: Bools
    reduction: Bools
    lists: Ints
    groups: Ints
    group: Ints
    feeds: Bools
    reads: NDArray[np.int64]
    read_ptr: Ints
    sums: Ints
    summing: Ints
    most: int
    names: tuple[str, ...]


@lru_cache(maxsize=8)
def program_of(training: Training) -> Program:
    """The program of a training network; made once."""
    source, network = training.source, training.network
    types = source.types
    gives = np.zeros((len(types), max((len(t.slots) for t in types), default=0), 3), np.int32)

    def zero(shape: tuple[int, ...]) -> int:
        return -1 - network.constants[training.zeros[shape]].first

    parts: list[tuple[int, bool, bool, int, int]] = []
    reads, read_ptr = [], [0]
    groups: list[tuple[int, int]] = []
    for t, made in enumerate(training.parts):
        if made is None:
            continue
        first = training.first[t]
        for s in training.wanted[t]:
            given = made.gives[s]
            if given is not None:
                part = made.parts[given[0]]
                who = {"edge": EDGE, "value": VALUE, "node": NODE if part.reduction is None else ONCE}
                gives[t, s] = who[part.place], first + given[0], given[1]
            elif (t, s) in training.sums:
                gives[t, s] = SUM, 0, 0
        for part in made.parts:
            group = -1
            if part.reduction is not None and part.place == "value":
                group = len(groups)
                groups.append((len(types) + len(parts), part.reduction.of))
            lists = sum(r.kind == "edges" for r in part.reads)
            parts.append((t, part.place == "edge", part.cell is None, lists, group))
            for read, port in zip(part.reads, part.inputs, strict=True):
                row = [KINDS.index(read.kind), read.a, -1, 0]
                if read.kind in ("own", "node", "edges"):
                    row[2:] = first + read.a, read.b
                elif read.kind == "gradient":
                    row[3] = zero(port.shape)
                elif read.kind == "count":
                    row[3] = -1 - network.constants[training.count].first
                reads.append(row)
            read_ptr.append(len(reads))
    sums = [(t, o, zero(types[t].outputs[o].shape)) for t, o in training.sums]
    summing = np.full(gives.shape[:2], -1, np.int32)
    for q, (t, o, _) in enumerate(sums):
        summing[t, o] = len(types) + len(parts) + q
    part_ptr = np.array([*training.first, len(types) + len(parts)], np.int32)
    columns = np.array(parts, np.int32).reshape(-1, 5).T
    feeds = np.zeros((len(groups), len(types), source.width), np.bool_)
    for g, (number, slot) in enumerate(groups):
        for producer in types[parts[number - len(types)][0]].slots[slot].producers:
            feeds[(g, *producer)] = True
    return Program(
        np.array([len(t.slots) for t in types], np.int32),
        np.array([t.reduction is not None for t in types]),
        gives,
        part_ptr,
        np.ascontiguousarray(columns[0]),
        columns[1].astype(bool),
        columns[2].astype(bool),
        np.ascontiguousarray(columns[3]),
        np.array(groups, np.int32).reshape(-1, 2),
        np.ascontiguousarray(columns[4]),
        feeds,
        np.array(reads, np.int64).reshape(-1, 4),
        np.array(read_ptr, np.int32),
        np.array(sums, np.int32).reshape(-1, 3),
        summing,
        int(np.diff(part_ptr).max(initial=0)) + summing.shape[1] * bool(sums),
        tuple(t.name for t in network.types),
    )
