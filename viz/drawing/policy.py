"""A policy as a state machine (the paper's Fig. 2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from abw.viz.data.pictures import END, PolicyPicture, State, Transition
from abw.viz.drawing.labels import Box, Curve, Labels, along, clearest
from abw.viz.drawing.layered import across
from abw.viz.drawing.svg import Sheet, Svg, arrow, rect, swatch, tag, text, tipped, title, wide
from abw.viz.drawing.text import head, left_out, table, type_name

Ints = NDArray[np.int32]

HIGH, MARGIN, TOP, GAP = 50.0, 24.0, 56.0, 84.0
# The most states drawn and listed, those met most often; the most symbols of a state that are spelt out.
MOST, LISTED, SYMBOLS = 60, 24, 5

# The size of the style's small letters.
SMALL = 10.0

# Where on its line a count may lie, the best place first.
SHARES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88)


def policy_svg(picture: PolicyPicture) -> Svg:
    """The states met in the mini-batch, left to right from the first; without one, those learned."""
    shown = shown_states(picture)
    moves = [t for t in picture.merged() if t.source in shown and (t.target in shown or t.target == END)]
    ends = _placed(picture, shown, moves)
    said = _said(picture, shown)
    sheet = Sheet(MARGIN, f"policy {picture.policy}")
    sheet.line(38, said, "soft")
    sheet.reach(max((box[2] for box in ends.values()), default=MARGIN) + GAP)
    height = max((box[3] for box in ends.values()), default=TOP) + 40 + MARGIN
    labels = Labels((0, TOP, sheet.right + MARGIN, height), ends.values())
    lines = [_line(picture, t, ends) for t in moves]
    curves = [curve for _, curve in lines]
    for x, y in (curve[3] for t, curve in zip(moves, curves, strict=True) if t.target == END):
        labels.taken.append((x, y - 8, x + wide("end") + 8, y + 8))
    sheet.add(*(drawn for drawn, _ in lines))
    for s, box in ends.items():
        sheet.add(tag("g", state_box(picture, s, box), class_="state", id=f"state-{picture.policy}-{s}"))
    counts, left = _counts(picture, moves, curves, labels)
    sheet.add(counts)
    if left:
        note = f"{left} counts of transitions have no room here: the lines' tips have them, and --json"
        sheet.add(text(MARGIN, height - 12, note, "soft small"))
    return sheet.svg(height, f"policy {picture.policy} by states: {said}")


def _placed(picture: PolicyPicture, shown: list[int], moves: Sequence[Transition]) -> dict[int, Box]:
    """Where each state's box is: in columns by how far it is from the first."""
    number = {s: i for i, s in enumerate(shown)}
    pairs = [(number[t.source], number[t.target]) for t in moves if t.target != END]
    layer = _layers(len(shown), pairs)
    forward = np.array([p for p in pairs if layer[p[1]] > layer[p[0]]], np.int32).reshape(-1, 2)
    place = across(layer, np.zeros(len(shown), np.int32), forward[:, 0], forward[:, 1])
    wides = np.array([box_width(s, picture.states[s]) for s in shown])
    columns = [float(wides[layer == level].max()) for level in range(int(layer.max(initial=-1)) + 1)]
    begin = MARGIN + np.concatenate([[0.0], np.cumsum([w + GAP for w in columns])])
    x = begin[layer] if len(shown) else np.zeros(0)
    y = TOP + 26 + (place - place.min(initial=0)) * (HIGH + 34)
    return {
        s: (float(x[i]), float(y[i]), float(x[i] + wides[i]), float(y[i]) + HIGH) for s, i in number.items()
    }


def _said(picture: PolicyPicture, shown: list[int]) -> str:
    """How many states there are, what tells them apart, and which of them are drawn."""
    all, met, drawn = len(picture.states), len(set(picture.steps)), ""
    if len(shown) < met:
        drawn = f"; drawn are the {len(shown)} met most often, of {met:,} that this mini-batch meets"
    elif met and met < all:
        drawn = f"; the {all - met:,} that this mini-batch does not meet are not drawn"
    elif len(shown) < all:
        drawn = f"; drawn are the {len(shown)} tried most often"
    return picture.in_words(drawn)


