"""Pictures of growth: round by round the new vertices, their decisions, and how clearly."""

from __future__ import annotations

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.graph.growing.history.history import History
from abw.core.graph.growing.history.margins import DROPPED
from abw.viz.data.pictures import FATES, ChoiceView, CutView, RoundsPicture
from abw.viz.data.scene import Scene


def rounds_picture(scene: Scene, instances: int | None = None) -> RoundsPicture:
    """The rounds of a scene, with the choices of its first instances, of all for None.

    Errors: AbwError where nothing grows, or a run did not keep how. Cost: some 3 us a choice.
    """
    found = scene.growth
    if found is None:
        raise AbwError(
            f"nothing is known of rounds of {scene.model}",
            hint="only models with a section `grow` have them, at granularity cell; run older ones again",
        )
    grown = np.flatnonzero(np.bincount(found.kind[found.round > 0], minlength=len(found.kinds)))
    came = np.zeros((found.rounds + 1, len(found.kinds)), np.int32)
    np.add.at(came, (found.round, found.kind), 1)
    nodes = np.bincount(found.node_round, minlength=found.rounds + 2).astype(np.int32)
    count = int(found.instance.max(initial=-1)) + 1
    shown = np.arange(len(found.vertex))
    if instances is not None:
        shown = np.flatnonzero(found.instance[found.vertex] < instances)
    return RoundsPicture(
        tuple(found.kinds[k] for k in grown.tolist()),
        count,
        found.growing,
        came[1:, grown],
        nodes,
        found.decisions,
        tuple(_choice(found, row) for row in shown.tolist()),
        _cuts(found),
    )


def _cuts(found: History) -> tuple[CutView, ...]:
    parts = []
    for k in np.unique(found.cut[:, 0]).tolist():
        rows = found.cut[found.cut[:, 0] == k]
        parts.append(CutView(found.kinds[k], int(found.most[k]), tuple(rows[:, 1].tolist())))
    return tuple(parts)


def _choice(found: History, row: int) -> ChoiceView:
    vertex, d = int(found.vertex[row]), int(found.decision[row])
    score, other = float(found.score[row]), float(found.second_score[row])
    chosen = _label(found, int(found.chosen[row]), int(found.word[row]))
    second = _label(found, int(found.second[row]), int(found.second_word[row]))
    fate = int(found.fate[row])
    return ChoiceView(
        max(1, int(found.round[vertex])),
        int(found.instance[vertex]),
        vertex,
        f"{found.kinds[found.kind[vertex]]} {found.index[vertex]}",
        found.decisions[d],
        chosen,
        score if np.isfinite(score) else None,
        second,
        other if np.isfinite(other) else None,
        FATES[fate],
        in_words(found.decisions[d], found.hows[d], chosen, score, second, other, fate),
    )


def _label(found: History, number: int, word: int) -> str:
    """The name of a choice; '' for none."""
    return found.words[word] if word >= 0 else str(number) if number >= 0 else ""


def _digits(score: float, other: float) -> tuple[str, str]:
    """Two scores with so many digits, three at least and six at most, that they differ if they do."""
    for digits in range(3, 6):
        one, two = f"{score:.{digits}g}", f"{other:.{digits}g}"
        if one != two or score == other:
            return one, two
    return f"{score:.6g}", f"{other:.6g}"


def in_words(decision: str, how: str, chosen: str, score: float, second: str, other: float, fate: int) -> str:
    """`next = cat (0.41; then dog 0.32)`: a choice, its score, and what came second."""
    if fate == DROPPED:
        return f"given up: at best {decision} = {chosen or 'nothing'} ({score:.3g})"
    if not chosen:
        return f"{decision}: nothing was allowed"
    one, two = _digits(score, other)
    match how:
        case "over":
            why = f"{one}, limit {two}"
        case "chance":
            why = f"probability {one}"
        case "sample":
            why = f"probability {one}" + (f"; else {second} {two}" if second else "")
        case "best":
            why = f"{one}, {FATES[fate]}" + (f"; then {second} {two}" if second else "")
        case _:
            why = one + (f"; then {second} {two}" if second else "; nothing else allowed")
    return f"{decision} = {chosen} ({why})"
