"""The benchmark of trained models: what it reports, and its models by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from abw.bench.executors.byhand import flattened, sentences, trees
from abw.bench.executors.trained import TASKS, bench_torch
from abw.core.base.errors import AbwError

ROWS = {"<unk>": 0, "the": 1, "film": 2}


@pytest.fixture
def data(root: Path, tmp_path: Path) -> Path:
    """The small data that ships, under the names of the real data."""
    for task in TASKS:
        target = tmp_path / "data" / task.case.data
        target.parent.mkdir(parents=True)
        shutil.copyfile(root / "specs/data" / f"{target.parent.name}.txt", target)
    return tmp_path / "data"


def test_rows_of_both_models(root: Path, data: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    report = bench_torch(data, [6], 3, 8, 1, root / "specs")
    assert [(row["model"], row["instances"]) for row in report["rows"]] == [("TreeLSTM", 8), ("BiLSTM", 8)]
    for row in report["rows"]:
        assert 0 < row["max_error"] < 1e-5
        ways = ("per_instance", "batched", "abw", "command")
        assert all(row[f"{way}_per_second"] > 0 for way in ways)
        assert row["batched_reading_share"] > 0
    assert "abw_hoist_per_second" in report["rows"][1]


def test_missing_files_are_named(root: Path, data: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(AbwError, match=r"there is no .*torch-treelstm"):
        bench_torch(data, [6], 3, 8, 1, root / "docs")
    with pytest.raises(AbwError, match=r"there is no .*train\.txt"):
        bench_torch(root, [6], 3, 8, 1, root / "specs")


def test_trees_as_arrays(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("(1 (2 the) (3 (2 good) (2 film)))\n(1 film)\n")
    first, second = trees(tmp_path / "t.txt", ROWS)
    assert (first, second) == ((1, (0, 2)), 2)
    flat = flattened(first)
    assert flat.height.tolist() == [2, 0, 1, 0, 0]
    assert flat.word.tolist() == [0, 1, 0, 0, 2]
    assert flat.children.tolist() == [[1, 2], [0, 0], [3, 4], [0, 0], [0, 0]]
    assert flattened(second).height.tolist() == [0]


def test_sentences(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("the|O a|b|O film|X\n")
    assert list(sentences(tmp_path / "s.txt", ROWS)) == [[1, 0, 2]]


@pytest.mark.parametrize(
    ("task", "line", "words"),
    [(0, "(1 (2 the) (3 (2 good) (2 film)))", ["the", "good", "film"]), (1, "the|O a|b|O", ["the", "a|b"])],
)
def test_words_of_a_line(task: int, line: str, words: list[str]) -> None:
    assert TASKS[task].words(line) == words


def test_by_level_and_packed_are_one_by_one(data: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for task in TASKS:
        torch.manual_seed(1)
        model = task.write(ROWS, 4)
        path = data / task.case.data
        with torch.inference_mode():
            np.testing.assert_allclose(model.batched(path, 5), model.one_by_one(path), atol=1e-6)
