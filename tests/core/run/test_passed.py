"""What runs take of a pass is what graph, schedule and plan made step by step would be."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from abw.core.base.progress import Clock
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import make_params
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.run.minibatches import planned
from abw.core.run.onepass.onepass import Passes
from abw.core.run.options import RunOptions
from abw.core.run.parallel import PHASES, Part, PartRunner
from abw.core.run.pipeline import run
from abw.core.run.workload import (
    may_look,
    open_model,
    open_networks,
    open_sample,
    open_workload,
    read_instances,
)
from abw.core.spec.load import Overrides
from abw.core.store.outputs import outputs_of


def equal(mine: object, other: object, where: str) -> None:
    """Compare arrays wherever they are."""
    if isinstance(other, np.ndarray):
        assert isinstance(mine, np.ndarray) and mine.dtype == other.dtype, where
        assert np.array_equal(mine, other), where
    elif isinstance(other, tuple):
        assert isinstance(mine, tuple) and len(mine) == len(other), where
        for n, (a, b) in enumerate(zip(mine, other, strict=True)):
            equal(a, b, f"{where}[{n}]")
    elif isinstance(other, int | str):
        assert mine == other, where


CASES = [
    ("treelstm", "depth"), ("treelstm-2type", "critical"), ("lattice", "agenda"), ("bilstm", "weight"),
    ("bidag", "sufficient-reversed"), ("treegru", "share-free"), ("attention-nmt", "depth"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "policy"), CASES)
def test_graph_schedule_and_plan_are_those_of_the_steps(root: Path, spec: str, policy: str) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": 8}))
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, 12), networks)
    executor, rule = get_executor("cpu"), get_policy(policy)
    executor.prepare(networks.network, make_params(networks.cells, None, 0), 1)
    passes = Passes(model, networks, executor, outputs_of(model))
    passes.make(rule)
    runner = PartRunner(rule, executor, Clock(*PHASES), passes, looked_at=True)
    windows = [(0, 3), (3, 4), (4, min(12, len(workload.instances)))]
    ((_, many, found),) = runner.run([Part(workload, windows)])
    assert many == 0
    for (first, last), done in zip(windows, found, strict=True):
        batch, other = done.batch, planned(workload, rule, executor, first, last)
        assert type(batch.made).__name__ == "Passed"
        assert (done.nodes, batch.batches) == (len(other.graph), other.batches)
        for what in ("graph", "schedule", "plan"):
            mine, theirs = getattr(batch, what), getattr(other, what)
            for field in fields(theirs):
                equal(getattr(mine, field.name), getattr(theirs, field.name), f"{what}.{field.name}")
        for mine, theirs in zip(batch.graph.results, other.graph.results, strict=True):
            equal(mine.reference, theirs.reference, mine.name)
        equal(tuple(batch.dag.edges), tuple(other.dag.edges), "edges")
        check_schedule(batch.dag, batch.schedule)
        check_plan(batch.graph, batch.plan)
        values = [done.result().values(refs.reference) for refs in batch.graph.results]
        for value, column in zip(values, done.columns(), strict=True):
            assert value.reshape(column.values.shape).tobytes() == column.values.tobytes()


# What differs from run to run.
TIMES = ("seconds", "instances_per_second", "date", "path", "peak_memory_bytes", "memory")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", [{}, {"verify": True}, {"check_finite": True, "dedup": "off"}])
def test_reports_and_outputs_are_the_same(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], threads: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("abw.core.run.parallel.LEAST", 0)
    monkeypatch.setattr("abw.core.run.pipeline.REPAYS", 0)
    target = tmp_path / "a.jsonl"
    spec, changes = root / "specs" / "lattice.yaml", Overrides(dims={"hidden": 8}, batch=4)
    chosen = RunOptions(policy="critical", threads=threads, output=target, keep=False, **options)
    with patch.object(PartRunner, "_planned", side_effect=AssertionError("the ordinary way")):
        found = run(spec, changes, chosen)
    with patch.object(Passes, "of", return_value=None):
        expected = run(spec, changes, replace(chosen, output=tmp_path / "b.jsonl"))
    assert target.read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    parallel = threads == 2 and not options.get("verify")
    assert found["mini_batches"] > 2 and found["abreast"] == 2 * parallel
    for key in found.keys() - {*TIMES, "output"}:
        assert found[key] == expected[key], key


def test_a_run_of_little_data_compiles_no_pass(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec, chosen = root / "specs" / "treelstm.yaml", RunOptions(policy="depth", keep=False)
    kept = {"there": False}
    monkeypatch.setattr(Passes, "on_disk", lambda *_: kept["there"])
    with patch("abw.core.run.onepass.onepass.Pass", side_effect=AssertionError("compiled")):
        assert run(spec, Overrides(batch=1), chosen)["mini_batches"] == 48
        kept["there"] = True
        assert run(spec, Overrides(batch=1), chosen)["mini_batches"] == 48  # nor loads it
    monkeypatch.setattr("abw.core.run.pipeline.LOADED", 0)
    with patch.object(PartRunner, "_planned", side_effect=AssertionError("the ordinary way")):
        assert run(spec, Overrides(batch=1), chosen)["mini_batches"] == 48


@pytest.mark.parametrize(
    ("spec", "batch", "looks"),
    [("treelstm", 64, True), ("treelstm", 8, False), ("greedy", 64, False), ("greedy", 16, True)],
)
def test_what_looks_for_equal_nodes_is_compiled_where_it_may_look(
    root: Path, spec: str, batch: int, looks: bool
) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(batch=batch))
    networks = open_networks(model, "cell", dedup="auto")
    sample, used = open_sample(model, networks, 100)
    assert may_look(sample, used) == looks
    assert may_look(sample, used - 1)  # of the others nothing is known
    on = replace(networks, equal=replace(networks.equal, mode="on")) if networks.equal else networks
    assert may_look(replace(sample, networks=on), used)
