"""A model that learns: its gradients on some instances, and what an optimiser makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.exec.gradient import Gradient, of_vector
from abw.core.exec.params import Params
from abw.core.exec.values import single
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.ir.training import Loss, Training
from abw.core.policy.schedule import Policy
from abw.core.run.dedup import Deduplicator
from abw.core.run.workload import Networks, Workload
from abw.core.train.backward import Backward, Half, Halves, Passes
from abw.core.train.checkpoint import named
from abw.core.train.dropout import Dropout
from abw.core.train.optimizers import Stepper
from abw.core.train.targets import Targets, loss_of, targets_of, training_of

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


class NotFiniteError(AbwError):
    """The loss is infinite or not a number; no parameter was changed by it."""

    def __init__(self) -> None:
        calmer = "a lower rate, clip: 5, or schedule: {warmup: 100}"
        super().__init__("the loss is not finite", hint=calmer)


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a step: the sum of the losses over `values`, and the gradient."""

    loss: float
    values: int
    gradient: Gradient


@dataclass(frozen=True, slots=True)
class Wanted:
    """The targets of an output's values `at` some positions (see `Graph.results`), each with its weight."""

    loss: Loss
    output: str
    at: Any
    targets: Targets
    weight: Floats


@dataclass(frozen=True, slots=True)
class Lesson:
    """A mini-batch that is planned, with what is wanted of it."""

    passes: Passes
    wanted: tuple[Wanted, ...]

    @property
    def graph(self) -> Graph:
        """The graph of both passes."""
        return self.passes.graph


class Learning:
    """What learns step by step: its passes forward and backward, and its optimiser."""

    training: Training
    passes: Halves
    stepper: Stepper

    @property
    def network(self) -> Network:
        """The network of the parameters."""
        raise NotImplementedError

    def divisor(self, values: int, instances: int) -> int:
        """The divisor of the sum of losses over `values` of `instances`."""
        return max(1, values if self.training.per_value else instances)

    def finished(
        self,
        half: Half,
        total: float,
        values: int,
        instances: int,
        meanwhile: Callable[[], object] | None = None,
    ) -> Found:
        """The gradient of a mini-batch with a `total` of losses over `values`; `meanwhile` as in
        `Executor.gradient`. Errors: NotFiniteError.
        """
        if not np.isfinite(total):
            raise NotFiniteError
        factor = np.float32(1 / self.divisor(values, instances))
        for rows in half.gradients.values():
            rows *= factor
        return Found(total, values, self.passes.backward(half, meanwhile))

    def apply_gradient(self, gradient: Gradient, factor: float = 1.0) -> None:
        """Take a step: clip the gradient, change the parameters, pack them. `factor`: of the rate."""
        gradient.clip(self.training.clip)
        self.stepper.step(gradient, factor, self.passes.executor.share)
        self._packed(gradient.rows)

    def _packed(self, rows: Mapping[int, Ints]) -> None:
        """Use changed parameters, of tables these rows."""
        raise NotImplementedError


class WeightsByName:
    """The parameters and tables of what learns, for users."""

    _learning: Learning

    @property
    def params(self) -> Mapping[str, Floats]:
        """Parameters and tables by name: views, in single precision."""
        return named(self._learning.network, self._learning.passes.params)

    @property
    def flat(self) -> Floats:
        """All of them in one vector: parameters in their order, then tables."""
        flat = self._learning.passes.params.flat
        assert flat is not None
        return flat

    def apply(self, gradient: Floats, factor: float = 1.0) -> None:
        """Take a step by a gradient like `flat`; the learning rate is multiplied with `factor`.

        Rows of tables whose gradient is zero stay as they are. Raises ValueError for another length.
        """
        if gradient.shape != self.flat.shape:
            raise ValueError(f"a gradient has the shape {self.flat.shape}, not {gradient.shape}")
        made = of_vector(gradient.astype(np.float32), self._learning.passes.params)
        self._learning.apply_gradient(made, factor)


