"""`abw run` of a spec from end to end: compile, choose policy and mini-batch, run, keep the run on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.files import refuse_overwrite
from abw.core.base.memory import available_memory
from abw.core.base.progress import Clock, Progress, SpanClock
from abw.core.data.feed import looked_at
from abw.core.data.instances import Instances
from abw.core.exec.interface import Executor
from abw.core.exec.registry import get_executor, settings
from abw.core.exec.trained import Trained, load_weights, make_params
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.graph.walk import place
from abw.core.ir.model import Model
from abw.core.jit.decorators import is_compiled
from abw.core.policy.registry import CHOSEN, LEARNED, get_policy
from abw.core.policy.rules.depth import Depth
from abw.core.run.batchsize import LARGEST, SHARE, choose, try_growing, try_sizes
from abw.core.run.checks import refuse_weights
from abw.core.run.columns import columns_of
from abw.core.run.hoisting import hoist_where_it_pays, hoisted_types, may_hoist
from abw.core.run.learning import Asked, Learned, chosen_policy, kept_policy, train
from abw.core.run.minibatches import planned, run_all
from abw.core.run.observing.footprint import require_weights
from abw.core.run.observing.observers import COMPARED, Growing, Resident, Timeline, usual_observers
from abw.core.run.onepass.onepass import Passes
from abw.core.run.options import RunOptions as RunOptions
from abw.core.run.options import Share
from abw.core.run.precompile import BOUND, PLAN, Beside, compiling_beside
from abw.core.run.run import require_targets, shown_data, spare_read, weights_document
from abw.core.run.streaming import ModelRun
from abw.core.run.workload import Workload, may_look, open_model, open_networks, open_sample, open_seeds
from abw.core.spec.load import Overrides
from abw.core.store.grown import open_grown, require_lines

# Bytes of data from which on a pass is compiled, and loaded from disk: it spares 15 ns a byte, and takes 4 s
# or 30 ms.
REPAYS, LOADED = 1 << 28, 1 << 21
# The phase of a first run, which compiles abw's own code.
FIRST_TIME = "compile abw's own code, once after installing: 10 to 40 s"


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
        executor = get_executor(options.executor, **options.told)
        if options.grown:
            require_lines(options.grown)
        timeline = _timeline(executor, options)
        held = Resident(asked=options.profile or options.trace is not None)
        require_targets(options)
        clock = (SpanClock if options.trace else Clock)(*ModelRun.phases, "wait", "write", "learn", "compile")
        with compiling_beside(options.policy, options.encoding) as beside:
            model = open_model(spec, overrides, skip_bad=options.skip_bad)
            require_weights(model)
            if overrides.hoist is None and may_hoist(
                options.policy, options.granularity, options.executor, options.dedup, executor.precision
            ):
                model = hoist_where_it_pays(model, partial(_sample, model, options.skip_bad))
            share = options.cut(model, overrides).share(options.shard) if options.shard else None
            _require_targets(model, options)
            _require_growth(model, options)
            run = _SpecRun(model, executor, options, clock, progress)
            run.share, run.pipe = share, head
            run.trained, run.timeline, run.held = load_weights(model), timeline, held
            held.mark("reading")
            run.prepare(prepared, beside)
        observers = [
            held,
            *usual_observers(options, run.learned.name if run.learned else options.policy),
            timeline,
        ]
        with open_grown(options.grown, model) as grown:
            if model.growth:
                observers.append(Growing(model.growth, grown))
            return run.run(observers, share, command)


def _sample(model: Model, skip_bad: bool) -> tuple[Instances, int]:
    """The first mini-batch of a model's data, and how many of its instances the model can be run on."""
    found, used = open_sample(model, open_networks(model, "cell"), model.data.batch, skip_bad=skip_bad)
    return found.instances, used


def _timeline(executor: Executor, options: RunOptions) -> Timeline:
    """The observer of time. Errors: AbwError if the executor cannot measure it."""
    profiler = executor.profiler if options.profile or options.trace else None
    refused = {
        "--profile": options.profile and "cannot say where its time goes",
        "--trace": options.trace and "notes no batches",
    }
    for option, why in refused.items():
        if why and not profiler:
            hint = f"{option} needs --executor cpu"
            raise AbwError(f"executor '{executor.name}' {why}", hint=hint, exit_code=2)
    return Timeline(profiler, options.trace, sampled=options.profile, keep=options.keep)


