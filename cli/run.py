"""`abw run`: the main job."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import CLOSED_PIPE, amount, counted, duration, print_json, progress
from abw.cli.profile import profile_table
from abw.core.errors import InterruptedWorkError


def run(
    spec: options.Spec,
    data: options.DataOrPipe = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the outputs here: .jsonl (a line an instance), .npz or .safetensors; - is JSON lines "
            "on standard output. Without it they lie in the run's folder.",
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave malformed instances out, count them, mark their place."),
    ] = False,
    limit: options.Limit = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch", metavar="B|auto", help="Instances in a mini-batch; auto: by predicted rate and memory."
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="What a mini-batch of --batch auto may take, as 500M or 2G.",
            show_default="half of what is available",
        ),
    ] = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="depth, agenda, agenda-static, sufficient, critical, critical-free, phases, search, fsm, or "
            "the .json file of a learned policy (fsm; at op critical-free).",
        ),
    ] = None,
    encoding: Annotated[
        Literal["best", "base", "max", "sort", "critical"] | None,
        typer.Option("--encoding", help=options.ENCODING_HELP, show_default="best"),
    ] = None,
    executor: Annotated[
        Literal["cpu", "cuda", "blas", "reference"] | None,
        typer.Option(
            "--executor", "--device", help="What computes; cuda: on a GPU (docs/cuda.md).", show_default="cpu"
        ),
    ] = None,
    scheme: Annotated[
        Literal["auto", "batch", "plan"] | None,
        typer.Option(
            "--scheme",
            help="How executor cuda launches: each step of a batch by itself, or a whole plan at once.",
            show_default="auto",
        ),
    ] = None,
    no_tensor_cores: options.NoTensorCores = False,
    kernels: Annotated[
        Literal["ir", "njit"] | None,
        typer.Option(
            "--kernels",
            help="What executor cpu's kernels are written in: LLVM's IR, or plain numba, which is slower and "
            "runs wherever numba does.",
            show_default="ir; njit where not x86-64",
        ),
    ] = None,
    granularity: Annotated[
        Literal["cell", "op"] | None,
        typer.Option("--granularity", help=options.GRANULARITY_HELP, show_default="cell"),
    ] = None,
    layout: Annotated[
        Literal["planned", "declared", "paper"] | None,
        typer.Option(
            "--layout",
            help="Where a cell's variables lie, where they do (executor blas): planned; as they come; by the "
            "paper's algorithm.",
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
            help="What the options above are unless given: vanilla-dynet, cavs-dynet, ed-batch (what these "
            "systems do), or abw.",
        ),
    ] = "abw",
    train_limit: Annotated[
        int | None,
        typer.Option(
            "--train-limit",
            min=1,
            metavar="N",
            help="Learn from the first N instances, also where a policy learned from others is kept (32).",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check schedules and plans, and every node against the reference."),
    ] = False,
    seed: options.Seed = None,
    threads: options.Threads = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Say where the time of executor cpu goes: by type and reason, beside the peak."
        ),
    ] = False,
    page: Annotated[
        bool, typer.Option("--report", help="Also write report.html: the run to look at and walk through.")
    ] = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Run a model on its data, batched by a policy, and keep the run under .abw/runs/.

    The policy `fsm` is learned on first use, and kept under .abw/policies/ for the next.
    """
    to_stdout = output is not None and str(output) == "-"
    if to_stdout and as_json:
        raise typer.BadParameter("both want standard output: give a file", param_hint="--json and --output -")
    if memory and batch != "auto":
        raise typer.BadParameter("it limits what --batch auto chooses", param_hint="--memory")
    pipe = data if data is not None and _is_pipe(data) else None
    changes = options.overrides(None if pipe else data, limit, _batch(batch), sizes, seed, hoist, weights)
    from abw.core.batchsize import parse_bytes
    from abw.core.pipeline import RunOptions
    from abw.core.pipeline import run as run_pipeline
    from abw.core.policy.registry import LEARNED, POLICIES
    from abw.core.presets import PRESETS

    usual = PRESETS[options.one_of(preset, tuple(PRESETS), "--preset")]
    granularity = granularity or usual.granularity
    if policy is None:
        policy = usual.policy if granularity == usual.granularity else options.default_policy(granularity)
    elif not policy.endswith(".json"):
        options.one_of(policy, POLICIES, "--policy")
    if encoding and policy != LEARNED:
        raise typer.BadParameter(f"it goes with --policy fsm, not with {policy}", param_hint="--encoding")
    chosen = RunOptions(
        policy=policy,
        encoding=encoding or usual.encoding,
        executor=executor or usual.executor,
        kernels=kernels,
        scheme=scheme,
        tensor_cores=not no_tensor_cores,
        granularity=granularity,
        layout=layout or usual.layout,
        fuse=fuse,
        group=group,
        seed=seed or 0,
        threads=threads,
        verify=verify,
        train_limit=train_limit,
        profile=profile,
        input=pipe,
        output=output,
        skip_bad=skip_bad,
        auto_batch=batch == "auto",
        memory=parse_bytes(memory) if memory else None,
    )
    try:
        with progress(quiet) as told:
            report = run_pipeline(
                spec, changes, chosen, progress=told, command=shlex.join(["abw", *sys.argv[1:]])
            )
    except BrokenPipeError:
        # who reads the lines has enough of them, as `head` has: no mistake, and nothing to say
        raise typer.Exit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        if output is None or output.suffix in (".npz", ".safetensors"):
            raise
        where = "standard output" if to_stdout else str(output)
        raise InterruptedWorkError(
            f"interrupted: what {where} has are whole lines; no run was kept"
        ) from None
    if page and report["mini_batches"]:
        report["report"] = str(_write_page(Path(report["path"])))
    if as_json:
        print_json(report)
    else:
        print_run(report, on_stderr=to_stdout)


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


