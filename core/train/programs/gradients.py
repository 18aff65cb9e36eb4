"""The forward and backward pass of what programs have recorded: their calls are a graph like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Executor, refuse_halves
from abw.core.exec.params import Params
from abw.core.exec.registry import get_executor
from abw.core.grad.graph import training_graph
from abw.core.grad.network import Training, training_network
from abw.core.grad.schedule import training_schedule
from abw.core.graph.equal.consing import LEAST_NODES, DedupMode
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.numbering import keys_of
from abw.core.graph.graph import ResultRefs
from abw.core.ir.cell import Shape
from abw.core.ir.network import Network
from abw.core.plan.plan import plan
from abw.core.policy.schedule import Policy
from abw.core.program.lessons import Recorded
from abw.core.train.backward import Halves, Passes

Ints = NDArray[np.int32]


def output_name(shape: Shape) -> str:
    """What the values of a shape are called that have gradients."""
    return f"values of {list(shape)}"


class ProgramBackward(Halves):
    """The training networks of a net's types, with an executor of their own.

    They are made anew when types are added, or values of other shapes get gradients: some 100 ms, and what
    their kernels take to compile. `params` are those in force; they may be changed in place, see `changed`.
    """

    def __init__(
        self,
        params: Params,
        policy: Policy,
        executor: str,
        threads: int | None,
        dedup: DedupMode = "auto",
    ) -> None:
        """`dedup`: leave out equal nodes always, never, or of graphs that are large enough.

        Errors: AbwError for an executor that cannot stop between the passes.
        """
        self._dedup = dedup
        self.params, self.policy = params, policy
        self._name, self._threads = executor, threads
        self.executor = self._new()
        self.training: Training | None = None
        self._made_for: tuple[Network, frozenset[Shape]] | None = None
        self._outdated = False

    def _new(self) -> Executor:
        made = get_executor(self._name)
        if not made.abilities.halves:
            raise refuse_halves(self._name)
        return made

    def changed(self, params: Params | None = None) -> None:
        """The parameters were changed in place, or are these now, in the order of the library."""
        self.params = params or self.params
        self._outdated = True

    def _ready(self, network: Network, shapes: frozenset[Shape]) -> Training:
        """The training network for gradients of values of some shapes, with the parameters as they are."""
        if self._made_for is not None and self._made_for[0] is network and shapes <= self._made_for[1]:
            assert self.training is not None
            if self._outdated:
                self.executor.update(self.params)
                self._outdated = False
            return self.training
        if self._made_for is not None:  # those that had gradients before are likely to have them again
            shapes |= {shape for shape in self._made_for[1] if _pairs(network, shape)}
        outputs = tuple((output_name(shape), _pairs(network, shape)) for shape in sorted(shapes))
        source = replace(network, outputs=outputs)
        self.training = training_network(source, [name for name, _ in outputs], all_train=False)
        self.executor.prepare(self.training.network, self.params, self._threads)
        self._made_for, self._outdated = (network, shapes), False
        self._keys = keys_of(source)
        return self.training

    def planned(self, recorded: Recorded, handles: Mapping[Shape, list[int]]) -> Passes:
        """Plan a mini-batch forward and backward, with gradients of these values by their shapes.

        A value may be there several times: its gradients are added. The gradient of those of a shape is
        `Passes.gradients[output_name(shape)]`. Errors: AbwError; ValueError: see `Recorded.references`.
        """
        training = self._ready(recorded.graph.network, frozenset(handles))
        results, gradients = [], {}
        for name in training.losses:
            shape = next(c for c in (*handles, *self._shapes()) if output_name(c) == name)
            reference = recorded.references(handles.get(shape, []))
            nowhere = np.zeros(len(reference), np.int32)
            results.append(ResultRefs(name, reference, nowhere, nowhere))
            gradients[name] = np.zeros((len(reference), *shape), np.float32)
        source, given = training.source, recorded.graph.given
        if not given:
            given = tuple(np.zeros((0, *source.constants[n].shape), np.float32) for n in source.given)
        graph = replace(recorded.graph, network=source, results=tuple(results), given=given)
        if self._dedup == "on" or (self._dedup == "auto" and len(graph) >= LEAST_NODES):
            graph = dedup(graph, self._keys)
        schedule = self.policy.schedule(graph.dag)
        made = training_graph(training, graph, gradients)
        arranged = self.executor.arrange(made.graph, training_schedule(made, schedule))
        return Passes(made, plan(made.graph, arranged), len(schedule.launches) - 1, gradients)

    def _shapes(self) -> frozenset[Shape]:
        assert self._made_for is not None
        return self._made_for[1]


def _pairs(network: Network, shape: Shape) -> tuple[tuple[int, int], ...]:
    """The types and outputs that give values of a shape."""
    return tuple(
        (t, o)
        for t, net_type in enumerate(network.types)
        for o, port in enumerate(net_type.outputs)
        if port.shape == shape
    )
