"""The page as a file: self-contained, complete, harmless."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.dag import Dag
from abw.core.plan.plan import plan
from abw.core.store.runs import StoredRun
from abw.viz.data.scene import Scene, scene_of_run
from abw.viz.page import embedded, page
from abw.viz.page_data import arrange
from tests.core.policy.graphs import random_dag

BAD = "</script><script>window.hacked=1</script><!--"


class Parsed(HTMLParser):
    """The elements of a page, the texts of its scripts, and everything that could be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "data", "poster")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data


def data_of(text: str) -> dict[str, Any]:
    found = json.loads(Parsed(text).scripts[0])
    assert isinstance(found, dict)
    return found


def test_a_page_asks_for_nothing_outside_itself(lattice: Scene) -> None:
    text = page(lattice).decode()
    assert Parsed(text).links == ["data:,"]
    assert not re.search(r"@import|url\((?!#abw-)|\bfetch\(|XMLHttpRequest|WebSocket|import\(", text)
    outside = set(re.findall(r"https?://[^\"'\s)]+", text))
    assert outside <= {"http://www.w3.org/2000/svg"}  # a name, not a request


def test_the_data_is_the_scenes(lattice: Scene) -> None:
    data = data_of(page(lattice).decode())
    graph, policies = data["graph"], data["policies"]
    assert graph["type"] == lattice.dag.type.tolist()
    assert graph["target"] == lattice.dag.succ.tolist()
    assert [p["name"] for p in policies] == ["fsm", "depth", "agenda"]
    assert lattice.graph
    for shown, schedule in zip(policies, lattice.schedules.values(), strict=True):
        assert shown["nodes"] == schedule.nodes.tolist()
        assert np.cumsum([0, *shown["width"]]).tolist() == schedule.ptr.tolist()
        assert shown["base"] == plan(lattice.graph, schedule).base.ravel().tolist()


def test_a_runs_values_are_those_of_its_nodes(fig1_run: StoredRun) -> None:
    scene = scene_of_run(fig1_run)
    data = data_of(page(scene).decode())
    (kept,) = data["values"]
    with np.load(fig1_run.path / "outputs.npz") as outputs:
        assert np.allclose(kept["values"], outputs["total"], rtol=1e-3)
    assert scene.dag.types[scene.dag.type[kept["node"][0]]] == "R"


@given(st.text())
def test_no_text_in_the_data_can_end_its_script(text: str) -> None:
    made = embedded({text: [text, BAD]})
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {text: [text, BAD]}


def test_hostile_names_change_no_element(fig1: Scene) -> None:
    types = tuple(BAD + name for name in fig1.dag.types)
    hostile = replace(fig1, title=BAD, dag=replace(fig1.dag, types=types), learned=None, graph=None)
    safe = replace(fig1, learned=None, graph=None)
    one, other = Parsed(page(safe).decode()), Parsed(page(hostile).decode())
    assert other.tags == one.tags
    assert data_of(page(hostile).decode())["types"] == list(types)


def test_a_run_whose_model_is_gone_still_has_a_page(fig1_run: StoredRun, tmp_path: Path) -> None:
    fig1_run.report["data"] = str(tmp_path / "gone")
    text = page(scene_of_run(fig1_run)).decode()
    assert re.search(rf"Not shown: the model, memory and PQ-trees. Reason: .*{tmp_path / 'gone'}", text)
    data = data_of(text)
    assert data["outputs"] is None
    assert data["values"] == []


def test_a_page_says_why_parts_are_missing(fig1_run: StoredRun, tmp_path: Path) -> None:
    whole = scene_of_run(fig1_run)
    assert "Not shown" not in page(whole).decode()
    other = tmp_path / "other.txt"
    other.write_text("(3 (2 small) (2 trees))\n")
    fig1_run.report["data"] = str(other)
    text = page(scene_of_run(fig1_run)).decode()
    assert f"Not shown: memory and PQ-trees. Reason: the data in {other} have changed since." in text
    fig1_run.report["data"] = "stdin"
    text = page(scene_of_run(fig1_run)).decode()
    assert "PQ-trees. Reason: its data came through a pipe, and are not kept." in text
    program = page(replace(whole, spec=None)).decode()
    assert "Not shown: the model. Reason: what joins a program" in program


@given(
    st.builds(
        random_dag, seed=st.integers(0, 999), nodes=st.integers(1, 40), types=st.just(2), density=st.just(0.1)
    ),
    st.integers(1, 5),
)
def test_no_two_nodes_of_an_instance_lie_on_each_other(dag: Dag, instances: int) -> None:
    instance = np.sort(np.arange(len(dag)) % instances).astype(np.int32)
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    x, y, _ = arrange(dag, instance, source)
    assert min(x.min(), y.min()) >= 0
    for i in range(int(instance.max()) + 1):
        mine = instance == i
        apart = np.maximum(np.abs(x[mine][:, None] - x[mine]), np.abs(y[mine][:, None] - y[mine]))
        assert (apart + 9 * np.eye(mine.sum())).min() >= 1 - 1e-6


def test_trees_grow_downwards_and_sentences_to_the_right(fig1: Scene, lattice: Scene) -> None:
    for scene, right in ((fig1, False), (lattice, True)):
        source = np.repeat(np.arange(len(scene.dag), dtype=np.int32), np.diff(scene.dag.succ_ptr))
        x, y, layer = arrange(scene.dag, scene.instance, source)
        assert ((x if right else y) == layer).all()
