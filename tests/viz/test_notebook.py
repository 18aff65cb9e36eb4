"""What a notebook shows."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from abw.core.graph.dag import build_dag
from abw.core.plan.plan import plan
from abw.core.policy.registry import get_policy
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides, load_cell
from abw.core.store.runs import StoredRun, find_run
from abw.pqtree import PQTree, plan_layout
from abw.viz.data.scene import Scene
from abw.viz.data.steps import graph_picture
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.svg import wide
from abw.viz.notebook import (
    SHOWN,
    VARIABLES,
    show_cell,
    show_graph,
    show_layout,
    show_model,
    show_plan,
    show_policy,
    show_run,
    show_tree,
)


def drawn(html: str) -> list[str]:
    """The texts of the picture in it; none where there is none."""
    root = ElementTree.fromstring(html)
    return ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]


def test_small_things_are_pictures(fig1: Scene, fig1_run: StoredRun, root: Path) -> None:
    assert fig1.learned
    assert "policy fsm" in drawn(show_policy(fig1.learned))
    assert any(said.startswith("agenda") for said in drawn(show_run(fig1_run)))
    assert "f" in drawn(show_cell(load_cell(root / "specs" / "cells" / "lstm.yaml")))
    tree = PQTree(5)
    assert tree.reduce([1, 2], [2, 3])
    shown = drawn(show_tree(tree))
    assert sorted(said for said in shown if said.isdigit()) == list("01234")
    assert "Q →" in shown
    # the paper's Fig. 3, from x0 on: the batches' operands, and an order in which none is copied
    layout = plan_layout([4] * 8, [[[3, 4], [0, 2], [1, 0]], [[7, 5, 6], [2, 3, 4]]])
    shown = drawn(show_layout(layout))
    assert layout.ideal
    assert [said for said in shown if said.startswith("x")] == [f"x{v}" for v in layout.order]
    assert shown.count("contiguous") == 5
    assert "copied" not in shown


def test_titles_of_small_pictures_are_whole(fig1: Scene) -> None:
    dag = build_dag(("a",), *(np.zeros(n, np.int32) for n in (1, 0, 0)))
    zero = np.zeros(1, np.int32)
    picture = graph_picture(
        Scene("", "", 0, 1, dag, zero, zero, {"depth": get_policy("depth").schedule(dag)}, None)
    )
    for drawn in (as_svg(picture), as_svg(graph_picture(fig1))):
        found = re.search(r'<text x="(\d+)" y="20" class="big">([^<]+)<', drawn.body)
        assert found and found[2].startswith("numbered by the batches of ")
        assert int(found[1]) + wide(found[2], 14, bold=True) <= drawn.width


def test_rounds_are_pictures(home: Path) -> None:
    changes = Overrides(dims={"hidden": 4}, limit=3)
    run(Path("specs/berxit.yaml"), changes, RunOptions())
    shown = drawn(show_run(find_run(None)))
    assert any(said.startswith("agenda") for said in shown)
    assert any(said.startswith("rounds3 instances") for said in shown)
    assert {"growing", "instance 0", "instance 2"} <= {*shown}


def test_models_are_pictures(fig1: Scene) -> None:
    assert fig1.spec
    assert set(fig1.dag.types) <= set(drawn(show_model(fig1.spec)))


def test_graphs_and_plans_are_pictures(fig1: Scene) -> None:
    assert fig1.graph
    shown = drawn(show_graph(fig1.graph))
    assert set(fig1.dag.types) <= set(shown)
    planned = plan(fig1.graph, fig1.schedules[fig1.own])
    assert repr(planned).split(",")[0] in show_plan(planned)
    assert any(said.startswith("plan") for said in drawn(show_plan(planned)))


def test_large_things_are_a_line() -> None:
    html = show_tree(PQTree(VARIABLES + 1))
    assert "PQ-tree of 81 leaves" in html
    assert drawn(html) == []
    layout = plan_layout([4] * (VARIABLES + 1), [])
    assert drawn(show_layout(layout)) == []
    assert "layout of 81 variables" in show_layout(layout)


def test_copies_are_drawn_in_layouts_too() -> None:
    layout = plan_layout([4] * 4, [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]])
    assert not layout.ideal
    assert "copied" in drawn(show_layout(layout))


@pytest.mark.skipif(not importlib.util.find_spec("IPython"), reason='needs IPython: pip install ".[browser]"')
def test_importing_abw_in_ipython_registers_all_of_them(root: Path, tmp_path: Path) -> None:
    code = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import abw, sys
assert not [m for m in sys.modules if m.startswith("abw.")], "importing abw imports nothing else"
from abw.pqtree import PQTree
shown, _ = shell.display_formatter.format(PQTree(3))
assert "<svg" in shown["text/html"], shown
from abw.viz.notebook import SHOWN
formatter = shell.display_formatter.formatters["text/html"]
names = {(t.__module__, t.__name__) for t in SHOWN}
known = set(formatter.deferred_printers) | {(t.__module__, t.__name__) for t in formatter.type_printers}
assert names <= known, names - known
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={"IPYTHONDIR": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_everything_that_is_registered_can_be_shown() -> None:
    assert {t.__name__ for t in SHOWN} == {
        *("StoredRun", "Graph", "Plan", "FsmPolicy", "Cell", "Model", "PQTree", "Layout")
    }
