"""`abw run`: the main job."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import completion, options, programs
from abw.cli.console import CLOSED_PIPE, amount, counted, print_json, progress, say
from abw.cli.groups import Command
from abw.cli.report import print_run
from abw.cli.usage import one_of
from abw.core.base.interrupts import Terminated, stopped

if TYPE_CHECKING:
    from abw.core.exec.interface import Executor
    from abw.core.run.options import RunOptions
    from abw.core.spec.load import Overrides

app = typer.Typer(add_completion=False)

# What --show-kernels means where no type is named.
ALL = "all"


class RunCommand(Command):
    """`abw run`, with the type of --show-kernels optional."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (Typer's or click's own)
        """Put ALL behind the option where what follows it is an option, the spec, or nothing."""
        for at, arg in enumerate(args):
            after = args[at + 1 : at + 2]
            if arg == "--show-kernels" and not (after and re.fullmatch(r"[^-.][^.]*", after[0])):
                args = [*args[: at + 1], ALL, *args[at + 1 :]]
        return super().parse_args(ctx, args)


@app.command(cls=RunCommand)
def run(
    context: typer.Context,
    spec: options.SpecOrProgram,
    data: options.DataOrPipe = None,
    format: programs.Format = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write outputs to this .jsonl, .npz or .safetensors file instead of the run's "
            "folder; - writes JSON lines to standard output.",
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave malformed instances out, count them, and mark their places."),
    ] = False,
    grown: Annotated[
        Path | None,
        typer.Option(
            "--grown",
            metavar="FILE",
            help="Write the instances with all grown vertices to this .jsonl file (format json).",
        ),
    ] = None,
    limit: options.Limit = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="B|auto",
            help="Instances in a mini-batch; auto: choose by predicted rate and memory.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory limit of a mini-batch for --batch auto, for example 500M or 2G.",
            show_default="half of what is available",
        ),
    ] = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar=options.POLICY,
            autocompletion=completion.policies,
            help="auto, fsm, depth, agenda, agenda-static, phases, sufficient, critical, "
            "critical-free, share, share-free, weight, weight-free, beam, search, exact (with "
            "-reversed: from outputs to inputs); a learned policy's .json file; or your own, as "
            "module:Class or policy.py (docs/policies.md).",
            show_default="auto",
        ),
    ] = None,
    encoding: Annotated[
        Literal["best", "base", "max", "sort", "critical"] | None,
        typer.Option("--encoding", help=options.ENCODING_HELP, show_default="best"),
    ] = None,
    executor: Annotated[
        Literal["cpu", "cuda", "blas", "reference"] | None,
        typer.Option(
            "--executor", "--device", help="Executor; cuda runs on a GPU (docs/cuda.md).", show_default="cpu"
        ),
    ] = None,
    scheme: Annotated[
        Literal["auto", "batch", "plan"] | None,
        typer.Option(
            "--scheme",
            help="How executor cuda launches: each step of a batch, or a whole plan at once.",
            show_default="auto",
        ),
    ] = None,
    no_tensor_cores: options.NoTensorCores = False,
    kernels: Annotated[
        Literal["ir", "njit"] | None,
        typer.Option(
            "--kernels",
            help="Kernels of executor cpu: LLVM IR, or plain numba, which is slower and more portable.",
            show_default="ir on x86-64 and AArch64, otherwise njit",
        ),
    ] = None,
    precision: options.Precision = None,
    granularity: Annotated[
        Literal["cell", "op", "graph"] | None,
        typer.Option("--granularity", help=options.GRAPH_HELP, show_default="cell"),
    ] = None,
    layout: Annotated[
        Literal["planned", "declared", "paper"] | None,
        typer.Option(
            "--layout",
            help="Order of a cell's variables in memory (executor blas): planned, as declared, or by "
            "the paper's algorithm.",
            show_default="planned",
        ),
    ] = None,
    hoist: options.Hoist = False,
    fuse: options.Fuse = False,
    group: options.Group = False,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="Defaults of the options above, as in vanilla-dynet, cavs-dynet, ed-batch, or abw.",
        ),
    ] = "abw",
    train_limit: Annotated[
        int | None,
        typer.Option(
            "--train-limit",
            min=1,
            metavar="N",
            help="Learn from the first N instances (32), even if a learned policy is stored.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Check schedules and plans, and compare every node with the reference."
        ),
    ] = False,
    check_finite: Annotated[
        bool,
        typer.Option(
            "--check-finite",
            help="Stop at the first NaN or infinity in the weights or any value, and say where it is.",
        ),
    ] = False,
    seed: options.Seed = None,
    threads: options.Threads = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Show the time of executor cpu by type and cause, and its share of the peak."
        ),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Write a timeline for Perfetto (JSON): phases, and each thread's batches.",
        ),
    ] = None,
    show_kernels: Annotated[
        str | None,
        typer.Option(
            "--show-kernels",
            metavar="[TYPE]",
            help="Print the compiled kernels of one type or all to standard output, and the summary "
            "to standard error.",
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--report", help="Also write report.html, a page to explore the run.")
    ] = False,
    allow_outside: options.AllowOutside = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Note shown by `abw runs`.")] = "",
    tags: options.Tags = None,
    no_keep: Annotated[
        bool, typer.Option("--no-keep", help="Do not keep the run; outputs go only to --output.")
    ] = False,
    shard: options.Shard = None,
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option("--engine", help="Run shards on a Ray cluster or in local processes (docs/scale.md)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Number of shards to run at once.",
            show_default="all processors",
        ),
    ] = None,
    address: options.Address = None,
    shard_size: Annotated[
        str, typer.Option("--shard-size", metavar="SIZE", help="Bytes of data in a shard.")
    ] = "4M",
    resume: Annotated[
        bool, typer.Option("--resume", help="Reuse the parts of an earlier run with --engine.")
    ] = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Run a model on its data, batched by a policy, and keep the run under .abw/runs/.

    The policies `auto` and `fsm` are learned on first use and stored under .abw/policies/.

    With program.py:function the file's code runs, and the function once for each instance of --data.
    """
    to_stdout = output is not None and str(output) == "-"
    claims = {"--json": as_json, "--output -": to_stdout, "--show-kernels": show_kernels is not None}
    wanting = [option for option, on in claims.items() if on]
    if len(wanting) > 1:
        raise typer.BadParameter(
            "both want standard output: leave one out, or give a file", param_hint=" and ".join(wanting)
        )
    if memory and batch != "auto":
        raise typer.BadParameter("it limits what --batch auto chooses", param_hint="--memory")
    if no_keep and (page or note or tags):
        raise typer.BadParameter("it goes with a run that is kept", param_hint="--report, --note and --tag")
    if engine and shard:
        raise typer.BadParameter("--engine makes shards of its own", param_hint="--shard")
    if not engine:
        for name in ("workers", "resume", "shard_size"):
            if programs.given(context, name):
                option = f"--{name.replace('_', '-')}"
                raise typer.BadParameter("it goes with --engine", param_hint=option)
    if options.is_program(spec):
        programs.refuse_options(context)
        texts: list[str] = []
        with progress(quiet) as shown, _ended(output, grown):
            report = programs.run(
                context.params,
                progress=shown,
                command=shlex.join(["abw", *sys.argv[1:]]),
                prepared=lambda e: texts.append(kernels_of(e, show_kernels)) if show_kernels else None,
            )
        _show(report, texts, page, allow_outside, quiet, as_json, to_stdout)
        return
    programs.refuse_for_spec(context)
    pipe = data if data is not None and _is_pipe(data) else None
    changes = options.overrides(
        None if pipe else data, limit, _batch(batch), sizes, seed, hoist, weights, allow_outside
    )
    from abw.core.policy.registry import LEARNED
    from abw.core.run.batchsize import parse_bytes
    from abw.core.run.pipeline import RunOptions
    from abw.core.run.pipeline import run as run_pipeline
    from abw.core.run.presets import PRESETS

    usual = PRESETS[one_of(preset, tuple(PRESETS), "--preset")]
    nodes = programs.of_spec(granularity or usual.granularity)
    if policy is None:
        policy = LEARNED if encoding else usual.policy
    else:
        options.require_policy(policy, "--policy")
    if encoding and policy != LEARNED:
        raise typer.BadParameter(f"it goes with --policy fsm, not with {policy}", param_hint="--encoding")
    chosen = RunOptions(
        policy=policy,
        encoding=encoding or usual.encoding,
        executor=executor or usual.executor,
        granularity=nodes,
        layout=layout or usual.layout,
        fuse=fuse,
        group=group,
        seed=seed or 0,
        train_limit=train_limit,
        profile=profile,
        input=pipe,
        grown=grown,
        auto_batch=batch == "auto",
        memory=parse_bytes(memory) if memory else None,
        trace=trace,
        **programs.common(context.params),
    )
    if engine:
        wanted = {
            "--verify": verify,
            "--check-finite": check_finite,
            "--profile": profile,
            "--trace": trace,
            "--show-kernels": show_kernels,
            "--report": page,
            "--note or --tag": note or tags,
            "--executor cuda": chosen.executor == "cuda",
        }
        for option, given in wanted.items():
            if given:
                message = "not with --engine, which keeps no run and looks at no mini-batch: try --shard"
                raise typer.BadParameter(message, param_hint=option)
        _scaled(spec, changes, chosen, shard_size, workers, address, resume, quiet, as_json)
        return
    texts = []
    with progress(quiet) as shown, _ended(output, grown):
        report = run_pipeline(
            spec,
            changes,
            chosen,
            progress=shown,
            command=shlex.join(["abw", *sys.argv[1:]]),
            prepared=lambda e: texts.append(kernels_of(e, show_kernels)) if show_kernels else None,
        )
    _show(report, texts, page, allow_outside, quiet, as_json, to_stdout)


def _scaled(
    spec: Path,
    changes: Overrides,
    chosen: RunOptions,
    shard_size: str,
    workers: int | None,
    address: str | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run in shards by Ray, and print what came of it."""
    from abw.core.run.batchsize import parse_bytes
    from abw.core.scale.cluster import Cluster, require_ray
    from abw.core.scale.job import Scale, run_scaled
    from abw.core.scale.on_ray import OnRay

    require_ray()
    scale = Scale(max(1, parse_bytes(shard_size)), resume)
    on_ray = OnRay(Cluster(address or "", workers, chosen.threads or 1))
    with progress(quiet) as shown:
        report = run_scaled(spec, changes, chosen, scale, on_ray, shown)
    if as_json:
        print_json(report)
    if as_json or quiet:
        return
    left_out = f", {amount(report['skipped'])} left out" if report["skipped"] else ""
    taken = f" ({report['resumed']} from before)" if report["resumed"] else ""
    say(
        f"{report['model']}: {counted(report['instances'], 'instance')}{left_out} in "
        f"{counted(report['shards'], 'shard')}{taken}, {amount(report['instances_per_second'])} instances/s"
    )
    say(f"outputs: {report['output']}")


