"""The executor `reference`: one node at a time, in double precision. It is the meaning of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import run_cell
from abw.core.exec.interface import Abilities, Executor, Result, refuse_threads
from abw.core.exec.params import Params, constant_value
from abw.core.exec.values import refuse_lost
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, Attention, AttentionGradient, Reduction
from abw.core.ir.network import Network, Slot
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Earlier, Plan

Array = NDArray[np.float64]


def scores_of(attention: Attention, keys: Array, query: Array) -> Array:
    """The scores (n, heads) of keys (n, d) by a query (d,)."""
    heads = attention.heads
    pairs = keys.reshape(len(keys), heads, -1), query.reshape(heads, -1)
    if attention.added:
        sums = np.add(*pairs)
        return np.asarray(np.where(sums > 0, sums, SLOPE * sums).sum(axis=-1))
    return np.asarray(np.einsum("nhd,hd->nh", *pairs) * attention.factor(len(query)))


def attend(
    attention: Attention, values: Array, keys: Array, query: Array, moved: Array | float = 0.0
) -> list[Array]:
    """The outputs of attention at one node, the first (e,) of values (n, e) with keys (n, d) by a query (d,).

    `moved`: by how much the scores are other ones.
    """
    heads = attention.heads
    scores = scores_of(attention, keys, query) + moved
    largest = scores.max(axis=0)
    powers = np.exp(scores - largest)
    total = powers.sum(axis=0)
    found = np.einsum("nh,nhe->he", powers / total, values.reshape(len(values), heads, -1)).ravel()
    return [found, largest + np.log(total)][: 1 + attention.log_sums]


def attention_gradients(
    made: AttentionGradient, values: Array, keys: Array, states: Array, moved: Array | float = 0.0
) -> Array:
    """What each edge adds to an attention's gradient (n, size), of its value, its key and its node's state.

    `moved`: by how much the scores are other ones.
    """
    heads, wide, deep = made.attention.heads, values.shape[1], keys.shape[1]
    queries, gradients, logs, level = np.split(states, np.cumsum([deep, wide, heads]), axis=1)
    v, k, q, g = (rows.reshape(len(rows), heads, -1) for rows in (values, keys, queries, gradients))
    factor, both = values.dtype.type(made.attention.factor(deep)), k + q
    terms = np.where(both > 0, both, SLOPE * both) if made.attention.added else factor * (k * q)
    weights = np.exp(terms.sum(axis=-1) + moved - logs)
    if made.of == VALUES:
        return np.asarray((weights[:, :, None] * g).reshape(values.shape))
    slopes = factor * weights * ((g * v).sum(axis=-1) - level)
    rows = np.where(both > 0, 1.0, SLOPE) if made.attention.added else k if made.of == QUERY else q
    return np.asarray((slopes[:, :, None] * rows).reshape(keys.shape))


class ReferenceExecutor(Executor):
    """Walks the graph in a topological order of its own; of the plan it takes the graph and what is kept.

    Cost: about 2 us an operation.
    """

    name = "reference"
    abilities = Abilities(knows_batches=False, halves=True)

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Widen the parameters. Errors: AbwError for several threads."""
        refuse_threads(self.name, threads)
        self._network = network
        self._widen(params)

    def update(self, params: Params, rows: object = None) -> None:
        """Widen other parameters. Raises ValueError for other shapes."""
        params.refuse_unlike(self._params)
        self._widen(params)

    def _widen(self, params: Params) -> None:
        self._params = params
        self._values = [np.asarray(value, np.float64) for value in params.values]
        self._runs: list[tuple[Plan, Result]] = []  # the last one, and those that it went on from
        self._begun: tuple[Plan, list[list[Array]]] | None = None

    def run(self, plan: Plan) -> Result:
        """Compute every node's outputs; those can be read that the plan keeps."""
        self._runs = self._runs if plan.earlier else []
        found = self.run_graph(plan.graph, self._held(plan.earlier) if plan.earlier else ())
        self._runs.append((plan, found))

        def read(references: NDArray[np.integer[Any]]) -> NDArray[np.floating[Any]]:
            refuse_lost(plan.graph.network, plan.graph.type_ptr, plan.row, references)
            return found.values(references)

        return replace(found, read=read)

    def begin(self, plan: Plan, until: int) -> Result:
        """Compute the nodes of the first launches."""
        self._runs, self._begun = [], (plan, [[] for _ in range(len(plan.graph))])
        return self._part(plan, 0, until)

    def resume(self, plan: Plan, since: int) -> Result:
        """Compute the others. Raises RuntimeError for a plan that was not begun last."""
        if self._begun is None or self._begun[0] is not plan:
            raise RuntimeError("the executor's last run was of another plan, or of other parameters")
        return self._part(plan, since, len(plan.launch_ptr) - 1)

    def _part(self, plan: Plan, first: int, last: int) -> Result:
        assert self._begun is not None
        begin, end = plan.schedule.ptr[plan.launch_ptr[[first, last]]].tolist()
        wanted = set(plan.schedule.nodes[begin:end].tolist())
        order = [node for node in topological(plan.graph) if node in wanted]
        return self._walk(plan.graph, (), order, self._begun[1])

    def _cell(self, cell: Cell, operands: Sequence[Array], params: Sequence[Array]) -> list[Array]:
        return run_cell(cell, operands, params)

    def _reduced(self, reduction: Reduction, rows: Array) -> Array:
        return np.asarray(getattr(np, reduction)(rows, axis=-1))

    def _attended(self, attention: Attention, values: Array, keys: Array, query: Array) -> list[Array]:
        return attend(attention, values, keys, query)

    def _attention_gradient(
        self, made: AttentionGradient, values: Array, keys: Array, states: Array
    ) -> Array:
        return np.asarray(attention_gradients(made, values, keys, states).sum(axis=0))

    def _held(self, earlier: Earlier) -> list[Array]:
        """The values of earlier runs that lie where a plan says."""
        held: dict[tuple[int, int], tuple[Result, int]] = {}
        for plan, found in self._runs:
            type_of = np.repeat(np.arange(len(self._network.types)), plan.graph.type_sizes)
            references = np.flatnonzero(plan.row >= 0)
            node, output = np.divmod(references, self._network.width)
            places = zip(plan.arenas.output_arena[type_of[node], output], plan.row[references], strict=True)
            held.update(zip(places, ((found, r) for r in references.tolist()), strict=True))
        wanted = [held[place] for place in zip(earlier.arena, earlier.row, strict=True)]
        return [found.values(np.array([reference]))[0] for found, reference in wanted]

    def run_graph(self, graph: Graph, before: Sequence[Array] = ()) -> Result:
        """Compute every node's outputs, without a plan; `before`: the values of earlier runs (`Earlier`)."""
        return self._walk(graph, before, topological(graph), [[] for _ in range(len(graph))])

    def _walk(
        self, graph: Graph, before: Sequence[Array], order: Sequence[int], outputs: list[list[Array]]
    ) -> Result:
        """Compute some nodes' outputs in order and add them to the existing ones."""
        network = self._network
        own = len(graph) * network.width
        ptr = graph.operand_ptr.tolist()
        references = graph.operand.tolist()

        def value(reference: int) -> Array:
            if reference < 0:
                return np.asarray(constant_value(network, self._params, reference, graph.given), np.float64)
            node, output = divmod(reference, network.width)
            return outputs[node][output] if node < len(outputs) else before[reference - own]

        def reduced(reduction: Reduction, wanted: list[int]) -> Array:
            # along neighbours in memory NumPy adds pairwise
            rows = np.stack([value(reference) for reference in wanted], axis=-1)
            return self._reduced(reduction, rows)

        def operand(slot: Slot, reference: int) -> Array:
            if slot.reduction is None:
                return value(reference)
            return reduced(slot.reduction, graph.values_of(reference))

        type_of = np.repeat(np.arange(len(network.types)), graph.type_sizes).tolist()
        with np.errstate(all="ignore"):
            for node in order:
                net_type = network.types[type_of[node]]
                read = references[ptr[node] : ptr[node + 1]]
                if net_type.cell is not None:
                    params = [self._values[number] for number in net_type.params]
                    operands = [operand(*pair) for pair in zip(net_type.slots, read, strict=True)]
                    outputs[node] = self._cell(net_type.cell, operands, params)
                elif net_type.reduction is not None:
                    links = len(read) // len(net_type.slots)
                    runs = [read[s * links : (s + 1) * links] for s in range(len(net_type.slots))]
                    if isinstance(net_type.reduction, Attention):
                        values_of, keys = (np.stack([value(r) for r in runs[s]]) for s in (VALUES, KEYS))
                        query = value(runs[QUERY][0])
                        outputs[node] = self._attended(net_type.reduction, values_of, keys, query)
                    elif isinstance(net_type.reduction, AttentionGradient):
                        rows = [np.stack([value(r) for r in run]) for run in runs]
                        outputs[node] = [self._attention_gradient(net_type.reduction, *rows)]
                    else:
                        outputs[node] = [reduced(net_type.reduction, run) for run in runs]

        def values(wanted: NDArray[np.integer[Any]]) -> Array:
            return np.array([value(reference) for reference in wanted.tolist()], np.float64)

        return Result(graph, Counts(len(order), len(order), 0, 0), values)


def topological(graph: Graph) -> list[int]:
    """The nodes, each after those whose values it reads; from the operands alone."""
    width = graph.network.width
    ptr, references = graph.operand_ptr.tolist(), graph.operand.tolist()
    producers = [
        {
            value // width
            for reference in references[ptr[v] : ptr[v + 1]]
            for value in graph.values_of(reference)
            if 0 <= value < len(graph) * width
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
