"""The main job from end to end: spec, data, graph, policy, schedule, plan, execution, and the run on disk."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import abw
from abw.core.base.errors import AbwError
from abw.core.base.files import spare
from abw.core.base.jit import is_compiled
from abw.core.base.memory import available_memory, peak_resident, peak_since, settle
from abw.core.base.progress import Clock, Progress, Quiet, SpanClock
from abw.core.data.feed import STDIN, open_feed
from abw.core.data.head import Head, looked_at
from abw.core.exec.interface import Executor
from abw.core.exec.registry import entry_of, get_executor, settings
from abw.core.exec.trained import Trained, load_weights, make_params
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.graph.walk import place
from abw.core.ir.model import Model
from abw.core.policy.registry import CHOSEN, LEARNED, get_policy
from abw.core.policy.rules.depth import Depth
from abw.core.run.batchsize import LARGEST, SHARE, Tried, choose, try_growing, try_sizes
from abw.core.run.finite import refuse_weights
from abw.core.run.footprint import Footprint, require_weights
from abw.core.run.learning import (
    Asked,
    Learned,
    chosen_policy,
    kept_policy,
    train,
)
from abw.core.run.minibatches import planned
from abw.core.run.options import RunOptions as RunOptions
from abw.core.run.precompile import BOUND, PLAN, Beside, compiling_beside
from abw.core.run.resident import Resident
from abw.core.run.shards import Share
from abw.core.run.streaming import Job, run_stream
from abw.core.run.sums import COMPARED, Sums
from abw.core.run.times import save_times
from abw.core.run.trace import TRACED, write_trace
from abw.core.run.workload import Workload, open_model, open_networks, open_sample, open_seeds
from abw.core.spec.load import Overrides
from abw.core.store.folders import new_folder, passing_folder, require_writable
from abw.core.store.grown import open_grown, require_lines
from abw.core.store.outputs import open_outputs, outputs_of, require_suffix
from abw.core.store.parts import writing_part
from abw.core.store.runs import OUTPUTS, SCHEMA_VERSION, runs_folder, save_report, write_note

"""Of the documents that `--json` prints."""

WORKING = ("read", "construct", "schedule", "plan", "execute")
"""The phases whose time counts in instances a second."""


FIRST_TIME = "compile abw's own code, once after installing: 10 to 40 s"
"""What a first run says that it waits for."""


def run(
    spec: Path,
    overrides: Overrides,
    options: RunOptions,
    *,
    progress: Progress | None = None,
    command: str = "",
    prepared: Callable[[Executor], None] = lambda _: None,
) -> dict[str, Any]:
    """Run a spec and keep the run on disk; returns its report (the document of `abw run --json`).

    `prepared` is called with the executor before anything runs.

    Errors: AbwError and its kinds. Nothing of a run that fails or is interrupted stays on disk.
    """
    with looked_at(options.input) if options.input else nullcontext() as head:
        if head:
            overrides = replace(overrides, head=head.file)
        return _run(spec, overrides, options, head, progress or Quiet(), command, prepared)


def _run(
    spec: Path,
    overrides: Overrides,
    options: RunOptions,
    pipe: Head | None,
    progress: Progress,
    command: str,
    prepared: Callable[[Executor], None],
) -> dict[str, Any]:
    executor = get_executor(options.executor, **options.told)
    profiler = executor.profiler if options.profile else None
    if options.grown:
        require_lines(options.grown)
    if options.profile and not profiler:
        raise AbwError(
            f"executor '{executor.name}' cannot say where its time goes",
            hint="--profile needs --executor cpu, with kernels ir",
            exit_code=2,
        )
    recorder = executor.recorder if options.trace or options.profile else None
    if options.trace and not recorder:
        hint = "--trace needs --executor cpu, with kernels ir"
        raise AbwError(f"executor '{executor.name}' notes no batches", hint=hint, exit_code=2)
    held = Resident(asked=options.profile or options.trace is not None)
    if options.keep:
        require_writable(runs_folder())
    if options.output:
        require_suffix(options.output)
    clock = (SpanClock if options.trace else Clock)(*WORKING, "wait", "write", "learn", "compile")
    model = open_model(spec, overrides, skip_bad=options.skip_bad)
    share = options.cut(model, overrides).share(options.shard) if options.shard else None
    if options.output:
        _require_folder(options.output)
        spare(_opened(options.output, 1), options.input and _opened(options.input, 0), *model.reads)
    for target in filter(None, (options.grown, options.trace)):
        _require_folder(target)
        spare(target, options.input and _opened(options.input, 0), *model.reads)
    _require_growth(model, options)
    require_weights(model)
    trained = load_weights(model)
    held.mark("reading")
    progress.phase("compile" if is_compiled(place) else FIRST_TIME)
    with clock("compile"):
        networks = open_networks(
            model, options.granularity, options.layout, fuse=options.fuse, group=options.group
        )
        asked = options.asked(model, networks)
        kept = kept_policy(networks, asked)
        if options.output and kept:
            spare(options.output, kept.path)
    with compiling_beside(asked if asked.learned and not kept else None) as beside:
        with clock("compile"):
            most = max(LARGEST if options.auto_batch and not model.growth else 2, asked.instances)
            params = make_params(networks.cells, trained, options.seed)
            if options.check_finite:
                refuse_weights(networks.cells, params)
            executor.prepare(networks.network, params, options.threads)
            prepared(executor)
            sample, used = open_sample(model, networks, most, skip_bad=options.skip_bad, executor=executor)
            small = _warm_up(sample, min(2, used), executor, beside)
            if kept:
                kept.policy.schedule(small)
            elif not asked.learned:
                get_policy(asked.name).schedule(small)
            if profiler:
                profiler.measure()
            if recorder:
                recorder.record(TRACED)
            held.mark("compiling")

        def ready(name: str) -> None:
            """Compile what a policy runs: that is not learning."""
            before = clock.seconds["compile"]
            with clock("compile"):
                beside.wait(name)
                _compile(name, small, asked)
            clock.seconds["learn"] -= clock.seconds["compile"] - before

        with clock("learn"):
            policy, learned = chosen_policy(kept, sample, asked, used=used, ready=ready, progress=progress)
            held.mark("choosing the policy")

    tried: list[Tried] = []
    memory = options.memory or int(SHARE * available_memory())
    if options.auto_batch:
        with clock("compile"):
            progress.phase("choose the mini-batch")
            if model.growth:
                seeds = open_seeds(model, networks, LARGEST, skip_bad=options.skip_bad)
                tried = try_growing(seeds, policy, executor, (lambda _: None) if options.skip_bad else None)
            else:
                tried = try_sizes(sample, used, policy, executor)
        model = replace(model, data=replace(model.data, batch=choose(tried, memory)))

    outputs = outputs_of(model)
    folder = new_folder(runs_folder(), model.name) if options.keep else passing_folder()
    with ExitStack() as stack:
        draft = stack.enter_context(folder)
        section = share.section if share else None
        feed = pipe.feed() if pipe else stack.enter_context(open_feed(model.data.path, section))
        part = stack.enter_context(writing_part(share.part, share.whose, share.section)) if share else None
        target = part.path if part else options.output or draft.path / OUTPUTS
        named = model.data.format == "json"
        with open_outputs(target, outputs, named) as writer, open_grown(options.grown, model) as grown:
            job = Job(
                model=model,
                networks=networks,
                policy=policy,
                executor=executor,
                folder=draft.path,
                outputs=outputs,
                writer=writer,
                grown=grown,
                params=params if options.verify else None,
                profiler=profiler,
                skip_bad=options.skip_bad,
                check_finite=options.check_finite,
                clock=clock,
                held=held,
                progress=progress,
            )
            earlier = peak_resident()
            before = settle()
            if recorder:
                recorder.record(TRACED)  # from here on, without the runs that chose the mini-batch
            sums = run_stream(job, feed)
            during = peak_since()
        held.mark("writing")
        if part:
            part.instances, part.skipped = sums.instances, sums.skipped
        sums.of_kept.compared[learned.name if learned else options.policy] = sums.of_kept.batches
        report = _report(model, options, overrides, trained, learned, sums, clock, command, share)
        report["peak_memory_bytes"] = max(earlier, peak_resident())
        report["memory"] = _memory(before, sums.needed, during, max(1, sums.abreast))
        report["resident"] = held.document()
        report["auto_batch"] = tried and {"memory": memory, "tried": [t.document() for t in tried]}
        noted = recorder.recorded() if recorder else []
        if options.trace and isinstance(clock, SpanClock):
            write_trace(options.trace, report, clock.spans, noted, networks.network)
        report["profile"] = profiler and profiler.profile().document()
        if options.keep:
            save_report(draft.path, report, model.files, learned.path if learned else None)
            if not (sums.in_pieces or model.growth):  # else runs of plans are no mini-batches
                save_times(draft.path, noted[: sums.kept])
            if options.note or options.tags:
                write_note(draft.path, options.note, options.tags)
    return {**report, "path": str(draft.final)} if draft.final else report


def _require_growth(model: Model, options: RunOptions) -> None:
    """Refuse what does not go with a model that grows, or with one that does not. Errors: AbwError."""
    if options.grown and not model.growth:
        hint = "--grown is for specs with a section grow"
        raise AbwError(f"nothing grows in {model.name}", hint=hint, exit_code=2)
    if options.profile and model.growth:
        hint = "abw bench and --profile need a plan that can be run again as a whole"
        raise AbwError(f"{model.name} grows: --profile cannot repeat its rounds", hint=hint, exit_code=2)
    if options.grown and options.output and options.grown.resolve() == options.output.resolve():
        hint = "name two files: one has a line of results an instance, the other its vertices"
        raise AbwError(f"--output and --grown are both {options.grown}", hint=hint, exit_code=2)


def _growth(model: Model, sums: Sums, verified: bool) -> dict[str, Any] | None:
    """What grew, as it stands in a run's report; None where nothing grows."""
    if model.growth is None:
        return None
    grown = sums.grown
    return {
        "rounds": grown.rounds,
        "driven": grown.driven,
        "vertices": dict(grown.vertices),
        "cut": {
            kind.name: {"instances": grown.cut[kind.name], "most": kind.most}
            for kind in model.growth.kinds
            if grown.cut.get(kind.name)
        },
        "decisions": grown.decisions if verified else None,
        "close": grown.close if verified else None,
    }


