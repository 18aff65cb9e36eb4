"""Metrics: how good a model's outputs are beside their targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from abw.core.ir.training import MetricName

# First position, one past the last, label.
Span = tuple[int, int, str]


@dataclass(slots=True)
class Score:
    """A metric as it is summed up: two or three counts, of which `value` is made."""

    name: MetricName
    right: float = 0.0
    found: float = 0.0
    wanted: float = 0.0

    @property
    def value(self) -> float:
        """The metric; NaN where there is nothing to tell it by."""
        if self.name == "span-f1":
            total = self.found + self.wanted
            return 2 * self.right / total if total else math.nan
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
