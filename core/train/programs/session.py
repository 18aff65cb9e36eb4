"""`abw train program.py:function`: a program and its data to a folder with curve, checkpoints and weights.

The folder is as that of a spec's training (`abw.core.train.session`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, Quiet
from abw.core.data.feed import open_feed
from abw.core.data.plain import Plain
from abw.core.exec.gradient import Gradient
from abw.core.exec.trained import load_weights
from abw.core.ir.training import Metric, Training
from abw.core.program.load import NetOverrides
from abw.core.script.find import Program, opened
from abw.core.script.items import format_of, items_of
from abw.core.script.tracebacks import exit_refused, user_error
from abw.core.store.folders import held
from abw.core.train.check import INSTANCES, compared
from abw.core.train.checkpoint import Position
from abw.core.train.initial import initialise
from abw.core.train.learner import Found
from abw.core.train.loop import CHECKPOINT, Loop, Row, restored
from abw.core.train.programs.trainer import ProgramTrainer
from abw.core.train.session import (
    CommonTraining,
    damaged,
    digests,
    new_training,
    read_options,
    refuse_changed,
    trained,
    written_options,
)

# Instances that are read together.
AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class ProgramTraining(CommonTraining):
    """How a program is trained."""

    data: Path
    format: str | None = None
    limit: int | None = None
    batch: int | None = None
    dims: dict[str, int] = field(default_factory=dict)
    weights: Path | None = None
    allow_outside: bool = False

    @property
    def overrides(self) -> NetOverrides:
        """How `abw.cells` in the program's file makes its net."""
        same = ("dims", "weights", "threads", "seed", "dedup", "allow_outside")
        return NetOverrides(**{name: getattr(self, name) for name in same})


class ProgramLessons:
    """A program that learns from instances in a file, as a training's loop goes on with it."""

    def __init__(self, program: Program, options: ProgramTraining) -> None:
        """Read the data, make the trainer. Errors: AbwError, DataError."""
        said = program.net.library.training or Training((), ())
        dev = options.dev or said.dev
        training = replace(
            said,
            batch=options.batch or said.batch,
            epochs=options.epochs or said.epochs,
            metrics=(Metric("loss", 0),) if dev else (),
            dev=dev,
        )
        self.program, self.options = program, options
        format = format_of(options.data, options.format)
        self.items = items_in(options.data, format, options.limit)
        self.dev_items = items_in(dev, format, None) if dev else None
        net, how = program.net, (options.policy, options.executor, options.threads)
        self.trainer = ProgramTrainer(net, training, *how)
        if load_weights(net.library) is None and training.inits:
            initialise(self.trainer.network, self.trainer.passes.params, training.inits, options.seed)
            self.trainer.changed()

    def gradients(self, epoch: int, first: int) -> Iterator[Found]:
        """The gradients of an epoch's mini-batches: see `Steps`."""
        order = np.random.default_rng([self.options.seed, epoch]).permutation(len(self.items))
        size = self.trainer.training.batch
        with self.placed(self.options.data, self.items):
            for begin in range(first * size, len(order), size):
                some = order[begin : begin + size]
                objects, numbers = [self.items.objects[i] for i in some], self.items.numbers[some].tolist()
                yield self.trainer.found(self.program.function, objects, numbers)

    def apply(self, gradient: Gradient, factor: float) -> None:
        """Take a step by a gradient."""
        self.trainer.apply_gradient(gradient, factor)

    def judged(self) -> dict[str, float]:
        """The loss of the dev data as a step has it, and the accuracy of classes, if there are any."""
        items, training = self.dev_items, self.trainer.training
        assert items is not None and training.dev is not None
        size = training.batch
        with self.placed(training.dev, items):
            found = [
                self.trainer.judged(
                    self.program.function,
                    items.objects[begin : begin + size],
                    items.numbers[begin : begin + size].tolist(),
                )
                for begin in range(0, len(items), size)
            ]
        values, classes = sum(each.values for each in found), sum(each.classes for each in found)
        scores = {"dev-loss": sum(e.loss for e in found) / self.trainer.divisor(values, len(items))}
        if classes:
            scores["accuracy"] = sum(each.right for each in found) / classes
        return scores

    @contextmanager
    def placed(self, path: Path, items: Plain) -> Iterator[None]:
        """Let what a program raises name the line of its instance."""
        line = dict(zip(items.numbers.tolist(), items.lines.tolist(), strict=True))

        def placed(error: BaseException, number: int) -> AbwError:
            return user_error(error, f"{path}:{line[number]} (instance {number})")

        before, self.trainer.raised = self.trainer.raised, placed
        try:
            yield
        finally:
            self.trainer.raised = before