def _require_targets(model: Model, options: RunOptions) -> None:
    """Check, before any work, the files that will be written. Errors: AbwError."""
    for target in filter(None, (options.output, options.grown, options.trace)):
        if not target.parent.is_dir():
            hint = f"make it (mkdir -p {target.parent}), or name another"
            raise AbwError(f"cannot write {target}: there is no folder {target.parent}", hint=hint)
        spare_read(target, options.input, *model.reads)


def _require_growth(model: Model, options: RunOptions) -> None:
    """Refuse options that a model that grows, or one that does not, cannot have. Errors: AbwError."""
    if options.grown and not model.growth:
        hint = "--grown is for specs with a section grow"
        raise AbwError(f"nothing grows in {model.name}", hint=hint, exit_code=2)
    if options.profile and model.growth:
        hint = "abw bench and --profile need a plan that can be run again as a whole"
        raise AbwError(f"{model.name} grows: --profile cannot repeat its rounds", hint=hint, exit_code=2)
    if options.grown and options.output and options.grown.resolve() == options.output.resolve():
        hint = "name two files: one has a line of results an instance, the other its vertices"
        raise AbwError(f"--output and --grown are both {options.grown}", hint=hint, exit_code=2)


# The keys of growth in a report.
GROWTH = "rounds driven vertices cut decisions close"


class _SpecRun(ModelRun):
    """A run of a spec with its complete report."""

    trained: Trained | None
    learned: Learned | None
    share: Share | None
    timeline: Timeline
    held: Resident
    tried: dict[str, Any] | None = None

    def about(self) -> dict[str, Any]:
        """Describe the model, the policy and the options."""
        options, learned, model = self.options, self.learned, self.model
        return {
            "data": shown_data(options.input or model.data.path),
            "dims": dict(model.dims),
            "policy": options.policy,
            "encoding": learned.behind if learned and learned.name == LEARNED else None,
            "picked": learned.behind if learned else None,
            "executor": options.executor,
            **settings(options.executor, **options.told),
            **{name: getattr(options, name) for name in ("granularity", "layout", "passes", "dedup")},
            "hoist": bool(hoisted := hoisted_types(model)),
            "hoisted": list(hoisted),
            "seed": options.seed,
            **weights_document(model, self.trained),
            "threads": options.threads,
        }

    def more(self) -> dict[str, Any]:
        """Describe growth, learning, and the choice of the mini-batch."""
        options, model, learned, own = self.options, self.model, self.learned, None
        first = self.share.section.seen if self.share else 0
        if learned and not options.input:
            own = learned.trained_on(model.data.path, first + self.sums.instances)
        own = max(0, own - first) if own is not None else None
        return {
            "batch": model.data.batch,
            "growth": model.growth and dict.fromkeys(GROWTH.split()) | {"rounds": self.sums.rounds},
            "training": learned and {**learned.document(), "of_these_instances": own},
            "grown": options.grown and str(options.grown),
            "trace": options.trace and str(options.trace),
            "auto_batch": self.tried or [],
        }

    def prepare(self, prepared: Callable[[Executor], None], beside: Beside) -> None:
        """Compile, choose policy and mini-batch, call `prepared` with the executor. Errors: AbwError.

        `beside`: the process that compiles meanwhile; it ends when the policy is chosen.
        """
        options, clock, model = self.options, self.clock, self.model
        self.progress.phase("compile" if is_compiled(place) else FIRST_TIME)
        with clock("compile"):
            self.networks = networks = options.networks(model)
            asked = options.asked(model, networks)
            self.learned = kept = kept_policy(networks, asked)
            if options.output and kept:
                refuse_overwrite(options.output, kept.path)
            if not kept:
                beside.learn()
            params = make_params(networks.cells, self.trained, options.seed)
            if options.check_finite:
                refuse_weights(networks.cells, params)
            self.params = params if options.verify else None
            self.executor.prepare(networks.network, params, options.threads)
            prepared(self.executor)
            most = max(LARGEST if options.auto_batch and not model.growth else 2, asked.instances)
            sample, used = open_sample(
                model, networks, most, skip_bad=options.skip_bad, executor=self.executor
            )
            whole = len(sample.instances) < most and not (self.pipe or options.auto_batch)
            if whole and not may_look(sample, used):  # so that what looks is not compiled
                self.networks = networks = replace(networks, equal=None)
                sample = replace(sample, networks=networks)
            small = _warm_up(sample, min(2, used), self.executor, beside)
            if kept:
                kept.policy.schedule(small)
            elif not asked.learned:
                get_policy(asked.name).schedule(small)
            self.timeline.measure(clock, networks.network)
            self.held.mark("compiling")

        def ready(name: str) -> None:
            """Compile what a policy runs; the time does not count as learning."""
            before = clock.seconds["compile"]
            with clock("compile"):
                beside.wait(name)
                _compile(name, small, asked)
            clock.seconds["learn"] -= clock.seconds["compile"] - before

        with clock("learn"):
            self.policy, self.learned = chosen_policy(
                kept, sample, asked, used=used, ready=ready, progress=self.progress
            )
            self.held.mark("choosing the policy")
        beside.end()
        self.policy_file = self.learned.path if self.learned else None
        passes = Passes(model, networks, self.executor, self.outputs)
        # growth is looked at, which passes do not note
        size = self._size()
        if not model.growth and (size >= REPAYS or (size >= LOADED and passes.on_disk(self.policy))):
            with clock("compile"):
                passes.make(self.policy)
            self.passes = passes
        if options.auto_batch:
            self._choose_size(sample, used)

    def _size(self) -> int:
        """The bytes of data to run; of a pipe enough to load a pass, of some instances of a file none."""
        data = self.model.data
        shards = self.share.part.parts if self.share else 1
        return LOADED if self.pipe else 0 if data.limit else data.path.stat().st_size // shards

    def _choose_size(self, sample: Workload, used: int) -> None:
        """Choose the best mini-batch of those tried."""
        options, model = self.options, self.model
        with self.clock("compile"):
            self.progress.phase("choose the mini-batch")
            if model.growth:
                seeds = open_seeds(model, self.networks, LARGEST, skip_bad=options.skip_bad)
                leave_out = (lambda _: None) if options.skip_bad else None
                tried = try_growing(seeds, self.policy, self.executor, leave_out)
            else:
                tried = try_sizes(sample, used, self.policy, self.executor)
        memory = options.memory or int(SHARE * available_memory())
        self.model = replace(model, data=replace(model.data, batch=choose(tried, memory)))
        self.tried = {"memory": memory, "tried": [t.document() for t in tried]}


