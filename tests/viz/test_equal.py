"""Nodes that stand for equal ones are drawn once, with their number, in each instance that they serve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.run.options import RunOptions
from abw.core.run.pipeline import run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run
from abw.viz.data.scene import Scene, scene_of_run
from abw.viz.data.steps import graph_picture
from abw.viz.drawing.dot import as_dot
from abw.viz.drawing.graph import graph_svg
from abw.viz.drawing.svg import document
from abw.viz.page_data import scene_document

SPEC = Path(__file__).parents[2] / "specs" / "treelstm.yaml"


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A run of three trees, two of them equal, that share nodes with the third."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trees.txt").write_text("(1 (1 a) (1 b))\n(1 (1 a) (1 (1 a) (1 b)))\n(1 (1 a) (1 b))\n")
    changes = Overrides(data=tmp_path / "trees.txt", dims={"hidden": 4})
    report = run(SPEC, changes, RunOptions(dedup="on", policy="depth"))
    assert report["nodes"] == 2 + 2 + 4
    return scene_of_run(find_run(str(Path(report["path"]).name.split("-")[0])))


def test_a_node_is_drawn_once_with_how_many_it_stands_for(found: Scene) -> None:
    assert found.graph is not None and found.graph.distinct is not None
    picture = graph_picture(found)
    assert sorted(picture.equal.tolist()) == [1, 1, 3, 3, 3, 3, 4, 4]
    drawn = document(graph_svg(picture))
    assert drawn.count("×3") == 4 and "stands for 4 equal nodes" in drawn
    assert as_dot(picture).count("×4") == 2
    assert sorted(scene_document(found)["graph"]["equal"]) == sorted(picture.equal.tolist())


def test_an_instance_is_what_its_results_reach(found: Scene) -> None:
    used = found.used_by(1)
    # the first tree has two leaves, an inner node and three outputs, all of which stand for others, too
    assert np.count_nonzero(used) == 6
    assert len(graph_picture(found, 1).type) == 6


def test_what_grows_is_drawn_as_it_was_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = run(
        SPEC.with_name("drnn.yaml"), Overrides(dims={"hidden": 4}), RunOptions(dedup="on", verify=True)
    )
    found = scene_of_run(find_run(str(Path(report["path"]).name.split("-")[0])))
    assert found.graph is not None and found.growth is not None and found.origin is not None
    assert len(found.graph) == report["nodes"] == len(found.growth.node_round)
    assert found.equal_nodes().sum() == report["nodes"] + report["equal_nodes"]
    assert report["equal_nodes"] > report["nodes"] and "×" in document(graph_svg(graph_picture(found)))
