"""`abw layout`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Abw


def test_the_papers_figure_3(abw: Abw, tmp_path: Path) -> None:
    drawing = tmp_path / "tree.svg"
    done = abw("layout", "specs/subgraph.yaml", "--svg", str(drawing))
    assert done.code == 0, done.err
    assert "order: x2 x1 x3 x4 x5 x8 x6 x7" in done.out
    assert "copied in a run: 0 memory kernels, 0 B" in done.out
    assert "x8" in {text.text for text in ElementTree.parse(drawing).iter() if text.tag.endswith("text")}


def test_a_cell_by_dynets_layout_says_why_it_copies(abw: Abw) -> None:
    done = abw("layout", "specs/cells/treegru.yaml", "--layout", "declared", "--set", "hidden=16")
    assert done.code == 0, done.err
    assert "copied: mixes arenas" in done.out
    assert "copied in a run: 3 memory kernels, 5,632 B" in done.out


def test_several_cells_as_json(abw: Abw) -> None:
    done = abw("layout", "specs/cells/lstm.yaml", "specs/cells/gru.yaml", "--json", "--batch", "2")
    assert done.code == 0, done.err
    lstm, gru = done.json()["layouts"]
    assert (lstm["name"], gru["name"], lstm["batch"]) == ("lstm", "gru", 2)
    assert lstm["inputs_copied"] == ["c"]
    assert lstm["inputs"] == {"kernels": 1, "bytes": 2 * 64 * 4}


def test_the_table(abw: Abw) -> None:
    done = abw("layout", "specs/subgraphs/lstm.yaml", "specs/cells/treelstm-leaf.yaml", "--table")
    assert done.code == 0, done.err
    assert "1058 -> 1 / 16" in done.out
    assert "3 / 396 -> 1 / 6" in done.out
    rows = abw("layout", "specs/cells/treelstm-leaf.yaml", "--table", "--json").json()["rows"]
    assert set(rows[0]["latency_us"]) == {"declared", "planned"}
    assert all(rows[0]["latency_us"].values())


def test_mistakes(abw: Abw, tmp_path: Path) -> None:
    assert abw("layout").code == 2
    assert abw("layout", "specs/nothing.yaml").code == 1
    two = abw("layout", "specs/cells/lstm.yaml", "specs/cells/gru.yaml", "--svg", str(tmp_path / "t.svg"))
    assert two.code == 2
    assert "name one cell" in two.err
    wrong = abw("layout", "specs/cells/lstm.yaml", "--set", "width=3")
    assert wrong.code == 2
    assert "no dim 'width'" in wrong.err
    file = tmp_path / "wrong.yaml"
    file.write_text("layout: l\nbatches:\n  - [[a, b], [c]]\n")
    done = abw("layout", str(file))
    assert done.code == 1
    assert f"{file}:3:5: the operands of a batch must have equally many lanes" in done.err
