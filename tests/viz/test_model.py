"""The picture of a model says what its spec says."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import GLUE
from abw.core.ir.model import Model
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.tools.inspect import inspect_weights
from abw.viz.data.model import model_picture
from abw.viz.data.pictures import Block, Flow, ModelPicture
from abw.viz.data.scene import Scene
from abw.viz.drawing.dot import as_dot
from abw.viz.drawing.draw import plain
from abw.viz.drawing.model import HEAD, block_layers, model_svg
from abw.viz.drawing.model_rows import COLUMNS, link_row, rows
from abw.viz.drawing.svg import document
from abw.viz.page import page

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parents[2]
SPECS = sorted(
    path
    for folder in ("specs", "specs/plans")
    for path in (ROOT / folder).glob("*.yaml")
    if "\nmodel:" in path.read_text()
)
specs = pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)


def drawn(spec: Path) -> ModelPicture:
    return model_picture(open_model(spec, Overrides()))


def block(picture: ModelPicture, name: str, role: str = "type") -> Block:
    return next(block for block in picture.blocks if (block.name, block.role) == (name, role))


def flows(picture: ModelPicture) -> set[tuple[str, str, str, tuple[str, ...]]]:
    names = [block.name for block in picture.blocks]
    return {(names[flow.source], names[flow.target], flow.way, flow.values) for flow in picture.flows}


@pytest.fixture(scope="module")
def copies(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(root / "specs", tmp_path_factory.mktemp("copy") / "specs"))


@specs
def test_the_sources_shown_make_the_same_model_where_they_are_written_instead(
    spec: Path, copies: Path
) -> None:
    top = yaml.safe_load(spec.read_text())
    picture = drawn(spec)
    for name, written in top["types"].items():
        shown = {slot.name: slot.source for slot in block(picture, name).inputs}
        section = next(key for key in ("inputs", "sum", "mean", "max", "var", "attend") if key in written)
        written[section].update(shown)
    copy = copies / spec.relative_to(ROOT / "specs")
    copy.write_text(yaml.safe_dump(top, sort_keys=False))
    again = open_model(copy, Overrides())
    assert sources(again) == sources(open_model(spec, Overrides()))


def sources(model: Model) -> list[Any]:
    return [[(i.name, i.shape, i.sources) for i in kind.inputs] for kind in model.types]


@specs
def test_the_numbers_are_those_of_the_weights(spec: Path) -> None:
    picture = drawn(spec)
    assert sum(block.numbers for block in picture.blocks) == picture.numbers
    assert picture.numbers == inspect_weights(spec, Overrides())["numbers"]


@specs
def test_all_formats_hold_every_block_and_flow(spec: Path) -> None:
    picture = drawn(spec)
    svg = model_svg(picture)
    root = ElementTree.fromstring(document(svg))
    groups = [g.get("class", "").split()[0] for g in root.iter(f"{SVG}g")]
    assert (groups.count("block"), groups.count("flow")) == (len(picture.blocks), len(picture.flows))
    boxes = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "box"]
    places = [tuple(float(r.get(k, "")) for k in ("x", "y", "width", "height")) for r in boxes]
    for x, y, width, height in places:
        assert x >= 0 and x + width <= svg.width and y >= HEAD and y + height <= svg.height
    for (x, y, width, height), (x2, y2, width2, height2) in combinations(places, 2):
        apart = x + width < x2 or x2 + width2 < x or y + height < y2 or y2 + height2 < y
        assert apart
    dot = as_dot(picture)
    assert len(re.findall(r"^\tb\d+ \[label", dot, re.M)) == len(picture.blocks)
    assert len(re.findall(r"^\tb\d+ -> b\d+", dot, re.M)) == len(picture.flows)
    text = plain("", [picture], 200)
    said = [f"{row}".strip().replace(GLUE, " ") for block in picture.blocks for row in rows(block)]
    assert all(line in text for line in said)
    assert max(len(str(row)) for block in picture.blocks for row in rows(block)) <= COLUMNS + 12


def test_a_lattice(root: Path) -> None:
    picture = drawn(root / "specs" / "lattice.yaml")
    char = block(picture, "char")
    assert (char.does, char.per, char.numbers) == ("cell lstm", "char-arc", 8 * 64 * 64 + 4 * 64)
    assert [(slot.name, slot.shape) for slot in char.outputs] == [("h", (64,)), ("c", (64,))]
    assert ("state", "char", "links", ("h", "c")) in flows(picture)
    assert ("state", "tag", "here", ("h",)) in flows(picture)
    assert ("h0", "state", "here", ("h0",)) in flows(picture)
    assert [link_row(link)[:2] for link in picture.links] == [
        ("from", "char-arc, word-arc → position"),
        ("arcs", "position → several char-arc, word-arc"),
    ]
    (prev,) = drawn(root / "specs" / "lstm-nmt.yaml").links
    assert link_row(prev)[1] == "source → source; target → target"


def test_layers_are_one_block(root: Path) -> None:
    picture = drawn(root / "specs" / "ggnn.yaml")
    state = block(picture, "state")
    assert (state.layers, state.inputs[1].source) == (4, "state[below].h or elements[element]")
    assert any("the same in all layers" in row.said for row in rows(state))
    assert ("state", "say", "below", ("h",)) in flows(picture)
    project = block(drawn(root / "specs" / "gat.yaml"), "project")
    assert any("2 layers together" in row.said for row in rows(project))
    assert project.numbers == 2 * (64 * 64 + 2 * 2 * 64)


def test_attention_and_derived_links(root: Path) -> None:
    look = block(drawn(root / "specs" / "gat.yaml"), "look")
    assert look.does == "attention, 2 heads, added scores"
    assert [slot.name for slot in look.inputs] == ["values", "keys", "query"]
    rings = drawn(root / "specs" / "rings.yaml")
    assert ("bonds", "reverse of to") in [(link.name, link.how) for link in rings.links]
    assert block(rings, "position", "field").outputs[0].shape == (3,)
    assert ("position", "atom", "here", ("position",)) in flows(rings)


def test_growth(root: Path) -> None:
    greedy = drawn(root / "specs" / "greedy.yaml")
    step = block(greedy, "step", "growth")
    assert step.does == "grows, at most 20"
    assert step.inputs[0].source == "argmax score.y"
    assert step.notes == ("starts with step: said <s>", "add step unless next == </s>: prev this, said next")
    assert {
        ("score", "step", "here", ("y",)),
        ("step", "decoder", "here", ("said",)),
        ("step", "words", "here", ("next",)),
    } <= flows(greedy)
    step = block(drawn(root / "specs" / "beam.yaml"), "step", "growth")
    assert step.inputs[0].source == "best 4 of score.y"
    assert step.notes[1].startswith("add step for each next when length < 20 unless next == </s>: prev this")
    experts = drawn(root / "specs" / "experts.yaml")
    assert block(experts, "token", "growth").does == "decides"
    assert ("token", "two", "here", ("best",)) in flows(experts)
    assert block(experts, "two").per == "token where best == 1"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tag.y", ""),
        ("{of: tag.y, as: label, fields: [word]}", "as labels with word"),
        ("{of: tag.y, as: label, top: 3}", "as the 3 most probable labels"),
        ("{of: tag.y, as: probabilities}", "as probabilities"),
    ],
)
def test_what_outputs_are_given_back_as(root: Path, copies: Path, written: str, said: str) -> None:
    spec = copies / "answers.yaml"
    text = (root / "specs" / "words.yaml").read_text()
    spec.write_text(re.sub(r"^outputs:.*", f"outputs: {{tags: {written}}}", text, flags=re.M))
    assert block(drawn(spec), "tags", "output").does == said


def test_constants_are_no_parameters(root: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b\n")
    spec = tmp_path / "constant.yaml"
    spec.write_text(
        """