def shown_states(picture: PolicyPicture) -> list[int]:
    """The states to draw: those met most often, or without a mini-batch those tried most often."""
    states = picture.by_frequency()
    met = [s for s in states if picture.states[s].met] or states
    first = {s: i for i, s in reversed(list(enumerate(picture.steps)))}
    return sorted(met[:MOST], key=lambda s: (first.get(s, 0), s))


def _layers(states: int, pairs: list[tuple[int, int]]) -> Ints:
    """(S,): the fewest transitions from the first state; square columns where there are none at all."""
    layer = np.full(states, -1, np.int32)
    if not pairs:
        rows = max(1, round(states**0.5 * 1.6))
        return np.asarray(np.arange(states) // rows, np.int32)
    after = defaultdict(list)
    for a, b in pairs:
        after[a].append(b)
    for root in range(states):  # all states, in case some were left out between them
        if layer[root] >= 0:
            continue
        layer[root], queue = int(layer.max(initial=-1)) + 1 if root else 0, [root]
        for a in queue:
            for b in after[a]:
                if layer[b] < 0:
                    layer[b] = layer[a] + 1
                    queue.append(b)
    return layer


def box_width(s: int, state: State) -> float:
    """How wide a state's box is."""
    lines = (
        wide(f"{s}  {state_name(state)}", bold=True),
        wide(state.ranked(3), SMALL),
        wide(_met(state), SMALL),
    )
    return max(lines) + badge_width(state) + 16


def badge_width(state: State) -> float:
    """How wide the part is that names the next batch's type."""
    return max(30.0, wide(state.chosen, SMALL, bold=True) + 10)


def state_name(state: State) -> str:
    """The set of what is ready; the tip has all of a long one."""
    rest = len(state.ready) - SYMBOLS
    shown = ", ".join(state.ready[:SYMBOLS]) + (f", … {rest} more" if rest > 0 else "")
    return "".join([f"{{{shown}}}", *(f" / {more}" for more in state.also)])


def _met(state: State) -> str:
    return ("" if state.known else "unseen in training; ") + f"met {state.met}×"


def state_box(picture: PolicyPicture, s: int, box: Box) -> str:
    """A state: its number, what is ready, what goes next (in its type's colour), Q-values, how often met."""
    state, (x, y, right, _) = picture.states[s], box
    t = picture.types.index(state.chosen)
    q = "".join(
        f"\nQ {name}: {value:.3f}, tried {state.visits[name]} times" for name, value in state.q.items()
    )
    tip = f"state {s}: {', '.join(state.ready)}\nnext: {state.chosen}\nmet {state.met} times here{q}"
    badge = badge_width(state)
    name = tag("tspan", str(s), class_="soft") + tag("tspan", escape(f"  {state_name(state)}"))
    return (
        title(tip)
        + rect(x, y, right - x, HIGH, "box", rx=6)
        + swatch(t, x, y, badge, HIGH, state.chosen, rx=6)
        + tag("text", name, x=x + badge + 8, y=y + 18, class_="bold")
        + text(x + badge + 8, y + 32, state.ranked(3), "small")
        + text(x + badge + 8, y + 44, _met(state), "soft small")
    )


def _line(picture: PolicyPicture, t: Transition, ends: dict[int, Box]) -> tuple[str, Curve]:
    """A transition as drawn, in its type's colour, and the curve that its count may lie on.

    To the right it is a curve, to itself a loop, back an arc, around other states.
    """
    # it begins and ends at the edge of its own states, and does not lie below them either
    taken = [(x + 1, y + 1, right - 1, low - 1) for x, y, right, low in ends.values()]
    curve = clearest(_ways(t, ends), taken)
    right, middle = ends[t.source][2], sum(ends[t.source][1::2]) / 2
    points = " ".join(f"{a:.1f} {b:.1f}" for a, b in curve[1:])
    type = picture.types.index(t.type)
    d = f"M{curve[0][0]:.1f} {curve[0][1]:.1f}C{points}"
    drawn = arrow(type, d, f"{1.2 + min(3.0, np.log2(t.count)):.1f}")
    target = "end" if t.target == END else f"state {t.target}"
    tip = f"state {t.source} to {target}: {t.count} times, mostly by {t.type}"
    stop = text(right + 38, middle + 4, "end", "soft") if t.target == END else ""
    return tipped(tip, drawn + stop), curve


def _ways(t: Transition, ends: dict[int, Box]) -> Iterator[Curve]:
    """The curves that a transition may take, the one to prefer first."""
    x, y, right, low = ends[t.source]
    middle = (y + low) / 2
    if t.target == END:
        yield (right, middle), (right + 11, middle), (right + 23, middle), (right + 34, middle)
        return
    if t.target == t.source:
        at = (x + right) / 2 - 16
        yield (at, y), (at - 14, y - 24), (at + 46, y - 24), (at + 32, y)
        return
    x2, y2, right2, low2 = ends[t.target]
    entry = (y2 + low2) / 2
    if x2 > x:
        for share in (0.5, 0.7, 0.9):
            bend = (x2 - right) * share
            yield (right, middle), (right + bend, middle), (x2 - bend, entry), (x2, entry)
        return
    begin, end = x + (right - x) * 0.4, x2 + (right2 - x2) * 0.6
    deep, top = max(low, low2) + 22, min(y, y2) - 22
    yield (begin, low), (begin, deep), (end, deep), (end, low2)
    yield (begin, y), (begin, top), (end, top), (end, y2)
    if x2 < x:  # through the gap between the columns
        bend = (x - right2) / 2
        yield (x, middle + 8), (x - bend, middle + 8), (right2 + bend, entry + 8), (right2, entry + 8)
    for out in range(30 if y2 > y else 55, int(GAP) + 30, 15):
        far = max(right, right2) + out
        yield (right, middle + 8), (far, middle + 8), (far, entry + 8), (right2, entry + 8)


def _counts(
    picture: PolicyPicture, moves: Sequence[Transition], curves: Sequence[Curve], labels: Labels
) -> tuple[str, int]:
    """How often transitions were taken, on their lines where there is room, the most frequent first.

    Counts far below the largest go without saying. Also how many found no room.
    """
    most = max((t.count for t in picture.transitions), default=0)
    shown = [i for i, t in enumerate(moves) if t.count > max(1, most // 20)]
    parts, left_out = [], 0
    for i in sorted(shown, key=lambda i: -moves[i].count):
        said = f"×{moves[i].count}"
        wanted = (along(curves[i], share) for share in SHARES)
        at = labels.place(wanted, wide(said, SMALL) + 4, SMALL + 3)
        if at is None:
            left_out += 1
        else:
            parts.append(text(at[0], at[1] + 3.5, said, "mid small halo"))
    return "".join(parts), left_out


def policy_text(picture: PolicyPicture) -> RenderableType:
    """The FSM as a table: the states by how often they were met, what is chosen there, where it leads."""
    number, learned = picture.by_frequency(), picture.training is not None
    rows = table("state", "ready", "next batch", ">here", *([">tried", "Q"] if learned else []), "leads to")
    for s in number[:LISTED]:
        state = picture.states[s]
        moves = [t for t in picture.merged() if t.source == s]
        moves.sort(key=lambda t: (-t.count, t.target))
        leads = ", ".join(
            ("end" if t.target == END else f"s{t.target}") + (f" ×{t.count}" if t.count > 1 else "")
            for t in moves[:6]
        ) + (", …" if len(moves) > 6 else "")
        rows.add_row(
            Text(f"s{s}" + ("" if state.known else " (unseen)")),
            _set(state.ready, picture.types).append("".join(f" / {more}" for more in state.also)),
            _set([*state.taken] or [state.chosen], picture.types),
            Text(str(state.met or "–")),
            *([str(state.tried), state.ranked()] if learned else []),
            leads,
        )
    rest = len(number) - LISTED
    more = left_out(rest, f"and {rest} states more: --json or --html has all")
    return Group(head("policy", picture.policy, f"  {picture.in_words()}"), rows, *more)


def _set(names: Sequence[str], types: Sequence[str]) -> Text:
    shown = Text(", ").join(type_name(types, types.index(name)) for name in names[:SYMBOLS])
    return shown.append(f", … {len(names) - SYMBOLS} more" if len(names) > SYMBOLS else "", style="dim")
