"""Dropout while a model is trained: of words, and of values on their way into cells.

What is left out goes by a hash of seed, epoch, instance, vertex and use: it is the same in whatever
mini-batch an instance is, and a training that goes on from a checkpoint needs no state of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances
from abw.core.graph.cells import MOST_GIVEN
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell, Op, Port, Shape
from abw.core.ir.model import Model
from abw.core.ir.network import LISTED, Constant, NetType, Network, Slot
from abw.core.jit.decorators import inner, njit
from abw.core.jit.splitmix import GOLDEN, fraction, mix
from abw.core.train.targets import training_of

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]

_STEP = np.uint64(GOLDEN)
# Streams from here on are of values, numbered by their constants; those before are of tables.
_VALUES = 1 << 32


class Dropout:
    """The dropout of a section `train`. `network` has cells whose inputs are multiplied by masks.

    A mask is a field that each mini-batch brings: a row a node, of zeros and 1 / (1 - chance) (inverted
    dropout, Srivastava et al., 2014), so the backward pass knows nothing of it.
    """

    def __init__(self, model: Model, network: Network, seed: int) -> None:
        """Find the slots with dropout. Cost: linear in the types."""
        training = training_of(model)
        self._model, self._seed = model, seed
        self._words = {number: p for number, p in training.word_dropout.items() if p}
        self._chances = {slot: chance for slot, chance in sorted(training.dropout.items()) if chance}
        self._masks: dict[tuple[int, int], int] = {}
        self.network = network
        for t, s in self._chances:
            self._masks[t, s] = len(self.network.constants)
            self.network = _with_mask(self.network, t, s)

    @property
    def masked(self) -> NDArray[np.bool_]:
        """The types (T,) whose nodes have a mask each."""
        masked = np.zeros(len(self.network.types), np.bool_)
        masked[[t for t, _ in self._masks]] = True
        return masked

    def graph(self, graph: Graph, instances: Instances, first: int, epoch: int | None) -> Graph:
        """A graph of the model's own network, of instances `first` and on, as one of `network`.

        Without an `epoch` nothing is left out. Cost: some 10 ns a word, 3 ns a number of the masks.
        """
        found = graph if epoch is None else self._dropped_words(graph, instances, first, epoch)
        if not self._masks:
            return found
        masks = [self._mask(graph, instances, first, epoch, slot) for slot in self._masks]
        operand, ptr = _with_references(found, self.network, self._masks)
        return replace(
            found, network=self.network, operand=operand, operand_ptr=ptr, given=(*graph.given, *masks)
        )

    def _dropped_words(self, graph: Graph, instances: Instances, first: int, epoch: int) -> Graph:
        """The graph where some words are read as unknown."""
        if not self._words:
            return graph
        operand, nodes = graph.operand.copy(), _nodes(graph, instances, first, slice(None))
        for constant in graph.network.constants:
            chance = self._words.get(constant.number, 0.0)
            if constant.kind != "table" or not chance:
                continue
            unknown = self._model.tables[constant.number].unknown or 0
            table = constant.first, constant.first + constant.rows, -1 - (constant.first + unknown)
            _drop(self._keys(epoch, constant.number), graph.operand_ptr, nodes, table, chance, operand)
        return replace(graph, operand=operand)

    def _mask(
        self, graph: Graph, instances: Instances, first: int, epoch: int | None, slot: tuple[int, int]
    ) -> Floats:
        """A mask for each node of a type: (nodes, *shape)."""
        t, s = slot
        begin, end = graph.type_ptr[t : t + 2].tolist()
        shape = graph.network.types[t].slots[s].shape
        rows = np.ones((end - begin, math.prod(shape)), np.float32)
        if epoch is not None:
            keys = self._keys(epoch, _VALUES + self._masks[slot])
            draw(keys, _nodes(graph, instances, first, slice(begin, end)), self._chances[slot], rows)
        return rows.reshape(-1, *shape)

    def _keys(self, epoch: int, stream: int) -> tuple[np.uint64, np.uint64, np.uint64]:
        """The numbers that a hash begins with; `stream` keeps several uses apart."""
        return np.uint64(self._seed % 2**64), np.uint64(epoch), np.uint64(stream)


Keys = tuple[np.uint64, np.uint64, np.uint64]
# The vertex and the instance of each node; of each instance the first vertex, and its number in the data.
Vertices = tuple[Ints, Ints, Longs, Longs]


def _nodes(graph: Graph, instances: Instances, first: int, part: slice) -> Vertices:
    """Some nodes of a graph, whose instances are those from `first` on."""
    start = instances.start[first : first + graph.instances].astype(np.int64)
    numbers = instances.numbers[first : first + graph.instances].astype(np.int64)
    return graph.vertex[part], graph.instance[part], start - start[:1], numbers


@inner
def _hash(keys: Keys, nodes: Vertices, node: int) -> np.uint64:
    """A number of 64 bits for a node, by its instance's number in the data and its vertex's within that.

    SplitMix64 over the numbers, one after the other.
    """
    vertex, instance, start, number = nodes
    state = np.uint64(0)
    for part in keys:
        state = mix(state + part + _STEP)
    state = mix(state + np.uint64(number[instance[node]]) + _STEP)
    return mix(state + np.uint64(vertex[node] - start[instance[node]]) + _STEP)


@njit
def _drop(
    keys: Keys, ptr: Ints, nodes: Vertices, table: tuple[int, int, int], chance: float, operand: Ints
) -> None:
    """Have nodes that read rows of a table read another one instead (`table`: first, end, the reference)."""
    first, end, unknown = table
    for v in range(len(ptr) - 1):
        for j in range(ptr[v], ptr[v + 1]):
            if first <= -1 - operand[j] < end and fraction(_hash(keys, nodes, v)) < chance:
                operand[j] = unknown


@njit
def draw(keys: Keys, nodes: Vertices, chance: float, rows: Floats) -> None:
    """Fill masks (n, size): each row by the stream of SplitMix64 that begins at its node's number."""
    kept = np.float32(1 / (1 - chance))
    for i in range(len(rows)):
        state = _hash(keys, nodes, i)
        for j in range(rows.shape[1]):
            drawn = fraction(mix(state + np.uint64(j + 1) * _STEP))
            rows[i, j] = np.float32(0) if drawn < chance else kept


