"""Drawing growth: rounds from left to right, instances downwards, in each cell what was decided."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abw.viz.data.pictures import ChoiceView, RoundsPicture
from abw.viz.drawing.letters import wide
from abw.viz.drawing.rounds_text import new, summary
from abw.viz.drawing.svg import Svg, filled, heading, rect, require_small, tag, text, title

MARGIN, LEFT, CURVE, LINE = 16.0, 104.0, 48.0, 15.0
# The most instances drawn, lines of a cell, letters of a choice.
INSTANCES, LINES, LETTERS = 24, 6, 12


def rounds_svg(picture: RoundsPicture) -> Svg:
    """Above, in how many instances there was something to do; below what was chosen in each of the first."""
    rounds = len(picture.growing)
    cells: dict[tuple[int, int], list[ChoiceView]] = {}
    for choice in picture.choices:
        cells.setdefault((choice.instance, choice.round), []).append(choice)
    rows = sorted({instance for instance, _ in cells})[:INSTANCES]
    cells = {key: found for key, found in cells.items() if key[0] in rows}
    require_small(rounds * (len(rows) + 1), "cells")
    several = len(picture.decisions) > 1
    lines = {key: _lines(found, several) for key, found in cells.items()}
    longest = max([len(said) for found in lines.values() for _, said in found] + [3])
    column = 7.0 * min(longest, LETTERS + 1) + 14 if lines else max(6.0, min(22.0, 1000 / max(1, rounds)))
    parts = [heading(MARGIN, 20, "rounds", summary(picture))]
    parts.append(_curve(picture, column))
    y = 58.0 + CURVE
    step = 1 if column >= 20 else 10
    parts += [
        text(LEFT + (r - 0.5) * column, y + 12, str(r), "mid soft small") for r in range(1, rounds + 1, step)
    ]
    y += 20
    for instance in rows:
        high = 8 + LINE * max(len(lines.get((instance, r), ())) for r in range(1, rounds + 1))
        parts.append(text(LEFT - 8, y + 16, f"instance {instance}", "end"))
        parts.append(tag("path", d=f"M{LEFT:g} {y:.1f}h{rounds * column:.1f}", class_="axis"))
        parts += [
            _cell(cells[instance, r], lines[instance, r], LEFT + (r - 1) * column, y, column, high)
            for r in range(1, rounds + 1)
            if (instance, r) in cells
        ]
        y += high
    rest = picture.instances - len(rows)
    notes = ["a bar: the darker, the nearer was what came second"] if picture.choices else []
    if {"given up", "won"} & {choice.fate for found in cells.values() for choice in found}:
        notes.append("struck through: given up; bold: the likeliest in the end")
    notes += [f"{rest} more instances: --instances N chooses, --html has all"] if rest > 0 and rows else []
    parts.append(text(MARGIN, y + 18, "; ".join(notes), "soft small"))
    width = max(LEFT + rounds * column, MARGIN + wide(summary(picture)) + 80, 480.0) + MARGIN
    return Svg(width, y + 28, "".join(parts), f"{rounds} rounds of {summary(picture)}")


def _curve(picture: RoundsPicture, column: float) -> str:
    """Bars: in how many instances each round had something to do."""
    parts, base = [text(LEFT - 8, 48 + CURVE / 2, "growing", "end soft")], 54 + CURVE
    parts.append(text(LEFT - 8, 62 + CURVE / 2, f"≤ {picture.instances}", "end soft small"))
    for r, growing in enumerate(picture.growing.tolist(), 1):
        high = CURVE * growing / max(1, picture.instances)
        tip = title(f"round {r}: {growing} of {picture.instances} instances; {new(picture, r)}")
        parts.append(filled(0, LEFT + (r - 1) * column + 0.5, base - high, max(1.0, column - 1), high, tip))
    return "".join(parts)


def _lines(choices: Sequence[ChoiceView], several: bool) -> list[tuple[ChoiceView | None, str]]:
    """What a cell says, a line each, what is given up last; None: what there is no room for, counted."""
    room = LINES if len(choices) <= LINES else LINES - 1
    said: list[tuple[ChoiceView | None, str]] = []
    for choice in sorted(choices, key=lambda c: c.fate == "given up")[:room]:
        name = choice.chosen or "–"
        name = f"{choice.decision} {name}" if several else name
        said.append((choice, name if len(name) <= LETTERS else name[: LETTERS - 1] + "…"))
    if len(choices) > room:
        said.append((None, f"+ {len(choices) - room} more"))
    return said


def _cell(
    choices: Sequence[ChoiceView],
    lines: Sequence[tuple[ChoiceView | None, str]],
    x: float,
    y: float,
    wide: float,
    high: float,
) -> str:
    tip = title("\n".join(f"{choice.place}: {choice.said}" for choice in choices[:40]))
    parts = [rect(x + 1, y + 2, wide - 2, high - 3, "back", tip, rx=3)]
    for i, (choice, said) in enumerate(lines):
        fate = choice.fate if choice else "given up"
        style = {"given up": "soft", "won": "bold"}.get(fate, "")
        look = {"text_decoration": "line-through"} if choice and fate == "given up" else {}
        parts.append(text(x + 8, y + 15 + LINE * i, said, style, **look))
        if choice and (near := _nearness(choice)) > 0:
            parts.append(rect(x + 2, y + 5 + LINE * i, 2.5, LINE - 4, "bad", fill_opacity=f"{near:.2f}"))
    return tag("g", "".join(parts))


def _nearness(choice: ChoiceView) -> float:
    """How near a choice was to what came second: 1 the same, 0 far away."""
    if choice.score is None or choice.second_score is None:
        return 0.0
    return float(np.exp(-abs(choice.score - choice.second_score) * 4))
