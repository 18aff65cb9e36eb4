"""A growing model on real data whose rounds are timed by themselves, with kernels or without."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from abw.core.base.errors import AbwError
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.llvm.kernel import PARAMS
from abw.core.exec.cpu.rounds.rounds import CompiledRounds
from abw.core.exec.cpu.target import get_target
from abw.core.exec.params import init_params
from abw.core.graph.graph import Graph
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.schedule import Schedule
from abw.core.run.growing.grow import Grown, grow
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

# Greedy decoding of as many words as the sentence's own translation has, up to 60.
GREEDY = """\
model: greedy
dims: {hidden: 64, embed: hidden, vocabulary: 256}
data: {format: pairs, path: DATA, batch: 64}
tables: {sources: {dim: embed, rows: 4000}, targets: {dim: embed, rows: vocabulary}}
grow:
  step:
    links: {prev: step or none, wanted: target or none}
    fields: {said: number}
    most: 60
    start: {said: 0, wanted: "target[0]"}
    choose: {next: argmax score.y}
    then: [{add: step, when: wanted.next, prev: this, said: next, wanted: wanted.next}]
types:
  encoder:
    per: source
    cell: SPECS/cells/lstm.yaml
    inputs: {x: "sources[word]", h: prev.encoder.h or zeros, c: prev.encoder.c or zeros}
  decoder:
    per: step
    cell: SPECS/cells/lstm.yaml
    inputs:
      x: targets[said]
      h: prev.decoder.h or instance.source[-1].encoder.h
      c: prev.decoder.c or instance.source[-1].encoder.c
  score:
    {per: step, cell: SPECS/cells/linear.yaml, dims: {in: hidden, out: vocabulary}, inputs: {x: decoder.h}}
outputs: {words: step.next}
"""
# The same with a beam of four hypotheses: of one step, and then of 59 times four.
BEAM = (
    GREEDY.replace("argmax", "best 4 of").replace("add: step,", "add: step, each: next,").replace("60", "237")
)


class Growing:
    """A model with the first instances of its data, and an executor whose rounds are compiled."""

    def __init__(
        self, spec: Path, data: Path, instances: int, dims: dict[str, int], threads: int = 1
    ) -> None:
        """Prepare it. Errors: AbwError where its rounds are not compiled."""
        model = open_model(spec, Overrides(data=data, dims=dims, limit=instances, allow_outside=True))
        networks = open_networks(model, "cell")
        self.workload = open_workload(model, read_instances(model.data, instances), networks)
        self.params = init_params(networks.network, 0)
        self.executor = CpuExecutor()
        self.executor.prepare(networks.network, self.params, threads)
        assert self.workload.ground is not None
        self._ground = self.workload.ground
        rounds = self.executor.rounds(self._ground.sprouter)
        if not isinstance(rounds, CompiledRounds):
            raise AbwError(f"the rounds of {model.name} are not compiled: {rounds}")
        self._rounds = rounds

    def grown(self, first: int, last: int) -> Grown:
        """A mini-batch from its instances to its end."""

        def batched(graph: Graph) -> Schedule:
            return Sufficient().schedule(graph.dag)

        return grow(self.workload.binding, self._ground, self.executor, batched, first, last)

    def seconds(self, first: int, last: int) -> float:
        """The CPU time of the rounds of a mini-batch: of the thread that takes most."""
        plain = self._rounds.rounds
        spent: defaultdict[int, float] = defaultdict(float)

        def timed(state: int, scratch: int) -> None:
            start = time.thread_time()
            plain(state, scratch)
            spent[threading.get_ident()] += time.thread_time() - start

        self._rounds.rounds = timed
        self.grown(first, last)
        self._rounds.rounds = plain
        return max(spent.values())

    @contextmanager
    def without_kernels(self) -> Iterator[None]:
        """What rounds do without their kernels: the same, where memory still holds what those computed."""
        target = get_target()
        module = Module(target)
        module.add(Function(module, "nothing", PARAMS, public=True))
        code = compile_ir(module.text(), target)
        during = list(self._ground.sprouter.phases.during)
        kernels = self._rounds.tables["kernel"].words
        held = kernels[during].copy()
        kernels[during] = code.address("nothing")
        yield
        kernels[during] = held

    def round_work(self) -> tuple[int, int]:
        """What a round with a node of each type multiplies (flops), and the bytes of its packed weights."""
        during = self._ground.sprouter.phases.during
        layouts = [self.executor._layouts[t] for t in during]
        packed = sum(4 * layout.constants for layout in layouts if layout)
        return self._rounds.lanes_flops, packed

    def nodes(self, made: Grown) -> int:
        """How many nodes the rounds computed."""
        return sum(int(made.graph.type_sizes[t]) for t in self._ground.sprouter.phases.during)
