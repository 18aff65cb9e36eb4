"""`abw train`: learn a model's weights."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import amount, counted, print_json, progress, say
from abw.core.base.errors import AbwError
from abw.core.base.interrupts import Terminated, stopped
from abw.core.store.folders import number_of

if TYPE_CHECKING:
    from abw.core.train.loop import Row

Executor = Literal["cpu", "reference"]
POLICY, EVERY = "sufficient", 60.0
# What is taken unless told otherwise; a training that goes on takes none of it.
EXECUTOR: Executor = "cpu"


def train(
    spec: options.SpecOrNone = None,
    data: options.Data = None,
    dev: Annotated[
        Path | None,
        typer.Option(
            "--dev", metavar="PATH", help="Compute metrics on this file instead of the spec's `dev`."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs", min=1, metavar="N", help="Number of passes over the training data (the spec's)."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="N",
            help="Continue a training, by its number or folder, or the last one, with the same bits "
            "as without interruption; takes no SPEC or other options.",
        ),
    ] = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="MODULE:FUNCTION",
            help="Add your own metric, a function in a module or file.py.",
        ),
    ] = None,
    policy: Annotated[
        str,
        options.policies("Batching policy as for `abw run`; it does not change the gradients.", "--policy"),
    ] = POLICY,
    executor: Annotated[Executor, typer.Option("--executor", help="Executor.")] = EXECUTOR,
    seed: options.Seed = None,
    threads: options.Threads = None,
    checkpoint: Annotated[
        float,
        typer.Option("--checkpoint", min=0, metavar="SECONDS", help="Interval between checkpoints."),
    ] = EVERY,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare the gradients with finite differences, without training."),
    ] = False,
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option("--engine", help="Compute gradients in many processes (docs/scale.md)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, metavar="N", help="Number of processes, with --threads each (1)."),
    ] = None,
    address: options.Address = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Train a model by the section `train` of its spec; keep curve and weights under .abw/training/.

    After Ctrl-C or a kill, `abw train --resume last` continues.
    """
    changes = options.overrides(data, limit, batch, sizes, seed, False, weights, allow_outside)
    from abw.core.train import session

    if spec is None and resume is None:
        hint = "`abw specs` lists the models that ship; --resume goes on with a training"
        raise AbwError("abw train needs SPEC or --resume", hint=hint, exit_code=2)
    how = spec is not None or (policy, executor, checkpoint) != (POLICY, EXECUTOR, EVERY)
    where = (data, dev, epochs, limit, batch, sizes, weights, seed, threads, metric, check, engine, workers)
    if resume and (how or any(where)):
        message = "a training goes on as it was begun: leave SPEC and the other options out"
        raise typer.BadParameter(message, param_hint="--resume")
    if bool(engine) != bool(workers):
        message = "--engine and --workers go together: the bits of a gradient depend on how many add to it"
        raise typer.BadParameter(message, param_hint="--workers")
    if engine and check:
        raise typer.BadParameter("it is for this process alone", param_hint="--check")
    if engine:
        from abw.core.scale.cluster import require_ray

        require_ray()
    options.require_policy(policy, "--policy")
    if policy.endswith(".json"):
        policy = str(Path(policy).absolute())  # as a training that goes on finds it
    chosen = session.TrainOptions(
        dev=dev,
        epochs=epochs,
        policy=policy,
        executor=executor,
        threads=threads or (1 if workers and executor == "cpu" else None),
        seed=seed or 0,
        every=checkpoint,
        metrics=metric or (),
        workers=workers or 0,
    )
    if check:
        assert spec is not None
        _check(spec, changes, chosen, quiet, as_json)
        return

    def told(row: Row) -> None:
        if not (as_json or quiet):
            print(_line(row), file=sys.stderr, flush=True)

    from abw.core.scale.team import TeamOnRay

    name = None if resume == "last" else resume
    team = TeamOnRay(address or "")
    folders: list[Path] = []
    try:
        with progress(quiet) as shown:
            if spec is None:
                report = session.resume(name, progress=shown, told=told, started=folders.append, engine=team)
            else:
                command = shlex.join(["abw", *sys.argv[1:]])
                report = session.train(
                    spec,
                    changes,
                    chosen,
                    progress=shown,
                    told=told,
                    started=folders.append,
                    command=command,
                    engine=team,
                )
    except (KeyboardInterrupt, Terminated) as end:
        if not folders:
            raise
        again = f"`abw train --resume {number_of(folders[0])}` goes on from the last step"
        raise stopped(end, again) from None
    if as_json:
        print_json(report)
    if as_json or quiet:
        return
    best = f", the best after epoch {report['best_epoch']}" if report["best"] is not None else ""
    seen = f"{counted(report['epochs'], 'epoch')}, {counted(report['steps'], 'step')}"
    say(f"{report['model']}: {seen}{best}")
    if len(report["curve"]) > 1:
        from abw.cli.trainings import show_curves
        from abw.core.store.trainings import stored_training

        show_curves(stored_training(report["path"]))
    say(f"weights: {report['weights']}")


def _line(row: Row) -> str:
    """An epoch for people."""
    known = ("epoch", "steps", "loss", "rate", "instances_per_second")
    metrics = [f"{name} {_number(value)}" for name, value in row.items() if name not in known]
    loss, rate = f"loss {_number(row['loss'])}", f"{amount(row['instances_per_second'])} instances/s"
    return f"epoch {row['epoch']:>3}: {', '.join([loss, *metrics, rate])}"


def _number(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def _check(spec: Path, changes: Any, chosen: Any, quiet: bool, as_json: bool) -> None:  # noqa: ANN401
    from abw.core.train.check import check_gradients

    report = check_gradients(spec, changes, chosen)
    if as_json:
        print_json(report)
    if as_json or quiet:
        return
    for row in report["parameters"]:
        say(f"{row['name']}: {row['checked']} of {row['size']} numbers, error {row['error']:.1e}")
    say(f"{report['model']}: gradients are right, error {report['error']:.1e} of the largest")
