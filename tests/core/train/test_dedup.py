"""Training without equal nodes: the same losses to the bit, gradients up to the order of sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.core.train.models import TRAINS, opened, spec_of

DROPS = "train: {loss: {of: classes, target: label}, dropout: {output.x: 0.5}, word-dropout: {words: 0.3}}"


@pytest.mark.parametrize("epoch", [None, 2])
@pytest.mark.parametrize("name", [*TRAINS, "drops"])
def test_losses_are_the_same_and_gradients_close(name: str, epoch: int | None, tmp_path: Path) -> None:
    spec = spec_of("sst", DROPS, tmp_path) if name == "drops" else spec_of(name, TRAINS[name], tmp_path)
    plain, deduped = opened(spec), opened(spec, dedup="on")
    lessons = [made.learner.lesson(made.workload, 0, 12, made.targets, epoch) for made in (plain, deduped)]
    assert lessons[1].passes.made.forward < lessons[0].passes.made.forward
    found = [made.learner.found(lesson) for made, lesson in zip((plain, deduped), lessons, strict=True)]
    assert found[0].loss == found[1].loss and found[0].values == found[1].values
    vectors = [f.gradient.vector(plain.learner.params).astype(np.float64) for f in found]
    np.testing.assert_allclose(vectors[1], vectors[0], rtol=0, atol=1e-6 * np.abs(vectors[0]).max())


@pytest.mark.usefixtures("always_shared")
@pytest.mark.parametrize("name", TRAINS)
def test_any_number_of_threads_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    spec, vectors = spec_of(name, TRAINS[name], tmp_path), []
    for policy, threads in (("sufficient", 1), ("agenda", 1), ("sufficient", 2), ("sufficient", 3)):
        made = opened(spec, policy=policy, threads=threads, dedup="on")
        found = made.learner.found(made.learner.lesson(made.workload, 0, 8, made.targets))
        vectors.append(found.gradient.vector(made.learner.params).tobytes())
    assert len(set(vectors)) == 1


def test_nodes_with_masks_stay_apart(tmp_path: Path) -> None:
    made = opened(spec_of("sst", DROPS, tmp_path), dedup="on")
    graph = made.learner.planned(made.workload, 0, 12, 1).made.graph
    whole = made.workload.unfused(0, 12)
    masked = made.learner.dropout.masked
    assert masked.any() and not masked.all()
    sizes = graph.type_sizes[: len(masked)]
    assert (sizes[masked] == whole.type_sizes[masked]).all()