@contextmanager
def _ended(*targets: Path | None) -> Iterator[None]:
    """Say how a run has ended that was stopped, and what is left of it."""
    try:
        yield
    except BrokenPipeError:
        # who reads the lines has enough of them, as `head` has: no mistake, and nothing to say
        raise typer.Exit(CLOSED_PIPE) from None
    except (KeyboardInterrupt, Terminated) as end:
        lines = [t for t in targets if t is not None and t.suffix not in (".npz", ".safetensors")]
        if not lines:
            raise
        where = " and ".join("standard output" if str(t) == "-" else str(t) for t in lines)
        have = "has" if len(lines) == 1 else "have"
        raise stopped(end, f"what {where} {have} are whole lines; no run was kept") from None


def _show(
    report: dict[str, Any],
    texts: list[str],
    page: bool,
    allow_outside: bool,
    quiet: bool,
    as_json: bool,
    to_stdout: bool,
) -> None:
    """Print kernels and the run's report, and write its page."""
    if page and report["mini_batches"]:
        report["report"] = str(_write_page(Path(report["path"]), allow_outside))
    if as_json:
        print_json(report)
        return
    for text in texts:
        say(text)
    if not quiet:
        print_run(report, on_stderr=to_stdout or bool(texts))


def kernels_of(executor: Executor, wanted: str) -> str:
    """The text of a type's kernel, or of all with a heading each. Errors: AbwError where there is none."""
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


def _batch(text: str | None) -> int | None:
    """The number of --batch; None where it is chosen, or not given."""
    if text in (None, "auto"):
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"'{text}' is neither a number from 1 on nor auto", param_hint="--batch")
    return int(text)


def _is_pipe(path: Path) -> bool:
    """Whether data comes but once: from standard input, or what is no regular file."""
    return str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir())


def _write_page(folder: Path, allow_outside: bool) -> Path:
    """The page of a run's first mini-batch, in the run's folder."""
    from abw.core.base.files import write_bytes
    from abw.core.store.runs import find_run
    from abw.viz.data.scene import scene_of_run
    from abw.viz.page import page

    path = folder / "report.html"
    write_bytes(path, page(scene_of_run(find_run(str(folder)), allow_outside=allow_outside)))
    return path
