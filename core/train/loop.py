"""Epochs: shuffled instances, step after step, checkpoints, and the metrics of each epoch on the dev data.

The gradient of a step comes from this process alone, or from many: `Steps`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.interrupts import finished_before_interrupt, often_held
from abw.core.base.parallel import OneAhead
from abw.core.base.progress import Progress
from abw.core.data.instances import Instances
from abw.core.data.vertices import permuted, vertices_of
from abw.core.exec.gradient import Gradient
from abw.core.exec.params import Params
from abw.core.ir.network import Network
from abw.core.ir.training import Training
from abw.core.run.minibatches import together
from abw.core.run.observing.footprint import PlanCache
from abw.core.run.workload import Workload, open_workload
from abw.core.store.trainings import BEST
from abw.core.train.checkpoint import SPEED, Position, load_checkpoint, named, save_checkpoint
from abw.core.train.learner import Found, Learner, NotFiniteError
from abw.core.train.metrics import UserMetric, better, judge_of
from abw.core.train.optimizers import Stepper, rate_at
from abw.core.train.targets import Targets, require

# Files of a training's folder: to go on from, and the weights of the best epoch.
CHECKPOINT = "checkpoint.safetensors"

Floats = NDArray[np.float32]
# What is known of an epoch: `epoch` (from 1), `loss` a value, `rate`, metrics, `instances_per_second`.
Row = Mapping[str, Any]


class Steps(Protocol):
    """The source of a training's gradients, epoch by epoch (from 0)."""

    def gradients(self, epoch: int, first: int) -> Iterator[Found]:
        """The gradients of an epoch's mini-batches, from that with number `first` on.

        Each is applied before the next is asked for. Errors: NotFiniteError.
        """
        ...

    def apply(self, gradient: Gradient, factor: float) -> None:
        """Take a step by it, the learning rate multiplied with `factor`."""
        ...


class LocalSteps:
    """Steps of one process: instances with their targets, in the order of the epoch that is asked for."""

    def __init__(self, learner: Learner, instances: Instances) -> None:
        """Find the targets. Errors: SpecError, DataError where there are none, or of another kind."""
        self.learner, self.instances = learner, instances
        self._targets = learner.targets(instances)
        for loss, found in zip(learner.training.losses, self._targets, strict=True):
            require(found, loss, instances)
        self._epoch: tuple[int, Workload, tuple[Targets, ...]] | None = None

    def opened(self, epoch: int) -> tuple[Workload, tuple[Targets, ...]]:
        """Return the instances in the order that seed and epoch determine, and their targets."""
        if self._epoch is None or self._epoch[0] != epoch:
            order = np.random.default_rng([self.learner.seed, epoch]).permutation(len(self.instances))
            shuffled, at = permuted(self.instances, order), vertices_of(self.instances, order)
            workload = open_workload(self.learner.model, shuffled, self.learner.passes.networks)
            self._epoch = epoch, workload, tuple(t.of(at) for t in self._targets)
        return self._epoch[1:]

    def gradients(self, epoch: int, first: int) -> Iterator[Found]:
        """See `Steps.gradients`; each is planned while other threads sum the previous one's gradients.

        On one thread small ones are planned several at a time.
        """
        workload, targets = self.opened(epoch)
        size, count = self.learner.training.batch, len(self.instances)
        lessons = (
            self.learner.lesson(workload, at, min(count, at + size), targets, epoch)
            for at in range(first * size, count, size)
        )
        if self.learner.passes.executor.threads == 1:
            return map(self.learner.found, together(lessons))
        made = OneAhead(lessons)
        return (self.learner.found(lesson, made.make) for lesson in made)

    def apply(self, gradient: Gradient, factor: float) -> None:
        """See `Steps.apply`."""
        self.learner.apply_gradient(gradient, factor)


# Makes steps of many processes: of the steps of this one, what a training was begun with (`training.json`),
# its folder, and the number of processes. Errors: AbwError.
Engine = Callable[[LocalSteps, Mapping[str, Any], Path, int, Progress], AbstractContextManager[Steps]]


class Weights(Protocol):
    """Parameters and tables, in one vector."""

    params: Params


class Learns(Protocol):
    """What learns, as a training goes on with it: a `Learner`, or a `ProgramTrainer`."""

    training: Training
    stepper: Stepper

    @property
    def passes(self) -> Weights:
        """What has its parameters."""
        ...

    @property
    def network(self) -> Network:
        """The network that these are of."""
        ...

    def changed(self) -> None:
        """The parameters were changed in place."""
        ...


# The metrics on the dev data, by the present weights.
Dev = Callable[[], dict[str, float]]


