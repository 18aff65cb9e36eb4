"""Metrics: how good a model's outputs are beside their targets; and a user's own, by where they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.modules import module_at, placed
from abw.core.ir.training import QUANTILES, MetricName, Training
from abw.core.store.trainings import NO_METRICS

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
