"""The main job from end to end: spec, data, graph, policy, schedule, plan, execution, and the run on disk."""

from __future__ import annotations

import platform
import resource
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import abw
from abw.core.batchsize import LARGEST, SHARE, Tried, choose, try_sizes
from abw.core.data.source import STDIN, open_feed
from abw.core.errors import AbwError
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.registry import KernelsName, SchemeName, get_executor
from abw.core.exec.weights import Trained, load_weights, make_params
from abw.core.footprint import Footprint
from abw.core.graph.bounds import lower_bound
from abw.core.graph.network import Granularity, LayoutName
from abw.core.learning import TRAIN_LIMIT, Choice, Learned, chosen_policy, kept_policy, train
from abw.core.memory import available_memory, peak_since, settle
from abw.core.minibatches import OVERLAPPED, outputs_kept
from abw.core.plan.plan import plan
from abw.core.policy.depth import Depth
from abw.core.policy.registry import LEARNED, Policy, get_policy
from abw.core.precompile import Beside, learner_beside
from abw.core.progress import Clock, Progress, Quiet
from abw.core.spec.load import Overrides
from abw.core.spec.model import Model
from abw.core.store.files import new_folder, require_writable
from abw.core.store.outputs import open_outputs, outputs_of, require_suffix
from abw.core.store.runs import OUTPUTS, runs_folder, save_report
from abw.core.streaming import COMPARED, Job, Sums, run_stream
from abw.core.workload import Workload, open_model, open_networks, open_sample

SCHEMA_VERSION = 1
"""Of the documents that `--json` prints."""

