"""What reports and pictures of a spec begin with: its names, and a mini-batch with graph and schedule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abw.core.base.progress import Progress, Quiet
from abw.core.data.instances import Instances
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity
from abw.core.policy.schedule import Schedule
from abw.core.run.hoisting import hoist_where_it_pays, may_hoist
from abw.core.run.learning import Asked, Choice, Learned, chosen_policy, kept_policy
from abw.core.run.workload import Workload, load_workload, open_model, read_instances
from abw.core.spec.load import Overrides
from abw.core.store.runs import in_range


@dataclass(frozen=True, slots=True)
class OpenedBatch:
    """A mini-batch of instances `first` to `last` (exclusive). `learned`: its policy if that was learned."""

    model: Model
    workload: Workload
    mini_batches: int
    first: int
    last: int
    graph: Graph
    schedule: Schedule
    learned: Learned | None


def open_batch(
    spec: Path,
    overrides: Overrides,
    policy: str,
    encoding: Choice = "best",
    granularity: Granularity = "cell",
    number: int = 0,
    dedup: DedupMode = "auto",
    progress: Progress | None = None,
) -> OpenedBatch:
    """Open mini-batch `number` and schedule it as `abw run` on the executor cpu does.

    A policy that must be learned is found, or learned now. Errors: SpecError, DataError, AbwError.
    """
    model, seed = open_model(spec, overrides), overrides.seed or 0
    if may_hoist(policy, granularity, "cpu", dedup):
        model = hoist_where_it_pays(model, lambda: _first_instances(model))
    workload = load_workload(model, granularity, dedup=dedup, seed=seed)
    windows = list(workload.windows())
    asked = Asked(policy, encoding, seed, model.data.batch).on(workload.network, "cpu")
    kept = kept_policy(workload.networks, asked)
    chosen, learned = chosen_policy(kept, workload, asked, progress=progress or Quiet())
    first, last = windows[in_range(number, len(windows))]
    graph = workload.graph(first, last)
    return OpenedBatch(model, workload, len(windows), first, last, graph, chosen.schedule(graph.dag), learned)


def _first_instances(model: Model) -> tuple[Instances, int]:
    found = read_instances(model.data, model.data.batch)
    return found, len(found)


def report_head(model: Model) -> dict[str, Any]:
    """How reports about a model and its data begin."""
    files = {"spec": str(model.files[0]), "data": str(model.data.path)}
    return {"schema_version": 1, "model": model.name, **files}
