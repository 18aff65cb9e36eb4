"""Growth in pictures: round by round, as data, text, drawing and page."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.exec.params import init_params
from abw.core.graph.cells import cell_network
from abw.core.graph.growing.history.margins import DROPPED, ENDED, KEPT, MADE, WON
from abw.core.run.pipeline import RunOptions, run
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.store.checked import arrays_file
from abw.core.store.runs import find_run
from abw.viz.data.collect import collect
from abw.viz.data.pictures import RoundsPicture, as_json
from abw.viz.data.rounds import in_words, rounds_picture
from abw.viz.data.scene import Scene, scene_of_run, scene_of_spec
from abw.viz.drawing.draw import as_svg, plain
from abw.viz.drawing.svg import document
from abw.viz.page import page
from tests.conftest import Golden


@functools.cache
def scene_of(name: str, limit: int = 3) -> Scene:
    changes = Overrides(dims={"hidden": 4}, limit=limit)
    return scene_of_spec(Path(f"specs/{name}.yaml"), changes, against=("depth",), by="agenda")


def rounds_of(name: str, limit: int = 3) -> RoundsPicture:
    return rounds_picture(scene_of(name, limit))


@pytest.mark.parametrize(
    "name", ["greedy", "beam", "stackrnn", "drnn", "nested", "early-exit", "experts", "berxit"]
)
def test_every_kind_of_growth_is_a_picture(home: Path, name: str) -> None:
    scene = scene_of(name)
    picture = rounds_picture(scene)
    assert scene.growth is not None
    assert picture.nodes.sum() == len(scene.dag)
    assert picture.came.sum() == (scene.growth.round > 0).sum()
    assert picture.growing[0] == picture.instances == 3
    assert len(picture.choices) == len(scene.growth.vertex)
    made = [choice.round for choice in picture.choices]
    assert made == sorted(made) and set(made) <= set(range(1, len(picture.growing) + 1))
    json.dumps(as_json(picture), allow_nan=False)
    text = plain(name, [picture], 200)
    assert all(choice.said in text for choice in picture.choices if choice.instance == 0 and choice.round < 3)
    drawn = ElementTree.fromstring(document(as_svg(picture)))
    tips = [t.text or "" for t in drawn.iter("{http://www.w3.org/2000/svg}title")]
    said = [choice.said for choice in picture.choices]
    assert sum(s in tip for s in said[:50] for tip in tips) >= len(said[:50]) > 0
    content = page(scene).decode()
    data = content.split('class="scene"')[1].split(">", 1)[1].split("</script>")[0]
    assert json.loads(data)["growth"]["said"] == said


def test_rounds_drawn_and_on_the_terminal(rounds: RoundsPicture, golden: Golden) -> None:
    golden("rounds.svg", document(as_svg(rounds)))
    golden("rounds.txt", plain("two sentences", [rounds], 100))


def test_words_are_those_of_the_model(home: Path) -> None:
    picture = rounds_of("stackrnn")
    assert {choice.chosen for choice in picture.choices} <= {"shift", "left", "right", ""}
    first = picture.choices[0]
    assert (first.place, first.round) == ("state 0", 1)
    assert first.said == f"action = shift ({first.score:.3g}; nothing else allowed)"
    assert picture.choices[-1].said == "action: nothing was allowed"


def test_of_a_beam_is_told_which_hypotheses_lived_on(home: Path) -> None:
    picture = rounds_of("beam")
    for instance in range(3):
        own = [choice for choice in picture.choices if choice.instance == instance]
        for r in range(1, len(picture.growing)):
            kept = [choice for choice in own if choice.round == r and choice.fate in ("kept", "won")]
            assert len(kept) == 4
            assert picture.came[r].sum() == 4 * picture.instances
        assert [c.round for c in own if c.fate == "won"] == list(range(1, len(picture.growing) + 1))
    up = next(choice for choice in picture.choices if choice.fate == "given up")
    assert up.said.startswith("given up: at best next = ")


def test_cuts_are_told(home: Path) -> None:
    (cut,) = rounds_of("greedy").cut
    assert (cut.kind, cut.most, cut.instances) == ("step", 20, (0, 1, 2))
    assert "3 instances cut at 20 step" in plain("", [rounds_of("greedy")], 200)


@pytest.mark.parametrize(
    ("how", "scores", "fate", "said"),
    [
        ("argmax", (0.41, 0.32), MADE, "next = cat (0.41; then dog 0.32)"),
        ("argmax", (0.41001, 0.41002), MADE, "next = cat (0.41001; then dog 0.41002)"),
        ("over", (0.31, 0.3), MADE, "next = cat (0.31, limit 0.3)"),
        ("chance", (0.2, 0.8), MADE, "next = cat (probability 0.2)"),
        ("sample", (0.2, 0.5), MADE, "next = cat (probability 0.2; else dog 0.5)"),
        ("best", (-1.5, -2), KEPT, "next = cat (-1.5, kept; then dog -2)"),
        ("best", (-1.5, -2), ENDED, "next = cat (-1.5, ended; then dog -2)"),
        ("best", (-1.5, -2), WON, "next = cat (-1.5, won; then dog -2)"),
        ("best", (-1.5, float("nan")), DROPPED, "given up: at best next = cat (-1.5)"),
    ],
)
def test_choices_in_words(how: str, scores: tuple[float, float], fate: int, said: str) -> None:
    assert in_words("next", how, "cat", scores[0], "dog", scores[1], fate) == said


def test_a_run_shows_what_it_kept_and_an_older_one_what_it_does_again(home: Path) -> None:
    spec = Path("specs/greedy.yaml")
    run(spec, Overrides(dims={"hidden": 4}, limit=4, batch=2), RunOptions(policy="agenda"))
    kept = find_run(None)
    scene = scene_of_run(kept, 1)
    picture = rounds_picture(scene)
    assert picture.instances == 2
    arrays_file(kept.path, "growth", 1).unlink()
    assert as_json(rounds_picture(scene_of_run(kept, 1))) == as_json(picture)
    kept.report["data"] = "gone.txt"  # nor can it be done again
    gone = scene_of_run(kept, 1)
    with pytest.raises(AbwError, match="nothing is known of rounds of greedy"):
        collect(gone, ["rounds"])
    assert '"growth":null' in page(gone).decode()


@pytest.mark.parametrize("how", ["the spec", "--weights", "--seed"])
def test_a_run_that_grew_by_other_weights_shows_its_cells(home: Path, tmp_path: Path, how: str) -> None:
    spec, file = tmp_path / "specs" / "stackrnn.yaml", tmp_path / "specs" / "w.npz"
    shutil.copytree("specs", spec.parent)
    overrides = Overrides(dims={"hidden": 4}, limit=4, batch=2, weights=file if how == "--weights" else None)
    network = cell_network(open_model(spec, replace(overrides, weights=None)))
    seeded = init_params(network, 7)
    named: dict[str, Any] = dict(zip((p.name for p in network.params), seeded.values, strict=True))
    named |= dict(zip((t.name for t in network.tables), seeded.tables, strict=True))
    np.savez(file, **named)
    if how == "the spec":
        spec.write_text(f"{spec.read_text()}\nweights: w.npz\n")
    run(spec, overrides, RunOptions(policy="agenda", seed=7 if how == "--seed" else 0))
    scene = scene_of_run(find_run(None), 1)
    assert scene.missing == ""
    assert collect(scene, ["memory", "pqtree", "model"])
    text = page(scene).decode()
    assert "PQ-trees</summary>" in text and 'class="missing' not in text
    if how != "--seed":
        np.savez(file, **{name: 2 * values for name, values in named.items()})
        scene = scene_of_run(find_run(None), 1)
        with pytest.raises(AbwError, match=r"w\.npz have changed since"):
            collect(scene, ["memory"])
        assert "w.npz have changed since" in page(scene).decode()


def test_what_does_not_grow_has_no_rounds(fig1: Scene) -> None:
    with pytest.raises(AbwError, match="nothing is known of rounds"):
        collect(fig1, ["rounds"])


def test_the_first_instances_alone(home: Path) -> None:
    whole, part = scene_of("beam"), rounds_picture(scene_of("beam"), 1)
    assert {choice.instance for choice in part.choices} == {0}
    np.testing.assert_array_equal(part.came, rounds_picture(whole).came)


def test_hostile_words_do_nothing(home: Path) -> None:
    scene = scene_of("beam", 1)
    assert scene.growth is not None
    bad = "</script><script>hacked()</script>"
    hostile = replace(scene, growth=replace(scene.growth, words=(bad,) * len(scene.growth.words)))
    assert bad not in page(hostile).decode()
    assert bad not in document(as_svg(rounds_picture(hostile)))
