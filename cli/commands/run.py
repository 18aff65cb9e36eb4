"""`abw run`: the main job."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import options, programs
from abw.cli.console import CLOSED_PIPE, amount, counted, print_json, say
from abw.cli.groups import Command, chosen, filled, flag, group, option, without
from abw.cli.report import print_run
from abw.cli.usage import one_of
from abw.core.base.interrupts import Terminated, stopped

if TYPE_CHECKING:
    from abw.core.exec.interface import Executor
    from abw.core.run.options import RunOptions
    from abw.core.spec.load import Overrides

# What --show-kernels means where no type is named.
ALL = "all"
_FILE = "a program's cells are as its file has them"
# What a run in shards by an engine cannot have, and why.
NOT_SCALED = {
    *("--verify", "--check-finite", "--profile", "--trace", "--show-kernels", "--report", "--note", "--tag")
}
NO_LOOK = "not with --engine, which keeps no run and looks at no mini-batch: try --shard"


class COMMAND(Command):
    """`abw run`, with the type of --show-kernels optional."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (Typer's or click's own)
        """Put ALL behind the option where what follows it is an option, the spec, or nothing."""
        for at, arg in enumerate(args):
            after = args[at + 1 : at + 2]
            if arg == "--show-kernels" and not (after and re.fullmatch(r"[^-.][^.]*", after[0])):
                args = [*args[: at + 1], ALL, *args[at + 1 :]]
        return super().parse_args(ctx, args)


@group
class Data(options.Changes):
    """The instances, and what is changed of the spec."""

    data: Path | None = option(
        "Read instances from this file instead of the spec's; - is standard input.", "PATH"
    )
    size: str | None = option(
        "Instances in a mini-batch; auto: choose by predicted rate and memory.", "B|auto", "--batch"
    )
    format: options.DataFormat | None = options.FORMAT
    memory: str | None = option(
        "Memory limit of a mini-batch for --batch auto, for example 500M or 2G.",
        "SIZE",
        shown="half of what is available",
        program="it limits what --batch auto chooses, and that is for specs",
    )
    skip_bad: bool = flag("Leave malformed instances out, count them, and mark their places.")


@group
class Batching(options.Passes):
    """How nodes are batched, and how cells lie in memory."""

    policy: str | None = options.policy_option(
        "auto, fsm, depth, agenda, agenda-static, phases, sufficient, critical, critical-free, share, "
        "share-free, weight, weight-free, linear, beam, repair, search, exact (with -reversed: from outputs "
        "to inputs); a learned policy's .json file; or your own, as module:Class or policy.py "
        "(docs/policies.md).",
        shown="auto",
    )
    encoding: options.EncodingName | None = options.ENCODING
    granularity: Literal["cell", "op", "graph"] | None = options.NODES
    layout: Literal["planned", "declared", "paper"] | None = option(
        "Order of a cell's variables in memory (executor blas): planned, as declared, or by the paper's "
        "algorithm.",
        shown="planned",
        program=f"{_FILE}, their variables as planned",
    )
    hoist: bool = flag(
        "Compute products that depend on no state in advance, for all steps at once. By itself abw does so "
        "for types whose rows of tables repeat often enough (docs/policies.md).",
        program=f"{options.WHOLE}; compute such products in a cell of their own",
    )
    no_hoist: bool = flag("Leave all products where they are.", program="nothing is hoisted in programs")
    preset: str | None = option(
        "Defaults of the options above, as in vanilla-dynet, cavs-dynet, ed-batch, or abw.",
        "NAME",
        shown="abw",
        program="presets are of specs; --policy, --granularity and --executor can be said alone",
    )
    train_limit: int | None = option(
        "Learn from the first N instances (32), even if a learned policy is stored.",
        "N",
        least=1,
        program="nothing is learned for a program: --policy critical, depth, …",
    )