class Learner(Learning):
    """A model with its training network, its parameters in one vector, an executor and an optimiser."""

    passes: Backward

    def __init__(
        self,
        model: Model,
        networks: Networks,
        params: Params,
        policy: Policy,
        executor: str = "cpu",
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """Compile what trains the model. Errors: AbwError for what cannot be trained."""
        self.model, self.training, self.seed = model, training_of(model), seed
        self.dropout = Dropout(model, networks.cells, seed)
        self.equal = networks.equal and networks.equal.like(self.dropout.network)
        names = [model.outputs[loss.output][0] for loss in self.training.losses]
        trained = self.dropout.network
        self.passes = Backward(model, networks, params, policy, names, executor, threads, trained)
        self.stepper = Stepper(self.training.optimizer, self.params, len(self.params.values))

    @property
    def params(self) -> Params:
        """The parameters and tables, in one vector."""
        return self.passes.params

    @property
    def network(self) -> Network:
        """The model's own network."""
        return self.passes.network

    def targets(self, instances: Instances) -> tuple[Targets, ...]:
        """Find the targets of some instances, by loss. Errors: SpecError."""
        return tuple(targets_of(self.model, loss, instances) for loss in self.training.losses)

    def planned(self, workload: Workload, first: int, last: int, epoch: int | None = None) -> Passes:
        """Instances `first` to `last` (exclusive), to be computed forward and backward."""
        return self.passes.planned(dropped(self.dropout, self.equal, workload, first, last, epoch))

    def lesson(
        self,
        workload: Workload,
        first: int,
        last: int,
        targets: tuple[Targets, ...],
        epoch: int | None = None,
    ) -> Lesson:
        """Instances `first` to `last` (exclusive) planned: what of a step weights do not change.

        `targets` are those of the workload's instances, by loss. With an `epoch` words and values are left
        out as the section `train` says.
        """
        passes = self.planned(workload, first, last, epoch)
        start = int(workload.instances.start[first])
        wanted = [
            self._wanted(passes.graph, start, loss, every)
            for loss, every in zip(self.training.losses, targets, strict=True)
        ]
        return Lesson(passes, tuple(item for item in wanted if len(item.weight)))

    def _wanted(self, graph: Graph, start: int, loss: Loss, targets: Targets) -> Wanted:
        refs = graph.results[loss.output]
        vertex = start + refs.vertex
        has = targets.has[vertex]
        at: Any = slice(None) if has.all() else np.flatnonzero(has)
        here = targets.of(vertex[at])
        weight = np.full(len(here.values), loss.weight, np.float32)
        if loss.classes:
            weight *= np.array(loss.classes, np.float32)[here.values]
        return Wanted(loss, refs.name, at, here, weight)

    def found(self, lesson: Lesson, meanwhile: Callable[[], object] | None = None) -> Found:
        """Compute loss and gradient of a planned mini-batch; `meanwhile` as in `Executor.gradient`."""
        return self.finished(*self._forward(lesson), lesson.graph.instances, meanwhile)

    def share(self, lesson: Lesson) -> Found:
        """Compute what a part of a mini-batch adds to its loss and gradient, undivided."""
        half, total, values = self._forward(lesson)
        return Found(total, values, self.passes.backward(half))

    def _forward(self, lesson: Lesson) -> tuple[Half, float, int]:
        """The forward pass with the gradients of its losses, their sum, and of how many values."""
        half = self.passes.forward(lesson.passes)
        total, values = 0.0, 0
        for wanted in lesson.wanted:
            total += _loss(wanted, half)
            values += len(wanted.weight)
        return half, total, values

    def changed(self) -> None:
        """The parameters were changed in place."""
        self.passes.changed()

    def _packed(self, rows: Mapping[int, Ints]) -> None:
        self.passes.changed(rows)


def dropped(
    dropout: Dropout, equal: Deduplicator | None, workload: Workload, first: int, last: int, epoch: int | None
) -> Graph:
    """The graph of instances `first` to `last` (exclusive) with what is dropped, then without equal nodes."""
    graph = dropout.graph(workload.unfused(first, last), workload.instances, first, epoch)
    return equal(graph, dropout.masked) if equal else graph


def _loss(wanted: Wanted, half: Half) -> float:
    """A loss of an output; its gradient is added to the half's."""
    targets, at = wanted.targets, wanted.at
    values = np.ascontiguousarray(single(targets.masked(half.values(wanted.output)[at])))
    gradient = np.empty_like(values)
    total = loss_of(wanted.loss.kind, values, targets.values, wanted.weight, gradient)
    half.gradients[wanted.output][at] += gradient
    return total
