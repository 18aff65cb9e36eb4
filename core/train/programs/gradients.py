"""The forward and backward pass of what programs have recorded: their calls are a graph like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Executor, refuse_halves
from abw.core.exec.params import Params
from abw.core.exec.planned_tape import PlannedTape
from abw.core.exec.registry import get_executor
from abw.core.grad.graph import training_graph
from abw.core.grad.loops import widen
from abw.core.grad.network import Training, training_network
from abw.core.grad.schedule import training_schedule
from abw.core.graph.equal.consing import LEAST_NODES, DedupMode
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.numbering import keys_of
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.ir.cell import Shape
from abw.core.ir.network import Network
from abw.core.plan.plan import Earlier, plan
from abw.core.policy.schedule import Policy
from abw.core.program.engines.engine import Engine
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
        self._engine: TrainingEngine | None = None

    def _new(self) -> Executor:
        made = get_executor(self._name)
        if not made.abilities.halves:
            raise refuse_halves(self._name)
        return made

    def changed(self, params: Params | None = None) -> None:
        """The parameters were changed in place, or are these now, in the order of the library."""
        self.params = params or self.params
        self._outdated = True

    def engine(self, usual: Engine) -> Engine:
        """The engine for programs that learn: `usual`, or one whose values the backward pass can read."""
        made = self.training
        if made is None or self._made_for is None or self._made_for[0] is not usual.cells:
            return usual
        tapes = self.executor.abilities.tapes and usual.taped
        if made.network.width != usual.cells.width or not tapes:
            return usual
        if self._engine is None or self._engine.network is not made.network:
            self._engine = TrainingEngine(usual, self)
        return self._engine

    def take(self) -> None:
        """Get the executor ready for another run, which takes its memory."""
        self._last = None
        if self._outdated:
            self.executor.update(self.params)
            self._outdated = False

    def _ready(self, network: Network, shapes: frozenset[Shape], width: int) -> Training:
        """The training network for gradients of values of some shapes, with the parameters as they are."""
        if self._made_for is not None and self._made_for[0] is network and shapes <= self._made_for[1]:
            assert self.training is not None
            if self.training.network.width >= width:
                if self._outdated:
                    self.take()
                return self.training
        if self._made_for is not None:  # those that had gradients before are likely to have them again
            shapes |= {shape for shape in self._made_for[1] if _pairs(network, shape)}
        outputs = tuple((output_name(shape), _pairs(network, shape)) for shape in sorted(shapes))
        narrow = 1 << (max(len(t.outputs) for t in network.types) - 1).bit_length()
        source = replace(network, outputs=outputs, width=narrow)  # programs may have room for more outputs
        names = [name for name, _ in outputs]
        self.training = training_network(source, names, all_train=False, width=width)
        self.executor.prepare(self.training.network, self.params, self._threads)
        self._made_for, self._outdated = (network, shapes), False
        self._keys = keys_of(source)
        return self.training

    def planned(self, recorded: Recorded, handles: Mapping[Shape, list[int]]) -> Passes:
        """Plan a mini-batch forward and backward, with gradients of these values by their shapes.

        A value may be there several times: its gradients are added. The gradient of those of a shape is
        `Passes.gradients[output_name(shape)]`. Errors: AbwError; ValueError: see `Recorded.references`.
        """
        engine = recorded.engine if recorded.engine and recorded.engine.recorded else None
        network, before = recorded.graph.network, None if self._outdated else self.training
        training = self._ready(network, frozenset(handles), network.width if engine else 1)
        shift, narrow = (n.width.bit_length() - 1 for n in (network, training.source))
        results, gradients = [], {}
        for name in training.losses:
            shape = next(c for c in (*handles, *self._shapes()) if output_name(c) == name)
            reference = recorded.references(handles.get(shape, []))
            widen(reference, shift, narrow, reference)
            nowhere = np.zeros(len(reference), np.int32)
            results.append(ResultRefs(name, reference, nowhere, nowhere))
            gradients[name] = np.zeros((len(reference), *shape), np.float32)
        source, given = training.source, recorded.graph.given
        if not given:
            given = tuple(np.zeros((0, *source.constants[n].shape), np.float32) for n in source.given)
        operand = np.empty_like(recorded.graph.operand)
        widen(recorded.graph.operand, shift, narrow, operand)
        graph = replace(recorded.graph, network=source, results=tuple(results), given=given, operand=operand)
        if self._dedup == "on" or (self._dedup == "auto" and len(graph) >= LEAST_NODES):
            graph = dedup(graph, self._keys)
        made, done, earlier = training_graph(training, graph, gradients), None, None
        if engine is not None and engine.network is training.network and before is training:
            done, earlier = graph.vertex < engine.recorded, _computed(engine, graph)
        both = training_schedule(made, self.policy.schedule(graph.dag), done)
        arranged = self.executor.arrange(made.graph, both)
        until = int((arranged.type[arranged.launches[:-1]] < len(source.types)).sum())
        return Passes(made, plan(made.graph, arranged, None, earlier), until, gradients)

    def _shapes(self) -> frozenset[Shape]:
        assert self._made_for is not None
        return self._made_for[1]


class TrainingEngine(Engine):
    """Executes calls as nodes of the training network of some `passes`, which read what it has computed.

    Their executor's memory stays as it is until something is computed. After types are added during a run,
    everything is computed by the executor of the `usual` engine.
    """

    def __init__(self, usual: Engine, passes: ProgramBackward) -> None:
        self._usual, self._passes, self._of = usual, passes, usual.cells
        super().__init__(
            usual.cells, usual.params, passes.executor, usual._threads, usual._policy, usual._inputs,
            usual._patience.mode,
        )  # fmt: skip

    def _executed_network(self, cells: Network) -> Network:
        training = self._passes.training
        if cells is self._of and training is not None:
            return training.network
        self._executor = self._usual._executor
        return cells

    def begin(self, base: int) -> None:
        """Begin a run: see `Engine.begin`."""
        self._prepared, self.params = False, self._usual.params
        super().begin(base)
        self.tape, self._compiled = PlannedTape(self.network, self._executor), None

    def _prepare_executor(self) -> None:
        if self.network is self.cells:
            super()._prepare_executor()
        else:
            self._passes.take()


def _computed(engine: Engine, graph: Graph) -> Earlier:
    """Where the outputs lie of those of the graph's nodes that an engine has computed."""
    tape, width, nothing = engine.tape, engine.network.width, np.zeros(0, np.int32)
    rows = tape.row[: tape.count * width].reshape(-1, width)
    own = rows.take(graph.vertex, axis=0, mode="clip")
    assert tape.rows is not None
    return Earlier(tape.rows, nothing, nothing, fields=False, own=own.ravel())


def _pairs(network: Network, shape: Shape) -> tuple[tuple[int, int], ...]:
    """The types and outputs that give values of a shape."""
    return tuple(
        (t, o)
        for t, net_type in enumerate(network.types)
        for o, port in enumerate(net_type.outputs)
        if port.shape == shape
    )
