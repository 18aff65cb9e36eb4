"""Growth: rounds from left to right, instances downwards, in each cell what was decided.

As text a line a round, then what was decided in the first instance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from abw.viz.data.pictures import ChoiceView, CutView, RoundsPicture
from abw.viz.drawing.svg import (
    Sheet,
    Svg,
    filled,
    heading,
    rect,
    require_small,
    tag,
    text,
    title,
    wide,
)
from abw.viz.drawing.text import head, left_out, table

MARGIN, LEFT, CURVE, LINE = 16.0, 104.0, 48.0, 15.0
# The most instances drawn, lines of a cell, letters of a choice.
INSTANCES, LINES, LETTERS = 24, 6, 12
# Of text the most rounds and choices, and the most frequent choices of a round; the width of a bar.
ROUNDS, CHOICES, OFTEN, BAR = 24, 40, 3, 8


def rounds_svg(picture: RoundsPicture) -> Svg:
    """Above, in how many instances there was something to do; below what was chosen in each of the first."""
    rounds = len(picture.growing)
    cells: dict[tuple[int, int], list[ChoiceView]] = defaultdict(list)
    for choice in picture.choices:
        cells[choice.instance, choice.round].append(choice)
    rows = sorted({instance for instance, _ in cells})[:INSTANCES]
    cells = {key: found for key, found in cells.items() if key[0] in rows}
    require_small(rounds * (len(rows) + 1), "cells")
    lines = {key: _lines(found, len(picture.decisions) > 1) for key, found in cells.items()}
    longest = max([len(said) for found in lines.values() for _, said in found] + [3])
    column = 7.0 * min(longest, LETTERS + 1) + 14 if lines else max(6.0, min(22.0, 1000 / max(1, rounds)))
    sheet, y = Sheet(MARGIN), 58.0 + CURVE
    sheet.add(heading(MARGIN, 20, "rounds", summary(picture)), _curve(picture, column))
    for r in range(1, rounds + 1, 1 if column >= 20 else 10):
        sheet.add(text(LEFT + (r - 0.5) * column, y + 12, str(r), "mid soft small"))
    y += 20
    for instance in rows:
        high = 8 + LINE * max(len(lines.get((instance, r), ())) for r in range(1, rounds + 1))
        sheet.add(text(LEFT - 8, y + 16, f"instance {instance}", "end"))
        sheet.add(tag("path", d=f"M{LEFT:g} {y:.1f}h{rounds * column:.1f}", class_="axis"))
        for r in range(1, rounds + 1):
            if (instance, r) in cells:
                x = LEFT + (r - 1) * column
                sheet.add(_cell(cells[instance, r], lines[instance, r], x, y, column, high))
        y += high
    rest = picture.instances - len(rows)
    notes = ["a bar: the darker, the nearer was what came second"] if picture.choices else []
    if {"given up", "won"} & {choice.fate for found in cells.values() for choice in found}:
        notes.append("struck through: given up; bold: the likeliest in the end")
    notes += [f"{rest} more instances: --instances N chooses, --html has all"] if rest > 0 and rows else []
    sheet.add(text(MARGIN, y + 18, "; ".join(notes), "soft small"))
    sheet.reach(max(LEFT + rounds * column, MARGIN + wide(summary(picture)) + 80, 480.0))
    return sheet.svg(y + 28, f"{rounds} rounds of {summary(picture)}")


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
    """The lines of a cell, choices given up last; None stands for those left out, which are counted."""
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
    width: float,
    high: float,
) -> str:
    tip = title("\n".join(f"{choice.place}: {choice.said}" for choice in choices[:40]))
    parts = [rect(x + 1, y + 2, width - 2, high - 3, "back", tip, rx=3)]
    for i, (choice, said) in enumerate(lines):
        fate = choice.fate if choice else "given up"
        style = {"given up": "soft", "won": "bold"}.get(fate, "")
        look = {"text_decoration": "line-through"} if choice and fate == "given up" else {}
        parts.append(text(x + 8, y + 15 + LINE * i, said, style, **look))
        if choice and (near := _nearness(choice)) > 0:
            parts.append(rect(x + 2, y + 5 + LINE * i, 2.5, LINE - 4, "bad", fill_opacity=f"{near:.2f}"))
    return tag("g", "".join(parts))


def _nearness(choice: ChoiceView) -> float:
    """Rate how close a choice was to the runner-up: 1 equal, 0 far away."""
    if choice.score is None or choice.second_score is None:
        return 0.0
    return float(np.exp(-abs(choice.score - choice.second_score) * 4))


def rounds_text(picture: RoundsPicture) -> RenderableType:
    """In how many instances each round had something to do, what came to be, what was chosen most often and
    least surely; then the choices of the first instance, one by one.
    """
    rounds = len(picture.growing)
    by_round: dict[int, list[ChoiceView]] = defaultdict(list)
    for choice in picture.choices:
        by_round[choice.round].append(choice)
    rows = table(">round", ">growing", "", "new", "chosen", "least sure")
    shown = np.unique(np.linspace(1, rounds, min(ROUNDS, rounds)).round().astype(int)).tolist()
    for r in shown:
        growing, here = int(picture.growing[r - 1]), by_round[r]
        bar = "█" * max(1, round(BAR * growing / max(1, picture.instances)))
        unsure = least_sure(here)
        least = f"{unsure.said}  instance {unsure.instance}, {unsure.place}" if unsure else ""
        rows.add_row(str(r), str(growing), bar, new(picture, r), often(here, len(picture.decisions)), least)
    parts: list[RenderableType] = [head("rounds", str(rounds), f"  {summary(picture)}"), rows]
    parts += left_out(rounds - len(shown), f"{rounds - len(shown)} rounds between: --json has all")
    first = min((choice.instance for choice in picture.choices), default=0)
    walk = [choice for choice in picture.choices if choice.instance == first]
    if walk:
        lines = table(">round", "at", "decided")
        for choice in walk[:CHOICES]:
            style = {"given up": "dim", "won": "bold"}.get(choice.fate, "")
            lines.add_row(str(choice.round), choice.place, Text(choice.said, style=style))
        parts += [Text(), head("instance", str(first)), lines]
        parts += left_out(len(walk) - CHOICES, f"{len(walk) - CHOICES} more: --html walks through them")
    return Group(*parts)


def summary(picture: RoundsPicture) -> str:
    """Summarise a picture in a line, with the instances that were cut."""
    came = picture.came.sum(axis=0).tolist()
    parts = [f"{picture.instances} instance{'' if picture.instances == 1 else 's'}"]
    grown = [f"{count} {kind}" for kind, count in zip(picture.kinds, came, strict=True) if count]
    parts += [f"new: {', '.join(grown)}"] if grown else []
    before, after = int(picture.nodes[0]), int(picture.nodes[-1])
    during = int(picture.nodes.sum()) - before - after
    parts.append(f"nodes: {before} before growth, {during} in rounds, {after} after")
    return "; ".join([*parts, *map(cut_text, picture.cut)])


def cut_text(cut: CutView) -> str:
    """`12 instances cut at 20 step`."""
    count = len(cut.instances)
    return f"{count} instance{'' if count == 1 else 's'} cut at {cut.most} {cut.kind}"


def new(picture: RoundsPicture, round: int) -> str:
    """Name the vertices created in a round."""
    came = zip(picture.kinds, picture.came[round - 1].tolist(), strict=True)
    return ", ".join(f"{kind} {count}" for kind, count in came if count)


def often(choices: Sequence[ChoiceView], decisions: int) -> str:
    """Name the most frequent choices, with the decision's name where there are several."""
    counts = Counter(
        f"{c.decision} {c.chosen}" if decisions > 1 else c.chosen for c in choices if c.fate != "given up"
    )
    said = [f"{name or 'nothing'} {count}" for name, count in counts.most_common(OFTEN)]
    return ", ".join(said) + (", …" if len(counts) > OFTEN else "")


def least_sure(choices: Sequence[ChoiceView]) -> ChoiceView | None:
    """The choice whose score is nearest to that of what came second; None where there is none."""
    near = [c for c in choices if c.score is not None and c.second_score is not None]
    return min(near, key=lambda c: abs((c.score or 0.0) - (c.second_score or 0.0)), default=None)