def _with_mask(network: Network, t: int, s: int) -> Network:
    """The network where input s of type t is multiplied by a field of its own, the last one."""
    node_type = network.types[t]
    assert node_type.cell is not None
    slot = node_type.slots[s]
    last = network.constants[-1] if network.constants else None
    first = last.first + last.rows if last else 0
    if first + MOST_GIVEN > -LISTED:
        raise ValueError(f"{network.name} has more constants than can be numbered")
    mask = Constant("field", len(network.given), slot.shape, first, MOST_GIVEN)
    name = f"mask of {slot.name}"
    made: NetType = replace(
        node_type,
        cell=_multiplied(node_type.cell, s, name),
        slots=(*node_type.slots, Slot(name, slot.shape, (), (len(network.constants),))),
    )
    return replace(
        network,
        types=(*network.types[:t], made, *network.types[t + 1 :]),
        constants=(*network.constants, mask),
        fields=(*network.fields, f"{name} of {node_type.name}"),
    )


def _multiplied(cell: Cell, s: int, name: str) -> Cell:
    """A cell that reads the product of its input s and another, its new last input, instead of input s."""
    shape: Shape = cell.inputs[s].shape
    before, product = len(cell.inputs), cell.first_op + 1

    def moved(value: int) -> int:
        if value == s:
            return product
        return value if value < before else value + 1 if value < cell.first_op else value + 2

    ops = tuple(replace(op, args=tuple(map(moved, op.args))) for op in cell.ops)
    return replace(
        cell,
        inputs=(*cell.inputs, Port(name, shape)),
        ops=(Op("mul", (s, before), shape), *ops),
        outputs=tuple((output, moved(value)) for output, value in cell.outputs),
    )


def _with_references(graph: Graph, network: Network, masked: dict[tuple[int, int], int]) -> tuple[Ints, Ints]:
    """The operands, of a type with masks each node's own and then its rows of these; where they begin."""
    parts, sizes = [], []
    for t, node_type in enumerate(graph.network.types):
        begin, end = graph.type_ptr[t : t + 2].tolist()
        ptr = graph.operand_ptr[begin : end + 1]
        own = graph.operand[ptr[0] : ptr[-1]]
        masks = [network.constants[number].first for (type_, _), number in masked.items() if type_ == t]
        if masks:
            rows = np.arange(end - begin, dtype=np.int32)
            added = [(-1 - first - rows)[:, None] for first in masks]
            own = np.hstack([own.reshape(end - begin, len(node_type.slots)), *added]).ravel()
        parts.append(own)
        sizes.append(np.diff(ptr) + len(masks))
    ptr = np.append(0, np.cumsum(np.concatenate(sizes))).astype(np.int32)
    return np.concatenate(parts).astype(np.int32), ptr