@group
class Execution:
    """What computes, and what is checked and measured meanwhile."""

    executor: Literal["cpu", "cuda", "blas", "reference"] | None = option(
        "Executor; cuda runs on a GPU (docs/cuda.md).", None, "--executor", "--device", shown="cpu"
    )
    scheme: Literal["auto", "batch", "plan"] | None = option(
        "How executor cuda launches: each step of a batch, or a whole plan at once.", shown="auto"
    )
    no_tensor_cores: bool = options.NO_TENSOR_CORES
    precision: options.PrecisionName | None = options.PRECISION
    threads: int | None = options.THREADS
    verify: bool = flag("Check schedules and plans, and compare every node with the reference.")
    check_finite: bool = flag(
        "Stop at the first NaN or infinity in the weights or any value, and say where it is."
    )
    profile: bool = flag(
        "Show the time of executor cpu by type and cause, and its share of the peak.",
        program="it runs plans as wholes again, and a program's pieces go on from each other",
    )
    trace: Path | None = option(
        "Write a timeline for Perfetto (JSON): phases, and each thread's batches.",
        "FILE",
        program=f"it notes plans that are made ahead: {options.WHOLE}",
    )
    show_kernels: str | None = option(
        "Print the compiled kernels of one type or all to standard output, and the summary to standard "
        "error.",
        "[TYPE]",
    )

    @property
    def overrides(self) -> dict[str, object]:
        """The executor's own options (`get_executor`)."""
        said = {name: getattr(self, name) for name in ("precision", "scheme")}
        said["tensor_cores"] = False if self.no_tensor_cores else None
        return {name: value for name, value in said.items() if value is not None}


@group
class Kept:
    """Where results go, and what is kept of the run."""

    output: Path | None = option(
        "Write outputs to this .jsonl, .npz or .safetensors file instead of the run's folder; - writes JSON "
        "lines to standard output.",
        "FILE",
        "-o",
    )
    grown: Path | None = option(
        "Write the instances with all grown vertices to this .jsonl file (format json).",
        "FILE",
        program="programs return what they make: --output has it",
    )
    report: bool = flag("Also write report.html, a page to explore the run.")
    note: str = option("Note shown by `abw runs`.", "TEXT", default="")
    tags: list[str] | None = options.TAGS
    no_keep: bool = flag("Do not keep the run; outputs go only to --output.")


@group
class Spread:
    """How a run is cut into shards."""

    shard: str | None = option(
        "Run only part I (from 1) of N; `abw join` combines the parts (docs/scale.md).", "I/N"
    )
    engine: Literal["ray"] | None = option(
        "Run shards on a Ray cluster or in local processes (docs/scale.md).",
        program="its file would run on every machine; --shard I/N and abw join do it",
    )
    workers: int | None = option("Number of shards to run at once.", "N", least=1, shown="all processors")
    address: str | None = options.ADDRESS
    shard_size: str | None = option("Bytes of data in a shard.", "SIZE", shown="4M, more of more than 64 GB")
    leave_parts: bool = flag("Leave the parts of --engine as `abw join --leave-parts` does.")
    resume: bool = flag("Reuse the parts of an earlier run with --engine.")


