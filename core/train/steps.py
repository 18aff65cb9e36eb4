"""Where the gradient of a mini-batch comes from: from this process alone, or from many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from abw.core.base.prefetch import OneAhead
from abw.core.base.progress import Progress
from abw.core.data.instances import Instances
from abw.core.data.permute import permuted, vertices_of
from abw.core.exec.gradient import Gradient
from abw.core.run.minibatches import together
from abw.core.run.workload import Workload, open_workload
from abw.core.train.learner import Found, Learner
from abw.core.train.targets import Targets, require, targets_of


class Steps(Protocol):
    """What a training asks for, epoch by epoch (from 0)."""

    def gradients(self, epoch: int, first: int) -> Iterator[Found]:
        """The gradients of an epoch's mini-batches, from that with number `first` on.

        Each is applied before the next is asked for. Errors: NotFiniteError.
        """
        ...

    def apply(self, gradient: Gradient, factor: float) -> None:
        """Take a step by it, the learning rate multiplied with `factor`."""
        ...


@dataclass(frozen=True, slots=True)
class _Epoch:
    number: int
    workload: Workload
    targets: tuple[Targets, ...]


class Alone:
    """Steps of one process: instances with their targets, in the order of the epoch that is asked for."""

    def __init__(self, learner: Learner, instances: Instances) -> None:
        """Find the targets. Errors: SpecError, DataError where there are none, or of another kind."""
        self.learner, self.instances = learner, instances
        losses = learner.training.losses
        self._targets = tuple(targets_of(learner.model, loss, instances) for loss in losses)
        for loss, found in zip(losses, self._targets, strict=True):
            require(found, loss, instances)
        self._epoch: _Epoch | None = None

    def opened(self, epoch: int) -> tuple[Workload, tuple[Targets, ...]]:
        """The instances in the order of an epoch, which seed and epoch say, and their targets."""
        if self._epoch is None or self._epoch.number != epoch:
            order = np.random.default_rng([self.learner.seed, epoch]).permutation(len(self.instances))
            shuffled, at = permuted(self.instances, order), vertices_of(self.instances, order)
            workload = open_workload(self.learner.model, shuffled, self.learner.passes.networks)
            self._epoch = _Epoch(epoch, workload, tuple(t.of(at) for t in self._targets))
        return self._epoch.workload, self._epoch.targets

    def gradients(self, epoch: int, first: int) -> Iterator[Found]:
        """As `Steps.gradients`: each is planned while other threads sum up the gradients of the one before.

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
        """As `Steps.apply`."""
        self.learner.apply(gradient, factor)


# Makes steps of many processes: of the steps of this one, what a training was begun with (`training.json`),
# its folder, and the number of processes. Errors: AbwError.
Engine = Callable[[Alone, Mapping[str, Any], Path, int, Progress], AbstractContextManager[Steps]]
