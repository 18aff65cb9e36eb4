"""How good a model is on some data: its metrics, computed forward only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, Problem, SpecError
from abw.core.data.instances import Instances
from abw.core.exec.interface import Result
from abw.core.exec.values import single
from abw.core.ir.model import Model
from abw.core.ir.training import QUANTILES, Loss, Metric, Training
from abw.core.run.minibatches import MiniBatch
from abw.core.train.metrics import Score, UserMetric
from abw.core.train.targets import Targets, counted, loss_of, names_of, targets_of, training_of

# All mini-batches of the instances, each with what an executor made of it.
Results = Iterable[tuple[MiniBatch, Result]]


@dataclass(frozen=True, slots=True)
class Judge:
    """The targets of some instances by loss, and the vertices (V,) that count by metric.

    `user` are the user's metrics by name.
    """

    model: Model
    training: Training
    instances: Instances
    targets: tuple[Targets, ...]
    over: tuple[NDArray[np.bool_], ...]
    user: Mapping[str, UserMetric] = field(default_factory=dict)

    def row(self, results: Results) -> dict[str, float]:
        """The metrics by name, those of the section `train` first; NaN where nothing tells one.

        Errors: AbwError where one of a user's gives no number.
        """
        pairs: tuple[dict[str, list[NDArray[Any]]], ...] = ({}, {})
        scores = self.scores(results, pairs if self.user else None)
        found = {}
        for metric, score in zip(self.training.metrics, scores, strict=True):
            output = self.model.outputs[self.training.losses[metric.loss].output][0]
            of = f" of {output}" if metric.loss else ""
            over = f" over {metric.over.text}" if metric.over else ""
            found[f"{metric.name}{of}{over}"] = score.value
        for name, function in self.user.items():
            value = function(*pairs)
            try:
                found[name] = float(value)
            except (TypeError, ValueError):
                raise AbwError(f"metric '{name}' returned {value!r}, which is not a number") from None
        return found

    def scores(
        self,
        results: Results,
        pairs: tuple[dict[str, list[NDArray[Any]]], ...] | None = None,
    ) -> tuple[Score, ...]:
        """The metrics, in the order of the section `train`; values and targets are put into `pairs`."""
        found = tuple(Score(metric.name) for metric in self.training.metrics)
        for batch, result in results:
            refs = [batch.graph.results[loss.output] for loss in self.training.losses]
            vertices = [int(self.instances.start[batch.first]) + ref.vertex for ref in refs]
            values = [result.values(ref.reference) for ref in refs]
            for number, ref in enumerate(refs if pairs else ()):
                ends = np.searchsorted(ref.instance, np.arange(1, batch.last - batch.first))
                wanted = self.targets[number].or_none(vertices[number])
                for kept, array in zip(pairs or (), (values[number], wanted), strict=True):
                    kept.setdefault(ref.name, []).extend(np.split(np.asarray(array), ends))
            for metric, score, over in zip(self.training.metrics, found, self.over, strict=True):
                loss, targets = self.training.losses[metric.loss], self.targets[metric.loss]
                vertex, given = vertices[metric.loss], single(values[metric.loss])
                counts = targets.has[vertex] & over[vertex]
                if metric.name == "span-f1":
                    self._spans(score, loss, given, vertex, refs[metric.loss].instance)
                elif counts.any():
                    here = targets.of(vertex[counts])
                    _count(score, loss, here.masked(given[counts]), here.values)
        return found

    def _spans(
        self, score: Score, loss: Loss, values: NDArray[Any], vertex: NDArray[Any], instance: NDArray[Any]
    ) -> None:
        """Spans instance by instance; a vertex without a target is outside of all."""
        names = tags_of(self.model, loss)
        targets = self.targets[self.training.losses.index(loss)]
        both = zip(targets.values[vertex].tolist(), targets.has[vertex].tolist(), strict=True)
        wanted = [names[c] if has else "O" for c, has in both]
        given = [names[c] for c in values.argmax(axis=1).tolist()]
        ends = np.append(np.flatnonzero(np.diff(instance)) + 1, len(instance)).tolist()
        first = 0
        for last in ends:
            score.add_spans(given[first:last], wanted[first:last])
            first = last


def judge_of(model: Model, instances: Instances, user: Mapping[str, UserMetric] | None = None) -> Judge:
    """Find what is wanted of a model on some instances. Errors: SpecError."""
    training = training_of(model)
    for metric in training.metrics:
        if metric.name == "span-f1":
            tags_of(model, training.losses[metric.loss])
    targets = tuple(targets_of(model, loss, instances) for loss in training.losses)
    over = tuple(counted(instances, metric.over) for metric in training.metrics)
    return Judge(model, training, instances, targets, over, user or {})


def tags_of(model: Model, loss: Loss) -> Sequence[str]:
    """The names of an output's classes. Errors: SpecError where there are none."""
    names = names_of(model, loss)
    if names is None:
        name = model.outputs[loss.output][0]
        hint = f"outputs: {{{name}: {{of: …, as: label, names: [O, B-PER, …]}}}}"
        raise SpecError([Problem("spans need the names of the classes", loss.where, hint)])
    return names


def _count(score: Score, loss: Loss, values: NDArray[np.float32], wanted: NDArray[Any]) -> None:
    """Add values (m, k) and what they should be to a metric."""
    if score.name == "accuracy":
        if loss.kind == "binary":
            score.add_labels((values > 0).ravel(), (wanted > 0.5).ravel())
        else:
            score.add_labels(values.argmax(axis=1), wanted)
    elif score.name in QUANTILES:
        score.add_q_errors(values, wanted)
    elif score.name == "squared-error":
        score.add_sum(float(((values.astype(np.float64) - wanted) ** 2).sum()), values.size)
    else:
        weight = np.ones(len(values), np.float32)
        total = loss_of(loss.kind, np.ascontiguousarray(values), wanted, weight, np.empty_like(values))
        score.add_sum(total, len(values))


def better(metric: Metric, value: float, than: float | None) -> bool:
    """Whether a metric's value is better than another; anything is better than none, NaN than nothing."""
    if value != value:
        return False
    return than is None or (value > than if metric.more_is_better else value < than)
