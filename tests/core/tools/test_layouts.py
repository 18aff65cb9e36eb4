"""What `abw layout` says: the paper's own subgraphs by its way of counting, and our cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.cell.program import cell_program
from abw.core.ir.cell import Cell
from abw.core.spec.cells.subgraph import Subgraph
from abw.core.spec.load import Overrides
from abw.core.tools.layouts import PAPER, as_subgraph, layout_report, open_items, paper_counts

CELLS = ("gru", "lstm", "mv", "treegru", "treegru-leaf", "treelstm", "treelstm-leaf")


def subgraph(root: Path, name: str) -> Subgraph:
    (graph,) = open_items(root / f"specs/subgraphs/{name}.yaml", Overrides())
    assert isinstance(graph, Subgraph)
    return graph


def cell(root: Path, name: str) -> Cell:
    (found,) = open_items(root / f"specs/cells/{name}.yaml", Overrides())
    assert isinstance(found, Cell)
    return found


@pytest.mark.parametrize("name", CELLS)
def test_the_right_columns_of_table_2(root: Path, name: str) -> None:
    graph = subgraph(root, name)
    after = paper_counts(graph, 8)[2]
    paper = PAPER[graph.name]
    assert (after["kernels"], after["bytes"] / 1024) == (paper["kernels"][1], paper["kilobytes"][1])


@pytest.mark.parametrize("name", ["mv", "treegru-leaf", "treelstm-leaf"])
def test_left_columns_of_table_2(root: Path, name: str) -> None:
    # those of which the paper batches alike before and after
    graph = subgraph(root, name)
    before = paper_counts(graph, 8)[0]
    paper = PAPER[graph.name]
    assert (before["kernels"], before["bytes"] / 1024) == (paper["kernels"][0], paper["kilobytes"][0])


def test_the_papers_figure_3(root: Path) -> None:
    (graph,) = open_items(root / "specs/subgraph.yaml", Overrides())
    report = layout_report(graph, 8, "planned")
    order = " ".join(report["order"])
    ideal = ("x2 x1 x3 x4 x5 x8 x6 x7", "x8 x6 x7 x2 x1 x3 x4 x5")
    assert order in ideal or " ".join(reversed(report["order"])) in ideal
    assert report["after"] == {"kernels": 0, "bytes": 0}
    assert report["before"]["kernels"] > 0


@pytest.mark.parametrize("name", CELLS)
def test_the_cells_of_table_2_are_laid_out_without_copies(root: Path, name: str) -> None:
    found = cell(root, name)
    report = layout_report(found, 8, "planned")
    assert report["after"] == {"kernels": 0, "bytes": 0}
    assert report["gap_bytes"] == 0
    before = [o["declared"] for b in report["batches"] for o in b["operands"]]
    assert before.count("copied") == report["before"]["kernels"]
    # the report's copies are the program's
    declared = layout_report(found, 8, "declared")
    program = cell_program(found, "declared")
    copied = [o for b in declared["batches"] for o in b["operands"] if o["status"] == "copied"]
    assert len(copied) == program.copies == declared["after"]["kernels"]
    assert sum(o["bytes"] for o in copied) == 8 * 4 * program.copied_floats == declared["after"]["bytes"]
    assert all(o["reason"] for o in copied)
    assert declared["before"] == report["before"] == declared["after"]


def test_a_cells_batches_as_a_list(root: Path) -> None:
    graph = as_subgraph(cell(root, "treelstm-leaf"))
    assert [len(batch[0]) for batch in graph.batches] == [3, 3, 2, 1, 1, 1, 1]
    assert {graph.names[v] for v in graph.inputs} == {"x"}
    assert {"Wi", "bo"} <= {graph.names[v] for v in graph.params}
    assert graph.floats[graph.names.index("Wi")] == 64 * 64


def test_all_cells_of_a_model(root: Path) -> None:
    names = [item.name for item in open_items(root / "specs/treelstm.yaml", Overrides(dims={"hidden": 8}))]
    assert {"treelstm", "treelstm-leaf"} <= set(names)
