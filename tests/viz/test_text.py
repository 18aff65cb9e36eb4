"""Pictures on the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.viz.data.collect import KINDS, Kind, collect
from abw.viz.data.pictures import MemoryPicture, TreePicture
from abw.viz.data.scene import Scene
from abw.viz.drawing.draw import plain
from abw.viz.drawing.palette import COLOURS, colour, ink, marks, pattern
from tests.conftest import Golden


def shown(scene: Scene, *kinds: Kind, width: int = 100) -> str:
    """What a terminal of this width shows, without colours."""
    return plain("", collect(scene, kinds), width)


def test_fig1_on_the_terminal(fig1: Scene, golden: Golden) -> None:
    golden("fig1.txt", shown(fig1, "batches", "frontier", "graph"))


def test_fig3_and_fig4_on_the_terminal(fig3: MemoryPicture, fig4: TreePicture, golden: Golden) -> None:
    golden("fig3.txt", plain("the paper's examples", [fig3, fig4], 100))


def test_the_state_machine_on_the_terminal(fig1: Scene) -> None:
    text = shown(fig1, "policy")
    assert "6 states, encoding sort" in text
    row = next(line for line in text.splitlines() if "O, I" in line)
    assert row.split()[:5] == ["s1", "O,", "I", "I", "3"]
    assert "s1 ×2, s2" in row


def test_long_schedules_end_with_what_to_do_instead(lattice: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.viz.drawing.text.STRIPS", 1)
    text = shown(lattice, "batches", "frontier", width=40)
    assert "batches more: --html shows all" in text
    assert all(len(line) <= 40 for line in text.splitlines())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rounds"])
def test_a_lanes_batches_are_all_there(lattice: Scene, kind: Kind) -> None:
    text = shown(lattice, kind, width=2000)
    assert text.strip()
    if kind == "batches":
        letters = set(marks(lattice.dag.types))
        lines = [line.strip() for line in text.splitlines()]
        lanes = [line for line in lines if len(line) > 20 and set(line) <= letters]
        assert [len(lane) for lane in lanes] == [len(s.type) for s in lattice.schedules.values()]


@given(st.lists(st.text(min_size=1, max_size=6), max_size=50))
def test_marks_are_single_characters_and_differ(names: list[str]) -> None:
    found = marks(names)
    assert all(len(mark) == 1 for mark in found)
    assert len(set(found)) == len(names)


def test_types_differ_in_colour_and_pattern() -> None:
    looks = {(colour(t), pattern(t)) for t in range(len(COLOURS) * 8)}
    assert len(looks) == len(COLOURS) * 8


@pytest.mark.parametrize("background", COLOURS)
def test_text_on_every_colour_has_contrast(background: str) -> None:
    def luminance(c: str) -> float:
        parts = [int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    light, dark = sorted((luminance(background), luminance(ink(background))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG AA