def _write_page(folder: Path) -> Path:
    """The page of a run's first mini-batch, in the run's folder."""
    from abw.core.store.files import write_bytes
    from abw.core.store.runs import find_run
    from abw.viz.page import page
    from abw.viz.scene import scene_of_run

    path = folder / "report.html"
    write_bytes(path, page(scene_of_run(find_run(str(folder)))))
    return path


def print_run(report: dict[str, Any], *, on_stderr: bool = False) -> None:
    """A run's report on one screen."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, stderr=on_stderr)
    dims = ", ".join(f"{name} {size}" for name, size in report["dims"].items())
    console.print(f"[bold]{report['model']}[/] ({dims}) on {report['data']}")
    threads = f", {counted(report['threads'], 'thread')}" if report["threads"] else ""
    mini_batches = counted(report["mini_batches"], "mini-batch", "es")
    done = {"fuse": "reductions read in place", "group": "types grouped"}
    passes = "".join(f"; {done[name]}" for name in report["passes"])
    console.print(
        f"{counted(report['instances'], 'instance')} in {mini_batches} of {report['batch']}; "
        f"{amount(report['nodes'])} nodes ({report['granularity']}); "
        f"executor {report['executor']}{threads}{passes}"
    )
    if pieces := report.get("in_pieces"):
        console.print(f"{pieces} of them did not fit the device's memory at once, and ran in pieces")
    if used := report.get("weights"):
        count = ", ".join(f"{number} of {kind}" for kind, number in used["converted"].items())
        console.print(f"weights {used['path']}" + (f" ({count}, made float32)" if count else ""))
    console.print(f"[bold]{amount(report['instances_per_second'])} instances/s[/]")
    if auto := report.get("auto_batch"):
        console.print(_tried(report["batch"], auto))
    for said in _skipped(report):
        console.print(said, style="yellow", markup=False, soft_wrap=True)
    console.print()

    kept = report.get("kept", report["mini_batches"])
    first = f" (first {kept} mini-batches)" if kept < report["mini_batches"] else ""
    table = Table("policy", f"batches{first}", "of the lower bound", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    bound = report.get("kept_lower_bound", report["lower_bound"])
    table.add_row("lower bound", str(bound), "")
    for name, batches in sorted(report["compared"].items(), key=lambda item: item[1]):
        mine = name == ("fsm" if report["policy"].endswith(".json") else report["policy"])
        shown = f"{name} ({report['encoding']})" if mine and report["encoding"] else name
        style = "bold" if mine else None
        table.add_row(shown, str(batches), f"{batches / bound:.2f} x" if bound else "", style=style)
    console.print(table)
    if report["training"]:
        console.print(_training(report))
    console.print()

    seconds = report["seconds"]
    steps = ("read", "construct", "schedule", "plan", "execute")
    console.print("   ".join(f"{step} {duration(seconds[step])}" for step in steps))
    beside = [step for step in ("learn", "compile", "write", "wait") if seconds.get(step)]
    console.print(
        "   ".join(f"{step} {duration(seconds[step])}" for step in beside) + "   (not in instances/s)",
        style="dim",
    )
    avoided = report["memory_kernels_avoided"]
    read_in_place = (
        f" ({amount(avoided)} and {amount(report['bytes_avoided'], 'B')} avoided)" if avoided else ""
    )
    console.print(
        f"{amount(report['launches'])} launches, {amount(report['memory_kernels'])} memory kernels, "
        f"{amount(report['bytes_moved'], 'B')} moved{read_in_place}; "
        f"peak memory {amount(report['peak_memory_bytes'], 'B')}"
    )
    if memory := report["memory"]:
        console.print(
            f"memory of the largest mini-batch {amount(memory['mini_batch_bytes'], 'B')}; of the process "
            f"{amount(memory['predicted_bytes'], 'B')} predicted, "
            f"{amount(memory['measured_bytes'], 'B')} measured"
        )
    if report["profile"] and report["mini_batches"]:
        console.print(profile_table(report["profile"]))
    if report["max_error"] is not None:
        console.print(f"verified: largest error {report['max_error']:.1e} of the output's root mean square")
    if "path" in report:
        console.print(f"\nresults: {report['path']}", soft_wrap=True)
    if report.get("output") not in (None, "-"):
        console.print(f"outputs: {report['output']}", soft_wrap=True)
    if "report" in report:
        console.print(f"report: {report['report']}", soft_wrap=True)


def _tried(taken: int, auto: dict[str, Any]) -> str:
    """Why the mini-batch is of that size."""
    rates = [
        f"{'[bold]' if t['batch'] == taken else ''}{t['batch']}: {amount(t['instances_per_second'])}"
        f"{' (too large)' if t['bytes'] > auto['memory'] else ''}{'[/]' if t['batch'] == taken else ''}"
        for t in auto["tried"]
    ]
    needs = next(t["bytes"] for t in auto["tried"] if t["batch"] == taken)
    return (
        f"mini-batch {taken} by cost; instances/s predicted for {', '.join(rates)}; "
        f"one takes {amount(needs, 'B')} of {amount(auto['memory'], 'B')}"
    )


def _skipped(report: dict[str, Any]) -> list[str]:
    """What was left out, a line each."""
    skipped = report.get("skipped", 0)
    if not skipped:
        return []
    told = report["complaints"][:3]
    more = [f"  and {skipped - len(told)} more"] if skipped > len(told) else []
    return [f"{counted(skipped, 'instance')} left out:", *(f"  {said}" for said in told), *more]


def _training(report: dict[str, Any]) -> str:
    training = report["training"]
    how = "learned now" if training["fresh"] else "learned earlier"
    own, here = training["of_these_instances"], report["instances"]
    if own is None:
        where = "not from a pipe"
    elif own == here:
        where = "[yellow]this is its training data[/]"
    elif own:
        where = f"[yellow]{own} of these {here} instances are its training data[/]"
    else:
        where = "none of these instances is its training data"
    unseen = f"; {report['unseen_states']} steps in unseen states" if report["unseen_states"] else ""
    return (
        f"policy {how} from {counted(training['instances'], 'instance')} in {training['trials']} trials: "
        f"{training['states']} states; {where}{unseen}"
    )
