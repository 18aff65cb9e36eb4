"""Steps on several threads: the next mini-batch is planned meanwhile, and all bits are those of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abw.core.ir.training import OPTIMIZERS, Optimizer, OptimizerName
from abw.core.train.learner import Learner
from abw.core.train.loop import LocalSteps
from abw.core.train.optimizers import Stepper
from tests.core.train.models import TRAINS, Opened, opened, spec_of


def several(spec: Path, threads: int) -> Opened:
    """A model with several mini-batches."""
    made = opened(spec, threads=threads)
    made.learner.training = replace(made.learner.training, batch=3)
    return made


def epoch(made: Opened) -> bytes:
    """The weights after two epochs."""
    learner = made.learner
    steps = LocalSteps(learner, made.instances)
    for number in range(2):
        for found in steps.gradients(number, first=number):
            steps.apply(found.gradient, 1.0)
    assert learner.params.flat is not None
    return learner.params.flat.tobytes()


@pytest.mark.usefixtures("always_shared")
@pytest.mark.parametrize("name", TRAINS)
def test_epochs_have_the_same_bits(name: str, tmp_path: Path) -> None:
    spec = spec_of(name, TRAINS[name], tmp_path)
    weights = {threads: epoch(several(spec, threads)) for threads in (1, 2, 3)}
    assert weights[1] == weights[2] == weights[3]


@pytest.mark.usefixtures("always_shared")
def test_a_mini_batch_is_planned_while_gradients_are_summed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, events = several(spec_of("sst", "", tmp_path), 2), []
    lesson, found = Learner.lesson, Learner.found

    def planned(learner: Learner, *rest: object) -> object:
        events.append("plan")
        return lesson(learner, *rest)  # type: ignore[arg-type]

    def computed(learner: Learner, *rest: object) -> object:
        events.append("begin")
        result = found(learner, *rest)  # type: ignore[arg-type]
        events.append("end")
        return result

    monkeypatch.setattr(Learner, "lesson", planned)
    monkeypatch.setattr(Learner, "found", computed)
    count = sum(1 for _ in LocalSteps(made.learner, made.instances).gradients(0, 0))
    assert count > 2
    assert events == ["plan", *["begin", "plan", "end"] * (count - 1), "begin", "end"]


@pytest.mark.usefixtures("always_shared")
def test_an_error_of_planning_comes_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lesson, planned = several(spec_of("sst", "", tmp_path), 2), Learner.lesson, []

    def broken(learner: Learner, *rest: object) -> object:
        planned.append(rest)
        if len(planned) == 2:
            raise ValueError("broken")
        return lesson(learner, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Learner, "lesson", broken)
    gradients = LocalSteps(made.learner, made.instances).gradients(0, 0)
    assert np.isfinite(next(gradients).loss)
    with pytest.raises(ValueError, match="broken"):
        next(gradients)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_an_optimiser_in_parts_has_the_same_bits(name: OptimizerName, parts: int, tmp_path: Path) -> None:
    made = opened(spec_of("sst", "", tmp_path))
    learner, optimizer = made.learner, Optimizer(name, 0.1, decay=0.01)
    found = learner.found(learner.lesson(made.workload, 0, 4, made.targets)).gradient.copy()
    seen = []

    def share(work: Callable[[int, int], object], amount: int, kind: str) -> None:
        for part in reversed(range(parts)):
            work(part, parts)

    for divided in (None, share):
        params = replace(learner.params).flattened()
        stepper = Stepper(optimizer, params, len(params.values))
        for _ in range(3):
            stepper.step(found, 0.5, *[divided] if divided else [])
        assert params.flat is not None
        seen.append((params.flat.tobytes(), stepper.state.tobytes()))
    assert seen[0] == seen[1]