WORKING = ("read", "construct", "schedule", "plan", "execute")
"""The phases whose time counts in instances a second."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run: what `abw run`'s flags say.

    `input`: a pipe to read instances from (`-`: standard input) instead of the model's data, which are then
    what a policy is learned from. `output`: where the outputs go instead of the run's folder. `auto_batch`:
    the mini-batch is chosen, such that it takes `memory` bytes at most (None: a share of those available).
    """

    policy: str = LEARNED
    encoding: Choice = "best"
    executor: str = "cpu"
    kernels: KernelsName | None = None
    scheme: SchemeName | None = None
    tensor_cores: bool = True
    granularity: Granularity = "cell"
    layout: LayoutName = "planned"
    fuse: bool = False
    group: bool = False
    seed: int = 0
    threads: int | None = None
    verify: bool = False
    train_limit: int | None = None
    profile: bool = False
    input: Path | None = None
    output: Path | None = None
    skip_bad: bool = False
    auto_batch: bool = False
    memory: int | None = None

    @property
    def passes(self) -> list[str]:
        """What is done to graphs before they are scheduled."""
        return [name for name, on in (("fuse", self.fuse), ("group", self.group)) if on]

    @property
    def learned(self) -> bool:
        """Whether the policy is a learned one."""
        return self.policy == LEARNED or self.policy.endswith(".json")


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
    executor = get_executor(options.executor, options.kernels, options.scheme, options.tensor_cores)
    profiled = executor if options.profile and isinstance(executor, CpuExecutor) else None
    if options.profile and not profiled:
        raise AbwError(
            f"executor '{executor.name}' cannot say where its time goes",
            hint="--profile needs --executor cpu, with kernels ir",
            exit_code=2,
        )
    progress = progress or Quiet()
    require_writable(runs_folder())
    if options.output:
        require_suffix(options.output)
    clock = Clock(*WORKING, "wait", "write", "learn", "compile")
    model = open_model(spec, overrides, skip_bad=options.skip_bad)
    if options.output:
        _spare(options.output, options.input or model.data.path, model.weights.file, *model.files)
    trained = load_weights(model)
    progress.phase("compile")
    with clock("compile"):
        networks = open_networks(
            model, options.granularity, options.layout, fuse=options.fuse, group=options.group
        )
        kept = kept_policy(networks, options.policy, options.encoding, options.seed, options.train_limit)
        with learner_beside(options.encoding if options.learned and not kept else None) as beside:
            most = max(LARGEST if options.auto_batch else 2, options.train_limit or TRAIN_LIMIT)
            sample, used = open_sample(model, networks, most, skip_bad=options.skip_bad)
            params = make_params(networks.cells, trained, options.seed)
            executor.prepare(networks.network, params, options.threads)
            _warm_up(sample, min(2, used), executor, options, kept, beside)
            if profiled:
                profiled.measure()
    with clock("learn"):
        policy, learned = chosen_policy(
            kept,
            sample,
            options.policy,
            options.encoding,
            options.seed,
            limit=options.train_limit,
            used=used,
            progress=progress,
        )

    tried: list[Tried] = []
    memory = options.memory or int(SHARE * available_memory())
    if options.auto_batch:
        with clock("compile"):
            progress.phase("choose the mini-batch")
            tried = try_sizes(sample, used, policy, executor)
        model = replace(model, data=replace(model.data, batch=choose(tried, memory)))

    outputs = outputs_of(model)
    with new_folder(runs_folder(), model.name) as draft, open_feed(options.input or model.data.path) as feed:
        target = options.output or draft.path / OUTPUTS
        with open_outputs(target, outputs, named=model.data.format == "json") as writer:
            job = Job(
                model=model,
                networks=networks,
                policy=policy,
                executor=executor,
                folder=draft.path,
                outputs=outputs,
                writer=writer,
                params=params if options.verify else None,
                profiled=profiled,
                skip_bad=options.skip_bad,
                clock=clock,
                progress=progress,
            )
            earlier = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            before = settle()
            sums = run_stream(job, feed)
            during = peak_since()
        sums.compared[LEARNED if options.learned else options.policy] = sums.kept_batches
        report = _report(model, options, overrides, trained, learned, sums, clock, command)
        report["peak_memory_bytes"] = max(earlier, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        report["memory"] = _memory(before, sums.needed, during)
        report["auto_batch"] = tried and {"memory": memory, "tried": [t.document() for t in tried]}
        report["profile"] = profiled and profiled.profile().document()
        if learned:
            shutil.copyfile(learned.path, draft.path / "policy.json")
        save_report(draft.path, report, model.files)
    return {**report, "path": str(draft.final)}


def _spare(output: Path, *read: Path | None) -> None:
    """Refuse, before any work, to write over what the run reads, or where no folder is. Errors: AbwError."""
    if not output.parent.is_dir():
        hint = f"make it (mkdir -p {output.parent}), or name another"
        raise AbwError(f"cannot write {output}: there is no folder {output.parent}", hint=hint)
    if output.exists() and any(path and path.exists() and output.samefile(path) for path in read):
        hint = "name another file for the outputs"
        raise AbwError(f"{output} would be overwritten, and this run reads it", hint=hint, exit_code=2)


def _warm_up(
    sample: Workload,
    instances: int,
    executor: Executor,
    options: RunOptions,
    kept: Learned | None,
    beside: Beside,
) -> None:
    """Compile all that a run needs, on so many instances, so that no measurement contains it."""
    graph = sample.graph(0, instances)
    dag = sample.seen(graph)
    launched = sample.launched(graph, Depth().schedule(dag))
    # the mini-batches to come may be larger in more than their number
    times = 2 * -(-sample.model.data.batch // instances)
    result = executor.run(plan(graph, launched, outputs_kept(executor, graph, times)))
    for refs in graph.results:
        result.values(refs.reference)
    beside.wait()
    if kept:
        policy: Policy = kept.policy
    elif options.learned:
        policy = train(lambda *_: dag, 1, options.encoding, 0, trials=1)
    else:
        policy = get_policy(options.policy)
    for each in (policy, *map(get_policy, COMPARED)):
        each.schedule(dag)
    lower_bound(dag)


def _report(
    model: Model,
    options: RunOptions,
    overrides: Overrides,
    trained: Trained | None,
    learned: Learned | None,
    sums: Sums,
    clock: Clock,
    command: str,
) -> dict[str, Any]:
    """All that is known of a run, as one JSON document."""
    seconds = dict(clock.seconds)
    working = sum(seconds[phase] for phase in WORKING)
    if options.executor in OVERLAPPED:
        # the phases' sum would count twice what overlaps
        working = sums.seconds - seconds["wait"] - seconds["write"]
    data = options.input or model.data.path
    own = None if options.input else learned and learned.trained_on(data, sums.instances)
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model.name,
        "spec": str(model.files[0]),
        "data": "stdin" if str(data) == STDIN else str(data),
        "dims": dict(model.dims),
        "policy": options.policy,
        "encoding": learned.policy.encoding if learned else None,
        "executor": options.executor,
        "kernels": options.kernels,
        "scheme": options.scheme,
        "tensor_cores": options.tensor_cores if options.executor == "cuda" else None,
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
        "instances": sums.instances,
        "skipped": sums.skipped,
        "complaints": sums.complaints,
        "batch": model.data.batch,
        "mini_batches": sums.mini_batches,
        "in_pieces": sums.in_pieces,
        "nodes": sums.nodes,
        "batches": sums.batches,
        "lower_bound": sums.lower_bound,
        "compared": sums.compared,
        "kept": sums.kept,
        "kept_lower_bound": sums.kept_bound,
        "unseen_states": sums.unseen_states,
        "launches": sums.launches,
        "memory_kernels": sums.memory_kernels,
        "bytes_moved": sums.bytes_moved,
        "memory_kernels_avoided": sums.memory_kernels_avoided,
        "bytes_avoided": sums.bytes_avoided,
        "seconds": seconds,
        "instances_per_second": sums.instances / (working or 1.0),
        "max_error": sums.max_error if options.verify else None,
        "training": learned
        and {
            "path": str(learned.path),
            "fresh": learned.fresh,
            "instances": learned.data.get("instances"),
            "of_these_instances": own,
            "trials": learned.policy.training.trials,
            "batches": learned.policy.training.batches,
            "lower_bound": learned.policy.training.lower_bound,
            "states": len(learned.policy.states),
        },
        "output": options.output and str(options.output),
        "versions": versions(),
        "command": command,
    }


def _memory(before: int | None, needed: Footprint | None, during: int | None) -> dict[str, int] | None:
    """Bytes: what the process held before the first mini-batch, what the largest one was said to take on top
    of it, and the peak while they ran. None where it cannot be measured.
    """
    if before is None or during is None or needed is None:
        return None
    return {
        "before_bytes": before,
        "arenas_bytes": needed.arenas,
        "mini_batch_bytes": needed.total,
        "predicted_bytes": before + needed.total,
        "measured_bytes": during,
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
