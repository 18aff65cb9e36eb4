"""What a training is said to take is what its arrays take; the process's peak is for `abw bench memory`."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from abw.core.base import memory
from abw.core.base.errors import AbwError
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.run.observing.footprint import footprint, packed_bytes
from abw.core.spec.load import Overrides
from abw.core.tools.inspect import inspect
from abw.core.train.footprint import (
    TrainingForecast,
    forecast_training,
    gradient_bytes,
    graph_bytes,
    largest_of,
    largest_passes,
)
from abw.core.train.loop import LocalSteps
from abw.core.train.session import Opened, TrainOptions, begin, open_training
from tests.core.train.models import TRAINS, spec_of

OPTIONS = TrainOptions(threads=1, epochs=3, dedup="off")
SPECS = {**TRAINS, "ner": "", "seq2seq": ""}


def opened(name: str, folder: Path, hidden: int = 12, batch: int = 5, limit: int = 24) -> Opened:
    overrides = Overrides({"hidden": hidden}, batch=batch, limit=limit, allow_outside=True)
    return open_training(spec_of(name, SPECS[name], folder), overrides, OPTIONS)


def forecast(name: str, folder: Path, *sizes: int, optimizer: str = "") -> TrainingForecast:
    found = opened(name, folder, *sizes)
    assert found.model.training is not None
    if optimizer:
        made = replace(found.model.training.optimizer, name=optimizer)  # type: ignore[arg-type]
        training = replace(found.model.training, optimizer=made)
        found = replace(found, model=replace(found.model, training=training))
    return forecast_training(found, OPTIONS)


@pytest.mark.parametrize("name", ["sst", "ner", "seq2seq"])
def test_parts_are_what_a_training_holds(name: str, tmp_path: Path) -> None:
    overrides = Overrides({"hidden": 12}, batch=5, limit=24, allow_outside=True)
    begun = begin(spec_of(name, SPECS[name], tmp_path), overrides, OPTIONS)
    learner, steps = begun.learner, LocalSteps(begun.learner, begun.instances)
    for epoch in range(OPTIONS.epochs or 0):
        for found in steps.gradients(epoch, 0):
            steps.apply(found.gradient, 1.0)
    said = forecast(name, tmp_path)
    executor, flat = learner.passes.executor, learner.params.flat
    assert isinstance(executor, CpuExecutor) and flat is not None
    packed = executor.packed_bytes
    assert packed == sum(packed_bytes(learner.passes.training.network).values())
    assert flat.nbytes + packed < said.weights < flat.nbytes + 1.3 * packed + 1000
    assert said.optimizer == learner.stepper.state.nbytes
    sums = executor._weights
    assert sums is not None
    held = sums._flat.nbytes + sum(t._place.nbytes + t._rows.nbytes + t._values.nbytes for t in sums._tables)
    assert 0.7 * held < gradient_bytes(largest_passes(opened(name, tmp_path), OPTIONS)) < 1.7 * held
    # room for half as many rows again is made, and not used
    arenas = sum(array.nbytes for array in executor._memory.memory)
    assert said.mini_batches > arenas / 1.6


@pytest.mark.parametrize("name", ["sst", "bilstm", "seq2seq"])
def test_graphs_and_plans_are_what_they_take(name: str, tmp_path: Path) -> None:
    found = opened(name, tmp_path, 12, 24)
    largest_passes(found, OPTIONS)  # what is made once, for all mini-batches
    tracemalloc.start()
    try:
        passes = largest_passes(found, OPTIONS)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # the network of both passes was made anew, and the instances put in order
    assert 0.5 * taken < graph_bytes(passes) < taken


@pytest.mark.parametrize("batch", [1, 5, 7, 24])
def test_the_largest_mini_batch_of_all_epochs(batch: int, tmp_path: Path) -> None:
    overrides = Overrides({"hidden": 4}, batch=batch, limit=24, allow_outside=True)
    begun = begin(spec_of("sst", "", tmp_path), overrides, OPTIONS)
    steps, most = LocalSteps(begun.learner, begun.instances), 0
    for epoch in range(4):
        start = steps.opened(epoch)[0].instances.start
        most = max(most, *(int(start[min(24, at + batch)] - start[at]) for at in range(0, 24, batch)))
    order = largest_of(begun.instances, batch, 4, 0)
    assert len(set(order.tolist())) == len(order) <= batch
    assert int(np.diff(begun.instances.start)[order].sum()) == most


@pytest.mark.parametrize("name", ["sst", "ner", "seq2seq"])
def test_more_takes_more(name: str, tmp_path: Path) -> None:
    usual = forecast(name, tmp_path, 12, 5, 24)
    document = usual.document()
    assert document.pop("total") == sum(document.values()) == usual.total
    wider, larger, more = (forecast(name, tmp_path, *s) for s in ((40, 5, 24), (12, 12, 24), (12, 5, 48)))
    for part in ("weights", "gradient", "optimizer", "mini_batches", "moment", "total"):
        assert getattr(wider, part) > getattr(usual, part)
    assert larger.mini_batches >= usual.mini_batches
    assert larger.weights == usual.weights
    assert more.instances > usual.instances
    sgd, momentum, adam = (
        forecast(name, tmp_path, optimizer=n).optimizer for n in ("sgd", "momentum", "adam")
    )
    assert (sgd, adam) == (0, 2 * momentum) and momentum > 0


def test_threads_plan_one_mini_batch_ahead(tmp_path: Path) -> None:
    found = opened("sst", tmp_path)
    passes, ahead = largest_passes(found, OPTIONS), {}
    for threads in (1, 2):
        said = forecast_training(found, replace(OPTIONS, threads=threads))
        ahead[threads] = (said.mini_batches - footprint(passes.plan).arenas) / graph_bytes(passes)
    assert ahead == {1: 5, 2: 2}  # all of an epoch; that which runs and the next


def test_a_check_says_it_or_why_not(tmp_path: Path) -> None:
    spec = spec_of("sst", "", tmp_path)
    report = inspect(spec, Overrides({"hidden": 12}), "cell")["training_bytes"]
    assert report["total"] > report["at_rest"] > 0
    assert report["available"] > 0
    spec.write_text(spec.read_text().replace("dev: data/trees.txt", "dev: data/none.txt"))
    assert "none.txt" in inspect(spec, Overrides({"hidden": 12}), "cell")["training_bytes"]["error"]


def test_weights_that_do_not_fit_are_refused_with_all_that_training_holds(tmp_path: Path) -> None:
    spec = spec_of("sst", "", tmp_path)
    with (
        patch.object(memory, "available_memory", lambda: 8_000_000_000),
        pytest.raises(
            AbwError, match=r"gradients and what the optimiser keeps, would take 69\.85 GB"
        ) as caught,
    ):
        begin(spec, Overrides({"hidden": 16384}), OPTIONS)
    assert "with hidden=" in caught.value.hint
