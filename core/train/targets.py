"""Targets, found in the instances once for all mini-batches, and losses with their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, Problem, Span, SpecError
from abw.core.data.derive import field, floats, link
from abw.core.data.instances import Instances
from abw.core.data.intern import word_rows
from abw.core.data.links import along
from abw.core.data.vertices import INDEX, Columns, FieldColumn, given_link
from abw.core.graph.growing.decide import allowed
from abw.core.ir.growth import Decision, Number
from abw.core.ir.model import AS_IT_IS, Model
from abw.core.ir.training import OF_LOGARITHMS, Among, Loss, LossKind, Training
from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
# The largest distance of logarithms whose power is formed.
FURTHEST = 20.0


@dataclass(frozen=True, slots=True)
class Targets:
    """A loss's targets: `has` (V,) bool, of vertices that count; `values` (V,) classes or (V, k) floats.

    `allowed` (V, k) bool: what a decision may choose at each vertex, None where that is anything.
    """

    has: NDArray[np.bool_]
    values: NDArray[Any]
    allowed: NDArray[np.bool_] | None = None

    def of(self, vertices: NDArray[Any]) -> Targets:
        """The targets of some vertices, in their order."""
        allowed = None if self.allowed is None else self.allowed[vertices]
        return Targets(self.has[vertices], self.values[vertices], allowed)

    def or_none(self, vertices: NDArray[Any]) -> NDArray[Any]:
        """The values of some vertices; -1 or NaN at those without one."""
        none = np.nan if self.values.dtype.kind == "f" else -1
        has = self.has[vertices].reshape(-1, *[1] * (self.values.ndim - 1))
        return np.where(has, self.values[vertices], none)

    def masked(self, values: Floats) -> Floats:
        """Values (V, k) where what is not allowed has no chance."""
        return values if self.allowed is None else np.where(self.allowed, values, np.float32(-np.inf))


def training_of(model: Model) -> Training:
    """The section `train` of a model. Errors: AbwError where it has none."""
    if model.training is None:
        hint = "train: {loss: {of: OUTPUT, target: FIELD}}"
        raise AbwError(f"{model.name} does not say what to learn: it has no section 'train'", hint=hint)
    return model.training


def targets_of(model: Model, loss: Loss, instances: Instances) -> Targets:
    """Find a loss's targets. Errors: SpecError where a class is none that the output has.

    Cost: linear in the vertices.
    """
    name, pairs = model.outputs[loss.output]
    t, o = pairs[0]
    (size,) = model.types[t].outputs[o].shape
    reached = _reached(model, loss, instances)
    if loss.kind != "cross-entropy":
        given = floats(instances, loss.target.field, model.data.seed)
        if given.rows.shape[1] != size:
            message = f"field '{loss.target.field}' has {given.rows.shape[1]} numbers, output '{name}' {size}"
            raise SpecError([Problem(message, loss.where)])
        row = np.full(len(instances.kind) + 1, -1, np.int32)
        row[given.vertex] = np.arange(len(given.vertex))
        at = row[reached]
        values = np.zeros((len(at), size), np.float32)
        values[at >= 0] = given.rows[at[at >= 0]]
        has = (at >= 0) & counted(instances, loss.over)
        if loss.kind in OF_LOGARITHMS:
            _require_positive(loss, instances, has, values)
            np.log(values, out=values, where=has[:, None])
        return Targets(has, values)
    number = np.append(field(instances, loss.target.field, model.data.seed), -1)[reached]
    classes = classes_of(model, loss, instances)
    if classes is not None:
        number = np.where(number >= 0, np.append(classes, -1)[number], -1).astype(np.int32)
    has = (number >= 0) & counted(instances, loss.over)
    require_class(loss, name, number[has].max(initial=0), size)
    return Targets(has, number, _allowed(loss.decision, instances))


def _require_positive(loss: Loss, instances: Instances, has: NDArray[np.bool_], values: Floats) -> None:
    """Refuse targets without a logarithm. Errors: SpecError with the line of the first."""
    wrong = np.flatnonzero(has & (values <= 0).any(axis=1))
    if len(wrong):
        instance = int(np.searchsorted(instances.start, wrong[0], "right")) - 1
        message = f"the target '{loss.target.field}' is {values[wrong[0]].min():g}, which has no logarithm"
        where = Span(str(instances.source), int(instances.lines[instance]))
        raise SpecError([Problem(message, where, f"kind: {loss.kind} is for targets above 0")])


def require_class(loss: Loss, name: str, largest: int, size: int) -> None:
    """Refuse classes that an output of so many scores has not. Errors: SpecError."""
    if largest >= size:
        message = f"there is a target {largest}, and output '{name}' has {size} scores"
        hint = f"classes are 0 to {size - 1}"
        if loss.target.table is not None:
            hint += "; a larger size (--set), or fewer words: vocabulary: 2 in the section 'train'"
        raise SpecError([Problem(message, loss.where, hint)])


def _allowed(decision: Decision | None, instances: Instances) -> NDArray[np.bool_] | None:
    """Find what a decision may choose at each vertex (V, k) of instances that have grown."""
    if decision is None or decision.allow is None:
        return None
    columns = Columns(len(instances.kind))
    for test in (test for tests in decision.allow for test in tests):
        place = test.value.place if isinstance(test.value, Number) else test.value
        for hop in place.hops:
            columns.give(hop, given_link(instances, hop))
        if isinstance(test.value, Number):
            name = test.value.field
            columns.give(INDEX if name == "index" else FieldColumn(name), field(instances, name))
    return allowed(decision, columns, np.arange(columns.count, dtype=np.int32))


def _reached(model: Model, loss: Loss, instances: Instances) -> Ints:
    """For each vertex that whose field is its target (V,); V where there is none."""
    count = len(instances.kind)
    if not loss.target.hops:
        return np.arange(count, dtype=np.int32)
    ways = [(link(instances, hop.link), hop.index) for hop in loss.target.hops]
    way = along(ways, count)
    assert way.indptr is not None
    reached = np.full(count, count, np.int32)
    some = way.indptr[:-1] < way.indptr[1:]
    reached[some] = way.target[way.indptr[:-1][some]]
    return reached


def classes_of(model: Model, loss: Loss, instances: Instances) -> Ints | None:
    """The class of each number of the target's field; None where it is the number.

    Of words it is their row of a table, or their place among the output's names, or the number they spell.
    """
    target = loss.target
    if target.table is not None:
        rows = word_rows(instances, target.field, model.tables[target.table])
        return rows if len(rows) else None
    if target.field not in instances.vocabulary:
        return None
    words = instances.vocabulary[target.field]
    names = names_of(model, loss)
    if names is not None:
        place = {word: number for number, word in enumerate(names)}
        return np.array([place.get(word, -1) for word in words], np.int32)
    wrong = next((word for word in words if not word.isdecimal()), None)
    if wrong is not None:
        hint = "outputs: {NAME: {of: …, as: label, names: [one a class, in order]}}"
        message = f"'{wrong}' is a target of field '{target.field}': which class is that?"
        raise SpecError([Problem(message, loss.where, hint)])
    return np.array([int(word) for word in words], np.int32)


def names_of(model: Model, loss: Loss) -> tuple[str, ...] | None:
    """The names of the classes of a loss's output, if it has any."""
    if loss.decision:
        return loss.decision.names
    return model.answers.get(model.outputs[loss.output][0], AS_IT_IS).names


