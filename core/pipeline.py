"""The main job from end to end: spec, data, graph, policy, schedule, plan, execution, and the run on disk."""

from __future__ import annotations

import platform
import resource
import shutil
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import abw
from abw.core.errors import AbwError
from abw.core.exec.compare import compare
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.exec.registry import KernelsName, get_executor
from abw.core.exec.weights import Trained, load_weights, make_params
from abw.core.graph.bounds import lower_bound
from abw.core.graph.network import Granularity, LayoutName, Network
from abw.core.learning import TRAIN_LIMIT, Choice, Learned, choose_policy, train
from abw.core.minibatches import OVERLAPPED, run_all
from abw.core.plan.check import check_plan
from abw.core.plan.plan import plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import LEARNED, Policy, get_policy
from abw.core.policy.trace import ready_counts
from abw.core.progress import Clock, Progress, Quiet
from abw.core.spec.load import Overrides
from abw.core.spec.model import Model
from abw.core.store.files import new_folder
from abw.core.store.runs import runs_folder, save_batch, save_outputs, save_report
from abw.core.workload import (
    Networks,
    Workload,
    open_model,
    open_networks,
    open_workload,
    read_instances,
)

SCHEMA_VERSION = 1
"""Of the documents that `--json` prints."""

COMPARED = ("depth", "agenda")
"""The policies that a run's summary stands beside its own."""

TOLERANCE = 1e-5
"""The largest error, relative to an output's root mean square, that `verify` accepts."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run: what `abw run`'s flags say."""

    policy: str = LEARNED
    encoding: Choice = "best"
    executor: str = "cpu"
    kernels: KernelsName | None = None
    granularity: Granularity = "cell"
    layout: LayoutName = "planned"
    fuse: bool = False
    group: bool = False
    seed: int = 0
    threads: int | None = None
    verify: bool = False
    train_limit: int = TRAIN_LIMIT
    profile: bool = False

    @property
    def passes(self) -> list[str]:
        """What is done to graphs before they are scheduled."""
        return [name for name, on in (("fuse", self.fuse), ("group", self.group)) if on]

    @property
    def learned(self) -> bool:
        """Whether the policy is a learned one."""
        return self.policy == LEARNED or self.policy.endswith(".json")


@dataclass(slots=True)
class _Sums:
    """What a run counts, over its mini-batches."""

    seconds: float = 0.0
    mini_batches: int = 0
    in_pieces: int = 0
    nodes: int = 0
    batches: int = 0
    lower_bound: int = 0
    launches: int = 0
    memory_kernels: int = 0
    bytes_moved: int = 0
    memory_kernels_avoided: int = 0
    bytes_avoided: int = 0
    unseen_states: int = 0
    max_error: float = 0.0
    compared: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COMPARED, 0))


