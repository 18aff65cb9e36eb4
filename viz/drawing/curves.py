"""How a training went, as charts: loss and metrics over epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from abw.viz.drawing.chart import Chart, Line

Rows = Sequence[Mapping[str, Any]]


def curve_charts(title: str, curves: Mapping[str, Rows], metrics: Sequence[str]) -> list[Chart]:
    """A chart of the loss, then one a metric; accuracy over all and over roots share one.

    `curves`: the rows of trainings by their names; with several, each has lines of its own.
    """
    kinds: dict[str, list[str]] = {"training loss": ["loss"]}
    for metric in metrics:
        kinds.setdefault(metric.split(" over ")[0], []).append(metric)
    found = []
    for kind, keys in kinds.items():
        lines = []
        for name, rows in curves.items():
            for key in keys:
                points = tuple((float(r["epoch"]), float(r[key])) for r in rows if r.get(key) is not None)
                said = kind if key == "loss" == keys[0] else key
                if points:
                    lines.append(Line(f"{name}: {said}" if len(curves) > 1 else said, points))
        if lines:
            found.append(Chart(title, "epochs", kind, tuple(lines)))
    return found
