"""What pictures are made of: one mini-batch, with its schedules by one policy or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Progress
from abw.core.exec.interface import Executed
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.graph.growing.history.history import History, of_distinct
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity, Network
from abw.core.policy.learned.choice import fsm_behind
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.policyfile import read_any
from abw.core.policy.registry import CHOSEN, LEARNED
from abw.core.policy.schedule import Schedule, in_rounds
from abw.core.run.learning import Choice, named_policy
from abw.core.run.minibatches import history_again
from abw.core.run.observing.trace import load_times
from abw.core.run.workload import grows_at_random
from abw.core.script.run import ProgramOptions, inspect_batch
from abw.core.spec.load import Overrides
from abw.core.store.checked import Equal, equal_of, load_history, read_outputs
from abw.core.store.runs import OUTPUTS, POLICY, StoredRun, in_range, load_batch, load_equal, policy_name
from abw.core.tools.opened import open_batch
from abw.viz.data.reopened import Origin, reopen

Ints = NDArray[np.int32]

# The policies that a picture stands beside its own, unless told otherwise.
AGAINST = ("depth", "agenda")


@dataclass(frozen=True, slots=True)
class Kept:
    """Computed values of one name: (m, *shape), and the nodes (m,) that computed them."""

    name: str
    values: NDArray[Any]
    node: Ints


@dataclass(frozen=True, slots=True)
class Scene:
    """Mini-batch `number` of `mini_batches`, n nodes; `instance` and `vertex` (n,) as in `Graph`.

    `name` tells it from others of the same model. `schedules` by the name of their policy, the scene's own
    first; `learned` is the FSM behind `fsm`, or `auto`. `spec`, `graph`, `origin` are None where a
    run's model, data or weights cannot be had again; `missing` says why. `kept` are the values that a run
    left. `equal`: which nodes stand for equal ones that were left out. `growth`: how it has grown, if it has.
    `times`: what a run's batches took under the own policy, where that was noted; `report`: the run's.
    `reads` are the files that it was made from.
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
    spec: Model | None = None
    graph: Graph | None = None
    kept: tuple[Kept, ...] = ()
    growth: History | None = None
    reads: tuple[Path, ...] = ()
    name: str = ""
    origin: Origin | None = None
    times: Executed | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    missing: str = ""
    equal: Equal | None = None

    def equal_nodes(self) -> Ints:
        """How many equal nodes each node stands for (n,), itself included."""
        if self.equal is None:
            return np.ones(len(self.dag), np.int32)
        return np.bincount(self.equal.stands, minlength=len(self.dag)).astype(np.int32)

    def used_by(self, instances: int) -> NDArray[np.bool_]:
        """Whether a node (n,) belongs to one of the first instances, or stands for a node of theirs."""
        used = self.instance < instances
        if self.equal is not None:
            used[self.equal.stands[self.equal.instance < instances]] = True
        return used

    def rounds(self, policy: str) -> Ints | None:
        """The round of each node (n,), where a policy's schedule goes round by round, as runs do."""
        found = self.growth
        return found.node_round if found and in_rounds(self.schedules[policy], found.node_round) else None

    @property
    def network(self) -> Network | None:
        """The network of the graph."""
        return self.graph.network if self.graph else None

    @property
    def own(self) -> str:
        """The policy that the scene is about."""
        return next(iter(self.schedules))


def scene_of_run(
    run: StoredRun,
    number: int = 0,
    against: Sequence[str] = AGAINST,
    allow_outside: bool = False,
    by: str | None = None,
) -> Scene:
    """A mini-batch of a run on disk, as it was or scheduled anew `by` another policy.

    Errors: AbwError where it is not there or damaged.

    Reads the model, data and weights again to know the cells and the memory; goes without where they changed,
    or where the model names files outside its folder, unless these are allowed.
    """
    dag, schedule, instance, vertex = load_batch(run, in_range(number, run.kept))
    report = run.report
    own = policy_name(report)
    others = [own, *against] if by else against
    known = {own: schedule}
    reopened = reopen(run, number, dag, allow_outside)
    spec, graph, origin = reopened.model, reopened.graph, reopened.origin
    growth = _growth(run, number, spec if graph else None, dag)
    at_random = growth is not None and growth.by_scores and not report.get("weights")
    return Scene(
        title=_titled(f"run {run.number}: {report['model']}", own, report.get("picked"), at_random),
        model=report["model"],
        number=number,
        mini_batches=report["mini_batches"],
        dag=dag,
        instance=instance,
        vertex=vertex,
        schedules=_schedules(dag, by or own, others, known),
        learned=_policy_of_run(run) if by in (None, own) else None,
        spec=spec,
        graph=graph,
        kept=_kept(run, number * report["batch"], graph),
        growth=growth,
        reads=(Path(report["spec"]), Path(report["data"])),
        name=f"run {run.number}" + (f", mini-batch {number}" if report["mini_batches"] > 1 else ""),
        origin=origin if graph and np.array_equal(graph.vertex, vertex) else None,
        times=load_times(run.path, number, schedule) if by in (None, own) else None,
        report=report,
        missing=reopened.why,
        equal=load_equal(run, number),
    )


