"""The paper's workloads, and models made ready to run on their real files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.progress import Clock, Times, uncounted
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import executor_of
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.dag import Dag
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.plan.plan import Plan, plan
from abw.core.policy.registry import CHOSEN, LEARNED, get_policy
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.schedule import Policy
from abw.core.run.learning import Asked, choose_from, train
from abw.core.run.minibatches import MiniBatch, planned
from abw.core.run.options import PRESETS, Preset
from abw.core.run.parallel import Part, PartRunner
from abw.core.run.workload import (
    Networks,
    Workload,
    load_workload,
    open_model,
    open_networks,
    open_workload,
    read_instances,
)
from abw.core.spec.load import Overrides

# The two workloads of the benches of kernels.
MODELS = ("TreeLSTM", "LatticeLSTM")
# MV-RNN multiplies matrices at every node: beyond this size a mini-batch takes gigabytes and minutes.
LARGEST_MV = 128
# The steps from instances to values.
STEPS = ("construct", "schedule", "plan", "execute")


@dataclass(frozen=True, slots=True)
class Case:
    """A workload: the paper's name for it, its spec, its file under `--data`."""

    name: str
    spec: str
    data: str


CASES = (
    Case("BiLSTM-Tagger", "bilstm.yaml", "tags/dev.txt"),
    Case("BiLSTM-Tagger-withchar", "bilstm-chars.yaml", "tags/dev.txt"),
    Case("LSTM-NMT", "lstm-nmt.yaml", "pairs/tst2012.en-vi.txt"),
    Case("TreeLSTM", "treelstm.yaml", "trees/train.txt"),
    Case("TreeGRU", "treegru.yaml", "trees/train.txt"),
    Case("MV-RNN", "mvrnn.yaml", "trees/train.txt"),
    Case("TreeLSTM-2Type", "treelstm-2type.yaml", "trees/train.txt"),
    Case("LatticeLSTM", "lattice.yaml", "lattice/train.txt"),
    Case("LatticeGRU", "lattice-gru.yaml", "lattice/train.txt"),
)


def chosen_cases(names: str | None) -> tuple[Case, ...]:
    """The workloads of a list such as `TreeLSTM,latticelstm`; all for None. Errors: AbwError."""
    return CASES if names is None else tuple(case(name.strip()) for name in names.split(","))


def case(name: str) -> Case:
    """A workload by its name, case aside. Errors: AbwError."""
    for found in CASES:
        if found.name.lower() == name.lower():
            return found
    hint = did_you_mean(name, [c.name for c in CASES])
    raise AbwError(f"no workload is called '{name}'", hint=hint, exit_code=2)


def files_of(chosen: Case, specs: Path, data: Path) -> tuple[Path, Path]:
    """A workload's spec and real file. Errors: AbwError where one does not exist."""
    spec, source = specs / chosen.spec, data / chosen.data
    if not spec.is_file():
        raise AbwError(f"the spec {spec} does not exist", hint="say where the specs are: --specs DIR")
    if not source.is_file():
        raise AbwError(f"the data {source} does not exist", hint="say where the data is: --data DIR")
    return spec, source


def model_of(
    chosen: Case, specs: Path, data: Path, hidden: int | None, batch: int, limit: int | None = None
) -> Model:
    """A workload's model of a hidden size (None: the spec's) on its first `limit` (`batch`) instances."""
    spec, source = files_of(chosen, specs, data)
    dims = {"hidden": hidden} if hidden else {}
    return open_model(spec, Overrides(dims, source, batch=batch, limit=limit or batch))


def open_case(chosen: Case, specs: Path, data: Path, limit: int, granularity: str = "cell") -> Workload:
    """A workload on its first `limit` instances, as one mini-batch. Errors: AbwError."""
    model = model_of(chosen, specs, data, None, limit)
    return load_workload(model, "op" if granularity == "op" else "cell")


def mini_batch(
    name: str, specs: Path, data: Path, batch: int, hidden: int | None = None
) -> tuple[Plan, Params]:
    """The first mini-batch of a workload, scheduled by the sufficient condition. Errors: AbwError."""
    workload = load_workload(model_of(case(name), specs, data, hidden, batch), "cell")
    graph = workload.graph(0, len(workload.instances))
    return plan(graph, Sufficient().schedule(graph.dag)), init_params(workload.network, 0)


# How models run, unless said otherwise: as `abw run`, but by the sufficient condition.
USUAL = replace(PRESETS["abw"], policy="sufficient")


