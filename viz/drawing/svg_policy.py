"""Drawing a policy as a state machine (the paper's Fig. 2)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from abw.viz.data.pictures import ENCODINGS, END, PolicyPicture, State, Transition, merged
from abw.viz.drawing.layered import across
from abw.viz.drawing.palette import colour
from abw.viz.drawing.svg import Svg, arrow, swatch, tag, text, title, wide

Ints = NDArray[np.int32]

HIGH, MARGIN, TOP, GAP = 50.0, 24.0, 56.0, 84.0
MOST, SYMBOLS = 60, 5
"""The most states drawn, those met most often; the most symbols of a state that are spelt out."""


def policy_svg(picture: PolicyPicture) -> Svg:
    """The states met in the mini-batch, left to right from the first; without one, those learned."""
    shown = shown_states(picture)
    number = {s: i for i, s in enumerate(shown)}
    moves = merged(picture)
    inside = [t for t in moves if t.source in number and t.target in number]
    layer = _layers(len(shown), [(number[t.source], number[t.target]) for t in inside])
    forward = [t for t in inside if layer[number[t.target]] > layer[number[t.source]]]
    source = np.array([number[t.source] for t in forward], np.int32)
    target = np.array([number[t.target] for t in forward], np.int32)
    place = across(layer, np.zeros(len(shown), np.int32), source, target)
    wides = np.array([box_width(picture.states[s]) for s in shown])
    columns = [float(wides[layer == level].max()) for level in range(int(layer.max(initial=-1)) + 1)]
    begin = MARGIN + np.concatenate([[0.0], np.cumsum([w + GAP for w in columns])])
    x = begin[layer] if len(shown) else np.zeros(0)
    y = TOP + 26 + (place - place.min(initial=0)) * (HIGH + 34)
    ends = {s: (float(x[i]), float(y[i]), float(wides[i])) for s, i in number.items()}
    boxes = "".join(
        tag("g", state_box(picture, s, *ends[s]), class_="state", id=f"state-{picture.policy}-{s}")
        for s in shown
    )
    edges = "".join(
        _edge(picture, t, ends)
        for t in moves
        if t.source in number and (t.target in number or t.target == END)
    )
    rest = len(picture.states) - len(shown)
    said = f"{len(picture.states)} states, encoding {picture.encoding} ({ENCODINGS[picture.encoding]})" + (
        f"; the {rest} that this mini-batch does not meet are not drawn" if rest else ""
    )
    if picture.training is None:
        said += "; as observed: this policy is no state machine"
    head = text(MARGIN, 20, f"policy {picture.policy}", "big") + text(MARGIN, 38, said, "soft")
    right = max((a + w for a, _, w in ends.values()), default=MARGIN)
    width = max(right + GAP, MARGIN + wide(said)) + MARGIN
    height = max((b + HIGH for _, b, _ in ends.values()), default=TOP) + 40 + MARGIN
    return Svg(width, height, head + edges + boxes, f"policy {picture.policy} as a state machine: {said}")


def shown_states(picture: PolicyPicture) -> list[int]:
    """The states to draw: those met most often, or without a mini-batch those tried most often."""
    count = {s: sum(state.taken.values()) for s, state in enumerate(picture.states)}
    met = [s for s in count if count[s]] or list(count)
    met.sort(key=lambda s: (-count[s], -sum(picture.states[s].visits.values()), s))
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


def box_width(state: State) -> float:
    """How wide a state's box is."""
    return max(wide(state_name(state)), wide(_values(state)), 60.0) + badge_width(state) + 16


def badge_width(state: State) -> float:
    """How wide the part is that names the next batch's type."""
    return max(30.0, wide(state.chosen) + 10)


def state_name(state: State) -> str:
    """The set of what is ready; the tip has all of a long one."""
    rest = len(state.ready) - SYMBOLS
    shown = ", ".join(state.ready[:SYMBOLS]) + (f", … {rest} more" if rest > 0 else "")
    return "".join([f"{{{shown}}}", *(f" / {more}" for more in state.also)])


def _values(state: State) -> str:
    ranked = sorted(state.q.items(), key=lambda item: -item[1])[:3]
    return " > ".join(f"{name} {value:.2f}" for name, value in ranked)


def state_box(picture: PolicyPicture, s: int, x: float, y: float, width: float) -> str:
    """A state: what is ready, what goes next (in its type's colour), its Q-values, how often it was met."""
    state = picture.states[s]
    t = picture.types.index(state.chosen)
    met = sum(state.taken.values())
    q = "".join(
        f"\nQ {name}: {value:.3f}, tried {state.visits[name]} times" for name, value in state.q.items()
    )
    tip = f"state {s}: {', '.join(state.ready)}\nnext: {state.chosen}\nmet {met} times here{q}"
    badge = badge_width(state)
    return (
        title(tip)
        + tag("rect", x=x, y=y, width=width, height=HIGH, rx=6, class_="box")
        + swatch(t, x, y, badge, HIGH, state.chosen, rx=6)
        + text(x + badge + 8, y + 18, state_name(state), "bold")
        + text(x + badge + 8, y + 32, _values(state), "small")
        + text(
            x + badge + 8,
            y + 44,
            ("" if state.known else "unseen in training; ") + f"met {met}×",
            "soft small",
        )
    )


def _edge(picture: PolicyPicture, t: Transition, ends: dict[int, tuple[float, float, float]]) -> str:
    """A transition: to the right as a curve, to itself as a loop, back as an arc below."""
    x, y, width = ends[t.source]
    right, middle = x + width, y + HIGH / 2
    if t.target == END:
        d, at = f"M{right:.1f} {middle:.1f}h34", (right + 44, middle + 4)
        stop = text(right + 38, middle + 4, "end", "soft")
        return _line(picture, t, d, at) + stop
    if t.target == t.source:
        centre = x + width / 2
        d = f"M{centre - 16:.1f} {y:.1f}c-14 -24 46 -24 32 0"
        return _line(picture, t, d, (centre, y - 20))
    x2, y2, width2 = ends[t.target]
    if x2 > x:
        bend = (x2 - right) / 2
        entry = y2 + HIGH / 2
        d = f"M{right:.1f} {middle:.1f}C{right + bend:.1f} {middle:.1f} {x2 - bend:.1f} {entry:.1f} "
        d += f"{x2:.1f} {entry:.1f}"
        return _line(picture, t, d, ((right + x2) / 2, (middle + entry) / 2 - 5))
    low = max(y, y2) + HIGH + 22
    begin, end = x + width * 0.4, x2 + width2 * 0.6
    d = f"M{begin:.1f} {y + HIGH:.1f}C{begin:.1f} {low:.1f} {end:.1f} {low:.1f} {end:.1f} {y2 + HIGH:.1f}"
    return _line(picture, t, d, ((begin + end) / 2, low - 3))


def _line(picture: PolicyPicture, t: Transition, d: str, at: tuple[float, float]) -> str:
    """The line itself; its colour is the type's, so that a label need only count."""
    thick = f"{1.2 + min(3.0, np.log2(t.count)):.1f}"
    type = picture.types.index(t.type)
    line = tag("path", d=d, fill="none", stroke=colour(type), stroke_width=thick, marker_end=arrow(type))
    target = "end" if t.target == END else f"state {t.target}"
    tip = title(f"state {t.source} to {target}: {t.count} times, mostly by {t.type}")
    most = max(other.count for other in picture.transitions)
    label = text(at[0], at[1], f"×{t.count}", "mid small halo") if t.count > max(1, most // 20) else ""
    return tag("g", tip + line + label)