model: constant
data: {format: words, path: text.txt}
tables: {words: {dim: 4}}
cells:
  scale:
    {inputs: {x: 4}, constants: {by: [1, 2, 3, 4], eps: 0.1}, equations: y = by * x + eps, outputs: {y: y}}
types: {scaled: {per: token, cell: scale, inputs: {x: "words[word]"}}}
outputs: {y: scaled.y}
"""
    )
    scaled = block(drawn(spec), "scaled")
    assert scaled.params == ()
    assert "constant by: 4" in scaled.notes


@st.composite
def pictures(draw: st.DrawFn) -> ModelPicture:
    """Models of any shape, circles included."""
    count = draw(st.integers(1, 12))
    blocks = tuple(
        Block(
            draw(st.sampled_from(["param", "type", "output"])), f"b{i}", "cell x" * draw(st.integers(0, 20))
        )
        for i in range(count)
    )
    number = st.integers(0, count - 1)
    way = st.sampled_from(["here", "links", "below"])
    some = st.lists(st.builds(Flow, number, number, st.just(("h",)), way), max_size=30)
    return ModelPicture("any", "json", {}, blocks, tuple(draw(some)), (), 0)


@given(pictures())
def test_boxes_never_lie_on_each_other(picture: ModelPicture) -> None:
    svg = model_svg(picture)
    root = ElementTree.fromstring(document(svg))
    boxes = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "box"]
    places = [tuple(float(r.get(k, "")) for k in ("x", "y", "width", "height")) for r in boxes]
    for (x, y, width, height), (x2, y2, width2, height2) in combinations(places, 2):
        assert x + width < x2 or x2 + width2 < x or y + height < y2 or y2 + height2 < y
    assert "nan" not in svg.body


@given(pictures())
def test_layers_go_down_along_all_flows_of_a_model_without_circles(picture: ModelPicture) -> None:
    straight = tuple(flow for flow in picture.flows if flow.source < flow.target)
    blocks = tuple(Block("type", block.name) for block in picture.blocks)
    layer = block_layers(ModelPicture("any", "json", {}, blocks, straight, (), 0))
    assert all(layer[flow.source] < layer[flow.target] for flow in straight)


def test_a_page_holds_the_model(lattice: Scene) -> None:
    text = page(lattice).decode()
    assert "the model: types, cells, parameters, links" in text
    assert "model lattice-lstm: " in text