def _require_folder(output: Path) -> None:
    """Say before any work that there is no folder for the outputs. Errors: AbwError."""
    if not output.parent.is_dir():
        hint = f"make it (mkdir -p {output.parent}), or name another"
        raise AbwError(f"cannot write {output}: there is no folder {output.parent}", hint=hint)


def _opened(path: Path, standard: int) -> Path:
    """The path; of `-` that of standard input (0) or output (1)."""
    return Path(f"/dev/fd/{standard}") if str(path) == STDIN else path


def _warm_up(sample: Workload, instances: int, executor: Executor, beside: Beside) -> Dag:
    """Compile all that a run needs, on so many instances, so that no measurement contains it; their dag.

    All but what the policy asked for needs, and in turn with what the other process compiles.
    """
    if beside.process:
        sample.graph(0, instances)
        beside.wait(PLAN)
    # the mini-batches to come may be larger in more than their number
    times = 2 * -(-sample.model.data.batch // instances)
    batch = planned(sample, Depth(), executor, 0, instances, times=times)
    result = executor.run(batch.plan)
    for refs in batch.graph.results:
        result.values(refs.reference)
    beside.wait(BOUND)
    lower_bound(batch.dag)
    for name in COMPARED:
        beside.wait(name)
        get_policy(name).schedule(batch.dag)
    return batch.dag


def _compile(name: str, dag: Dag, asked: Asked) -> None:
    """Compile what a rule, or learning an FSM, runs."""
    if name == LEARNED:
        encoding = "best" if asked.name == CHOSEN else asked.encoding
        train(lambda *_: dag, 1, encoding, asked.seed, trials=1).schedule(dag)
    else:
        get_policy(name).schedule(dag)


def _report(
    model: Model,
    options: RunOptions,
    overrides: Overrides,
    trained: Trained | None,
    learned: Learned | None,
    sums: Sums,
    clock: Clock,
    command: str,
    share: Share | None,
) -> dict[str, Any]:
    """All that is known of a run, as one JSON document."""
    seconds = dict(clock.seconds)
    working = sum(seconds[phase] for phase in WORKING)
    if entry_of(options.executor).abilities.overlaps:
        # the phases' sum would count twice what overlaps
        working = sums.seconds - seconds["wait"] - seconds["write"]
    elif sums.abreast:  # also what is written meanwhile
        working = sums.seconds - seconds["wait"]
    data = options.input or model.data.path
    first = share.section.seen if share else 0
    own = None if options.input else learned and learned.trained_on(data, first + sums.instances)
    own = own and max(0, own - first)
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model.name,
        "spec": str(model.files[0]),
        "data": "stdin" if str(data) == STDIN else str(data),
        "dims": dict(model.dims),
        "policy": options.policy,
        "encoding": learned.behind if learned and learned.name == LEARNED else None,
        "picked": learned.behind if learned else None,
        "executor": options.executor,
        **settings(options.executor, **options.told),
        "granularity": options.granularity,
        "layout": options.layout,
        "passes": options.passes,
        "hoist": overrides.hoist,
        "seed": options.seed,
        "weights": trained and weights_document(trained),
        "threads": options.threads,
        "abreast": sums.abreast,
        "instances": sums.instances,
        "skipped": sums.skipped,
        "complaints": sums.complaints,
        "batch": model.data.batch,
        "mini_batches": sums.mini_batches,
        "in_pieces": sums.in_pieces,
        "nodes": sums.nodes,
        "batches": sums.batches,
        "lower_bound": sums.lower_bound if sums.whole == sums.mini_batches else None,
        "compared": sums.of_kept.compared,
        "kept": sums.kept,
        "kept_lower_bound": sums.of_kept.lower_bound,
        "unseen_states": sums.unseen_states,
        **_executed(sums),
        "seconds": seconds,
        "instances_per_second": sums.instances / (working or 1.0),
        "not_finite": sums.not_finite,
        "growth": _growth(model, sums, options.verify),
        "max_error": sums.max_error if options.verify else None,
        "training": learned and {**learned.document(), "of_these_instances": own},
        "output": options.output and str(share.part.path if share else options.output),
        "shard": share and share.document(),
        "grown": options.grown and str(options.grown),
        "trace": options.trace and str(options.trace),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": versions(),
        "command": command,
    }


def _executed(sums: Sums) -> dict[str, int | None]:
    """What was executed; what was avoided only where that is known of all mini-batches."""
    counts = asdict(sums.executed)
    if sums.whole < sums.mini_batches:
        counts |= dict.fromkeys(("memory_kernels_avoided", "bytes_avoided"))
    return counts


def _memory(
    before: int | None, needed: Footprint | None, during: int | None, abreast: int
) -> dict[str, int] | None:
    """Bytes: what the process held before the first mini-batch, what the largest one was said to take on top
    of it, where so many ran at once, and the peak while they ran. None where it cannot be measured.
    """
    if before is None or during is None or needed is None:
        return None
    return {
        "before_bytes": before,
        "arenas_bytes": needed.arenas,
        "mini_batch_bytes": needed.total,
        "predicted_bytes": before + abreast * needed.total,
        "measured_bytes": during,
    }


def weights_document(trained: Trained) -> dict[str, Any]:
    """What a report says of the file of trained weights."""
    return {
        "path": str(trained.file.path),
        "format": trained.file.format,
        "sha256": trained.file.sha256,
        "converted": dict(trained.converted),
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
