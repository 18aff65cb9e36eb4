"""Training from Python: steps on instances of one's own, losses of one's own, gradients as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.progress import Quiet
from abw.core.exec.gradient import Gradient
from abw.core.exec.values import single
from abw.core.run.workload import Workload
from abw.core.store.folders import require_writable
from abw.core.train.checkpoint import Position, save_checkpoint
from abw.core.train.learner import Found, Learner, WeightsByName
from abw.core.train.loop import CHECKPOINT, LocalSteps, Loop, Row, open_dev, restored
from abw.core.train.metrics import UserMetric, refuse_metric_names

Floats = NDArray[np.float32]
# From outputs by name (m, *shape), instance after instance, to a loss and its gradients by them.
UserLoss = Callable[[Mapping[str, Floats]], tuple[float, Mapping[str, Floats]]]


class Trainer(WeightsByName):
    """A model that learns step by step; made by `LoadedModel.trainer`.

    After a step the model itself has the new weights. `params` are the weights by name, readable and
    writable; `flat` is one vector of all of them, of which they are views. Call `changed` after writing.
    """

    def __init__(self, learner: Learner, workload: Callable[[object], Workload]) -> None:
        """`workload` brings the model together with whatever instances are given as."""
        self.learner = self._learning = learner
        self._workload = workload

    def changed(self) -> None:
        """Use parameters that were written from now on."""
        self.learner.passes.changed()

    def step(self, instances: object, loss: UserLoss | None = None) -> float:
        """Take a step on some instances; returns the loss before it, divided as the section `train` says.

        Errors: those of calls of `LoadedModel`, and AbwError if the loss is not finite.
        """
        found, divisor = self._found(instances, loss, self.learner.stepper.done)
        self.learner.apply_gradient(found.gradient)
        return found.loss / divisor

    def gradient(
        self, instances: object, loss: UserLoss | None = None, *, dropout: bool = False
    ) -> tuple[float, Floats]:
        """Return the loss of some instances and its gradient as a vector like `flat`.

        Several processes can each compute this on their own instances, average the vectors, and `apply` that.
        `dropout`: drop words and values as in a step.
        """
        found, divisor = self._found(instances, loss, self.learner.stepper.done if dropout else None)
        return found.loss / divisor, single(found.gradient.vector(self.learner.params))

    def fit(
        self,
        instances: object,
        dev: object = None,
        *,
        epochs: int | None = None,
        metrics: Mapping[str, UserMetric] | None = None,
        on_step: Callable[[Row], object] = lambda _: None,
        on_epoch: Callable[[Row], object] = lambda _: None,
        folder: str | Path | None = None,
    ) -> list[Row]:
        """Train for some epochs (the spec's), in mini-batches of the spec's size; returns a row an epoch.

        After each epoch the spec's metrics and your own `metrics` are computed on `dev`. A metric maps
        outputs and targets, each by name an array for each instance, to a number. `on_step` is called with
        each step (epoch, step, steps, loss), `on_epoch` with each row; raising StopIteration in them ends
        training. With a `folder`, a checkpoint is written after every epoch, every minute and on Ctrl-C, and
        training continues from one that is there, with the same bits if the data are the same.

        Errors: as `step`, and AbwError for a metric whose name is taken, or that returns no number.
        """
        learner, user = self.learner, dict(metrics or {})
        refuse_metric_names(user, learner.training, dev=dev is not None)
        given = self._workload(instances).instances
        held_out = open_dev(learner, self._workload(dev).instances, user) if dev is not None else None
        position, path = Position(), Path(folder) if folder is not None else None
        if path is not None:
            require_writable(path)
            path.mkdir(parents=True, exist_ok=True)
            position = restored(learner, path / CHECKPOINT)
        usual = learner.training
        learner.training = replace(usual, epochs=epochs or usual.epochs)
        try:
            steps, words = LocalSteps(learner, given), self._words()
            loop = Loop(learner, steps, len(given), held_out, path, words, position)
            loop.on_step, loop.on_epoch = on_step, on_epoch
            loop.run(Quiet())
        finally:
            learner.training = usual
        return list(position.curve)

    def save(self, path: str | Path) -> None:
        """Write the weights as a .safetensors, with the words of tables. Errors: AbwError."""
        save_checkpoint(Path(path), self.params, self._words(), Position(done=self.learner.stepper.done))

    def _words(self) -> dict[str, tuple[str, ...]]:
        """The words of tables, of those that have one for each row."""
        tables = self.learner.model.tables
        rows = {t.name: sorted((row, word) for word, row in t.vocab.rows.items()) for t in tables if t.vocab}
        return {
            name: tuple(word for _, word in found)
            for name, found in rows.items()
            if [row for row, _ in found] == list(range(len(found)))
        }

    def _found(self, instances: object, loss: UserLoss | None, epoch: int | None) -> tuple[Found, int]:
        """Compute a step's loss and gradient, and the loss's divisor; with an `epoch` there is dropout."""
        learner, workload = self.learner, self._workload(instances)
        count = len(workload.instances)
        if loss is None:
            found = learner.found(
                learner.lesson(workload, 0, count, learner.targets(workload.instances), epoch)
            )
            return found, learner.divisor(found.values, count)
        half = learner.passes.forward(learner.planned(workload, 0, count, epoch))
        total, gradients = loss({name: half.values(name) for name in half.gradients})
        for name, rows in gradients.items():
            if name not in half.gradients or np.shape(rows) != half.gradients[name].shape:
                known = ", ".join(f"{n} {list(g.shape)}" for n, g in half.gradients.items())
                raise AbwError(f"a loss's gradient of '{name}' is not one of: {known}")
            half.gradients[name][...] = rows
        gradient: Gradient = learner.passes.backward(half)
        return Found(float(total), count, gradient), 1
