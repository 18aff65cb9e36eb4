"""Gradients node by node, operation by operation, in double precision: the meaning of training.

It walks the forward graph backwards, and has nothing of `core/grad`: what that makes is checked against this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.params import Params
from abw.core.exec.reference import ReferenceExecutor, topological
from abw.core.graph.graph import Graph
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, Attention
from abw.core.ir.network import Network
from tests.core.grad.vjp import cell_vjp

Array = NDArray[np.float64]


def nodewise_gradients(
    network: Network, params: Params, graph: Graph, gradients: Mapping[str, NDArray[np.floating[Any]]]
) -> tuple[list[Array | None], list[Array | None]]:
    """The gradients of all parameters and of whole tables; None where nothing reaches one.

    `gradients`: of outputs, by their names (m, *shape), as `training_graph` takes them. The graph is of
    cells, with reductions as nodes. Cost: some 10 us an operation of a node.
    """
    executor = ReferenceExecutor()
    executor.prepare(network, params)
    result = executor.run_graph(graph)
    found: dict[int, Array] = {}
    of_params: list[Array | None] = [None] * len(network.params)
    of_tables: list[Array | None] = [None] * len(network.tables)

    def value(reference: int) -> Array:
        return np.asarray(result.values(np.array([reference]))[0], np.float64)

    def add_param(number: int, gradient: Array) -> None:
        before = of_params[number]
        of_params[number] = gradient if before is None else before + gradient

    def add(reference: int, gradient: Array) -> None:
        if reference >= 0:
            found[reference] = found[reference] + gradient if reference in found else gradient
            return
        number, row = network.constant_of(reference)
        constant = network.constants[number]
        if constant.kind == "param":
            add_param(constant.number, gradient)
        elif constant.kind == "table":
            table = of_tables[constant.number]
            if table is None:
                table = of_tables[constant.number] = np.zeros((constant.rows, *constant.shape))
            table[row] += gradient

    for results in graph.results:
        if results.name in gradients:
            for reference, gradient in zip(results.reference.tolist(), gradients[results.name], strict=True):
                add(reference, np.asarray(gradient, np.float64))
    type_of = np.repeat(np.arange(len(network.types)), graph.type_sizes)
    for node in reversed(topological(graph)):
        net_type = network.types[type_of[node]]
        given = [found.get(node * network.width + o) for o in range(len(net_type.outputs))]
        if all(g is None for g in given):
            continue
        read = graph.operand[graph.operand_ptr[node] : graph.operand_ptr[node + 1]].tolist()
        if net_type.cell is not None:
            weights = [np.asarray(params.values[p], np.float64) for p in net_type.params]
            parts = cell_vjp(net_type.cell, [value(r) for r in read], weights, given)
            for reference, part in zip(read, parts, strict=False):
                if part is not None:
                    add(reference, part)
            for p, part in zip(net_type.params, parts[len(read) :], strict=True):
                if part is not None:
                    add_param(p, part)
            continue
        links = len(read) // len(net_type.slots)
        runs = [read[s * links : (s + 1) * links] for s in range(len(net_type.slots))]
        rows = [np.stack([value(r) for r in run]) for run in runs]
        if isinstance(net_type.reduction, Attention):
            assert given[0] is not None
            of_rows: Sequence[Array | None] = _attention(net_type.reduction, rows, given[0])
        else:
            pairs = zip(rows, given, strict=True)
            of_rows = [None if g is None else _reduced(net_type.reduction, r, g) for r, g in pairs]
        for run, each in zip(runs, of_rows, strict=True):
            if each is not None:
                for reference, gradient in zip(run, each, strict=True):
                    add(reference, gradient)
    return of_params, of_tables


def _reduced(reduction: str | None, rows: Array, gradient: Array) -> Array:
    """The gradient of each neighbour of a sum, a mean, or the largest."""
    if reduction == "sum":
        return np.broadcast_to(gradient, rows.shape)
    if reduction == "mean":
        return np.broadcast_to(gradient / len(rows), rows.shape)
    if reduction in ("var", "std"):
        slope = 2 * (rows - rows.mean(axis=0)) / len(rows)
        std = rows.std(axis=0)
        return (
            slope * gradient
            if reduction == "var"
            else np.where(std > 0, slope * gradient / np.where(std > 0, 2 * std, 1), 0)
        )
    largest = rows == rows.max(axis=0)
    return np.asarray(largest * gradient / largest.sum(axis=0))


def _attention(attention: Attention, rows: Sequence[Array], gradient: Array) -> Sequence[Array]:
    """Of values, keys and query, each neighbour by itself: the query's gradient is in parts."""
    found = [np.zeros_like(r) for r in rows]
    values, keys, query = rows[VALUES], rows[KEYS], rows[QUERY][0]
    wide, deep = values.shape[1] // attention.heads, keys.shape[1] // attention.heads
    factor = attention.factor(len(query))
    for h in range(attention.heads):
        v, k = slice(h * wide, (h + 1) * wide), slice(h * deep, (h + 1) * deep)
        both = keys[:, k] + query[k]
        if attention.added:
            scores = np.where(both > 0, both, SLOPE * both).sum(axis=1)
        else:
            scores = keys[:, k] @ query[k] * factor
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        found[VALUES][:, v] = np.outer(weights, gradient[v])
        of_weights = values[:, v] @ gradient[v]
        of_scores = (np.diag(weights) - np.outer(weights, weights)) @ of_weights
        if attention.added:
            found[KEYS][:, k] = found[QUERY][:, k] = of_scores[:, None] * np.where(both > 0, 1, SLOPE)
        else:
            found[KEYS][:, k] = np.outer(of_scores, query[k]) * factor
            found[QUERY][:, k] = of_scores[:, None] * keys[:, k] * factor
    return found
