"""What pictures are made of: one mini-batch, with its schedules by one policy or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.graph.network import Granularity, Network
from abw.core.learning import Choice, find_policy, learn_policy
from abw.core.policy.fsm import FsmPolicy
from abw.core.policy.registry import LEARNED, get_policy
from abw.core.policy.schedule import Schedule
from abw.core.progress import Progress, Quiet
from abw.core.spec.load import Overrides
from abw.core.spec.model import Model
from abw.core.store.runs import OUTPUTS, StoredRun, in_range, load_batch
from abw.core.workload import load_workload, open_model

Ints = NDArray[np.int32]

AGAINST = ("depth", "agenda")
"""The policies that a picture stands beside its own, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Computed values of one name: (m, *shape), and the nodes (m,) that computed them."""

    name: str
    values: NDArray[Any]
    node: Ints


@dataclass(frozen=True, slots=True)
class Scene:
    """Mini-batch `number` of `mini_batches`, n nodes; `instance` and `vertex` (n,) as in `Graph`.

    `schedules` by the name of their policy, the scene's own first; `learned` is the policy behind `fsm`.
    `network` and `graph` are None where a run's model or data cannot be read any more; `kept` are the values
    that a run left.
    """

    title: str
    model: str
    number: int
    mini_batches: int
    dag: Dag
    instance: Ints
    vertex: Ints
    schedules: Mapping[str, Schedule]
    learned: FsmPolicy | None
    network: Network | None = None
    graph: Graph | None = None
    kept: tuple[Kept, ...] = ()

    @property
    def own(self) -> str:
        """The policy that the scene is about."""
        return next(iter(self.schedules))


def scene_of_run(run: StoredRun, number: int = 0, against: Sequence[str] = AGAINST) -> Scene:
    """A mini-batch of a run on disk. Errors: AbwError where it is not there or damaged.

    Reads the model and the data again to know the cells and the memory; goes without where they changed.
    """
    dag, schedule, instance, vertex = load_batch(run, in_range(number, run.kept))
    report = run.report
    own = LEARNED if report["policy"].endswith(".json") else report["policy"]
    graph = _graph_again(run, number, dag)
    return Scene(
        title=f"run {run.number}: {report['model']}",
        model=report["model"],
        number=number,
        mini_batches=report["mini_batches"],
        dag=dag,
        instance=instance,
        vertex=vertex,
        schedules=_with_others(dag, own, schedule, against),
        learned=_policy_of_run(run),
        network=graph.network if graph else None,
        graph=graph,
        kept=_kept(run, number * report["batch"], graph),
    )


def scene_of_spec(
    spec: Path,
    overrides: Overrides,
    granularity: Granularity = "cell",
    encoding: Choice = "best",
    number: int = 0,
    against: Sequence[str] = AGAINST,
    progress: Progress | None = None,
) -> Scene:
    """A mini-batch of a spec's data under the learned policy, which is learned now where none is kept.

    At granularity `op` learning takes minutes: without a kept policy, the first of `against` is the scene's.
    Errors: SpecError, DataError, AbwError.
    """
    model = open_model(spec, overrides)
    workload = load_workload(model, granularity)
    windows = list(workload.windows())
    seed = overrides.seed or 0
    found = find_policy(workload.networks, encoding, seed)
    if not found and granularity == "cell":
        (progress or Quiet()).phase("learn a policy")
        found = learn_policy(workload, encoding, seed)
    graph = workload.graph(*windows[in_range(number, len(windows))])
    own, policy = (LEARNED, found.policy) if found else (against[0], get_policy(against[0]))
    return Scene(
        title=model.name,
        model=model.name,
        number=number,
        mini_batches=len(windows),
        dag=graph.dag,
        instance=graph.instance,
        vertex=graph.vertex,
        schedules=_with_others(graph.dag, own, policy.schedule(graph.dag), against),
        learned=found.policy if found else None,
        network=graph.network,
        graph=graph,
    )


def model_of_run(run: StoredRun) -> Model:
    """The model that a run executed, from the copy it keeps. Errors: SpecError, AbwError."""
    report = run.report
    overrides = Overrides(
        dims=report["dims"],
        data=Path(report["data"]),
        limit=min(report["instances"], run.kept * report["batch"]),
        batch=report["batch"],
        hoist=report.get("hoist", False),
    )
    return open_model(run.path / "spec" / Path(report["spec"]).name, overrides)


def _graph_again(run: StoredRun, number: int, dag: Dag) -> Graph | None:
    """The mini-batch's graph, unless the data is not what it was."""
    passes = run.report.get("passes", ())
    try:
        workload = load_workload(
            model_of_run(run), run.report["granularity"], fuse="fuse" in passes, group="group" in passes
        )
        graph = workload.graph(*list(workload.windows())[number])
        return graph if np.array_equal(workload.seen(graph).type, dag.type) else None
    except (AbwError, OSError, IndexError):
        return None


def _policy_of_run(run: StoredRun) -> FsmPolicy | None:
    file = run.path / "policy.json"
    return FsmPolicy.from_json(file.read_text(encoding="utf-8")) if file.is_file() else None


def _kept(run: StoredRun, first: int, graph: Graph | None) -> tuple[Kept, ...]:
    """The values of one mini-batch."""
    file = run.path / OUTPUTS
    if graph is None or not file.is_file():
        return ()
    found = []
    with np.load(file) as outputs:
        for refs in graph.results:
            begin, end = first, first + graph.instances
            if f"{refs.name}.offsets" in outputs:
                begin, end = outputs[f"{refs.name}.offsets"][[begin, end]].tolist()
            values = outputs[refs.name][begin:end]
            # values and references are in the same order; a negative reference is a constant, of no node
            if len(values) == len(refs.reference):
                node = np.where(refs.reference < 0, -1, refs.reference // graph.network.width)
                found.append(Kept(refs.name, values, node.astype(np.int32)))
    return tuple(found)


def _with_others(dag: Dag, own: str, schedule: Schedule, against: Sequence[str]) -> dict[str, Schedule]:
    others = {name: get_policy(name).schedule(dag) for name in against if name != own}
    return {own: schedule, **others}
