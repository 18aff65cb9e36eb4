"""From instances and a model to the dataflow graph of a mini-batch.

Every type first has a *candidate* on each vertex it is for. A reduction's candidate that has fewer than two
operands is no node: what reads it reads its one operand, or its default.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.graph.bind import Binding
from abw.core.graph.cells import MOST_GIVEN
from abw.core.graph.dag import Dag, Reads
from abw.core.graph.edges import consumers
from abw.core.graph.graph import Graph, ResultRefs, merged
from abw.core.graph.refuse import refuse, refuse_circle, refuse_cycle
from abw.core.graph.walk import (
    AT,
    BEFORE,
    COUNT,
    FIRST,
    PLACES,
    REFERENCE,
    WAYS,
    chase,
    fill,
    measure,
    place,
)

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Longs = NDArray[np.int64]
BOTH_WAYS = 3


class Constructed(NamedTuple):
    """What construction has filled (`abw.core.graph.walk`); `nodes` (3, n): types, vertices, instances."""

    state: Longs
    space: Ints
    nodes: Ints
    operand_ptr: Ints
    alias: Ints
    operand: Ints


def construct(binding: Binding, first: int, last: int) -> Graph:
    """The graph of instances `first` to `last` (exclusive), at granularity `cell`.

    Errors: SpecError where an input is fed by nothing or by several values, or where nodes wait for each
    other. Cost: linear in nodes and operands, and some 20 us that Python takes to set arrays out.
    """
    program, network, start = binding.program, binding.network, binding.instances.start
    base, shift = int(start[first]) - BEFORE, network.width.bit_length() - 1
    space = np.empty((program.rows, int(start[last]) - base), np.int32)
    state = program.state.copy()
    measure(
        program.reductions, program.producers, binding.tables, binding.data, start, first, last, space, state
    )
    sizes = state.T.tolist()
    nodes = np.empty((3, sizes[FIRST][-1]), np.int32)
    operand_ptr = np.empty(sizes[FIRST][-1] + 1, np.int32)
    alias, operand = np.empty(sizes[PLACES][-1] << shift, np.int32), np.empty(sizes[AT][-1], np.int32)
    place(start, first, space, state, nodes, operand_ptr, alias, operand)

    steps, given = _given(binding, first, last)

    def filled(begin: int, end: int) -> None:
        step, candidate = fill(
            steps, begin, end, binding.tables, binding.data, base, shift, space, state, alias, operand
        )
        if step >= 0:
            refuse(binding, first, step, candidate)

    if program.nested:
        filled(0, program.aliasing)
        if not chase(alias):
            refuse_circle(binding)
    filled(program.aliasing if program.nested else 0, len(program.steps))
    made = Constructed(state, space, nodes, operand_ptr, alias, operand)
    graph = graph_of(binding, first, last, made, given)
    if BOTH_WAYS in state[:, WAYS].tolist():
        refuse_cycle(binding, first, graph)
    return graph


def graph_of(
    binding: Binding, first: int, last: int, made: Constructed, given: tuple[Floats, ...] | None = None
) -> Graph:
    """The graph of instances `first` to `last` (exclusive), which is constructed already.

    `given`: their fields that flow in as they are, if these were found.
    """
    program, network = binding.program, binding.network
    _, space, nodes, operand_ptr, alias, operand = made
    sizes, shift, edges = made.state.T.tolist(), network.width.bit_length() - 1, program.edges
    type_ptr = np.array(sizes[FIRST], np.int32)
    find = partial(consumers, type_ptr, edges.slots, edges.lists, edges.distinct, operand_ptr, operand, shift)
    return Graph(
        network,
        type_ptr,
        nodes[1],
        nodes[2],
        _results(binding, first, last, sizes, space, nodes, alias),
        last - first,
        Dag(program.types, nodes[0], find, edges.order, Reads(operand_ptr, operand, shift)),
        operand_ptr,
        operand,
        given=_given(binding, first, last)[1] if given is None else given,
    )


def _given(binding: Binding, first: int, last: int) -> tuple[Ints, tuple[Floats, ...]]:
    """The program's steps for these instances, and their fields that flow in as they are.

    A field's rows are numbered through all instances, and here from the first of these: each step that reads
    some counts from there.
    """
    program, network = binding.program, binding.network
    if not network.fields:
        return program.steps, ()
    bounds = binding.instances.start[[first, last]]
    rows = {name: np.searchsorted(values.vertex, bounds).tolist() for name, values in binding.given.items()}
    steps = program.steps.copy()
    for step, name in program.given.items():
        steps[step, REFERENCE] += rows[name][0]
    for name, (low, high) in rows.items():
        if high - low > MOST_GIVEN:
            message = f"a mini-batch has {high - low:,} values of field '{name}', of at most {MOST_GIVEN:,}"
            raise AbwError(message, hint="smaller mini-batches: --batch")
    return steps, tuple(binding.given[name].rows[slice(*rows[name])] for name in network.fields)


def _results(
    binding: Binding, first: int, last: int, sizes: list[list[int]], space: Ints, nodes: Ints, alias: Ints
) -> tuple[ResultRefs, ...]:
    """What the model gives back, each in the order of its vertices."""
    width = binding.network.width
    count, node, place = sizes[COUNT], sizes[FIRST], sizes[PLACES]

    def of(t: int, output: int) -> tuple[Ints, Ints, Ints]:
        """What one type gives back: references, vertices, instances."""
        if binding.model.types[t].reduction is None:
            begin, end = node[t], node[t + 1]
            reference = np.arange(begin * width + output, end * width, width, dtype=np.int32)
            return reference, nodes[1, begin:end], nodes[2, begin:end]
        reference = alias[place[t] * width + output : place[t + 1] * width : width]
        vertex = space[t, : count[t]] - np.int32(BEFORE)
        start = binding.instances.start[first : last + 1]
        instance = np.searchsorted(start - start[0], vertex, side="right") - 1
        return reference.copy(), vertex, instance.astype(np.int32)

    return tuple(merged(name, [of(t, o) for t, o in producers]) for name, producers in binding.outputs)
