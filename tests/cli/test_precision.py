"""Weights in fewer bits from the command line and Python: runs, growth, programs, and what they change."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import abw as library
from abw.core.base.errors import AbwError
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.precision import ALLOWED, Precision
from abw.core.run.observing.footprint import numbers_of, packed_bytes
from abw.core.serve.program import opened_program
from abw.core.serve.settings import Limits, Loading
from tests.cli.conftest import Abw
from tests.cli.test_run import SMALL

TREES = ("specs/treelstm.yaml", "--limit", "8", "--set", "hidden=24")


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_run_says_its_precision_and_error(abw: Abw, precision: str) -> None:
    report = abw(*SMALL, "--precision", precision, "--verify", "--json").json()
    assert report["precision"] == precision
    assert 1e-4 < report["max_error"] < ALLOWED[precision]  # type: ignore[index]
    told = abw(*SMALL, "--precision", precision, "--verify").out
    assert f"executor cpu, weights in {precision}" in told
    assert f"of the output's root mean square (at most {ALLOWED[precision]:.1e} in {precision})" in told  # type: ignore[index]


def test_float32_is_held_to_its_own_bound(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abw(*SMALL, "--precision", "float32", "--verify", "--json").json()["max_error"] < 1e-5
    monkeypatch.setitem(ALLOWED, "int8", 1e-3)
    done = abw(*SMALL, "--precision", "int8", "--verify")
    assert done.code == 1
    assert "weights of int8 may be too coarse for this model" in done.err


def test_models_that_grow_decide_again(abw: Abw) -> None:
    spec = ("run", "specs/greedy.yaml", "--limit", "8", "--set", "hidden=24", "--no-keep")
    report = abw(*spec, "--precision", "int8", "--verify", "--json").json()
    assert report["growth"]["decisions"] > 0
    assert 1e-4 < report["max_error"] < ALLOWED["int8"]


def test_programs_take_it(abw: Abw, tmp_path: Path) -> None:
    program = "specs/programs/treelstm.py:classify"
    run = ("run", program, "--data", "specs/data/trees.txt", "--format", "trees", "--limit", "4")
    report = abw(*run, "--precision", "int8", "--verify", "--no-keep", "--json").json()
    assert report["precision"] == "int8"
    assert 1e-4 < report["max_error"] < ALLOWED["int8"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--executor", "blas"), "executor 'blas' has no choice of precisions"),
        (("--executor", "reference"), "executor 'reference' has no choice of precisions"),
    ],
)
def test_who_has_none_says_so(abw: Abw, options: tuple[str, ...], said: str) -> None:
    done = abw(*SMALL, "--precision", "int8", *options)
    assert done.code == 2
    assert said in done.err


def test_from_python(root: Path) -> None:
    spec, dims = root / "specs/sst.yaml", {"hidden": 16, "embed": 16}
    usual, small = (library.load(spec, dims=dims, precision=p, policy="depth") for p in ("float32", "int8"))
    trees = small.spec.data.path
    one, other = (next(iter(model(trees).values())).values for model in (usual, small))
    assert one.shape == other.shape
    assert np.abs(one - other).max() > 0
    with pytest.raises(AbwError, match="weights of int8 are not trained"):
        small.trainer()
    with pytest.raises(AbwError, match="no precision is called 'int4'"):
        library.load(spec, precision="int4")
    cells = root / "specs/programs/treelstm.yaml"
    with pytest.raises(AbwError, match="precision cannot be 'int4'"):
        library.cells(cells, precision="int4")
    assert library.cells(cells, precision="bf16", allow_outside=True).executor.precision == "bf16"


def test_served_models_take_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the engine is told, and does with it."""
    told = Loading(str(root / "specs/treelstm.yaml"), policy="depth", precision="int8")
    assert library.load(told.target, **told.options).executor.precision == "int8"
    program = f"{root}/specs/programs/treelstm.py:classify"
    loading = Loading(program, "trees", precision="bf16")
    with ExitStack() as stack:
        monkeypatch.setattr("abw.core.serve.program._OPEN", stack)
        assert opened_program(loading, Limits()).program.net.executor.precision == "bf16"


def test_outputs_are_compared(abw: Abw, tmp_path: Path) -> None:
    report = abw("compare-precision", *TREES, "--json", "-q").json()
    assert [row["precision"] for row in report["precisions"]] == ["float32", "bf16", "int8"]
    usual, half, quarter = (row["outputs"][0] for row in report["precisions"])
    assert usual["agree"] == usual["values"] == half["values"]
    assert usual["largest_error"] == 0
    assert 0 < half["mean_error"] < quarter["mean_error"] < quarter["largest_error"]
    # as two runs have them
    files = [tmp_path / f"{precision}.jsonl" for precision in ("float32", "int8")]
    values = []
    for file in files:
        run = ("run", *TREES, "--precision", file.stem, "--no-keep", "--policy", "sufficient")
        assert abw(*run, "-o", str(file)).code == 0
        lines = map(json.loads, file.read_text().splitlines())
        values.append(np.concatenate([np.reshape(line["outputs"]["classes"], (-1, 5)) for line in lines]))
    one, other = values
    assert quarter["agree"] == (one.argmax(1) == other.argmax(1)).sum()
    rms = np.sqrt(np.mean(np.square(one)))
    assert np.isclose(quarter["largest_error"], np.abs(one - other).max() / rms, rtol=1e-3)
    assert np.isclose(quarter["mean_error"], np.abs(one - other).mean() / rms, rtol=1e-3)
    taken = [row["packed_bytes"] for row in report["precisions"]]
    assert taken[0] > 1.5 * taken[1] > taken[2]


def test_decisions_are_compared(abw: Abw) -> None:
    spec = ("specs/greedy.yaml", "--limit", "8", "--set", "hidden=24")
    report = abw("compare-precision", *spec, "--precisions", "int8", "--json", "-q").json()
    assert [row["precision"] for row in report["precisions"]] == ["float32", "int8"]
    (words,) = report["precisions"][1]["outputs"]
    assert words["largest_error"] is None
    assert 0 < words["agree"] <= words["values"]


def test_an_unknown_precision_is_a_usage_error(abw: Abw) -> None:
    done = abw("compare-precision", *TREES, "--precisions", "int4")
    assert done.code == 2
    assert "int4" in done.err


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_what_is_packed_is_foretold(abw: Abw, root: Path, precision: Precision) -> None:
    model = library.load(root / TREES[0], dims={"hidden": 24}, precision=precision)
    network, executor = model.network, model.executor
    assert isinstance(executor, CpuExecutor)
    assert sum(packed_bytes(network, precision).values()) == executor.packed_bytes
    said = abw("check", *TREES, "--precision", precision, "--json").json()["process_bytes"]
    assert said["weights"] == 4 * sum(numbers_of(network)) + executor.packed_bytes