@dataclass(slots=True)
class Loop:
    """Training by `steps` on so many instances as there are for it: `count`.

    `every`: seconds between checkpoints inside an epoch. `words`: vocabularies that go with the weights.
    Without a `folder` nothing is written. `on_step` and `on_epoch` hear of each step and epoch; by raising
    StopIteration they end training after it.
    """

    learner: Learns
    steps: Steps
    count: int
    dev: Dev | None
    folder: Path | None
    words: Mapping[str, tuple[str, ...]]
    position: Position
    every: float = 60.0
    on_step: Callable[[Row], object] = lambda _: None
    on_epoch: Callable[[Row], object] = lambda _: None
    ended: bool = False
    cold: bool = True

    def run(self, progress: Progress) -> None:
        """Train to the last epoch, or until patience ends.

        Ends early on Ctrl-C with a checkpoint of the last whole step. Errors: AbwError.
        """
        training, position = self.learner.training, self.position
        try:
            with often_held():
                while position.epoch < training.epochs and not self.ended and not self._tired():
                    self._epoch(progress)
        except BaseException:
            # whole steps alone change anything: what is there now can be gone on from
            with finished_before_interrupt():
                self.save()
            raise

    def save(self) -> None:
        """Write a checkpoint. Errors: AbwError."""
        self._write(CHECKPOINT, self.learner.stepper.state)

    def _write(self, name: str, state: Floats | None = None) -> None:
        if self.folder is not None:
            weights = named(self.learner.network, self.learner.passes.params)
            save_checkpoint(self.folder / name, weights, self.words, self.position, state)

    def _tired(self) -> bool:
        patience, position = self.learner.training.patience, self.position
        return bool(patience) and position.best_epoch >= 0 and position.epoch - position.best_epoch > patience

    def _epoch(self, progress: Progress) -> None:
        position, training = self.position, self.learner.training
        count, size = self.count, training.batch
        steps = math.ceil(count / size)
        progress.phase(f"epoch {position.epoch + 1} of {training.epochs}", steps)
        begun, first, saved = time.perf_counter(), position.step, time.monotonic()
        gradients = self.steps.gradients(position.epoch, first)
        for step in range(first, steps):
            try:
                found = next(gradients)
            except NotFiniteError as error:
                message = f"{error.message} at step {step + 1} of epoch {position.epoch + 1}"
                raise AbwError(message, hint=f"start again with {error.hint}") from None
            factor = rate_at(training.schedule, position.done, training.epochs * steps, steps)
            with finished_before_interrupt():  # the step is done, or it is not
                self.steps.apply(found.gradient, factor)
                position.step, position.done = step + 1, position.done + 1
                position.loss, position.values = position.loss + found.loss, position.values + found.values
            progress.reached(step + 1, self._note(step + 1, steps, begun, first))
            if self.cold and step + 1 < steps:  # the first step has compiled; the rate begins after it
                self.cold, begun, first = False, time.perf_counter(), step + 1
            row = {"epoch": position.epoch + 1, "step": step + 1, "steps": steps}
            self._call(self.on_step, row | {"loss": found.loss / max(1, found.values)})
            if self.ended:
                self.save()
                return
            if time.monotonic() > saved + self.every:
                self.save()
                saved = time.monotonic()
        seconds = time.perf_counter() - begun
        factor = rate_at(training.schedule, max(0, position.done - 1), training.epochs * steps, steps)
        self._finish((count - first * size) / max(seconds, 1e-9), factor)

    def _note(self, step: int, steps: int, begun: float, first: int) -> str:
        each = (time.perf_counter() - begun) / (step - first)
        left = each * (steps - step + (self.learner.training.epochs - self.position.epoch - 1) * steps)
        rate = min(self.learner.training.batch, self.count) / each
        loss = self.position.loss / max(1, self.position.values)
        return f"{step}/{steps}, loss {loss:.4f}, {rate:,.0f} instances/s, {_span(left)} left"

    def _finish(self, rate: float, factor: float) -> None:
        """Compute an epoch's metrics, add its row to the curve, and write a checkpoint."""
        learner, position = self.learner, self.position
        row: dict[str, Any] = {
            "epoch": position.epoch + 1,
            "steps": position.done,
            "loss": position.loss / max(1, position.values),
            "rate": learner.training.optimizer.rate * factor,
            SPEED: rate,
        }
        value = -row["loss"]
        first = None
        if self.dev:
            scores = self.dev()
            row |= {name: None if math.isnan(score) else score for name, score in scores.items()}
            first, value = learner.training.metrics[0], next(iter(scores.values()))
        with finished_before_interrupt():
            is_best = better(first, value, position.best) if first else True
            if is_best:
                position.best = value
                position.best_epoch = position.epoch
            position.curve.append(row)
            position.epoch, position.step, position.loss, position.values = position.epoch + 1, 0, 0.0, 0
            if is_best:
                self._write(BEST)
            self.save()
        self._call(self.on_epoch, row)

    def _call(self, hook: Callable[[Row], object], row: Row) -> None:
        try:
            hook(row)
        except StopIteration:
            self.ended = True


def restored(learner: Learns, path: Path) -> Position:
    """Give a learner the weights and state of a checkpoint. Return where it left off: 0 where there is none.

    Errors: AbwError where it is damaged, or of another model.
    """
    if not path.is_file():
        return Position()
    position = load_checkpoint(path, named(learner.network, learner.passes.params), learner.stepper.state)
    learner.stepper.done = position.done
    learner.changed()
    return position


def open_dev(learner: Learner, instances: Instances, user: Mapping[str, UserMetric] | None = None) -> Dev:
    """Bring dev data together with the model. Errors: SpecError, DataError."""
    judge = judge_of(learner.model, instances, user)
    workload = open_workload(learner.model, instances, learner.passes.networks)
    batches = PlanCache(workload, learner.passes.policy)
    return lambda: judge.row(batches.run(learner.passes.alone()))


def _span(seconds: float) -> str:
    """A time left, for people."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