def counted(instances: Instances, over: Among | None) -> NDArray[np.bool_]:
    """Which vertices count (V,)."""
    if over is None:
        return np.ones(len(instances.kind), np.bool_)
    if not over.link:
        return np.array([kind in over.kinds for kind in instances.schema.kinds])[instances.kind]
    way = link(instances, over.link)
    instance = instances.schema.kinds.index("instance")
    ends = way.target
    if way.indptr is None:
        ends = ends[instances.kind == instance]
    else:
        ends = ends[np.repeat(instances.kind == instance, np.diff(way.indptr))]
    found = np.zeros(len(instances.kind), np.bool_)
    found[ends[ends >= 0]] = True
    return found


def require(found: Targets, loss: Loss, instances: Instances) -> None:
    """Refuse data without a single target. Errors: AbwError."""
    if not found.has.any():
        where = f" over '{loss.over.text}'" if loss.over else ""
        raise AbwError(f"{instances.source} has no target '{loss.target.field}'{where}")


def loss_of(kind: LossKind, values: Floats, target: NDArray[Any], weight: Floats, gradient: Floats) -> float:
    """The weighted sum of the losses of `values` (m, k); its gradient is written to `gradient` (m, k).

    Of cross-entropy `target` (m,) are classes, and `weight` (m,) that of each row: minus the logarithm of the
    class's probability under softmax. Of `binary` `target` (m, k) are probabilities, of which the values are
    the logits; of `squared` values, from which half the squared distance counts, and of `log-error` their
    logarithms; of `q-error` logarithms too, and the q-error counts: exp of the distance, from FURTHEST on the
    tangent. Sums are in double precision
    and in the order of the rows.
    """
    if kind == "cross-entropy":
        return float(_cross_entropy(values, target, weight, gradient, np.empty(values.shape[1])))
    of = {"binary": _binary, "q-error": _q_error}.get(kind, _squared)
    return float(of(values, target, weight, gradient))


@njit
def _cross_entropy(
    values: Floats, target: Ints, weight: Floats, gradient: Floats, power: NDArray[np.float64]
) -> float:
    total = 0.0
    for i in range(len(values)):
        most = values[i, 0]
        for j in range(1, values.shape[1]):
            most = max(most, values[i, j])
        size = 0.0
        for j in range(values.shape[1]):
            power[j] = np.exp(np.float64(values[i, j] - most))
            size += power[j]
        total += weight[i] * (np.log(size) - np.float64(values[i, target[i]] - most))
        for j in range(values.shape[1]):
            gradient[i, j] = weight[i] * (power[j] / size - (j == target[i]))
    return total


@njit
def _binary(values: Floats, target: Floats, weight: Floats, gradient: Floats) -> float:
    total = 0.0
    for i in range(len(values)):
        for j in range(values.shape[1]):
            y, t = np.float64(values[i, j]), np.float64(target[i, j])
            small = np.exp(-abs(y))
            total += weight[i] * (max(y, 0.0) - y * t + np.log1p(small))
            chance = 1 / (1 + small) if y >= 0 else small / (1 + small)
            gradient[i, j] = weight[i] * (chance - t)
    return total


@njit
def _squared(values: Floats, target: Floats, weight: Floats, gradient: Floats) -> float:
    total = 0.0
    for i in range(len(values)):
        for j in range(values.shape[1]):
            away = np.float64(values[i, j]) - np.float64(target[i, j])
            total += weight[i] * 0.5 * away * away
            gradient[i, j] = weight[i] * away
    return total


@njit
def _q_error(values: Floats, target: Floats, weight: Floats, gradient: Floats) -> float:
    total = 0.0
    for i in range(len(values)):
        for j in range(values.shape[1]):
            away = np.float64(values[i, j]) - np.float64(target[i, j])
            distance = abs(away)
            error = np.exp(min(distance, FURTHEST))
            total += weight[i] * error * (1 + max(distance - FURTHEST, 0.0))
            gradient[i, j] = weight[i] * np.sign(away) * error
    return total
