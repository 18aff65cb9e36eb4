"""Every bench at small sizes: what must hold of its rows whatever the machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from abw.bench.executors.cpu import cpu
from abw.bench.executors.precision import precision
from abw.bench.executors.threads import THREADED, threads
from abw.bench.graphs.policies import policies
from abw.bench.pytorch.alone import by_numpy, by_script, by_torch, scripted
from abw.bench.pytorch.trees import Trees
from abw.bench.sets.plans import KINDS
from abw.bench.whole import models as gallery
from abw.bench.whole.dedup import dedup, sets_of
from abw.bench.whole.e2e import STEPS, e2e
from abw.bench.whole.growth import growth
from abw.bench.whole.libraries import TOLERANCE, libraries
from abw.bench.whole.models import DATA, models
from abw.bench.whole.one import one
from abw.bench.whole.paper import SYSTEMS, paper
from abw.bench.whole.peers import PEERS, peers
from abw.bench.whole.plans import plans
from abw.bench.whole.programs import programs
from abw.bench.whole.reading import reading
from abw.bench.whole.torch_models import torch_models
from abw.bench.whole.train import train
from abw.bench.workloads import CASES, MODELS
from abw.core.api import load
from abw.core.base.errors import AbwError
from tests.bench.conftest import by_table

TORCH = find_spec("torch") is not None


@pytest.fixture
def specs(root: Path) -> Path:
    return root / "specs"


def test_cpu(specs: Path, data: Path) -> None:
    rows = by_table(cpu(data, specs, [32], [2], [1, 2], 3))[""]
    assert [(row["model"], row["threads"]) for row in rows] == [(m, n) for m in MODELS for n in (1, 2)]
    for row in rows:
        assert 0 < row["of_peak_share"] < 1
        assert row["execute_seconds"] * row["instances_per_second"] == pytest.approx(2)
        assert (row["allowed_share"] is None) == (row["threads"] > 1)
    assert [row["torch_seconds"] is None for row in rows] == [not TORCH, True, True, True]


def test_narrower_vectors_have_a_peak_of_their_own(specs: Path, data: Path) -> None:
    *rows, note = cpu(data, specs, [16], [2], [1], 3, target="plain")
    assert "(plain)" in note
    assert all(0 < row["of_peak_share"] < 1 for row in rows if not isinstance(row, str))


def test_precision(specs: Path, data: Path) -> None:
    usual, half, quarter = by_table(precision(data, specs, [64], [2], 3))[""][:3]
    assert [row["precision"] for row in (usual, half, quarter)] == ["float32", "bf16", "int8"]
    assert (usual["speed_times"], usual["output_error"]) == (1, 0)
    assert 0 < half["output_error"] < quarter["output_error"] < 0.1
    assert usual["weights_bytes"] > 1.9 * half["weights_bytes"] > 2.8 * quarter["weights_bytes"]


def test_e2e(specs: Path, data: Path) -> None:
    rows = by_table(e2e(data, specs, 8, [2], 1))[""]
    assert [row["model"] for row in rows] == [c.name for c in CASES]
    for row in rows:
        seconds = {step: row[f"{step}_seconds"] for step in STEPS}
        assert min(seconds.values()) > 0
        assert row["outside_share"] == pytest.approx(1 - seconds["execute"] / sum(seconds.values()))
        assert (row["pass_seconds"] is None) == (row["model"] == "BiLSTM-Tagger-withchar")


def test_one(specs: Path, data: Path) -> None:
    rows = by_table(one(data, specs, 8, [5, 7], 2))[""]
    assert [row["nodes"] for row in rows] == [5, 7]
    assert all(0 < r["p50_seconds"] <= r["p90_seconds"] and r["kernels_seconds"] > 0 for r in rows)
    assert all(r["tuples_seconds"] > 0 and r["ordinary_seconds"] > 0 for r in rows)
    assert ["script_seconds" in r and r["numpy_seconds"] > 0 for r in rows if TORCH] == [True, True][
        : 2 * TORCH
    ]
    with pytest.raises(AbwError, match="has 4 nodes"):
        list(one(data, specs, 8, [4], 2))


@pytest.mark.skipif(not TORCH, reason="without PyTorch")
def test_one_tree_has_the_same_scores_in_all_ways(specs: Path) -> None:
    import torch

    model = load(specs / "treelstm.yaml", dims={"hidden": 8}, threads=1)
    instances = model.read(["(3 (2 It) (4 (3 (1 works) (2 well)) (2 here)))"])
    graph = model.graph(instances)
    trees = Trees(torch, model.network, model.params, graph, instances)
    result = model.run(model.plan(graph))
    expected = np.sort(result.value(2, 0), axis=0)
    for work in (by_numpy(trees), by_torch(trees), by_script(trees, scripted(torch))):
        found: Any = work()
        np.testing.assert_allclose(np.sort(np.asarray(found), axis=0), expected, rtol=1e-5, atol=1e-6)


def test_plans(specs: Path) -> None:
    rows = by_table(plans(specs, [1, 2], 5, 2))[""]
    assert [(row["plans"], row["nodes"]) for row in rows] == [(1, 5), (2, 5)]
    assert all(row["seconds"] > 0 for row in rows)


def test_reading(specs: Path) -> None:
    rows = {row["data"]: row for row in by_table(reading(specs, 3, 1))[""]}
    formats = {"trees", "pairs", "tags", "words", "words by a pattern", "json", "molecules", "arrays"}
    assert rows.keys() == formats
    assert rows["molecules"]["values"] == rows["arrays"]["values"] == 3 * 20 * 8
    assert all(row["value_ns"] > 0 for row in rows.values())


def test_threads(specs: Path, data: Path) -> None:
    rows = by_table(threads(data, specs, 8, [4, 2], [2], 8, 1))[""]
    assert [(row["model"], row["batch"]) for row in rows] == [(m, b) for m in THREADED for b in (4, 2)]
    measured = ("threads_times", "processes_times", "beside_a_busy_one_times", "one_thread_seconds")
    assert all(row[name] > 0 for row in rows for name in measured)


def test_train(specs: Path, data: Path) -> None:
    found = by_table(train(data, specs, [8], 4, 2))
    (row,) = found["a step"]
    parts = [row[f"{part}_seconds"] for part in ("passes", "weights", "update", "step")]
    assert min(parts) > 0 and row["of_peak_share"] > 0
    assert (row["loss_error"] is not None) == TORCH
    assert not TORCH or row["loss_error"] < 1e-5
    assert [other["library"] for other in found.get("forward and backward", [])][:1] == ["PyTorch"] * TORCH


def test_the_limit_is_above_what_is_reached(specs: Path, data: Path) -> None:
    rows = by_table(peers(data, specs, "TreeGRU", 16, 4, 2, [1, 2], 2))[""]
    assert [(row["workload"], row["threads"]) for row in rows] == [("TreeGRU", 1), ("TreeGRU", 2)]
    for row in rows:
        assert 0 < row["of_the_limit_share"] < 1
        assert row["ahead_times"] is None  # the others' rates are of size 128 and mini-batches of 64
    assert PEERS.keys() == {c.name for c in CASES}


def test_libraries(specs: Path, data: Path) -> None:
    if not TORCH:
        with pytest.raises(AbwError, match="PyTorch"):
            list(libraries(data, specs, [8], 3, 7, 2))
        return
    rows = by_table(libraries(data, specs, [8], 3, 7, 2))[""]
    names = [row["library"] for row in rows]
    assert names[:3] == ["abw", "PyTorch tree by tree", "PyTorch by hand"]
    assert ("TorchFold" in names) == (find_spec("torchfold") is not None)
    for row in rows:
        assert row["alone_per_second"] > 0 and row["whole_per_second"] > 0
        assert (row["library"] == "abw") == (row["output_error"] == 0) and row["output_error"] < TOLERANCE


def test_models(specs: Path) -> None:
    found = by_table(models(specs, None, [8], 3, 5, 1))
    assert [row["model"] for row in found["abw"]] == [*DATA]
    others = found.get("PyTorch by hand", [])
    assert {row["model"] for row in others} == (set(DATA) if TORCH else set())
    assert all(0 < row["output_error"] < 1e-5 and row["over_computation_times"] > 0 for row in others)


def test_models_without_pytorch(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "torch_or_none", lambda: None)
    row, note = models(specs, "rgcn", [8], 3, 5, 1)
    assert not isinstance(row, str) and row["instances_per_second"] > 0
    assert "nothing to compare with" in note


def test_models_that_do_not_exist(root: Path, specs: Path) -> None:
    with pytest.raises(AbwError, match="no model 'gcn'"):
        list(models(specs, "gcn", [8], 2, 2, 1))
    with pytest.raises(AbwError, match=r"there is no .*molecules\.jsonl"):
        list(models(root / "docs", "rgcn", [8], 2, 2, 1))


def test_the_papers_parts(specs: Path, data: Path) -> None:
    found = by_table(paper(data, specs, "fig6", "TreeGRU,BiLSTM-Tagger", [4], [1, 4], 1))
    fig6 = found["Fig. 6, instances a second"]
    assert [row["workload"] for row in fig6] == ["TreeGRU", "BiLSTM-Tagger"]
    assert all(row[f"{name}_per_second"] > 0 for row in fig6 for name in SYSTEMS)
    with pytest.raises(AbwError, match="--only knows no 'fig8'"):
        list(paper(data, specs, "fig8"))


def test_policies(specs: Path, data: Path) -> None:
    found = by_table(policies(data, specs, 2, 4, runs=1, workloads="TreeGRU"))
    (row,) = found["batches"]
    assert row["bound"] <= row["critical"] <= row["depth"]
    assert [r["encoding"] for r in found["learning"]] == ["base", "max", "sort", "critical"]
    assert all(r["learning_seconds"] > 0 and r["paper_trials"] == 50 for r in found["learning"])


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_policies_on_unseen_instances(specs: Path, data: Path, granularity: Literal["cell", "op"]) -> None:
    def run(batch: int) -> dict[str, float]:
        rows = policies(
            data, specs, batch, granularity=granularity, unseen=True, workloads="TreeGRU", mini_batches=2
        )  # fmt: skip
        return by_table(rows)["batches over the fewest known"][0]

    row = run(2)
    assert row["bound"] <= row["best"]
    assert row["auto, batches alone"] <= row["depth"]
    assert min(row[name] for name in ("depth", "critical", "search", "auto, batches alone")) == 1
    with pytest.raises(AbwError, match="too few"):
        run(50)


def test_programs(specs: Path, data: Path) -> None:
    found = by_table(programs(data, specs, 1))
    assert all(row["taken_seconds"] > 0 for row in found["one"])
    for row in (trees := found["TreeLSTM by recursion"]):
        assert row["trees"] > 40 and row["nodes"] > 500 and row["distinct"] < row["nodes"]
    assert [row["hidden"] for row in trees] == [64, 128]
    assert [row["batch"] for row in found["beam of 4"]] == [1, 8, 64] * 2
    assert all(("over_torch_times" in row) == TORCH for row in found["beam of 4"])


@pytest.mark.skipif(not TORCH, reason="needs PyTorch: pip install torch")
@pytest.mark.filterwarnings("ignore:slower than PyTorch")  # three small instances
def test_torch_models(data: Path) -> None:
    found = by_table(torch_models(data, [8], 3, 1))
    assert len(found["forward"]) == len(found["forward, loss and backward"]) == 6
    assert all(row["nodes"] > 0 and row["largest_error"] < 1e-5 for row in found["forward"])


def test_growth(specs: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.bench.whole.growth.SIZES", ((8, 9),))
    found = by_table(growth(data, specs, 1))
    for row in (greedy := found["greedy decoding"]) + found["decoding by a beam of 4"]:
        assert row["tokens_per_second"] > row["whole_per_second"] > 0
        assert (row["over_torch_times"] is not None) == TORCH
    assert all(row["of_limit_share"] > 0 for row in greedy)


def test_dedup(specs: Path, data: Path) -> None:
    found = by_table(dedup(data, specs, [8], [2], 1))
    rows, growing = found["from text to outputs"], found["growing, from text to outputs"]
    assert len(rows) + len(growing) == len(list(sets_of(specs, data)))
    assert len(rows) >= len(CASES) + len(KINDS) + 2 and len(growing) >= 5
    assert all(row["pass_ns"] > 0 for row in rows)
    for row in rows + growing:
        assert 0 < row["distinct_share"] <= 1 and row["equal_times"] > 0 and row["usual_times"] > 0
    [step] = found["training steps"]
    assert 0 < step["distinct_share"] < 1 and step["loss_error"] < 1e-6
    with pytest.raises(AbwError, match="no set is called 'queries'"):
        next(dedup(data, specs, sets="queries"))