def run(
    spec: options.SpecOrProgram,
    data: Annotated[Data, without("batch")],
    batching: Batching,
    execution: Execution,
    kept: Kept,
    spread: Spread,
    output: options.Output,
) -> None:
    """Run a model on its data, batched by a policy, and keep the run under .abw/runs/.

    The policies `auto` and `fsm` are learned on first use and stored under .abw/policies/.

    With program.py:function the file's code runs, and the function once for each instance of --data.
    """
    to_stdout = _refuse_contradictions(data, execution, kept, spread, output)
    common = {
        "told": execution.overrides,
        "keep": not kept.no_keep,
        "tags": tuple(kept.tags or ()),
        "shard": options.shard_of(spread.shard),
    }
    texts: list[str] = []
    shown, command = execution.show_kernels, shlex.join(["abw", *sys.argv[1:]])
    run_it: Callable[..., dict[str, Any]]
    if options.is_program(spec):
        programs.refuse_options(data, batching, execution, kept, spread)
        from abw.core.script.run import run_program as run_it

        stdout = to_stdout or output.as_json or shown is not None
        policy = programs.policy_of(batching.policy)
        if policy:
            options.require_policy(policy, "--policy")
        batch = programs.batch_of(data.size, program=True)
        groups = (data, batching, execution, kept)
        how = programs.program_options(*groups, batch=batch, policy=policy, stdout=stdout, **common)
        what: tuple[Any, ...] = (str(spec), how)
    else:
        programs.refuse_format(data.format)
        what = (spec, *_of_spec(data, batching, execution, kept, common))
        if spread.engine:
            _scaled(*what, spread, output)
            return
        from abw.core.run.pipeline import run as run_it
    with output.progress() as progress, _ended(kept.output, kept.grown):
        report = run_it(
            *what,
            progress=progress,
            command=command,
            prepared=lambda e: texts.append(kernels_of(e, shown)) if shown else None,
        )
    if kept.report and report["mini_batches"]:
        report["report"] = str(_write_page(Path(report["path"]), data.allow_outside))
    if output.as_json:
        print_json(report)
        return
    for text in texts:
        say(text)
    if not output.quiet:
        print_run(report, on_stderr=to_stdout or bool(texts))


def _refuse_contradictions(
    data: Data, execution: Execution, kept: Kept, spread: Spread, output: options.Output
) -> bool:
    """Refuse options that do not go together, by a usage error; whether results go to standard output."""
    to_stdout = str(kept.output) == "-"
    claims = {
        "--json": output.as_json,
        "--output -": to_stdout,
        "--show-kernels": execution.show_kernels is not None,
    }
    wanting = [name for name, on in claims.items() if on]
    if len(wanting) > 1:
        said = "both want standard output: leave one out, or give a file"
        raise typer.BadParameter(said, param_hint=" and ".join(wanting))
    if data.memory and data.size != "auto":
        raise typer.BadParameter("it limits what --batch auto chooses", param_hint="--memory")
    if kept.no_keep and (kept.report or kept.note or kept.tags):
        raise typer.BadParameter("it goes with a run that is kept", param_hint="--report, --note and --tag")
    if spread.engine and spread.shard:
        raise typer.BadParameter("--engine makes shards of its own", param_hint="--shard")
    for name, _ in chosen(spread):
        if name in ("--workers", "--resume", "--shard-size", "--leave-parts") and not spread.engine:
            raise typer.BadParameter("it goes with --engine", param_hint=name)
    for name, _ in chosen(execution, kept):
        if name in NOT_SCALED and spread.engine:
            raise typer.BadParameter(NO_LOOK, param_hint=name)
    return to_stdout


def _of_spec(
    data: Data, batching: Batching, execution: Execution, kept: Kept, common: dict[str, Any]
) -> tuple[Overrides, RunOptions]:
    """What is changed of a spec, and how it is run. Errors: usage errors, AbwError."""
    pipe = data.data if data.data is not None and _is_pipe(data.data) else None
    if batching.hoist and batching.no_hoist:
        raise typer.BadParameter("it does not go with --hoist", param_hint="--no-hoist")
    changes = data.overrides(
        data=None if pipe else data.data,
        batch=programs.batch_of(data.size, program=False),
        hoist=True if batching.hoist else False if batching.no_hoist else None,
    )
    from abw.core.policy.registry import LEARNED
    from abw.core.run.batchsize import parse_bytes
    from abw.core.run.options import PRESETS, RunOptions

    usual = PRESETS[one_of(batching.preset or "abw", tuple(PRESETS), "--preset")]
    policy, encoding = batching.policy, batching.encoding
    granularity = programs.of_spec(batching.granularity or usual.granularity)
    if policy is None:
        policy = LEARNED if encoding else usual.policy
    else:
        options.require_policy(policy, "--policy")
    if encoding and policy != LEARNED:
        raise typer.BadParameter(f"it goes with --policy fsm, not with {policy}", param_hint="--encoding")
    groups = (usual, data, batching, execution, kept)
    common |= {"memory": parse_bytes(data.memory) if data.memory else None, "auto_batch": data.size == "auto"}
    return changes, filled(RunOptions, *groups, policy=policy, granularity=granularity, input=pipe, **common)


