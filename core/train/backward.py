"""A model forward and backward: outputs first, then from their gradients those of parameters and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.gradient import Gradient
from abw.core.exec.interface import Executor, Result, refuse_halves
from abw.core.exec.params import Params
from abw.core.exec.registry import get_executor
from abw.core.grad.graph import TrainingGraph, training_graph
from abw.core.grad.network import Training, training_network
from abw.core.grad.schedule import training_schedule
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.plan.plan import Plan, plan
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.workload import Networks

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Passes:
    """A mini-batch planned forward and backward, and the launch that the backward pass begins with.

    `gradients` are by output what is to be written before that: (m, *shape), zeros so far.
    """

    made: TrainingGraph
    plan: Plan
    until: int
    gradients: Mapping[str, Floats]

    @property
    def graph(self) -> Graph:
        """The graph of both passes."""
        return self.made.graph


@dataclass(frozen=True, slots=True)
class Half:
    """A mini-batch whose outputs are there."""

    passes: Passes
    result: Result

    @property
    def gradients(self) -> Mapping[str, Floats]:
        """The gradients of the outputs, to be written before `backward`."""
        return self.passes.gradients

    def values(self, name: str) -> Floats:
        """The values of an output, in the order of `Graph.results`: (m, *shape)."""
        refs = next(refs for refs in self.passes.graph.results if refs.name == name)
        return np.asarray(self.result.values(refs.reference)).reshape(self.gradients[name].shape)


class Halves:
    """Computes mini-batches forward, and backward once the gradients of their outputs are written.

    `params`: those in force, in one vector; `executor`: of the training network.
    """

    params: Params
    executor: Executor
    _last: Half | None = None

    def forward(self, passes: Passes) -> Half:
        """Compute the outputs of a mini-batch.

        Until `backward` is called with what this gives, no other mini-batch can be computed.
        """
        self._last = Half(passes, self.executor.begin(passes.plan, passes.until))
        return self._last

    def waits(self, half: Half) -> bool:
        """Whether `backward` can be called with this half: it is the last, and was not gone on from."""
        return half is self._last

    def backward(self, half: Half, meanwhile: Callable[[], object] | None = None) -> Gradient:
        """The gradient of parameters and tables, by the `gradients` of the outputs that were written.

        `meanwhile`: as in `Executor.gradient`.
        """
        passes, self._last = half.passes, None
        result = self.executor.resume(passes.plan, passes.until)
        return self.executor.gradient(passes.made, passes.plan, result, self.params, meanwhile)


class Backward(Halves):
    """A model's training network with an executor; its parameters lie in one vector, to be changed in place.

    `changes` counts how often they were.
    """

    def __init__(
        self,
        model: Model,
        networks: Networks,
        params: Params,
        policy: Policy,
        outputs: Sequence[str],
        executor: str = "cpu",
        threads: int | None = None,
        trained: Network | None = None,
    ) -> None:
        """Compile what gives the gradients of these outputs. Errors: AbwError for what cannot be trained.

        `trained`: a network whose graphs are trained instead of the model's own, with its types, outputs and
        parameters by the same numbers (see `Dropout`).
        """
        if model.growth:
            message = f"{model.name} grows: its decisions have no gradient"
            hint = "its section `train` can have losses of decisions: it learns from those that its data tell"
            raise AbwError(message, hint=hint)
        self.networks, self.policy = networks, policy
        self.network = networks.cells if trained is None else trained
        self.params = params.flattened()
        self.training = training_network(self.network, tuple(dict.fromkeys(outputs)))
        self._name, self._threads = executor, threads
        self.executor = get_executor(executor)
        if not self.executor.abilities.halves:
            raise refuse_halves(executor)
        self.executor.prepare(self.training.network, self.params, threads)
        self._alone: Executor | None = None
        self.changes = 0
        self._taken = 0

    def planned(self, graph: Graph) -> Passes:
        """Plan a mini-batch. Cost: some 200 ns a node, and 200 us."""
        return passes_of(self.networks, self.training, self.policy, graph, self.executor.arrange)

    def changed(self, rows: Mapping[int, Ints] | None = None) -> None:
        """The parameters were changed in place; of tables the `rows` alone, where they are given."""
        self.executor.update(self.params, rows)
        self.changes += 1
        self._last = None

    def alone(self) -> Executor:
        """An executor of the model's own network, with the present weights."""
        if self._alone is None:
            self._alone = get_executor(self._name)
            self._alone.prepare(self.networks.network, self.params, self._threads)
        elif self._taken != self.changes:
            self._alone.update(self.params)
        self._taken = self.changes
        return self._alone


def passes_of(
    networks: Networks,
    training: Training,
    policy: Policy,
    graph: Graph,
    arrange: Callable[[Graph, Schedule], Schedule] = lambda _, schedule: schedule,
) -> Passes:
    """A mini-batch's graph planned forward and backward; `arrange` as that of `Executor`."""
    schedule = networks.scheduled(policy, graph)
    gradients = {name: _zeros(training.source, graph, name) for name in training.losses}
    made = training_graph(training, graph, gradients)
    arranged = arrange(made.graph, training_schedule(made, schedule))
    return Passes(made, plan(made.graph, arranged), len(schedule.launches) - 1, gradients)


def _zeros(network: Network, graph: Graph, name: str) -> Floats:
    """Room for the gradient of an output."""
    t, o = dict(network.outputs)[name][0]
    count = next(len(refs.reference) for refs in graph.results if refs.name == name)
    return np.zeros((count, *network.types[t].outputs[o].shape), np.float32)