def _warm_up(sample: Workload, instances: int, executor: Executor, beside: Beside) -> Dag:
    """Run some instances, so that nothing is compiled during measurements; returns their dag.

    The requested policy is not compiled here. Waits for what the other process compiles.
    """
    if beside.process:
        sample.graph(0, instances)
        beside.wait(PLAN)
    if sample.networks.equal:
        sample.networks.equal.compile(sample.unfused(0, instances))
        if sample.model.growth:
            sample.networks.equal.compile_rounds()
    # later mini-batches may be larger by more than their number of instances
    times = 2 * -(-sample.model.data.batch // instances)
    batch = planned(sample, Depth(), executor, 0, instances, times=times)
    result = executor.run(batch.plan)
    for refs in batch.graph.results:
        result.values(refs.reference)
    if sample.model.growth:  # the sample has grown already; outputs of growing instances are read otherwise
        seeds = open_seeds(sample.model, sample.networks, instances, skip_bad=True)
        for grown, found in run_all(seeds, Depth(), executor, leave_out=lambda _: None):
            columns_of(seeds, grown, found)
            break
    beside.wait(BOUND)
    lower_bound(batch.dag)
    for name in COMPARED:
        beside.wait(name)
        get_policy(name).schedule(batch.dag)
    return batch.dag


def _compile(name: str, dag: Dag, asked: Asked) -> None:
    """Compile a rule, or what learning an FSM runs."""
    if name == LEARNED:
        encoding = "best" if asked.name == CHOSEN else asked.encoding
        train(lambda *_: dag, 1, encoding, asked.seed, trials=1).schedule(dag)
    else:
        get_policy(name).schedule(dag)
