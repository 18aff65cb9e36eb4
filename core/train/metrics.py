"""Metrics: how good a model's outputs are beside their targets; and a user's own, by where they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, Problem, SpecError, did_you_mean
from abw.core.base.modules import module_at, placed
from abw.core.data.instances import Instances
from abw.core.exec.interface import Result
from abw.core.exec.values import single
from abw.core.ir.model import Model
from abw.core.ir.training import QUANTILES, Loss, Metric, MetricName, Training
from abw.core.run.minibatches import MiniBatch
from abw.core.store.trainings import NO_METRICS
from abw.core.train.targets import Targets, counted, loss_of, names_of, targets_of, training_of

# By output an array for each instance.
Parts = Mapping[str, Sequence[NDArray[Any]]]
# From the values (m, k) of the outputs that have losses, and what they should be, to a number. Targets are
# classes (m,) or values (m, k); of a vertex without one -1 or NaN.
UserMetric = Callable[[Parts, Parts], float]

# First position, one past the last, label.
Span = tuple[int, int, str]


@dataclass(slots=True)
class Score:
    """A metric as it is summed up: two or three counts, of which `value` is made, or all errors."""

    name: MetricName
    right: float = 0.0
    found: float = 0.0
    wanted: float = 0.0
    errors: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The metric; NaN where there is nothing to tell it by."""
        if self.name == "span-f1":
            total = self.found + self.wanted
            return 2 * self.right / total if total else math.nan
        if self.errors:
            return float(np.quantile(np.concatenate(self.errors), QUANTILES[self.name]))
        if not self.wanted:
            return math.nan
        mean = self.right / self.wanted
        return math.exp(min(700.0, mean)) if self.name == "perplexity" else mean

    def add_labels(self, given: NDArray[Any], wanted: NDArray[Any]) -> None:
        """Count labels (m,) that are right (accuracy)."""
        self.right += float((given == wanted).sum())
        self.wanted += len(wanted)

    def add_sum(self, total: float, count: int) -> None:
        """Count a sum of losses over so many values (loss, perplexity, squared error)."""
        self.right += total
        self.wanted += count

    def add_q_errors(self, given: NDArray[Any], wanted: NDArray[Any]) -> None:
        """Take the q-errors max(a / b, b / a) by logarithms of values and of what they should be."""
        with np.errstate(over="ignore"):
            self.errors.append(np.exp(np.abs(given.astype(np.float64) - wanted)).ravel())

    def add_spans(self, given: Sequence[str], wanted: Sequence[str]) -> None:
        """Count spans of one instance's tags, in order, that are right: both ends and the label."""
        found, there = spans(given), spans(wanted)
        self.right += len(found & there)
        self.found += len(found)
        self.wanted += len(there)


def spans(tags: Sequence[str]) -> set[Span]:
    """The spans of tags in the schemes BIO, IOB1, BIOES and BMES (as the CoNLL evaluation reads them).

    A span begins at B- and S-, and where an I-, M- or E- follows nothing of its label; it ends before a
    beginning, another label or O, and after E- and S-.
    """
    found: set[Span] = set()
    begin, label = -1, ""
    for at, tag in enumerate([*tags, "O"]):
        mark, _, name = tag.partition("-")
        inside = mark in ("B", "I", "M", "E", "S")
        goes_on = begin >= 0 and mark in ("I", "M", "E") and name == label
        if begin >= 0 and not goes_on:
            found.add((begin, at, label))
            begin = -1
        if inside and begin < 0:
            begin, label = at, name
        if begin >= 0 and mark in ("E", "S"):
            found.add((begin, at + 1, label))
            begin = -1
    return found


HINT = "a metric of your own is named module:function or file.py:function"


def user_metrics(names: Iterable[str]) -> dict[str, UserMetric]:
    """Load the user's metrics, by the functions' names. Their code is run.

    What they raise becomes an AbwError with the place in its file. Errors: AbwError where there is no such
    file, module or function, and for two of one name.
    """
    found: dict[str, UserMetric] = {}
    for name in names:
        where, _, function = name.rpartition(":")
        if not where or not function:
            raise AbwError(f"'{name}' is not a metric", hint=HINT)
        module = module_at(where, HINT)
        called = getattr(module, function, None)
        if not callable(called):
            known = [n for n, value in vars(module).items() if callable(value)]
            raise AbwError(f"{where} has no function '{function}'", hint=did_you_mean(function, known))
        if function in found:
            raise AbwError(f"two metrics are called '{function}'", hint="another name")
        found[function] = _placed(name, called)
    return found


def _placed(name: str, metric: UserMetric) -> UserMetric:
    def called(outputs: Parts, targets: Parts) -> float:
        with placed(name, __file__):
            return metric(outputs, targets)

    return called


def refuse_metric_names(user: Mapping[str, UserMetric], training: Training, *, dev: bool) -> None:
    """Refuse metrics of names that are taken, and without dev data to tell them by. Errors: AbwError."""
    taken = {*NO_METRICS, *(metric.name for metric in training.metrics)} & user.keys()
    if taken:
        raise AbwError(f"a metric cannot be called '{min(taken)}': that is another", hint="another name")
    if user and not dev:
        raise AbwError("metrics need dev data, and there are none", hint="--dev FILE, fit(instances, dev, …)")


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
