"""The reports of `abw check` and `abw weights`: a spec and its data, without running them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.memory import available_memory
from abw.core.base.parallel import usable_cores
from abw.core.cell.program import cell_program
from abw.core.data.tensors import reader_bytes
from abw.core.exec.cpu.partition import shared_out
from abw.core.exec.precision import Precision
from abw.core.exec.trained import load_weights, match, needs, problems_of, read_file
from abw.core.graph.bind import only
from abw.core.graph.bounds import lower_bound
from abw.core.graph.construct import construct
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.equal.leaves import leaf_types
from abw.core.graph.graph import Graph
from abw.core.ir.growth import Decision
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity, Network
from abw.core.ir.weights import names_in
from abw.core.plan.plan import Plan, outputs_to_keep, plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import CHOSEN, get_policy
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Policy
from abw.core.run.hoisting import hoist_where_it_pays, hoisted_types, may_hoist
from abw.core.run.learning import Asked, kept_policy
from abw.core.run.minibatches import TOGETHER
from abw.core.run.observing.footprint import Footprint, footprint, forecast, grown_footprint, numbers_of
from abw.core.run.onepass.onepass import refusal, texts_refusal
from abw.core.run.parallel import should_parallelise
from abw.core.run.streaming import read_ahead
from abw.core.run.workload import Networks, Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides, load_cell
from abw.core.tools.opened import report_head
from abw.core.train.footprint import forecast_training
from abw.core.train.session import TrainOptions, open_training

Longs = NDArray[np.int64]


def inspect_cell(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """Check a cell's file by itself; every dim is 64 unless `dims` says otherwise.

    Returns the document of `abw check CELL --json`. Errors: SpecError, AbwError for an unknown dim.
    """
    cell = load_cell(path, dims)
    program = cell_program(cell)
    return {
        "schema_version": 1,
        "cell": cell.name,
        "spec": str(path),
        "inputs": {p.name: list(p.shape) for p in cell.inputs},
        "outputs": {p.name: list(p.shape) for p in cell.output_ports},
        "parameters": sum(math.prod(p.shape) for p in cell.params),
        "operations": sum(op.name != "constant" for op in cell.ops),
        "batches": len(program.batches),
    }


def inspect(
    spec: Path,
    overrides: Overrides,
    granularity: Granularity,
    policy: str | None = None,
    precision: Precision = "float32",
    dedup: DedupMode = "auto",
) -> dict[str, Any]:
    """Check a spec and build all graphs of its data; returns the document of `abw check --json`.

    `distinct`: nodes without those that equal others of their mini-batch, as far as `dedup` looks for them.
    `hoisted`: the types whose products `abw run` hoists by itself; `kept_leaves`: how many outputs of which
    types stay from one mini-batch to the next. `one_pass`: why a call from Python, or of a
    server, is not one compiled pass.
    `memory_bytes`: what the mini-batch with most nodes takes in `abw run`, batched by the policy named, or
    the one that an earlier run has chosen for mini-batches of this size, else by the rule critical;
    `process_bytes`: what its whole process takes with that (`Forecast`) and weights of the `precision`, and
    what is available. Of a model that grows, graphs are those of what is computed before, and the memory is
    that of mini-batches in which every instance grows as far as `most` allows. `training_bytes`: the same of
    `abw train` (`TrainingForecast`), None for a spec without a section `train`; where its data cannot train
    it, why. Errors: SpecError, DataError. Cost: that of reading and construction.
    """
    model = open_model(spec, overrides)
    trained = load_weights(model)
    instances = read_instances(model.data, model.data.limit)
    if may_hoist(policy or CHOSEN, granularity, "cpu", dedup, precision):
        model = hoist_where_it_pays(model, lambda: (instances, min(len(instances), model.data.batch)))
    networks = open_networks(model, granularity, dedup=dedup, leaves=True)
    workload = open_workload(model, instances, networks)
    asked = Asked(policy or CHOSEN, batch=model.data.batch).on(workload.network, "cpu")
    kept = kept_policy(networks, asked)
    named = kept.policy if kept else get_policy(asked.name) if policy else Critical()
    found = _scheduled(workload, named if policy else None)
    memory = process = None
    if found.largest is not None:
        needed = _footprint(workload, found.largest, named)
        memory, process = needed.total, _process(workload, found, needed, precision)
    parameters, table_numbers = numbers_of(model)
    nodes = int(found.nodes.sum())
    return {
        **report_head(model),
        "weights": str(trained.file.path) if trained else None,
        "dims": dict(model.dims),
        "granularity": granularity,
        "instances": len(workload.instances),
        "batch": model.data.batch,
        "mini_batches": len(found.depths),
        "nodes": nodes,
        "distinct": int(found.distinct.sum()),
        "hoisted": list(hoisted_types(model)),
        "kept_leaves": {
            workload.network.types[t].name: rows for t, rows in leaf_types(workload.network).rows.items()
        },
        "one_pass": _one_pass(model, networks, named),
        "lower_bound": int(sum(int(d.sum()) for d in found.depths)),
        "policy": policy,
        "batches": found.batches if policy else None,
        "ns_per_node": 1e9 * found.seconds / max(1, int(found.distinct.sum())) if policy else None,
        "parameters": parameters,
        "table_numbers": table_numbers,
        "memory_bytes": memory,
        "process_bytes": process,
        "training_bytes": _training(spec, overrides) if model.training else None,
        "types": _types(workload.network, found),
        "growth": _growth(workload),
    }


def _one_pass(model: Model, networks: Networks, policy: Policy) -> str | None:
    """Why a call of the loaded model is not one compiled pass; None where it is."""
    return refusal(model, networks, policy) or texts_refusal(model, networks) or None


@dataclass(slots=True)
class _Graphs:
    """What is counted of the graphs of all mini-batches: `nodes` (T,), and `depths` (T,) of each.

    `distinct` (T,): nodes without those that equal others of their mini-batch, as far as they are looked for.
    `largest` is the one with most nodes. `batches` of their schedules, which took `seconds`.
    """

    nodes: Longs
    distinct: Longs
    depths: list[NDArray[np.int32]] = field(default_factory=list)
    largest: Graph | None = None
    batches: int = 0
    seconds: float = 0.0


def _scheduled(workload: Workload, policy: Policy | None) -> _Graphs:
    """Build all graphs (of a model that grows, of what comes before growth); schedule them by a policy."""
    binding, equal = workload.binding, workload.networks.equal
    found = _Graphs(*np.zeros((2, len(workload.network.types)), np.int64))
    if workload.growing is not None:
        binding = only(binding, workload.growing.growth_model.phases.before, workload.network.outputs)
    for first, last in workload.windows():
        grows = workload.growing is not None
        graph = construct(binding, first, last) if grows else workload.unfused(first, last)
        found.nodes += graph.type_sizes
        graph = equal(graph) if equal else graph
        found.distinct += graph.type_sizes
        if policy is not None:
            dag = workload.networks.seen(graph)
            if not found.depths:
                policy.schedule(dag)  # compiled, if it is at all, before time counts
            start = time.thread_time()
            schedule = policy.schedule(dag)
            found.seconds += time.thread_time() - start
            check_schedule(dag, schedule)
            found.batches += len(schedule)
        found.depths.append(lower_bound(graph.dag))
        if found.largest is None or len(graph) > len(found.largest):
            found.largest = graph
    return found


def _footprint(workload: Workload, graph: Graph, policy: Policy) -> Footprint:
    """What a mini-batch takes in `abw run`, batched by a policy and, if it grows, grown as far as it may."""
    networks = workload.networks
    schedule = networks.scheduled(policy, graph)
    planned = plan(graph, shared_out(graph, schedule, usable_cores()), outputs_to_keep(graph))
    return footprint(planned) if workload.growing is None else _grown(workload, planned)


def _process(workload: Workload, found: _Graphs, needed: Footprint, precision: Precision) -> dict[str, int]:
    """What the process of `abw run` takes, whose largest mini-batch takes `needed`, and what is available."""
    model, instances = workload.model, workload.instances
    batch, ahead = model.data.batch, read_ahead(model.data.batch)[1]
    assert found.largest is not None
    chunk = min(len(found.depths), ahead // batch)
    abreast = usable_cores() if should_parallelise(workload, list(workload.windows())[:chunk]) else 1
    together = min(chunk, -(-TOGETHER // max(1, len(found.largest)))) if abreast == 1 else chunk
    together = together if workload.growing is None else 1
    vertices = int(min(1.0, ahead / len(instances)) * len(instances.kind))
    pytorch = reader_bytes(model.weights.file)
    whole = forecast(workload.network, needed, together, vertices, abreast, precision, pytorch)
    return {**whole.document(), "available": available_memory()}


def _types(network: Network, found: _Graphs) -> list[dict[str, Any]]:
    """The types with their nodes, depth in the first mini-batch, and the types and tables that they read."""
    types = []
    for number, t in enumerate(network.types):
        reads = {network.types[p].name for s in t.slots for p, _ in s.producers}
        read = [network.constants[c] for s in t.slots for c in s.constants]
        tables = {network.tables[c.number].name for c in read if c.kind == "table"}
        tables |= {network.fields[c.number] for c in read if c.kind == "field"}
        types.append(
            {
                "type": t.name,
                "nodes": int(found.nodes[number]),
                "distinct": int(found.distinct[number]),
                "depth": int(found.depths[0][number]),
                "reads": sorted(reads) + sorted(tables),
            }
        )
    return types


def _training(spec: Path, overrides: Overrides) -> dict[str, Any]:
    """Forecast the memory of `abw train` for a spec as it stands, or say why it cannot train."""
    options = TrainOptions()
    try:
        found = forecast_training(open_training(spec, overrides, options), options)
    except AbwError as error:
        return {"error": error.message}
    return {**found.document(), "available": available_memory()}


def _grown(workload: Workload, before: Plan) -> Footprint:
    """Forecast the memory of a mini-batch in which everything grows as far as it may."""
    assert workload.growing is not None
    instances, network, model = workload.instances, workload.network, workload.model
    kinds, growth = instances.schema.kinds, workload.growing.growth_model.growth
    batch = min(model.data.batch, len(instances))
    most = {kind.name: batch * kind.most for kind in growth.kinds if not kind.given}
    counts = dict.fromkeys(kinds, 0)
    for first, last in workload.windows():
        own = instances.kind[instances.start[first] : instances.start[last]]
        for name, count in zip(kinds, np.bincount(own, minlength=len(kinds)).tolist(), strict=False):
            counts[name] = max(counts[name], count, most.get(name, 0))
    early = workload.growing.growth_model.phases.before
    nodes = [0 if t in early else sum(counts[k] for k in made.kinds) for t, made in enumerate(model.types)]
    # a list may have all vertices of an instance
    listed = max(1, sum(counts.values()) // batch)
    slots = [len(t.slots) * (listed if t.reduction else 1) for t in network.types]
    return grown_footprint(before, nodes, sum(n * s for n, s in zip(nodes, slots, strict=True)))


def _growth(workload: Workload) -> dict[str, Any] | None:
    """Describe what a model computes before, during and after growth; None without growth.

    In the order of a round, a type more than once where it is computed at some vertices before others.
    `numbers` are the outputs that are decisions without words.
    """
    if workload.growing is None:
        return None
    phases, types = workload.growing.growth_model.phases, workload.model.types
    kinds = [
        {
            "kind": kind.name,
            "given": kind.given,
            "most": None if kind.given else kind.most,
            "decisions": {decision.name: _decision(workload.model, decision) for decision in kind.decisions},
            "adds": list(dict.fromkeys(clause.adds for clause in kind.clauses)),
        }
        for kind in workload.growing.growth_model.growth.kinds
    ]
    outputs = workload.growing.growth_model.growth.outputs
    scored = ("argmax", "sample", "best")
    return {
        "numbers": [o.name for o in outputs if o.decision.how in scored and not o.decision.names],
        "before": [types[t].name for t in phases.before],
        "during": [types[t].name for t, _ in phases.steps],
        "after": [types[t].name for t in phases.after],
        "kinds": kinds,
    }


def _decision(model: Model, decision: Decision) -> str:
    """A decision in words."""
    if decision.how == "chance":
        return f"chance {decision.limit:g}"
    node_type = model.types[decision.type]
    scores = f"{node_type.name}.{node_type.outputs[decision.output].name}"
    if decision.how == "over":
        return f"{scores} > {decision.limit:g}"
    some = f" of what is allowed of {len(decision.allow)}" if decision.allow is not None else ""
    best = f"best {decision.width} of" if decision.how == "best" else decision.how
    return f"{best} {scores}{some}"


def inspect_weights(spec: Path, overrides: Overrides) -> dict[str, Any]:
    """List the weights that a spec needs, and what its file, if it names one, has for each.

    Returns the document of `abw weights --json`: `fits` is null without a file. Errors: SpecError in the
    spec; AbwError where the file cannot be read. Cost: that of reading the file.
    """
    model = open_model(spec, overrides)
    file = read_file(model.weights)
    matched, required = match(model, file) if file else None, needs(model)
    fits = {fit.need.name: fit for fit in matched.fits} if matched else {}
    wanted = [
        {
            "name": need.name,
            "shape": list(need.shape),
            "used_by": list(need.users),
            "from": need.text,
            "mapped": need.value is not None,
            "state": fits[need.name].state if fits else None,
            "fault": fits[need.name].fault or None if fits else None,
        }
        for need in required
    ]
    report: dict[str, Any] = {
        "schema_version": 1,
        "model": model.name,
        "spec": str(model.files[0]),
        "dims": dict(model.dims),
        "needs": wanted,
        "numbers": sum(math.prod(need.shape) for need in required),
        "file": None,
        "fits": None,
        "problems": [],
    }
    if matched is None or file is None:
        return report
    problems = problems_of(matched, model)
    takers: dict[str, list[str]] = {}
    for need in required:
        for name in dict.fromkeys(names_in(need.expr)):
            takers.setdefault(name, []).append(need.name)
    tensors = [
        {
            "name": name,
            "shape": list(stored.shape),
            "dtype": stored.dtype,
            "used_for": takers.get(name, []),
            "ignored": name not in takers and model.weights.ignores(name),
        }
        for name, stored in file.tensors.items()
    ]
    about = {"path": str(file.path), "format": file.format, "sha256": file.sha256, "tensors": tensors}
    found = [str(problem) for problem in problems]
    return {**report, "file": about, "fits": not problems, "problems": found}