def run(
    spec: Path,
    overrides: Overrides,
    options: RunOptions,
    *,
    progress: Progress | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Run a spec and keep the run on disk; returns its report (the document of `abw run --json`).

    Errors: AbwError and its kinds. Nothing of a run that fails or is interrupted stays on disk.
    """
    chosen = get_executor(options.executor, options.kernels)
    if options.profile and not isinstance(chosen, CpuExecutor):
        raise AbwError(
            f"executor '{chosen.name}' cannot say where its time goes",
            hint="--profile needs --executor cpu, with kernels ir",
            exit_code=2,
        )
    progress = progress or Quiet()
    clock = Clock("read", "construct", "schedule", "plan", "execute", "learn", "compile")
    model = open_model(spec, overrides)
    trained = load_weights(model)
    progress.phase("compile")
    with clock("compile"):
        networks = open_networks(
            model, options.granularity, options.layout, fuse=options.fuse, group=options.group
        )
        params = make_params(networks.cells, trained, options.seed)
        _warm_up(model, networks, params, options)
    progress.phase("read")
    with clock("read"):
        instances = read_instances(model.data, model.data.limit)
    with clock("construct"):
        workload = open_workload(model, instances, networks)
    with clock("learn"):
        policy, learned = choose_policy(
            workload,
            options.policy,
            options.encoding,
            options.seed,
            limit=options.train_limit,
            progress=progress,
        )
    with clock("compile"):
        executor = _prepared(options, workload.network, params)
        profiled = executor if options.profile and isinstance(executor, CpuExecutor) else None
        if profiled:
            profiled.measure()

    with new_folder(runs_folder(), model.name) as draft:
        sums = _execute(workload, policy, executor, params, options, draft.path, clock, progress, profiled)
        report = _report(workload, options, overrides, trained, learned, sums, clock, command)
        report["profile"] = profiled and profiled.profile().document()
        if learned:
            shutil.copyfile(learned.path, draft.path / "policy.json")
        save_report(draft.path, report, model.files)
    return {**report, "path": str(draft.final)}


def _warm_up(model: Model, networks: Networks, params: Params, options: RunOptions) -> None:
    """Compile all that a run needs, on its first two instances, so that no measurement contains it."""
    instances = read_instances(model.data, 2)
    workload = open_workload(model, instances, networks)
    graph = workload.graph(0, len(instances))
    dag = workload.seen(graph)
    policies: list[Policy] = [get_policy(name) for name in COMPARED]
    if options.learned:
        policies.append(train(lambda *_: dag, 1, options.encoding, 0, trials=1))
    else:
        policies.append(get_policy(options.policy))
    schedules = [policy.schedule(dag) for policy in policies]
    ready_counts(dag, schedules[-1])
    lower_bound(dag)
    launched = workload.launched(graph, schedules[-1])
    _prepared(options, workload.network, params).run(plan(graph, launched))


def _prepared(options: RunOptions, network: Network, params: Params) -> Executor:
    executor = get_executor(options.executor, options.kernels)
    executor.prepare(network, params, options.threads)
    return executor


def _execute(
    workload: Workload,
    policy: Policy,
    executor: Executor,
    params: Params,
    options: RunOptions,
    folder: Path,
    clock: Clock,
    progress: Progress,
    profiled: CpuExecutor | None,
) -> _Sums:
    """Run every mini-batch, write its graph and schedule, and in the end all outputs.

    `profiled`: the executor, if it measures where its time goes.
    """
    sums = _Sums()
    outputs: dict[str, list[tuple[NDArray[Any], ...]]] = {}
    windows = list(workload.windows())
    progress.phase("run", len(windows))
    start = workload.instances.start
    begun = time.perf_counter()
    for batch, result in run_all(workload, policy, executor, clock):
        graph, dag, schedule, planned = batch.graph, batch.dag, batch.schedule, batch.plan
        first, last = batch.first, batch.last
        # a device may still be at it: what needs no result comes before what does
        for name in COMPARED:
            sums.compared[name] += len(get_policy(name).schedule(dag))
        save_batch(folder, sums.mini_batches, graph, dag, schedule, ready_counts(dag, schedule))
        sums.mini_batches += 1
        sums.in_pieces += (first, last) != windows[batch.window] and first == windows[batch.window][0]
        sums.nodes += len(graph)
        sums.batches += len(schedule)
        sums.lower_bound += int(lower_bound(dag).sum())
        sums.launches += result.counts.launches
        sums.memory_kernels += result.counts.memory_kernels
        sums.bytes_moved += result.counts.bytes_moved
        sums.memory_kernels_avoided += planned.counts.memory_kernels - result.counts.memory_kernels
        sums.bytes_avoided += planned.counts.bytes_moved - result.counts.bytes_moved
        sums.unseen_states += schedule.unseen
        with clock("execute"):
            for refs in graph.results:
                # vertices and instances are counted from the data's first here, not the mini-batch's
                found = (result.values(refs.reference), refs.instance + first, refs.vertex + start[first])
                outputs.setdefault(refs.name, []).append(found)
        if options.verify:
            check_schedule(graph.dag, planned.schedule)
            check_plan(graph, planned)
            sums.max_error = max(sums.max_error, _verified(workload, (first, last), result, params, options))
        if profiled:
            profiled.sample(planned)
        progress.reached(batch.window + 1)
    sums.seconds = time.perf_counter() - begun
    sums.compared[LEARNED if options.learned else options.policy] = sums.batches
    joined = {
        name: tuple(np.concatenate(c) for c in zip(*parts, strict=True)) for name, parts in outputs.items()
    }
    save_outputs(folder, joined)  # type: ignore[arg-type]
    return sums


def _verified(
    workload: Workload, window: tuple[int, int], result: Result, params: Params, options: RunOptions
) -> float:
    """The largest error of any node's outputs against the reference executor's. Errors: AbwError.

    The reference computes every reduction as a node.
    """
    reference = ReferenceExecutor()
    graph = workload.unfused(*window)
    reference.prepare(graph.network, params, options.threads)
    expected = reference.run_graph(graph)
    worst = max(compare(result, expected, workload.networks.fusion), key=lambda d: d.error, default=None)
    if worst is None:
        return 0.0
    if not worst.error <= TOLERANCE:
        raise AbwError(
            f"executor '{options.executor}' is wrong: output '{worst.output}' of type '{worst.type}' differs "
            f"from the reference by {worst.error:.2e} of its root mean square (allowed: {TOLERANCE:.0e})",
            hint="this is a defect of abw, not of your model: please report it with the spec and the data",
        )
    return worst.error


def _report(
    workload: Workload,
    options: RunOptions,
    overrides: Overrides,
    trained: Trained | None,
    learned: Learned | None,
    sums: _Sums,
    clock: Clock,
    command: str,
) -> dict[str, Any]:
    """All that is known of a run, as one JSON document."""
    model, seconds = workload.model, dict(clock.seconds)
    working = sum(seconds[phase] for phase in ("read", "construct", "schedule", "plan", "execute"))
    if options.executor in OVERLAPPED:
        working = seconds["read"] + sums.seconds  # the phases' sum would count twice what overlaps
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model.name,
        "spec": str(model.files[0]),
        "data": str(model.data.path),
        "dims": dict(model.dims),
        "policy": options.policy,
        "encoding": learned.policy.encoding if learned else None,
        "executor": options.executor,
        "kernels": options.kernels,
        "granularity": options.granularity,
        "layout": options.layout,
        "passes": options.passes,
        "hoist": overrides.hoist,
        "seed": options.seed,
        "weights": trained
        and {
            "path": str(trained.file.path),
            "format": trained.file.format,
            "sha256": trained.file.sha256,
            "converted": dict(trained.converted),
        },
        "threads": options.threads,
        "instances": len(workload.instances),
        "batch": model.data.batch,
        "mini_batches": sums.mini_batches,
        "in_pieces": sums.in_pieces,
        "nodes": sums.nodes,
        "batches": sums.batches,
        "lower_bound": sums.lower_bound,
        "compared": sums.compared,
        "unseen_states": sums.unseen_states,
        "launches": sums.launches,
        "memory_kernels": sums.memory_kernels,
        "bytes_moved": sums.bytes_moved,
        "memory_kernels_avoided": sums.memory_kernels_avoided,
        "bytes_avoided": sums.bytes_avoided,
        "seconds": seconds,
        "instances_per_second": len(workload.instances) / working,
        "max_error": sums.max_error if options.verify else None,
        "training": learned
        and {
            "path": str(learned.path),
            "fresh": learned.fresh,
            "instances": learned.data.get("instances"),
            "of_these_instances": learned.trained_on(workload),
            "trials": learned.policy.training.trials,
            "batches": learned.policy.training.batches,
            "lower_bound": learned.policy.training.lower_bound,
            "states": len(learned.policy.states),
        },
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "versions": versions(),
        "command": command,
    }


def versions() -> dict[str, str]:
    """The versions of all that a result depends on."""
    found = {"abw": abw.__version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in ("numpy", "numba", "llvmlite"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
