"""Growth on the terminal: a line a round, then what was decided in the first instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from abw.viz.data.pictures import ChoiceView, CutView, RoundsPicture

# The most rounds and choices that a terminal is given; the most frequent choices told of a round; the width
# of a bar.
ROUNDS, CHOICES, OFTEN, BAR = 24, 40, 3, 8


def rounds_text(picture: RoundsPicture) -> RenderableType:
    """In how many instances each round had something to do, what came to be, what was chosen most often and
    least surely; then the choices of the first instance, one by one.
    """
    rounds = len(picture.growing)
    head = Text.assemble(("rounds ", "dim"), (str(rounds), "bold"), (f"  {summary(picture)}", "dim"))
    table = Table("round", "growing", "", "new", "chosen", "least sure", box=None, pad_edge=False)
    table.columns[0].justify = table.columns[1].justify = "right"
    by_round = {r: list(group) for r, group in by(picture.choices).items()}
    shown = np.unique(np.linspace(1, rounds, min(ROUNDS, rounds)).round().astype(int)).tolist()
    for r in shown:
        growing = int(picture.growing[r - 1])
        here = by_round.get(r, [])
        bar = "█" * max(1, round(BAR * growing / max(1, picture.instances)))
        unsure = least_sure(here)
        least = f"{unsure.said}  instance {unsure.instance}, {unsure.place}" if unsure else ""
        table.add_row(str(r), str(growing), bar, new(picture, r), often(here, len(picture.decisions)), least)
    more = [Text(f"… {rounds - len(shown)} rounds between: --json has all", style="dim")]
    first = min((choice.instance for choice in picture.choices), default=0)
    walk = [choice for choice in picture.choices if choice.instance == first]
    parts: list[RenderableType] = [head, table, *(more if len(shown) < rounds else [])]
    if walk:
        parts += [Text(), Text.assemble(("instance ", "dim"), (str(first), "bold"))]
        lines = Table("round", "at", "decided", box=None, pad_edge=False)
        lines.columns[0].justify = "right"
        for choice in walk[:CHOICES]:
            style = "dim" if choice.fate == "given up" else "bold" if choice.fate == "won" else ""
            lines.add_row(str(choice.round), choice.place, Text(choice.said, style=style))
        parts.append(lines)
        rest = len(walk) - CHOICES
        parts += [Text(f"… {rest} more: --html walks through them", style="dim")] if rest > 0 else []
    return Group(*parts)


def summary(picture: RoundsPicture) -> str:
    """What there is of a picture as a whole, and what was cut."""
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
    """What came to be in a round."""
    came = zip(picture.kinds, picture.came[round - 1].tolist(), strict=True)
    return ", ".join(f"{kind} {count}" for kind, count in came if count)


def by(choices: Sequence[ChoiceView]) -> dict[int, list[ChoiceView]]:
    """Choices by their round."""
    found: dict[int, list[ChoiceView]] = {}
    for choice in choices:
        found.setdefault(choice.round, []).append(choice)
    return found


def often(choices: Sequence[ChoiceView], decisions: int) -> str:
    """What was chosen most often, with the decision's name where there are several."""
    counts = Counter(
        f"{c.decision} {c.chosen}" if decisions > 1 else c.chosen for c in choices if c.fate != "given up"
    )
    told = [f"{name or 'nothing'} {count}" for name, count in counts.most_common(OFTEN)]
    return ", ".join(told) + (", …" if len(counts) > OFTEN else "")


def least_sure(choices: Sequence[ChoiceView]) -> ChoiceView | None:
    """The choice whose score is nearest to that of what came second; None where there is none."""
    near = [c for c in choices if c.score is not None and c.second_score is not None]
    return min(near, key=lambda c: abs((c.score or 0.0) - (c.second_score or 0.0)), default=None)