def scene_of_spec(
    spec: Path,
    overrides: Overrides,
    granularity: Granularity = "cell",
    encoding: Choice | None = None,
    number: int = 0,
    against: Sequence[str] = AGAINST,
    progress: Progress | None = None,
    by: str | None = None,
) -> Scene:
    """A mini-batch of a spec's data under the policy `by`, or the one that `abw run` on executor `cpu` takes.

    That is `auto`, with an `encoding` the FSM; it is found, or learned now. Errors: SpecError, DataError,
    AbwError.
    """
    own = by or (LEARNED if encoding else CHOSEN)
    opened = open_batch(spec, overrides, own, encoding or "best", granularity, number, progress=progress)
    model, graph, found, many = opened.model, opened.graph, opened.learned, opened.mini_batches > 1
    first, last, seed = opened.first, opened.last, overrides.seed or 0
    growth = history_again(model, first, last, seed) if model.growth and granularity == "cell" else None
    return Scene(
        title=_titled(model.name, own, found.behind if found else None, grows_at_random(model)),
        model=model.name,
        number=number,
        mini_batches=opened.mini_batches,
        schedules=_schedules(graph.dag, own, against, {own: opened.schedule}),
        learned=fsm_behind(found.policy) if found else None,
        spec=model,
        growth=growth and of_distinct(growth, graph),
        reads=(*model.reads, *([found.path] if found else [])),
        name=model.name + (f", mini-batch {number}" if many else ""),
        origin=Origin(opened.workload.instances, first, last),
        equal=equal_of(graph),
        **parts_of(graph),
    )


def scene_of_program(
    target: str,
    options: ProgramOptions,
    number: int = 0,
    against: Sequence[str] = AGAINST,
    by: str | None = None,
) -> Scene:
    """A mini-batch of a program's data, run now, under its own schedule or one `by` another policy.

    Other policies are given the whole graph, as if nothing in it had waited for decisions. Errors: AbwError.
    """
    found = inspect_batch(target, options, number)
    graph, own = found.graph, by or found.policy
    return Scene(
        title=found.program.name,
        model=found.program.net.library.name,
        number=number,
        mini_batches=found.mini_batches,
        schedules=_schedules(graph.dag, own, against, {found.policy: found.schedule}),
        learned=None,
        reads=(*found.program.files, options.data),
        name=found.program.name + (f", mini-batch {number}" if found.mini_batches > 1 else ""),
        **parts_of(graph),
    )


def parts_of(graph: Graph) -> dict[str, Any]:
    """The fields of a scene that a whole graph gives."""
    return {"dag": graph.dag, "instance": graph.instance, "vertex": graph.vertex, "graph": graph}


def _titled(name: str, policy: str, picked: str | None, at_random: bool) -> str:
    """The title, with what `auto` stands for, and whether what grew did so by random weights."""
    named = f"{name} ({CHOSEN}: {picked})" if policy == CHOSEN and picked else name
    return f"{named}, grown by random weights" if at_random else named


def _growth(run: StoredRun, number: int, spec: Model | None, dag: Dag) -> History | None:
    """How a run's mini-batch has grown: as it was kept, else, of runs that kept none, once more.

    Errors: AbwError where the file is damaged.
    """
    size = run.report["batch"]
    found = load_history(run.path, number, len(dag), size)
    if found is None and spec is not None and spec.growth:
        last = min((number + 1) * size, run.report["instances"])
        found = history_again(spec, number * size, last, run.report["seed"])
    return found if found and len(found.node_round) == len(dag) else None


def _policy_of_run(run: StoredRun) -> FsmPolicy | None:
    file = run.path / POLICY
    return fsm_behind(read_any(file)[0]) if file.is_file() else None


def _kept(run: StoredRun, first: int, graph: Graph | None) -> tuple[Kept, ...]:
    """The values of one mini-batch. Errors: AbwError where the file is damaged."""
    file = run.path / OUTPUTS
    if graph is None or not file.is_file():
        return ()
    names = [refs.name for refs in graph.results]
    outputs = read_outputs(file, names, first, first + graph.instances)
    outputs_kept = []
    for refs in graph.results:
        # values and references are in the same order; a negative reference is a constant, of no node
        if len(outputs.get(refs.name, ())) == len(refs.reference):
            node = np.where(refs.reference < 0, -1, refs.reference // graph.network.width)
            outputs_kept.append(Kept(refs.name, outputs[refs.name], node.astype(np.int32)))
    return tuple(outputs_kept)


def _schedules(
    dag: Dag, own: str, against: Sequence[str], known: Mapping[str, Schedule]
) -> dict[str, Schedule]:
    """The schedules by their policies, the own one first; those not known are made."""
    names = dict.fromkeys((own, *against))
    return {n: known[n] if n in known else named_policy(n, dag.types).schedule(dag) for n in names}
