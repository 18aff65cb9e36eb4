"""The training graph of a mini-batch: the forward graph, and behind its nodes those of the backward pass.

The gradient of a value is the sum over all that read it: a list, as a cell reads a reduction in place. Values
and their readers are found by counting, so a list is in the order of the readers' numbers, whatever the
schedule was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.grad import loops
from abw.core.grad.network import Training
from abw.core.grad.program import program_of
from abw.core.graph.dag import Dag
from abw.core.graph.edges import successors
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.ir.model import SPREADS

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """A mini-batch's graph with its backward pass.

    Nodes 0 to `forward` - 1 are those of the forward graph, by the same numbers. `sum_node` has the node that
    sums the gradient of each forward value (node * source width + output), -1 where none does; `of_values`
    the numbers of nodes that parts have for values, and how many they are: see `loops.Groups`. What flows
    into constants' gradients: addends `constant_gradient` (references) by the constants' references
    `constant`, in the order of the readers.
    """

    training: Training
    graph: Graph
    forward: int
    sum_node: Ints
    of_values: tuple[Ints, Ints]
    constant: Ints
    constant_gradient: Ints


def training_graph(training: Training, graph: Graph, gradients: Mapping[str, Floats]) -> TrainingGraph:
    """The training graph of a mini-batch of `training.source`.

    `gradients`: for each output with a loss its gradient (m, *shape) by the values that the model gives back
    (`Graph.results`), in single precision; the graph has these very arrays. Raises ValueError for other
    shapes. Cost: linear in nodes and operands.
    """
    source, network, program = training.source, training.network, program_of(training)
    results, given = _given(training, graph, gradients)
    summing = len(program.slots) + len(program.source)
    shifts = source.width.bit_length() - 1, network.width.bit_length() - 1
    values = len(graph) << shifts[0]
    own = graph.type_ptr, graph.operand_ptr, graph.operand
    slots = program.slots, program.reduces, program.gives
    kinds = program.source, program.edge, program.reduction, program.read_ptr

    type_ptr = np.empty(summing + len(program.sums) + 1, np.int32)
    number, count = np.zeros((2, len(program.groups), values), np.int32)
    read, ends = np.empty_like(number), np.empty((len(program.groups), 2), np.int32)
    groups = program.groups, program.group, number, count, read, ends
    loops.readers(own, program.slots, program.source, groups)
    lists, more, size = loops.sizes(own, program.slots, kinds, program.lists, groups, type_ptr)
    ptr, nothing = np.zeros(values + lists + 2, np.int32), np.empty(0, np.int32)
    into = ptr[: values + 2]
    flows = own, slots, groups, type_ptr, results, shifts
    total, constants = loops.flow(*flows, (into, nothing, nothing, nothing), False)
    members = np.empty(total + more, np.int32)
    of_constants = np.empty(constants, np.int32), np.empty(constants, np.int32)
    loops.flow(*flows, (into, members, *of_constants), True)
    sum_node = np.empty(0, np.int32)
    if len(program.sums):
        sum_node, held = np.full(values, -1, np.int32), np.empty(values, np.int32)
        first = type_ptr[summing:]
        flowing = members[:total], of_constants[1]
        size += loops.sums(own, program.sums, shifts, first, ptr, flowing, (sum_node, held))

    nodes = int(type_ptr[-1])
    operand_ptr, operand = np.zeros(nodes + 1, np.int32), np.empty(size, np.int32)
    origin = np.empty((3, nodes), np.int32)
    operand_ptr[: len(graph) + 1] = graph.operand_ptr
    loops.widen(graph.operand, *shifts, operand)
    for row, values_of in zip(origin, (graph.dag.type, graph.vertex, graph.instance), strict=True):
        row[: len(graph)] = values_of
    loops.parts(
        own, slots[:2], kinds, groups, program.reads, type_ptr, shifts, (ptr, members), (values, total),
        origin, operand_ptr, operand,
    )  # fmt: skip
    if len(program.sums):
        loops.sum_operands(sum_node, ptr, members, shifts[0], type_ptr, summing, origin, operand_ptr, operand)
    type_of, vertex, instance = origin
    list_ptr = ptr[: values + lists + 1]

    find = partial(successors, operand_ptr, operand, network.width.bit_length() - 1, list_ptr, members)
    given_back = []
    for r in graph.results:
        reference = np.empty_like(r.reference)
        loops.widen(r.reference, *shifts, reference)
        given_back.append(ResultRefs(r.name, reference, r.vertex, r.instance))
    made = Graph(
        network, type_ptr, vertex, instance, tuple(given_back), graph.instances,
        Dag(program.names, type_of, find), operand_ptr, operand, list_ptr, members, given,
    )  # fmt: skip
    return TrainingGraph(training, made, len(graph), sum_node, (number, ends), *of_constants)


def _given(
    training: Training, graph: Graph, gradients: Mapping[str, Floats]
) -> tuple[tuple[Ints, Ints], tuple[Floats, ...]]:
    """The results that have gradients and the references of these; the rows of all fields."""
    network = training.network
    found: dict[str, ResultRefs] = {r.name: r for r in graph.results}
    reads, rows, given = [], [], list(graph.given)
    for name, number in training.losses.items():
        reference, constant = found[name].reference, network.constants[number]
        values = gradients[name]
        if values.shape != (len(reference), *constant.shape) or values.dtype != np.float32:
            message = f"the gradient of {name} is {values.dtype} {values.shape}"
            raise ValueError(f"{message}, not float32 {(len(reference), *constant.shape)}")
        reads.append(reference)
        row = -1 - constant.first
        rows.append(np.arange(row, row - len(reference), -1, dtype=np.int32))
        given.append(values)
    means = [t for t, made in enumerate(training.source.types) if made.reduction in ("mean", *SPREADS)]
    runs = [np.diff(graph.operand_ptr[slice(graph.type_ptr[t], graph.type_ptr[t + 1] + 1)]) for t in means]
    longest = max((int(run.max(initial=0)) for run in runs), default=0)
    given.append(np.arange(longest + 1, dtype=np.float32)[:, None])
    if len(reads) == 1:
        return (reads[0], rows[0]), tuple(given)
    return (np.concatenate(reads), np.concatenate(rows)), tuple(given)