@dataclass(frozen=True, slots=True)
class Ready:
    """A model with its networks, its parameters, a prepared executor and a policy."""

    model: Model
    networks: Networks
    params: Params
    executor: Executor
    policy: Policy

    def read(self) -> Workload:
        """The model on the instances that it names."""
        return open_workload(
            self.model, read_instances(self.model.data, self.model.data.limit), self.networks
        )

    def planned(
        self,
        workload: Workload,
        first: int,
        last: int,
        clock: Times = uncounted,
    ) -> MiniBatch:
        """Instances `first` to `last` (exclusive) as a planned mini-batch."""
        return planned(workload, self.policy, self.executor, first, last, clock=clock)


def ready(
    model: Model,
    how: Preset = USUAL,
    threads: int = 1,
    *,
    dedup: DedupMode = "off",
    leaves: bool = False,
) -> Ready:
    """Learn the policy and prepare the executor; nothing is kept on disk. Errors: AbwError.

    Equal nodes stay, and `leaves` are not kept from one mini-batch to the next, unless that is asked for.
    """
    networks = open_networks(model, how.granularity, how.layout, dedup=dedup, leaves=leaves)
    params = make_params(networks.cells, load_weights(model), 0)
    learned = how.policy in (LEARNED, CHOSEN)
    policy = learned_policy(model, networks, how) if learned else get_policy(how.policy)
    executor = executor_of(how.executor, "float32")
    executor.prepare(networks.network, params, threads)
    return Ready(model, networks, params, executor, policy)


def learned_policy(model: Model, networks: Networks, how: Preset) -> Policy:
    """A policy learned from the first instances of a model's data, as `abw run` learns it."""
    asked = Asked(how.policy, how.encoding, batch=model.data.batch).on(networks.network, how.executor)
    workload = open_workload(model, read_instances(model.data, asked.instances), networks)

    def dags(first: int, last: int) -> Dag:
        return workload.networks.seen(workload.graph(first, last))

    if how.policy == CHOSEN:
        return choose_from(dags, len(workload.instances), asked).policy
    return train(dags, len(workload.instances), how.encoding, 0)


class System:
    """A workload ready to run over its first mini-batches again and again, by a preset of `abw run`."""

    def __init__(self, model: Model, preset: str, threads: int = 1) -> None:
        self._ready, self._threads = ready(model, PRESETS[preset], threads), threads
        workload = self._ready.read()
        self._part = Part(workload, list(workload.windows()))
        self.instances, self.product_flops = len(workload.instances), 0

    def run(self) -> dict[str, float]:
        """Run every mini-batch once; seconds by step.

        They are this thread's CPU time; of several threads the wall clock's, divided among the steps by the
        time that all threads took for each.
        """
        clock = Clock(*STEPS, timer=time.thread_time if self._threads == 1 else time.perf_counter)
        side_by_side, self.product_flops = False, 0
        begun = time.perf_counter()
        runner = PartRunner(self._ready.policy, self._ready.executor, clock)
        for _, many, found in runner.run([self._part]):
            side_by_side = many > 0
            for done in found:
                self.product_flops += done.batch.plan.product_flops
        if not side_by_side:
            return dict(clock.seconds)
        share = (time.perf_counter() - begun) / sum(clock.seconds.values())
        return {step: share * taken for step, taken in clock.seconds.items()}


def steps_of(systems: Mapping[str, System], runs: int) -> dict[str, dict[str, float]]:
    """Each system's median seconds by step, over `runs` rounds in which all take turns."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    for _ in range(runs + 1):
        for name, system in systems.items():
            system.run()  # finds its weights evicted from the caches by another system's
            taken[name].append(system.run())
    return {
        name: {step: median(run[step] for run in several[1:]) for step in STEPS}
        for name, several in taken.items()
    }


class Repeated:
    """A plan made anew for one of abw's executors, to be run again and again."""

    def __init__(self, executor: Executor, given: Plan, params: Params, threads: int = 1) -> None:
        self.executor = executor
        executor.prepare(given.graph.network, params, threads)
        self._plan = plan(given.graph, executor.arrange(given.graph, given.schedule))

    def run(self) -> Result:
        """Run it."""
        return self.executor.run(self._plan)

    def outputs(self) -> NDArray[np.float32]:
        """The model's first output of one more run."""
        return outputs_of(self.run(), self._plan.graph)[0]


def outputs_of(result: Result, graph: Graph) -> list[NDArray[np.float32]]:
    """The model's outputs."""
    return [np.asarray(result.values(refs.reference)) for refs in graph.results]


def refuse_different(
    found: NDArray[np.float32], expected: NDArray[np.float32], most: float, who: str
) -> float:
    """The largest difference. Errors: AbwError where it is more than `most`."""
    worst = float(np.abs(found - expected).max()) if found.shape == expected.shape else float("inf")
    if not worst < most:
        raise AbwError(f"{who}: the outputs differ by {worst:.1e}")
    return worst
