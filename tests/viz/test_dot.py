"""DOT text, and what is done where Graphviz is there, and where it is not."""

from __future__ import annotations

import importlib.util
import re
import shutil
import stat
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from abw.core.base.errors import AbwError
from abw.viz.data.collect import collect
from abw.viz.data.scene import Scene
from abw.viz.drawing.dot import as_dot
from abw.viz.drawing.draw import export
from tests.conftest import Golden


@pytest.fixture
def without_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the program nor the package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


def test_fig1_as_dot(fig1: Scene, golden: Golden) -> None:
    golden("fig1-graph.dot", as_dot(collect(fig1, ["graph"])[0]))


def test_dot_has_every_node_edge_and_state(lattice: Scene) -> None:
    graph = as_dot(collect(lattice, ["graph"])[0])
    assert len(re.findall(r"^\tn\d+ \[label", graph, re.M)) == len(lattice.dag)
    assert len(re.findall(r"^\tn\d+ -> n\d+", graph, re.M)) == len(lattice.dag.succ)
    policy = as_dot(collect(lattice, ["policy"], "agenda")[0])
    assert "word" in policy
    assert re.search(r"s\d+ -> end", policy)


@pytest.mark.usefixtures("without_graphviz")
def test_without_graphviz_svg_is_our_own(fig1: Scene) -> None:
    pictures = collect(fig1, ["graph"])
    assert export("", pictures, "svg", "dot") == export("", pictures, "svg", "own")


def test_pictures_that_are_no_graphs_have_no_dot(fig1: Scene) -> None:
    with pytest.raises(AbwError, match="--svg, --png and --pdf draw all"):
        export("", collect(fig1, ["batches"]), "dot")
    with pytest.raises(AbwError, match="one picture, not 2"):
        export("", collect(fig1, ["policy", "graph"]), "dot")


def test_the_systems_dot_is_used_where_it_is_there(
    fig1: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "dot"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1], len(sys.stdin.read()) > 0)\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert export("", collect(fig1, ["policy"]), "svg", "dot") == b"-Tsvg True\n"
    assert export("", collect(fig1, ["batches"]), "svg", "dot").startswith(b"<svg")
    program.write_text(f"#!{sys.executable}\nraise SystemExit('no memory left')\n")
    with pytest.raises(AbwError, match="no memory left"):
        export("", collect(fig1, ["graph"]), "svg", "dot")


@pytest.mark.skipif(
    not shutil.which("dot") and not importlib.util.find_spec("pygraphviz"),
    reason='needs Graphviz: the program dot, or pip install ".[dot]"',
)
def test_graphviz_itself_accepts_our_dot(lattice: Scene) -> None:
    for kind in ("policy", "graph"):
        pictures = collect(lattice, [kind])
        assert ElementTree.fromstring(export("", pictures, "svg", "dot")).tag.endswith("svg")
