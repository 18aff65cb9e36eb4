"""Drawings: well-formed, complete, within their frame, harmless whatever the names are."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import depths
from abw.core.spec.load import Overrides, load_cell
from abw.pqtree import PQTree
from abw.viz.data.collect import KINDS, Kind, collect
from abw.viz.data.memory import memory_picture, tree_picture
from abw.viz.data.pictures import (
    ArenaBlock,
    ArenaPicture,
    BatchesPicture,
    FrontierPicture,
    GraphPicture,
    Lane,
    MemoryPicture,
    PolicyPicture,
    TreePicture,
)
from abw.viz.data.scene import Scene, scene_of_spec
from abw.viz.data.steps import graph_picture
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.graph import NODES, WIDEST, graph_svg, layers, placed
from abw.viz.drawing.memory import arena_svg
from abw.viz.drawing.policy import MOST as STATES
from abw.viz.drawing.policy import shown_states
from abw.viz.drawing.steps import batches_svg, frontier_svg
from abw.viz.drawing.svg import MOST, document, stacked
from tests.conftest import Golden

SVG = "{http://www.w3.org/2000/svg}"


def parsed(scene: Scene, kind: Kind, policy: str | None = None) -> ElementTree.Element:
    pictures = [as_svg(picture) for picture in collect(scene, [kind], policy)]
    return ElementTree.fromstring(document(stacked(pictures)))


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", ["policy", "graph", "frontier", "batches"])
def test_fig1_as_svg(fig1: Scene, golden: Golden, kind: Kind) -> None:
    # of the policy as observed: what learning finds is not the drawing's matter
    (picture,) = collect(fig1, [kind], "agenda" if kind == "policy" else None)
    golden(f"fig1-{kind}.svg", document(as_svg(picture)))


def test_fig3_and_fig4_as_svg(fig3: MemoryPicture, fig4: TreePicture, golden: Golden) -> None:
    golden("fig3.svg", document(as_svg(fig3)))
    golden("fig4.svg", document(as_svg(fig4)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rounds"])
def test_colours_are_written_out_for_programs_that_know_no_variables(lattice: Scene, kind: Kind) -> None:
    for picture in collect(lattice, [kind]):
        text = document(as_svg(picture))
        assert "var(" not in text and "--" not in text
        first, *_ = ElementTree.fromstring(text).iter(f"{SVG}rect")
        assert (first.get("class"), ".paper{fill:#ffffff}" in text) == ("paper", True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rounds"])
@pytest.mark.parametrize("policy", ["fsm", "depth"])
def test_nothing_is_outside_the_frame(lattice: Scene, kind: Kind, policy: str) -> None:
    for picture in collect(lattice, [kind], policy):
        drawn = as_svg(picture)
        root = ElementTree.fromstring(document(drawn))
        for rect in root.iter(f"{SVG}rect"):
            x, y = float(rect.get("x", "0")), float(rect.get("y", "0"))
            assert x >= 0 or rect.get("id")
            assert x + float(rect.get("width", "0")) <= drawn.width + 0.1
            assert y + float(rect.get("height", "0")) <= drawn.height + 0.1
        numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf", drawn.body)
        assert "nan" not in numbers
        assert "inf" not in numbers


def test_the_graph_has_every_node_and_edge(lattice: Scene) -> None:
    root = parsed(lattice, "graph")
    picture = collect(lattice, ["graph"])[0]
    assert isinstance(picture, GraphPicture)
    nodes = [t.text for t in root.iter(f"{SVG}title") if (t.text or "").startswith("node ")]
    assert len(nodes) == len(picture.type)
    assert layers(picture).tolist() == depths(lattice.dag).tolist()


def tall(text: str) -> tuple[float, float]:
    root = ElementTree.fromstring(text)
    return float(root.get("width", "")), float(root.get("height", ""))


def test_lines_join_what_edges_join_and_run_through_no_box(lattice: Scene) -> None:
    picture = graph_picture(lattice)
    places = placed(picture)
    beside: dict[int, list[int]] = {}
    for a, b in places.segments.tolist():
        assert places.y[a] + places.half[a] < places.y[b] - places.half[b]
        beside.setdefault(a, []).append(b)

    def ends(v: int) -> set[int]:
        found = beside.get(v, [])
        return {w for w in found if w < places.nodes}.union(*(ends(w) for w in found if w >= places.nodes))

    joined = {(u, v) for u in range(places.nodes) for v in ends(u)}
    assert joined == set(zip(picture.source.tolist(), picture.target.tolist(), strict=True))
    # whatever shares a layer keeps its room: a line goes straight down beside the boxes there
    for row, y in {*zip(places.row.tolist(), places.y.tolist(), strict=True)}:
        there = np.flatnonzero((places.row == row) & (places.y == y))
        there = there[np.argsort(places.x[there])]
        apart = (places.size[there][1:] + places.size[there][:-1]) / 2
        assert (np.diff(places.x[there]) >= apart - 1e-6).all()


@pytest.mark.parametrize("name", ["seq2seq", "attention-nmt", "set-transformer"])
def test_attention_fits_on_a_page(home: Path, name: str) -> None:
    changes = Overrides(dims={"hidden": 4}, limit=2)
    picture = graph_picture(scene_of_spec(Path(f"specs/{name}.yaml"), changes, by="agenda", against=()))
    width, height = tall(document(graph_svg(picture)))
    assert width < 1000 and height < 1700
    hubs = graph_svg(picture).body.count('class="hub"')
    assert 2 <= hubs <= 6


def test_many_instances_stand_in_rows_and_a_wide_one_in_strips() -> None:
    none = np.zeros(0, np.int32)
    for instances, each in ((200, 1), (1, 200), (3, 90)):
        count = instances * each
        zeros, instance = np.zeros(count, np.int32), np.repeat(np.arange(instances, dtype=np.int32), each)
        picture = GraphPicture(("a",), zeros, instance, zeros, none, none, zeros + 1, ("fsm",), zeros[None])
        drawn = graph_svg(picture)
        assert drawn.width <= WIDEST + 40 < 200 * 36
        root = ElementTree.fromstring(document(drawn))
        strips = root.findall(f"{SVG}svg")
        assert len(strips) > 2
        whole = set()
        for strip in strips:
            first, _, width, _ = map(float, strip.get("viewBox", "").split())
            assert width == float(strip.get("width", "")) <= WIDEST
            for node in strip.iter(f"{SVG}g"):
                box, tip = node.find(f"{SVG}rect"), node.find(f"{SVG}title")
                assert box is not None and tip is not None
                if first <= float(box.get("x", "")) <= first + width - float(box.get("width", "")):
                    whole.add((tip.text or "").split(":")[0])
        assert whole == {f"node {v}" for v in range(count)}


def test_lanes_have_every_batch_and_mark_those_that_are_not_free(lattice: Scene) -> None:
    root = parsed(lattice, "batches")
    batches = [t.text or "" for t in root.iter(f"{SVG}title") if re.match(r"\d+: ", t.text or "")]
    assert len(batches) == sum(len(s) for s in lattice.schedules.values())
    triangles = [p for p in root.iter(f"{SVG}path") if p.get("class") == "bad extra"]
    assert len(triangles) == sum("not free" in said for said in batches) > 0


def test_the_machine_has_the_states_that_were_met(lattice: Scene) -> None:
    picture = collect(lattice, ["policy"])[0]
    assert isinstance(picture, PolicyPicture)
    root = parsed(lattice, "policy")
    ids = {g.get("id") for g in root.iter(f"{SVG}g") if g.get("class") == "state"}
    assert ids == {f"state-fsm-{s}" for s in set(picture.steps)}
    assert set(shown_states(picture)) == set(picture.steps)
    assert len(ids) <= STATES


@pytest.mark.parametrize("name", ["lstm", "treernn", "treelstm"])
def test_copies_are_arrows_and_the_rest_brackets(root: Path, name: str) -> None:
    picture = memory_picture(load_cell(root / "specs" / "cells" / f"{name}.yaml"))
    assert isinstance(picture, MemoryPicture)
    drawn = as_svg(picture).body
    copied = [
        o
        for ordering in (picture.before, picture.after)
        for b in ordering.batches
        for o in b.operands
        if o.status == "copied" and len(o.variables) > 1
    ]
    assert drawn.count('class="copy"') >= sum(len(o.variables) for o in copied)
    assert drawn.count(">copied<") == len(copied)


@pytest.mark.parametrize("name", ["lstm", "gru", "treelstm", "mv", "treernn"])
def test_pq_trees_lie_in_the_order_of_memory(root: Path, name: str) -> None:
    cell = load_cell(root / "specs" / "cells" / f"{name}.yaml")
    picture = tree_picture(cell)
    tree = PQTree.from_text(picture.text)
    leaves = [int(word) for word in re.findall(r"\d+", picture.text)]
    assert all(max(row) - min(row) == len(row) - 1 for row in tree.rows())
    assert leaves == list(range(len(leaves)))
    assert list(picture.names) == [v.name for v in memory_picture(cell).after.variables]
    drawn = texts(ElementTree.fromstring(document(as_svg(picture))))
    assert [said for said in drawn if said in picture.names] == [picture.names[leaf] for leaf in leaves]


def test_names_can_do_no_harm(fig1: Scene) -> None:
    bad = ('<script>alert("1")</script>', "a&b", "]]>", '" onload="x')
    kinds: list[Kind] = ["policy", "graph", "frontier", "batches"]
    for picture in collect(fig1, kinds):
        safe = document(as_svg(picture))
        named = document(as_svg(_renamed(picture, dict(zip(fig1.dag.types, bad, strict=True)))))
        one, other = (ElementTree.fromstring(text) for text in (safe, named))
        assert [e.tag for e in one.iter()] == [e.tag for e in other.iter()]
        assert not [e for e in other.iter() if e.get("onload")]


def _renamed(value: Any, names: dict[str, str]) -> Any:  # noqa: ANN401
    """The same picture with other names of types, everywhere."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _renamed(getattr(value, f.name), names) for f in fields(value)})
    if isinstance(value, tuple):
        return tuple(_renamed(item, names) for item in value)
    if isinstance(value, dict):
        return {_renamed(k, names): _renamed(v, names) for k, v in value.items()}
    return names.get(value, value) if isinstance(value, str) else value


def test_a_graph_too_large_for_svg_is_an_error_with_a_way_out(lattice: Scene) -> None:
    count = NODES + 1
    zeros, none = np.zeros(count, np.int32), np.zeros(0, np.int32)
    large = GraphPicture(("a",), zeros, zeros, zeros, none, none, zeros + 1, ("fsm",), zeros[None])
    with pytest.raises(AbwError, match="--instances"):
        graph_svg(large)
    many = np.zeros(MOST + 1, np.int32)
    lane = Lane("fsm", many, many, many == 0, many, many)
    with pytest.raises(AbwError, match="--html"):
        batches_svg(BatchesPicture(("a",), many[:1], (lane,)))
    with pytest.raises(AbwError, match="--html"):
        frontier_svg(FrontierPicture(("a",), many[:, None] + 1, lane))
    block = ArenaBlock(0, 0, "a", "y", 0, 1)
    with pytest.raises(AbwError, match="--html"):
        arena_svg(ArenaPicture(((1,),), (1,), (0,), 1, (block.type,), (block,) * (MOST + 1)))
