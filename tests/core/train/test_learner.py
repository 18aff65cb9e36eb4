"""Gradients of whole models: the executor cpu beside the reference, and that they depend on nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.exec.gradient import of_vector
from tests.core.train.models import TRAINS, opened, spec_of


@pytest.mark.parametrize("name", TRAINS)
def test_kernels_find_the_references_gradient(name: str, tmp_path: Path) -> None:
    spec = spec_of(name, TRAINS[name], tmp_path)
    fast, exact = opened(spec), opened(spec, executor="reference")
    ours = fast.learner.found(fast.learner.lesson(fast.workload, 1, 7, fast.targets))
    theirs = exact.learner.found(exact.learner.lesson(exact.workload, 1, 7, exact.targets))
    assert ours.values == theirs.values > 0
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
    vectors = [found.gradient.vector(fast.learner.params).astype(np.float64) for found in (ours, theirs)]
    assert np.abs(vectors[1]).max() > 0
    np.testing.assert_allclose(vectors[0], vectors[1], atol=2e-6 * np.abs(vectors[1]).max(), rtol=0)


@pytest.mark.parametrize("name", TRAINS)
def test_the_bits_are_the_same_whatever_the_batches_and_threads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(name, TRAINS[name], tmp_path)
    vectors = []
    for policy, threads in (("sufficient", 1), ("depth", 1), ("agenda", 1), ("sufficient", 2)):
        if threads > 1:  # also where it would not pay
            monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 0)
            monkeypatch.setattr("abw.core.exec.cpu.launch.TOGETHER_FLOPS", 0)
        made = opened(spec, policy=policy, threads=threads)
        found = made.learner.found(made.learner.lesson(made.workload, 0, 8, made.targets))
        vectors.append(found.gradient.vector(made.learner.params).tobytes())
    assert len(set(vectors)) == 1


def test_steps_make_the_loss_smaller(tmp_path: Path) -> None:
    made = opened(spec_of("sst", "", tmp_path))
    losses = []
    for _ in range(12):
        found = made.learner.found(made.learner.lesson(made.workload, 0, 12, made.targets))
        losses.append(found.loss)
        made.learner.apply_gradient(found.gradient)
    assert losses[-1] < 0.8 * losses[0]


def test_words_are_left_out_by_instance_and_vertex(tmp_path: Path) -> None:
    made = opened(spec_of("sst", "", tmp_path))
    assert made.learner.model.tables[0].unknown is None
    whole = made.workload.graph(0, 6)
    dropped = made.learner.dropout.graph(whole, made.instances, 0, 3)
    alone = made.workload.graph(4, 5)
    again = made.learner.dropout.graph(alone, made.instances, 4, 3)
    changed = [
        sorted(graph.vertex[np.searchsorted(graph.operand_ptr, at, side="right") - 1] - first)
        for graph, before, at, first in (
            (dropped, whole, np.flatnonzero(dropped.operand != whole.operand), 0),
            (again, alone, np.flatnonzero(again.operand != alone.operand), 0),
        )
    ]
    start = made.instances.start
    own = [v - (start[4] - start[0]) for v in changed[0] if start[4] <= v + start[0] < start[5]]
    assert own == changed[1]


def test_a_gradient_is_a_vector_and_back(tmp_path: Path) -> None:
    made = opened(spec_of("sst", "", tmp_path))
    found = made.learner.found(made.learner.lesson(made.workload, 0, 4, made.targets)).gradient
    vector = found.vector(made.learner.params)
    again = of_vector(vector, made.learner.params)
    assert np.array_equal(again.vector(made.learner.params), vector)
    assert np.array_equal(vector[: len(found.values)], found.values)


@pytest.mark.parametrize(
    ("executor", "message"), [("blas", "runs a plan as a whole"), ("cuda", "runs a plan as a whole|CUDA|GPU")]
)
def test_executors_that_cannot_train_say_so(executor: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AbwError, match=message):
        opened(spec_of("sst", "", tmp_path), executor=executor)


def test_a_loss_that_is_not_finite_ends_training(tmp_path: Path) -> None:
    made = opened(spec_of("sst", "", tmp_path))
    flat = made.learner.params.flat
    assert flat is not None
    flat[:] = np.nan
    made.learner.passes.changed()
    with pytest.raises(AbwError, match="the loss is not finite"):
        made.learner.found(made.learner.lesson(made.workload, 0, 4, made.targets))
