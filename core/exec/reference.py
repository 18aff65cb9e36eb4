"""The executor `reference`: one node at a time, in double precision. It is the meaning of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.arenas import refuse_lost
from abw.core.exec.interface import Result, refuse_threads
from abw.core.exec.params import Params, constant_value
from abw.core.graph.graph import Graph
from abw.core.graph.network import Network, Slot
from abw.core.plan.plan import Counts, Plan
from abw.core.policy.schedule import Schedule
from abw.core.spec.cell import Cell, Op
from abw.core.spec.model import Reduction

Array = NDArray[np.float64]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow on either side."""
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), 1 - 1 / (1 + np.exp(-np.abs(x))))


def softmax(x: Array) -> Array:
    """Over the last axis; shifted by the largest, which changes nothing but the range."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "matmul": np.matmul,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "exp": np.exp,
    "softmax": softmax,
    "concat": lambda *parts: np.concatenate(parts, axis=0),
    "transpose": np.transpose,
    "identity": np.array,
}

REDUCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "sum": lambda rows: np.asarray(rows.sum(axis=0)),
    "mean": lambda rows: np.asarray(rows.mean(axis=0)),
    "max": lambda rows: np.asarray(rows.max(axis=0)),
}


def evaluate(op: Op, arguments: Sequence[Array]) -> Array:
    """One operation on one node's values."""
    if op.name == "constant":
        return np.array(op.attr[0], np.float64)
    if op.name == "slice":
        start, stop = (int(a) for a in op.attr)
        return arguments[0][start:stop]
    return np.asarray(OPERATIONS[op.name](*arguments))


def run_cell(cell: Cell, inputs: Sequence[Array], params: Sequence[Array]) -> list[Array]:
    """A cell's outputs for one node."""
    values = [*inputs, *params]
    for op in cell.ops:
        values.append(evaluate(op, [values[a] for a in op.args]))
    return [values[value] for _, value in cell.outputs]


class ReferenceExecutor:
    """Walks the graph in a topological order of its own; of the plan it takes the graph and what is kept.

    Cost: about 2 us an operation.
    """

    name = "reference"

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Widen the parameters. Errors: AbwError for several threads."""
        refuse_threads(self.name, threads)
        self._network = network
        self._params = params
        self._values = [np.asarray(value, np.float64) for value in params.values]

    def arrange(self, graph: Graph, schedule: Schedule) -> Schedule:
        """The schedule as it is."""
        return schedule

    def run(self, plan: Plan) -> Result:
        """Compute every node's outputs; those can be read that the plan keeps."""
        found = self.run_graph(plan.graph)

        def read(references: NDArray[np.integer[Any]]) -> NDArray[np.floating[Any]]:
            refuse_lost(plan, references)
            return found.values(references)

        return replace(found, read=read)

    def run_graph(self, graph: Graph) -> Result:
        """The same without a plan."""
        network = self._network
        outputs: list[list[Array]] = [[] for _ in range(len(graph))]
        ptr = graph.operand_ptr.tolist()
        references = graph.operand.tolist()

        def value(reference: int) -> Array:
            if reference < 0:
                return np.asarray(constant_value(network, self._params, reference), np.float64)
            node, output = divmod(reference, network.width)
            return outputs[node][output]

        def reduced(reduction: Reduction, wanted: list[int]) -> Array:
            return REDUCTIONS[reduction](np.stack([value(reference) for reference in wanted]))

        def operand(slot: Slot, reference: int) -> Array:
            if slot.reduction is None:
                return value(reference)
            return reduced(slot.reduction, graph.values_of(reference))

        type_of = np.repeat(np.arange(len(network.types)), graph.type_sizes).tolist()
        with np.errstate(all="ignore"):
            for node in _topological(graph):
                net_type = network.types[type_of[node]]
                read = references[ptr[node] : ptr[node + 1]]
                if net_type.cell is not None:
                    params = [self._values[number] for number in net_type.params]
                    operands = [operand(*pair) for pair in zip(net_type.slots, read, strict=True)]
                    outputs[node] = run_cell(net_type.cell, operands, params)
                elif net_type.reduction is not None:
                    links = len(read) // len(net_type.slots)
                    outputs[node] = [
                        reduced(net_type.reduction, read[s * links : (s + 1) * links])
                        for s in range(len(net_type.slots))
                    ]

        def values(wanted: NDArray[np.integer[Any]]) -> Array:
            return np.array([value(reference) for reference in wanted.tolist()], np.float64)

        return Result(graph, Counts(len(graph), len(graph), 0, 0), values)


def _topological(graph: Graph) -> list[int]:
    """The nodes, each after those whose values it reads; from the operands alone."""
    width = graph.network.width
    ptr, references = graph.operand_ptr.tolist(), graph.operand.tolist()
    producers = [
        {
            value // width
            for reference in references[ptr[v] : ptr[v + 1]]
            for value in graph.values_of(reference)
            if value >= 0
        }
        for v in range(len(graph))
    ]
    consumers: list[list[int]] = [[] for _ in producers]
    for node, before in enumerate(producers):
        for producer in before:
            consumers[producer].append(node)
    waiting = [len(before) for before in producers]
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:
        for consumer in consumers[node]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                order.append(consumer)
    if len(order) != len(producers):
        raise ValueError("the graph has a cycle")
    return order
