"""Values as answers: labels, probabilities, and the fields of the vertices that they are on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import field, floats, link
from abw.core.data.instances import Instances
from abw.core.ir.model import VERTEX, Answer

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
            to = (
                vertices
                if name == VERTEX and name not in instances.links
                else link(instances, name).target[vertices]
            )
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
