"""Lines over two axes: losses over epochs, batches over sizes of mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

from rich.text import Text

from abw.viz.drawing.palette import colour
from abw.viz.drawing.svg import Sheet, Svg, number, tag, text, wide

Point = tuple[float, float]

WIDTH, HEIGHT, MARGIN, TOP = 640.0, 280.0, 56.0, 52.0
# Beside the colour: a ninth line has the first colour, the second dashes.
DASHES = ("", "6 3", "2 3", "9 3 2 3")


@dataclass(frozen=True, slots=True)
class Line:
    """Some points (x, y) from left to right, under a name."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines with what their axes mean; `even` puts the x that occur at equal distances."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    even: bool = False

    @property
    def xs(self) -> list[float]:
        """All x that occur, ascending."""
        return sorted({x for line in self.lines for x, _ in line.points})

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest y."""
        ys = [y for line in self.lines for _, y in line.points]
        return min(ys, default=0.0), max(ys, default=1.0)

    def across(self, x: float) -> float:
        """Where an x lies between the chart's left, 0, and its right, 1."""
        xs = self.xs
        if len(xs) < 2:
            return 0.5
        return xs.index(x) / (len(xs) - 1) if self.even else (x - xs[0]) / (xs[-1] - xs[0])


def curve_charts(
    title: str, curves: Mapping[str, Sequence[Mapping[str, Any]]], metrics: Iterable[str]
) -> list[Chart]:
    """How trainings went: a chart of the loss, then one a metric; accuracy over all and over roots share one.

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


def chart_svg(chart: Chart) -> Svg:
    """The chart with a legend to the right, the last line's end highest first."""
    steps, bottom = ticks(0.0, max(chart.range[1], 1e-9)), TOP + HEIGHT

    def across(x: float) -> float:
        return MARGIN + chart.across(x) * WIDTH

    def down(y: float) -> float:
        return TOP + (steps[-1] - y) / steps[-1] * HEIGHT

    sheet = Sheet(MARGIN, chart.title)
    sheet.add(text(MARGIN, 38, chart.y, "soft"))
    for value in steps:
        y = down(value)
        sheet.add(tag("line", x1=MARGIN, y1=y, x2=MARGIN + WIDTH, y2=y, class_="axis", opacity="0.5"))
        sheet.add(text(MARGIN - 6, y + 4, f"{value:g}", "end soft small"))
    for x in chart.xs if chart.even else _some(chart.xs):
        sheet.add(text(across(x), bottom + 16, f"{x:g}", "mid soft small"))
    sheet.add(text(MARGIN + WIDTH / 2, bottom + 34, chart.x, "mid soft"))
    for i, line in enumerate(chart.lines):
        path = "M" + "L".join(f"{number(across(x))} {number(down(y))}" for x, y in line.points)
        sheet.add(tag("path", d=path, class_="line", **_stroke(i)))
    names = sorted(range(len(chart.lines)), key=lambda i: -chart.lines[i].points[-1][1])
    x = MARGIN + WIDTH + 18
    for row, i in enumerate(names):
        y = TOP + 10 + 18 * row
        sheet.add(tag("path", d=f"M{number(x)} {number(y - 4)}h26", **_stroke(i)))
        sheet.add(text(x + 32, y, chart.lines[i].name))
    width = x + 48 + max((wide(line.name) for line in chart.lines), default=0.0)
    height = max(bottom + 44, TOP + 18 * len(names) + 20)
    said = ", ".join(line.name for line in chart.lines)
    return Svg(width, height, "".join(sheet.parts), f"{chart.title}: {said}")


def _stroke(i: int) -> dict[str, str | float]:
    dashes = DASHES[(i + i // 8) % len(DASHES)]
    style = {"stroke_dasharray": dashes} if dashes else {}
    return {"fill": "none", "stroke": colour(i), "stroke_width": 2, **style}


def _some(xs: Sequence[float]) -> list[float]:
    """At most six of them, the first and the last among them."""
    if len(xs) <= 6:
        return list(xs)
    return [xs[round(k * (len(xs) - 1) / 5)] for k in range(6)]


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to ten of them, from at most `low` to at least `high`."""
    size = 10 ** floor(log10((high - low) / 4))
    step = next(f * size for f in (1, 2, 5, 10) if (high - low) / (f * size) <= 8)
    return [k * step for k in range(floor(low / step), ceil(high / step) + 1)]


# The most characters of a line of a chart as text.
LINE = 80


def chart_text(chart: Chart, columns: int = 56, rows: int = 10) -> Text:
    """The chart in Braille dots, 2 by 4 a character, each line in its colour and named at its end.

    Where all is on one level, it is one row high; two rows where there is but one place on the axis.
    """
    low, high = chart.range
    single = chart.xs[0] == chart.xs[-1]
    rows = (2 if single else rows) if high > low else 1
    wide_labels = max(len(f"{v:g}") for v in (low, high))
    columns = max(20, min(columns, LINE - wide_labels - max(len(line.name) for line in chart.lines) - 2))
    dots = [[0] * columns for _ in range(rows)]
    owner = [[0] * columns for _ in range(rows)]

    def place(point: Point) -> tuple[int, int]:
        x = round(chart.across(point[0]) * (2 * columns - 1))
        y = round((high - point[1]) / (high - low) * (4 * rows - 1)) if high > low else 4 * rows - 1
        return x, y

    for i, line in enumerate(chart.lines):
        placed = [place(p) for p in line.points]
        for (x0, y0), (x1, y1) in pairwise([*placed[:1], *placed]):
            steps = max(abs(x1 - x0), abs(y1 - y0), 1)
            for k in range(steps + 1):
                x, y = round(x0 + (x1 - x0) * k / steps), round(y0 + (y1 - y0) * k / steps)
                dots[y // 4][x // 2] |= _DOT[y % 4][x % 2]
                owner[y // 4][x // 2] = i
    ends: dict[int, list[int]] = {}
    for i, line in enumerate(chart.lines):
        ends.setdefault(place(line.points[-1])[1] // 4, []).append(i)
    drawn = Text(f"{chart.title}: {chart.y}\n", style="bold")
    for r in range(rows):
        label = f"{high:g}" if r == 0 else f"{low:g}" if r == rows - 1 else ""
        drawn.append(f"{label:>{wide_labels}} ", style="not bold dim")
        for c in range(columns):
            style = f"not bold {colour(owner[r][c])}" if dots[r][c] else "not bold"
            drawn.append(chr(0x2800 + dots[r][c]), style=style)
        for i in ends.get(r, []):
            drawn.append(f" {chart.lines[i].name}", style=f"not bold {colour(i)}")
        drawn.append("\n")
    first, last = (f"{x:g}" for x in (chart.xs[0], chart.xs[-1]))
    axis = " " * (wide_labels + 1) + first + f"{last:>{columns - len(first)}}  {chart.x}"
    return drawn.append(axis, style="not bold dim")


# The bit of each dot in a Braille character, by row and column (Unicode, chapter 21).
_DOT = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