def _scaled(
    spec: Path, changes: Overrides, chosen: RunOptions, spread: Spread, output: options.Output
) -> None:
    """Run in shards by Ray, and print the summary."""
    if chosen.executor == "cuda":
        raise typer.BadParameter(NO_LOOK, param_hint="--executor cuda")
    from abw.core.run.batchsize import parse_bytes
    from abw.core.scale.cluster import Cluster, require_ray
    from abw.core.scale.job import Scale, run_scaled
    from abw.core.scale.on_ray import OnRay

    require_ray()
    size = max(1, parse_bytes(spread.shard_size)) if spread.shard_size else None
    scale = Scale(size, spread.resume, spread.leave_parts)
    on_ray = OnRay(Cluster(spread.address or "", spread.workers, chosen.threads or 1))
    with output.progress() as shown:
        report = run_scaled(spec, changes, chosen, scale, on_ray, shown)
    output.summarize(report, _print_scaled)


def _print_scaled(report: dict[str, Any]) -> None:
    left_out = f", {amount(report['skipped'])} left out" if report["skipped"] else ""
    taken = f" ({report['resumed']} from before)" if report["resumed"] else ""
    say(
        f"{report['model']}: {counted(report['instances'], 'instance')}{left_out} in "
        f"{counted(report['shards'], 'shard')}{taken}, {amount(report['instances_per_second'])} instances/s"
    )
    say(f"outputs: {report['output']}")


@contextmanager
def _ended(*targets: Path | None) -> Iterator[None]:
    """Report how a run ended that was stopped, and what is left of it."""
    try:
        yield
    except BrokenPipeError:
        # the reader has enough lines, as `head` has: no mistake, and nothing to report
        raise typer.Exit(CLOSED_PIPE) from None
    except (KeyboardInterrupt, Terminated) as end:
        lines = [t for t in targets if t is not None and t.suffix not in (".npz", ".safetensors")]
        if not lines:
            raise
        where = " and ".join("standard output" if str(t) == "-" else str(t) for t in lines)
        have = "has" if len(lines) == 1 else "have"
        raise stopped(end, f"what {where} {have} are whole lines; no run was kept") from None


def kernels_of(executor: Executor, wanted: str) -> str:
    """The text of a type's kernel, or of all with a heading each. Errors: AbwError if there is none."""
    from abw.core.base.errors import AbwError, did_you_mean

    texts = executor.kernels()
    if not texts:
        hint = "--show-kernels needs --executor cpu or cuda"
        raise AbwError(f"executor '{executor.name}' compiles no kernels", hint=hint, exit_code=2)
    if wanted == ALL:
        return "\n".join(f"# {name}\n{text}" if name else text for name, text in texts.items())
    if "" in texts:
        hint = f"--show-kernels {ALL}"
        raise AbwError(f"executor '{executor.name}' has one text for all types", hint=hint, exit_code=2)
    if wanted not in texts:
        raise AbwError(f"no type is called '{wanted}'", hint=did_you_mean(wanted, list(texts)), exit_code=2)
    return texts[wanted]


def _is_pipe(path: Path) -> bool:
    """Whether data can be read only once: from standard input, or what is no regular file."""
    return str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir())


def _write_page(folder: Path, allow_outside: bool) -> Path:
    """Write the page of a run's first mini-batch into the run's folder."""
    from abw.core.base.files import write_bytes
    from abw.core.store.runs import find_run
    from abw.viz.data.scene import scene_of_run
    from abw.viz.page import page

    path = folder / "report.html"
    write_bytes(path, page(scene_of_run(find_run(str(folder)), allow_outside=allow_outside)))
    return path
