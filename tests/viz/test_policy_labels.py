"""A policy as a drawing: every state with its number, no two texts over each other, whatever the font."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.spec.load import Overrides
from abw.viz.data.collect import Kind, collect
from abw.viz.data.fsm import policy_picture
from abw.viz.data.pictures import END, PolicyPicture, State, Transition
from abw.viz.data.scene import Scene, scene_of_spec
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.labels import Curve, Labels, along, clearest, overlap, within
from abw.viz.drawing.policy import MOST, policy_svg
from abw.viz.drawing.svg import document, wide
from tests.viz.browser import opened

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("char", "WWWWWWWWWWWW", "mmmmmmmm", "state-of-the-lattice", "i", "日本語")

TEXTS = """() => [...document.querySelectorAll('svg text')].filter((e) => e.textContent).map((e) => {
    const r = e.getBoundingClientRect(), box = e.parentNode.querySelector(':scope > rect.box');
    const b = box && box.getBoundingClientRect();
    return [e.textContent, [r.left, r.top, r.right, r.bottom], b && [b.left, b.top, b.right, b.bottom]]; })"""


def drawn(states: int, seed: int, steps: int) -> PolicyPicture:
    """A walk of so many steps through some of the states, back and forth."""
    rng = np.random.default_rng(seed)
    way = np.abs(np.cumsum(rng.integers(-2, 4, steps))) % states if steps else np.zeros(0, np.int64)
    taken: list[dict[str, int]] = [{} for _ in range(states)]
    chosen = [NAMES[rng.integers(len(NAMES))] for _ in range(states)]
    for s in way.tolist():
        taken[s][chosen[s]] = taken[s].get(chosen[s], 0) + 1
    made = tuple(
        State(
            tuple(rng.choice(NAMES, 1 + rng.integers(len(NAMES)), replace=False).tolist()),
            ("WWWWW",) * int(rng.integers(2)),
            chosen[s],
            {name: float(rng.normal()) for name in NAMES[: rng.integers(4)]},
            dict.fromkeys(NAMES, 3),
            taken[s],
            known=bool(rng.integers(2)),
        )
        for s in range(states)
    )
    pairs = list(pairwise([*way.tolist(), END])) if steps else []
    moves = tuple(Transition(a, b, chosen[a], pairs.count((a, b))) for a, b in dict.fromkeys(pairs))
    return PolicyPicture("fsm", "sort", NAMES, made, moves, tuple(way.tolist()), {})


@pytest.mark.browser
@pytest.mark.parametrize(("states", "steps"), [(3, 9), (12, 60), (40, 300), (1500, 4000), (1500, 0)])
def test_no_text_lies_over_another(tmp_path: Path, states: int, steps: int) -> None:
    picture = drawn(states, states, steps)
    look(policy_svg(picture).label, document(policy_svg(picture)), tmp_path)


@pytest.mark.browser
def test_nor_in_policies_of_real_models(lattice: Scene, tmp_path: Path) -> None:
    for policy in lattice.schedules:
        (picture,) = collect(lattice, ["policy"], policy)
        assert isinstance(picture, PolicyPicture)
        found = look(policy, document(policy_svg(picture)), tmp_path)
        numbers = [text.split()[0] for text, _, box in found if box and "{" in text]
        assert numbers and set(numbers) <= {str(s) for s in range(len(picture.states))}


def look(name: str, svg: str, folder: Path) -> Any:  # noqa: ANN401
    """Measure all texts of a drawing in a browser."""
    file = folder / "policy.svg"
    file.write_text(svg, encoding="utf-8")
    with opened(file, 1400) as (page, _):
        found = page.evaluate(TEXTS)
    assert len(found) == svg.count("</text>")
    less = 1.5  # the line's height has room above and below the letters
    boxes = [(x + 0.5, y + less, right - 0.5, low - less) for _, (x, y, right, low), _ in found]
    for i, (text, (x, _, right, _), state) in enumerate(found):
        assert not state or (state[0] <= x and right <= state[2] + 0.5), (name, text)
        for j in range(i):
            assert not overlap(boxes[i], boxes[j]), (name, text, found[j][0])
    return found


@pytest.mark.parametrize("name", ["treelstm-2type", "treelstm-attend", "dag"])
def test_transitions_run_around_states(home: Path, name: str) -> None:
    scene = scene_of_spec(Path(f"specs/{name}.yaml"), Overrides(dims={"hidden": 4}, limit=8), by="agenda")
    for policy in scene.schedules:
        root = ElementTree.fromstring(document(policy_svg(policy_picture(scene, policy))))
        boxes = [
            tuple(float(box.get(side, "")) for side in ("x", "y", "width", "height"))
            for box in root.iter(f"{SVG}rect")
            if box.get("class") == "box"
        ]
        assert len(boxes) > 2
        for g in root.iter(f"{SVG}g"):
            path, tip = g.find(f"{SVG}path"), g.find(f"{SVG}title")
            if path is None or tip is None:
                continue
            numbers = list(map(float, re.findall(r"[-\d.]+", path.get("d", ""))))
            curve = tuple(zip(numbers[::2], numbers[1::2], strict=True))
            inside = [(x + 1, y + 1, x + w - 1, y + h - 1) for x, y, w, h in boxes]
            assert len(curve) == 4 and within(curve, inside) == 0, tip.text


def test_the_clearest_curve_is_taken() -> None:
    def line(x: float) -> Curve:
        return (x, 0.0), (x, 10.0), (x, 20.0), (x, 30.0)

    box, thin = (0.0, 10.0, 5.0, 20.0), (6.0, 14.0, 8.0, 15.0)
    assert clearest([line(2), line(5.5), line(9)], [box, thin]) == line(5.5)
    assert clearest([line(2), line(7)], [box, thin]) == line(7)
    assert within(line(2), [box]) > within(line(7), [thin]) > 0


@pytest.mark.parametrize("kind", ["policy", "model"])
def test_blanks_between_parts_of_a_line_stay_in_any_program(lattice: Scene, kind: Kind) -> None:
    (picture,) = collect(lattice, [kind])
    root = ElementTree.fromstring(document(as_svg(picture)))
    blanks = [t.text for t in root.iter(f"{SVG}tspan") if t.text and t.text != t.text.strip()]
    assert blanks and root.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"


def test_what_is_not_drawn_is_said() -> None:
    for states, steps, said in (
        (3, 9, "3 states, encoding sort (ready, most first)"),
        (1500, 4000, f"; drawn are the {MOST} met most often, of "),
        (1500, 0, f"1,500 states, encoding sort (ready, most first); drawn are the {MOST} tried most often"),
    ):
        picture = policy_svg(drawn(states, states, steps))
        assert said in picture.label
        assert picture.body.count('class="state"') == min(states, MOST)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(0, 200), st.floats(1, 60), st.floats(1, 20)), max_size=30)
)
def test_labels_share_no_place(wanted: list[tuple[float, float, float, float]]) -> None:
    labels = Labels((0, 0, 200, 200))
    for x, y, width, height in wanted:
        free = list(labels.taken)
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        fits = min(box[:2]) >= 0 and max(box[2:]) <= 200 and not any(overlap(box, other) for other in free)
        assert (labels.place([(x, y)], width, height) == (x, y)) == fits
    for i, one in enumerate(labels.taken):
        assert not any(overlap(one, other) for other in labels.taken[:i])


def test_a_curve_begins_and_ends_at_its_ends() -> None:
    curve = ((0.0, 1.0), (4.0, 1.0), (6.0, 9.0), (10.0, 9.0))
    assert along(curve, 0) == (0, 1)
    assert along(curve, 1) == (10, 9)
    assert along(curve, 0.5) == (5, 5)


def test_letters_are_as_wide_as_in_the_widest_font() -> None:
    assert wide("") == 0
    assert wide("WWWW") > 2 * wide("iiii")
    assert wide("abc", bold=True) > wide("abc")
    assert wide("abc", 24) == 2 * wide("abc")
    assert wide("日本") == 24
    assert wide("e\u0301") == wide("e")
