"""A process that computes its share of each mini-batch's gradient for a training in another process."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.memory import keep_freed_memory
from abw.core.exec.gradient import Gradient, summed
from abw.core.run.minibatches import together
from abw.core.scale.worker import share_home, told, version_here
from abw.core.train.learner import Found, Lesson
from abw.core.train.loop import LocalSteps
from abw.core.train.session import begin_again

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Begun:
    """A training's `training.json` and folder; the driver's `ABW_HOME` and working folder (`here`)."""

    about: Mapping[str, Any]
    folder: Path
    home: Path
    here: Path


@dataclass(frozen=True, slots=True)
class State:
    """A training after `done` steps: all weights (`flat`) and the optimiser's values (`kept`)."""

    flat: Floats
    kept: Floats
    done: int


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for the gradient of mini-batch `step` of an epoch (both from 0), after `done` steps in all."""

    done: int
    epoch: int
    step: int


# A step: the gradient of the whole mini-batch, and the factor of the learning rate.
Change = tuple[Gradient, float]
# The gradient of a share, or an error (`told`); None for a share without instances.
Answer = Found | Mapping[str, Any] | None


def added(one: Answer, other: Answer) -> Answer:
    """The sum of two shares; an error if one of them is one."""
    if one is None or isinstance(other, Mapping):
        return other
    if other is None or isinstance(one, Mapping):
        return one
    gradient = summed([one.gradient, other.gradient])
    return Found(one.loss + other.loss, one.values + other.values, gradient)


def _added_here(_: int, one: Answer, other: Answer) -> Answer:
    return added(one, other)


def added_up(answers: Sequence[Any], add: Callable[[int, Any, Any], Any] = _added_here) -> Any:  # noqa: ANN401
    """Add shares in pairs, their sums in pairs, and so on.

    The same order by whoever adds gives the same bits. `add(k, a, b)` adds those of members `k` and behind.
    """
    left = dict(enumerate(answers))
    step = 1
    while step < len(answers):
        for k in range(0, len(answers) - step, 2 * step):
            left[k] = add(k, left[k], left[k + step])
        step *= 2
    return left[0]


class Member:
    """The process with `rank`, from 0, among the `count` processes of a training."""

    version = staticmethod(version_here)

    @staticmethod
    def place() -> str:
        """The process and machine of this member."""
        return f"process {os.getpid()} on {platform.node()}"

    def __init__(self, rank: int, count: int) -> None:
        self._rank, self._count = rank, count
        self._wrong: Mapping[str, Any] | None = None
        self._next = (-1, -1)
        self._lessons: Iterator[Lesson] = iter(())

    def open(self, begun: Begun, state: State) -> None:
        """Read the training and compile. An error becomes the answer to the first question."""
        try:
            keep_freed_memory()
            share_home(begun.home)
            with suppress(OSError):  # where the driver finds policies of one's own
                os.chdir(begun.here)
            training, _ = begin_again(begun.about, begun.folder)
            learner = training.learner
            self._local = LocalSteps(learner, training.instances)
            assert learner.params.flat is not None
            learner.params.flat[...] = state.flat
            learner.stepper.state[...] = state.kept
            learner.stepper.done = state.done
            learner.passes.changed()
        except (AbwError, MemoryError, OSError, RecursionError, UnicodeError) as error:
            self._wrong = told(error, ends=True)

    def share(self, question: Question, change: Change | None) -> Answer:
        """Compute this member's share, after taking the step `change` unless it was taken already."""
        if self._wrong:
            return self._wrong
        learner = self._local.learner
        try:
            if change is not None and question.done == learner.stepper.done + 1:
                gradient, factor = change
                learner.apply_gradient(gradient.copy(), factor)  # shared memory cannot be written
            if question.done != learner.stepper.done:
                raise ValueError(f"asked for step {question.done}, and {learner.stepper.done} are done")
            if (question.epoch, question.step) != self._next:
                self._lessons = together(self._lessons_of(question.epoch, question.step))
            self._next = question.epoch, question.step + 1
            first, last = self._bounds(question.epoch, question.step)
            return learner.share(next(self._lessons)) if first < last else None
        except (AbwError, MemoryError, OSError) as error:
            return told(error)

    def add(self, one: Answer, other: Answer) -> Answer:
        """The sum of two shares."""
        return added(one, other)

    def _lessons_of(self, epoch: int, step: int) -> Iterator[Lesson]:
        """This member's shares, except empty ones, of an epoch's mini-batches from a step on."""
        workload, targets = self._local.opened(epoch)
        size = self._local.learner.training.batch
        for number in range(step, -(-len(self._local.instances) // size)):
            first, last = self._bounds(epoch, number)
            if first < last:
                yield self._local.learner.lesson(workload, first, last, targets, epoch)

    def _bounds(self, epoch: int, step: int) -> tuple[int, int]:
        """The instances of this member's share of a mini-batch, in the order of the epoch."""
        start, size = self._local.opened(epoch)[0].instances.start, self._local.learner.training.batch
        bounds = cut(start, step * size, min(len(start) - 1, (step + 1) * size), self._count)
        return int(bounds[self._rank]), int(bounds[self._rank + 1])


def cut(start: Longs, first: int, last: int, count: int) -> Longs:
    """Divide instances `first` to `last` into shares with about equally many vertices.

    Returns the bounds (count + 1,) of the shares. `start`: see `Instances`.
    """
    own = start[first : last + 1]
    wanted = own[0] + (own[-1] - own[0]) * np.arange(1, count) / count
    inside = first + np.searchsorted((own[:-1] + own[1:]) / 2, wanted)
    return np.array([first, *inside, last], np.int64)