def items_in(path: Path, format: str, limit: int | None) -> Plain:
    """All instances of a file. Errors: AbwError for a file without any, DataError."""
    objects: list[Any] = []
    lines, numbers = [], []
    names: list[str | int] = []
    with open_feed(path) as feed:
        for chunk in items_of(feed, format, AT_ONCE, limit=limit):
            objects += chunk.instances.objects
            lines.append(chunk.instances.lines)
            numbers.append(chunk.instances.numbers)
            names += chunk.instances.names
    if not objects:
        raise AbwError(f"no instances in {path}")
    return Plain(objects, np.concatenate(lines), np.concatenate(numbers), names)


def train_program(
    target: str,
    options: ProgramTraining,
    *,
    progress: Progress | None = None,
    on_epoch: Callable[[Row], None] = lambda _: None,
    started: Callable[[Path], None] = lambda _: None,
    command: str = "",
) -> dict[str, Any]:
    """Train a program from its beginning, in a new folder; the report that `--json` prints.

    Errors: as `abw.core.train.session.train`, and what the program raises, with the lines of its code; then
    no folder stays, unless there was a step.
    """
    with _opened(target, options) as lessons:
        position = Position()
        about = {
            "model": lessons.program.net.library.name,
            "spec": lessons.program.name,
            "program": str(lessons.program.path.absolute()) + target[target.index(".py") + 3 :],
            "overrides": {},
            "options": written_options(options),
            "files": _digests(lessons),
            "command": command,
        }
        with new_training(about, position) as folder:
            started(folder)
            return _run(lessons, position, folder, progress or Quiet(), on_epoch)


def check_program(target: str, options: ProgramTraining) -> dict[str, Any]:
    """Compare gradients with finite differences: see `abw.core.train.check.check_gradients`."""
    few = replace(
        options, limit=min(options.limit or INSTANCES, INSTANCES), executor="reference", threads=None
    )
    with _opened(target, few) as lessons:
        function, items, trainer = lessons.program.function, lessons.items, lessons.trainer
        numbers = items.numbers.tolist()
        with lessons.placed(few.data, items):
            first = trainer.found(function, items.objects, numbers)
            divisor = trainer.divisor(first.values, len(items))

            def loss() -> float:
                trainer.changed()
                return trainer.judged(function, items.objects, numbers).loss / divisor

            gradient = first.gradient.vector(trainer.passes.params)
            return compared(lessons.program.net.library.name, trainer, gradient, loss, options.seed)


def resume_program(
    about: Mapping[str, Any],
    folder: Path,
    *,
    progress: Progress | None = None,
    on_epoch: Callable[[Row], None] = lambda _: None,
    started: Callable[[Path], None] = lambda _: None,
) -> dict[str, Any]:
    """Go on with the training of a program. Errors: as `abw.core.train.session.resume`."""
    with damaged(folder):
        target, options = str(about["program"]), ProgramTraining(**read_options(about["options"]))
    with held(folder), _opened(target, options) as lessons:
        refuse_changed(folder, about, _digests(lessons), "…")
        position = restored(lessons.trainer, folder / CHECKPOINT)
        started(folder)
        return _run(lessons, position, folder, progress or Quiet(), on_epoch)


@contextmanager
def _opened(target: str, options: ProgramTraining) -> Iterator[ProgramLessons]:
    """Run a program's file, and open what is to be trained. What it prints goes to standard error."""
    with (
        redirect_stdout(sys.stderr),
        opened(target, options.overrides) as program,
        exit_refused(program.name),
    ):
        yield ProgramLessons(program, options)


def _digests(lessons: ProgramLessons) -> dict[str, str]:
    """Hash the files that a training is made of."""
    program, dev = lessons.program, lessons.trainer.training.dev
    return digests(*program.files, lessons.options.data, dev, program.net.library.weights.file)


def _run(
    lessons: ProgramLessons,
    position: Position,
    folder: Path,
    progress: Progress,
    on_epoch: Callable[[Row], None],
) -> dict[str, Any]:
    dev, every = (lessons.judged if lessons.dev_items else None), lessons.options.every
    trainer, count = lessons.trainer, len(lessons.items)
    loop = Loop(trainer, lessons, count, dev, folder, {}, position, every, on_epoch=on_epoch)
    return trained(loop, folder, lessons.program.net.library.name, progress)
