"""Training of programs from Python: steps on instances, losses that the program says, gradients as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.exec.params import Params, init_params
from abw.core.exec.values import single
from abw.core.ir.cell import Shape
from abw.core.ir.network import Network
from abw.core.ir.training import OPTIMIZERS, LossKind, Optimizer, OptimizerName, Training
from abw.core.policy.registry import get_policy
from abw.core.program.lessons import Recorded, Wanted
from abw.core.program.net import Net, session_of
from abw.core.program.network import width_of
from abw.core.program.running.fibers import Failed, Program
from abw.core.program.running.results import noted
from abw.core.train.backward import Half
from abw.core.train.checkpoint import Position, save_checkpoint
from abw.core.train.learner import Found, Learning, WeightsByName
from abw.core.train.optimizers import Stepper
from abw.core.train.programs.gradients import ProgramBackward, output_name
from abw.core.train.targets import loss_of

Floats = NDArray[np.float32]
# Outputs of a type that values of decisions have room for, with those that a backward pass reads.
ROOM = 16


@dataclass(frozen=True, slots=True)
class Judged:
    """The losses of some instances: their sum and number; how many of how many classes were right."""

    loss: float
    values: int
    right: int
    classes: int


class ProgramTrainer(Learning, WeightsByName):
    """A net that learns step by step; made by `abw.trainer`. From a step on the net has the new weights.

    `params` are the weights by name, readable and writable; `flat` is one vector of all of them, of which
    they are views, until the net gets more parameters. Call `changed` after writing.
    """

    passes: ProgramBackward

    def __init__(
        self,
        net: Net,
        training: Training,
        policy: str = "sufficient",
        executor: str = "cpu",
        threads: int | None = None,
    ) -> None:
        """Errors: SpecError for weights that do not fit, AbwError."""
        self.net, self.training = net, training
        self._learning = self
        self.raised: Callable[[BaseException, int], BaseException] | None = None
        self._session = session = session_of(net)
        session.extend(replace(net.library, outputs=max(net.library.outputs, ROOM)))
        session.recorder.widen(width_of(session.library))
        params = session.engine().params.flattened()
        self.passes = ProgramBackward(
            params, get_policy(policy), executor, threads or session.how.threads, session.how.dedup
        )
        self.stepper = Stepper(training.optimizer, params, len(params.values))
        session.weigh = self._weights
        session.update()

    def _weights(self, network: Network) -> Params:
        """The parameters of the net, which may have got more: these are drawn from its seed."""
        before = self.passes.params
        if len(network.params) > len(before.values):
            added = replace(network, params=network.params[len(before.values) :], tables=())
            new = init_params(added, self._session.how.seed).values
            params = Params((*before.values, *new), before.tables).flattened()
            self.passes.changed(params)
            stepper, self.stepper = self.stepper, Stepper(self.training.optimizer, params, len(params.values))
            self.stepper.done, values = stepper.done, sum(value.size for value in before.values)
            tables = sum(table.size for table in before.tables)
            self.stepper.state[:, :values] = stepper.state[:, :values]
            self.stepper.state[:, self.flat.size - tables :] = stepper.state[:, values:]
        return self.passes.params

    @property
    def network(self) -> Network:
        """The network of the net's types."""
        return self._session.engine().cells

    def changed(self) -> None:
        """Use parameters that were written from now on."""
        self.passes.changed()
        self._session.update()

    def step(self, function: Program, instances: Sequence[Any]) -> float:
        """Take a step on some instances; returns the loss before it: the sum, divided by their number.

        With `per_value` it is divided by the number of losses. Errors: what the program raises, and AbwError
        if it says no loss, or that is not finite.
        """
        found = self.found(function, instances, range(len(instances)))
        self.apply_gradient(found.gradient)
        return found.loss / self.divisor(found.values, len(instances))

    def gradient(self, function: Program, instances: Sequence[Any]) -> tuple[float, Floats]:
        """Return the loss of some instances and its gradient as a vector like `flat`."""
        found = self.found(function, instances, range(len(instances)))
        loss = found.loss / self.divisor(found.values, len(instances))
        return loss, single(found.gradient.vector(self.passes.params))

    def _packed(self, rows: Mapping[int, NDArray[np.int32]]) -> None:
        self.changed()

    def save(self, path: str | Path) -> None:
        """Write the weights as a .safetensors. Errors: AbwError."""
        save_checkpoint(Path(path), self.params, {}, Position(done=self.stepper.done))

    def found(self, function: Program, instances: Sequence[Any], numbers: Sequence[int]) -> Found:
        """The sum of the losses of instances with these numbers, and its gradient, divided as in a step."""
        recorded, half = self._forward(function, instances, numbers)
        by_shape = _by_shape(recorded.wanted)
        total = sum(_loss(half, shape, entries) for shape, entries in by_shape.items())
        return self.finished(half, total, len(recorded.wanted), len(instances))

    def judged(self, function: Program, instances: Sequence[Any], numbers: Sequence[int]) -> Judged:
        """The losses of some instances, forward only. Errors: as `step`."""
        recorded, half = self._forward(function, instances, numbers)
        total, right, classes = 0.0, 0, 0
        for shape, by_kind in _by_shape(recorded.wanted).items():
            total += _loss(half, shape, by_kind)
            values = half.values(output_name(shape))
            for number, each in by_kind.get("cross-entropy", ()):
                right += int(values[number].argmax()) == each.target
                classes += 1
        return Judged(total, len(recorded.wanted), right, classes)

    def _forward(
        self, function: Program, instances: Sequence[Any], numbers: Sequence[int]
    ) -> tuple[Recorded, Half]:
        engine = self.passes.engine(self._session.engine())
        recorded = self._session.record(function, instances, numbers, engine)
        for number, end in zip(numbers, recorded.ends, strict=True):
            if isinstance(end, Failed):
                raised = self.raised or (lambda error, number: noted(error, function, number))
                raise raised(end.error, number)
        if not recorded.wanted:
            raise AbwError("no loss was stated, so there is nothing to learn", hint="net.loss(value, target)")
        handles: dict[Shape, list[int]] = {}
        for each in recorded.wanted:
            handles.setdefault(each.shape, []).append(each.handle)
        try:
            passes = self.passes.planned(recorded, handles)
        except ValueError as error:
            raise AbwError(str(error), hint="call net.loss(value, target) on a cell's result") from None
        return recorded, self.passes.forward(passes)


