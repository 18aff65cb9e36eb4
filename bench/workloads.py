"""The paper's workloads: which spec runs on which real file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abw.core.base.errors import AbwError

if TYPE_CHECKING:
    from abw.core.exec.params import Params
    from abw.core.graph.dag import Dag
    from abw.core.ir.model import Model
    from abw.core.plan.plan import Plan
    from abw.core.policy.schedule import Policy
    from abw.core.run.learning import Choice
    from abw.core.run.workload import Networks, Workload


@dataclass(frozen=True, slots=True)
class Case:
    """One workload: the paper's name for it, its spec, its file under `--data`."""

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


def case(name: str) -> Case:
    """A workload by its name."""
    return next(c for c in CASES if c.name == name)


def open_case(
    chosen: Case, specs: Path, data: Path, limit: int, granularity: str = "cell", seed: int = 0
) -> Workload:
    """A workload on the first `limit` instances of its real file, as one mini-batch. Errors: AbwError."""
    from abw.core.run.workload import load_workload, open_model
    from abw.core.spec.load import Overrides

    spec, source = files_of(chosen, specs, data)
    model = open_model(spec, Overrides(data=source, batch=limit, limit=limit, seed=seed))
    return load_workload(model, "op" if granularity == "op" else "cell")


def files_of(chosen: Case, specs: Path, data: Path) -> tuple[Path, Path]:
    """A workload's spec and real file. Errors: AbwError where one is not there."""
    spec, source = specs / chosen.spec, data / chosen.data
    if not spec.is_file():
        raise AbwError(f"the spec {spec} does not exist", hint="say where the specs are: --specs DIR")
    if not source.is_file():
        raise AbwError(f"the data {source} does not exist", hint="say where the data is: --data DIR")
    return spec, source


def learned_policy(
    model: Model, networks: Networks, encoding: Choice = "best", name: str = "fsm", executor: str = "cpu"
) -> Policy:
    """A policy learned from the first instances of a model's data, as `abw run` does it; kept nowhere."""
    from abw.core.policy.registry import CHOSEN
    from abw.core.run.learning import Asked, choose_from, launch_seconds, train
    from abw.core.run.workload import open_workload, read_instances

    launch = launch_seconds(networks.network, executor)
    asked = Asked(name, encoding, batch=model.data.batch, launch=launch)
    workload = open_workload(model, read_instances(model.data, asked.instances), networks)

    def dags(first: int, last: int) -> Dag:
        return workload.networks.seen(workload.graph(first, last))

    if name == CHOSEN:
        return choose_from(dags, len(workload.instances), asked).policy
    return train(dags, len(workload.instances), encoding, 0)


def mini_batch(name: str, specs: Path, data: Path, batch: int, hidden: int) -> tuple[Plan, Params]:
    """The first mini-batch of a workload, scheduled by the sufficient condition. Errors: AbwError."""
    from abw.core.exec.params import init_params
    from abw.core.plan.plan import plan
    from abw.core.policy.rules.sufficient import Sufficient
    from abw.core.run.workload import load_workload, open_model
    from abw.core.spec.load import Overrides

    chosen = case(name)
    spec, source = files_of(chosen, specs, data)
    model = open_model(spec, Overrides(data=source, batch=batch, limit=batch, dims={"hidden": hidden}))
    workload = load_workload(model, "cell")
    graph = workload.graph(0, len(workload.instances))
    return plan(graph, Sufficient().schedule(graph.dag)), init_params(workload.network, 0)
