"""The outputs of a mini-batch as columns: of nodes, then of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import field, floats, link
from abw.core.data.instances import Instances
from abw.core.data.vertices import INSTANCE, KIND, FieldColumn
from abw.core.exec.interface import Result
from abw.core.exec.values import single
from abw.core.graph.graph import ResultRefs
from abw.core.ir.growth import DecisionOutput
from abw.core.ir.model import AS_IT_IS, VERTEX, Answer, Model
from abw.core.run.growing.grown import Grown
from abw.core.run.minibatches import MiniBatch
from abw.core.run.workload import Workload
from abw.core.store.outputs import Column


def columns_of(workload: Workload, batch: MiniBatch, result: Result) -> tuple[Column, ...]:
    """The outputs of a mini-batch: of nodes, then of decisions."""
    model, grown = workload.model, batch.grown
    start = grown.order.start if grown else workload.instances.start[batch.first : batch.last + 1]
    base = start[0]
    given = tuple(_column_of(refs, result, start - base) for refs in result.nodes.results)
    if model.answers:
        instances = grown.instances if grown else workload.instances
        given = tuple(
            answered_column(column, refs.vertex + base, model, refs.name, instances)
            for column, refs in zip(given, result.nodes.results, strict=True)
        )
    if grown is None or model.growth is None:
        return given
    kinds = workload.instances.schema.kinds
    return (*given, *(_decided(output, grown, kinds, model) for output in model.growth.outputs))


def _decided(output: DecisionOutput, grown: Grown, kinds: Sequence[str], model: Model) -> Column:
    """A decision as an output of finished instances."""
    columns, order = grown.columns, grown.order
    wanted = np.array([name in output.kinds for name in kinds])
    vertex = np.flatnonzero(wanted[columns[KIND][order.vertex]])
    own = order.vertex[vertex]
    values = columns[FieldColumn(output.decision.name)][own]
    if output.decision.how == "best":  # the others belong to hypotheses that were dropped
        there = values >= 0
        vertex, own, values = vertex[there], own[there], values[there]
    instance = columns[INSTANCE][own]
    counts = np.bincount(instance, minlength=len(order.start) - 1)
    column = Column(values, counts, (vertex - order.start[instance] - 1).astype(np.int32))
    answer = model.answers.get(output.name, AS_IT_IS)
    if not answer.fields:
        return column
    beside = fields_of(grown.instances, vertex, answer.fields, model.data.seed)
    return replace(column, fields=beside)


def _column_of(refs: ResultRefs, result: Result, start: NDArray[np.int64]) -> Column:
    """An output of a mini-batch whose n instances begin at the vertices `start` (n + 1,), the first at 0."""
    values = single(result.values(refs.reference))
    if not len(values):  # without values, the shape is that of the network's output
        network = result.nodes.network
        t, o = dict(network.outputs)[refs.name][0]
        values = values.reshape(0, *network.types[t].outputs[o].shape)
    if len(start) == 2:  # a single instance waits for its answer
        return Column(values, np.array([len(values)]), refs.vertex - np.int32(1))
    counts = np.bincount(refs.instance, minlength=len(start) - 1)
    return Column(values, counts, (refs.vertex - start[refs.instance] - 1).astype(np.int32))


def answered_column(
    column: Column, vertices: NDArray[np.integer[Any]], model: Model, name: str, instances: Instances
) -> Column:
    """An output in the form that the model's answer requests."""
    answer = model.answers.get(name, AS_IT_IS)
    if answer == AS_IT_IS:
        return column
    values, shares = answered(column.values, answer)
    lost = not_finite(column) if answer.form == "label" else 0
    beside = fields_of(instances, vertices, answer.fields, model.data.seed)
    return replace(column, values=values, shares=shares, fields=beside, lost=lost)


def not_finite(column: Column) -> int:
    """How many values of an output are not finite. Cost: a sum, where all are."""
    with np.errstate(all="ignore"):
        if np.isfinite(column.values.sum()):
            return column.lost
    return int(np.count_nonzero(~np.isfinite(column.values)))


Floats = NDArray[np.float32]


def probabilities(values: Floats) -> Floats:
    """The softmax of each row (m, n): NaN where one of its numbers is, or infinity is among them."""
    with np.errstate(invalid="ignore"):
        powers = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True, initial=-np.inf))
        shares: Floats = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def labels(values: Floats, count: int) -> NDArray[np.int32]:
    """The places (m, count) of each row's largest numbers (m, n), the first of equals first; -1 for NaN."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :count].astype(np.int32)
    order[np.isnan(values).any(axis=1)] = -1
    return order


def answered(values: NDArray[Any], answer: Answer) -> tuple[NDArray[Any], Floats | None]:
    """Values (m, n) as an answer: probabilities (m, n); labels (m,); or the `top` ones (m, top), and their
    probabilities.
    """
    if answer.form == "values":
        return values, None
    if answer.form == "probabilities":
        return probabilities(values), None
    if not answer.top:
        return labels(values, 1)[:, 0], None
    best = labels(values, answer.top)
    return best, np.take_along_axis(probabilities(values), np.maximum(best, 0), axis=1)


def fields_of(
    instances: Instances, vertices: NDArray[np.integer], names: tuple[str, ...], seed: int
) -> dict[str, list[Any]]:
    """The fields of some vertices as JSON has them, None where a vertex has none.

    Of a link, where it leads, and of `VERTEX`: the vertex's number in its instance, the first behind the
    instance's own is 0; that has none.
    """
    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in instances.schema.fields:
            own = name == VERTEX and name not in instances.links
            to = vertices if own else link(instances, name).target[vertices]
            whose = np.searchsorted(instances.start, to, side="right") - 1
            inside = to - instances.start[whose] - 1
            found[name] = [
                n if n >= 0 and v >= 0 else None for n, v in zip(inside.tolist(), to.tolist(), strict=True)
            ]
            continue
        if name in instances.values:
            values = floats(instances, name)
            place = np.full(len(instances.kind), -1, np.int64)
            place[values.vertex] = np.arange(len(values.vertex))
            rows = [values.rows[p] if p >= 0 else None for p in place[vertices].tolist()]
            found[name] = [r if r is None or len(r) > 1 else r[0] for r in rows]
            continue
        numbers = field(instances, name, seed)[vertices].tolist()
        words = instances.vocabulary.get(name)
        known = {n: n if words is None else words[n] for n in set(numbers) if n >= 0}
        found[name] = [known.get(n) for n in numbers]
    return found