def trainer(
    net: Net,
    *,
    optimizer: OptimizerName = "adam",
    clip: float = 0.0,
    per_value: bool = False,
    policy: str = "sufficient",
    threads: int | None = None,
    **numbers: float,
) -> ProgramTrainer:
    """Make a trainer of a net, whose programs say what to learn by `net.loss(value, target)`.

    `optimizer` with its `numbers` (rate, decay, momentum, beta1, beta2, epsilon) as in the section `train` of
    a spec. `clip`: the largest norm of a gradient, 0 for any. A step's loss is divided by its number of
    instances, with `per_value` by that of losses. Errors: AbwError for what no optimizer has.
    """
    if optimizer not in OPTIMIZERS:
        raise AbwError(
            f"no optimizer is called '{optimizer}'", hint=did_you_mean(optimizer, list(OPTIMIZERS))
        )
    known = OPTIMIZERS[optimizer]
    for name, number in numbers.items():
        if name not in known:
            raise AbwError(f"{optimizer} has no '{name}'", hint=did_you_mean(name, list(known)))
        if not number >= 0:
            raise AbwError(f"{name} cannot be {number}", hint="0 or more")
    made = Training((), (), Optimizer(optimizer, **{**known, **numbers}), per_value=per_value, clip=clip)
    return ProgramTrainer(net, made, policy, threads=threads)


def _by_shape(wanted: Sequence[Wanted]) -> dict[Shape, dict[LossKind, list[tuple[int, Wanted]]]]:
    """Losses by shape, and there by kind, each with its number among those of its shape."""
    found: dict[Shape, dict[LossKind, list[tuple[int, Wanted]]]] = {}
    count: dict[Shape, int] = {}
    for each in wanted:
        number = count[each.shape] = count.get(each.shape, -1) + 1
        found.setdefault(each.shape, {}).setdefault(each.kind, []).append((number, each))
    return found


def _loss(half: Half, shape: Shape, by_kind: Mapping[LossKind, Sequence[tuple[int, Wanted]]]) -> float:
    """The sum of the losses of values of a shape; their gradients are written to the half's."""
    name, total = output_name(shape), 0.0
    values, gradients = half.values(name), half.gradients[name]
    for kind, entries in by_kind.items():
        at = np.array([number for number, _ in entries])
        own = np.ascontiguousarray(single(values[at]))
        gradient = np.empty_like(own)
        kept = np.int32 if kind == "cross-entropy" else np.float32
        target = np.array([each.target for _, each in entries], kept)
        weight = np.array([each.weight for _, each in entries], np.float32)
        total += loss_of(kind, own, target, weight, gradient)
        gradients[at] = gradient
    return total
