"""Open a run's model and mini-batch once more, from what the run kept and what it had read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from abw.core.base.errors import AbwError, SpecError, from_system
from abw.core.base.files import file_digest
from abw.core.data.instances import Instances
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, Ints
from abw.core.graph.part import unified
from abw.core.ir.model import Model
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from abw.core.store.checked import Equal
from abw.core.store.runs import StoredRun, load_batch, load_equal


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a mini-batch comes from: instances `first` to `last` (exclusive) of these."""

    instances: Instances
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Reopened:
    """A run's model and the graph of a mini-batch with its instances; None where these cannot be had again.

    `why` says the reason then, in words that follow a colon.
    """

    model: Model | None = None
    graph: Graph | None = None
    origin: Origin | None = None
    why: str = ""


def reopen(run: StoredRun, number: int, dag: Dag, allow_outside: bool = False) -> Reopened:
    """Mini-batch `number` of a run, whose `dag` is the one it kept. Reads model, data and weights."""
    model = None
    try:
        model = model_of_run(run, allow_outside)
        if changed := _changed_weights(run):
            return Reopened(model, why=changed)
        passes, equal = run.report.get("passes", ()), load_equal(run, number)
        workload = load_workload(
            model,
            run.report["granularity"],
            fuse="fuse" in passes,
            group="group" in passes,
            dedup="on" if equal and not model.growth else "off",
            seed=run.report.get("seed") or 0,
        )
        windows = list(workload.windows())
        if number < len(windows):
            first, last = windows[number]
            graph = workload.graph(first, last, equal.part if equal else None)
            if equal and model.growth:
                graph = _as_executed(graph, equal, load_batch(run, number)[3])
            if np.array_equal(workload.networks.seen(graph).type, dag.type):
                return Reopened(model, graph, Origin(workload.instances, first, last))
    except OSError as error:
        return Reopened(model, why=from_system(error).message)
    except SpecError as error:
        found = error.problems[0]
        return Reopened(model, why=f"{found.where}: {found.message}" if found.where else found.message)
    except AbwError as error:
        return Reopened(model, why=error.message)
    return Reopened(model, why=_changed_graph(run, model))


def _as_executed(graph: Graph, equal: Equal, vertex: Ints) -> Graph:
    """The nodes of a grown graph that were executed, which were on these vertices; all if it differs."""
    if len(equal.stands) != len(graph):
        return graph
    own = np.flatnonzero(graph.vertex == vertex[equal.stands])
    first = np.full(len(vertex), -1, np.int32)
    first[equal.stands[own]] = own
    return unified(graph, first[equal.stands]) if (first >= 0).all() else graph


def model_of_run(run: StoredRun, allow_outside: bool = False) -> Model:
    """The model that a run executed, from the copy it keeps. Errors: SpecError, AbwError."""
    report = run.report
    if report["data"] == "stdin":
        raise AbwError("its data came through a pipe, and are not kept")
    weights = report.get("weights")
    overrides = Overrides(
        dims=report["dims"],
        data=Path(report["data"]),
        limit=min(report["instances"], run.kept * report["batch"]),
        batch=report["batch"],
        seed=report.get("seed") or None,
        hoist=tuple(report.get("hoisted") or ()) or report.get("hoist", False),
        weights=Path(weights["path"]) if weights else None,
        allow_outside=allow_outside,
    )
    return open_model(run.path / "spec" / Path(report["spec"]).name, overrides)


def _changed_weights(run: StoredRun) -> str:
    """Say that the file of weights is not the one that the run read; '' where it is."""
    weights = run.report.get("weights")
    if not weights or file_digest(Path(weights["path"])) == weights["sha256"]:
        return ""
    return f"the weights in {weights['path']} have changed since"


def _changed_graph(run: StoredRun, model: Model) -> str:
    """Say why a mini-batch of the same model is not the one that the run executed."""
    if model.growth:
        return f"from {run.report['data']} other nodes grow now than in the run"
    return f"the data in {run.report['data']} have changed since"
