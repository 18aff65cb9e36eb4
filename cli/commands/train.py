"""`abw train`: learn a model's weights."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from abw.cli import options, programs
from abw.cli.console import amount, counted, say
from abw.cli.groups import chosen, filled, flag, group, option
from abw.core.base.errors import AbwError
from abw.core.base.interrupts import Terminated, stopped
from abw.core.store.folders import number_of

if TYPE_CHECKING:
    from abw.core.base.progress import Progress
    from abw.core.train.loop import Row
    from abw.core.train.programs.session import ProgramTraining
    from abw.core.train.session import TrainOptions


@group
class Training:
    """How a model is trained."""

    format: options.DataFormat | None = options.FORMAT
    dev: Path | None = option("Compute metrics on this file instead of the spec's `dev`.", "PATH")
    epochs: int | None = option("Number of passes over the training data (the spec's).", "N", least=1)
    resume: str | None = option(
        "Continue a training, by its number or folder, or the last one, with the same bits as without "
        "interruption; takes no SPEC or other options.",
        "N",
    )
    metric: list[str] | None = option(
        "Add your own metric, a function in a module or file.py.",
        "MODULE:FUNCTION",
        program="the loss and accuracy of what it says by net.loss are computed",
    )
    policy: str = options.policy_option(
        "Batching policy as for `abw run`; it does not change the gradients.", default="sufficient"
    )
    executor: Literal["cpu", "reference"] = option("Executor.", default="cpu")
    threads: int | None = options.THREADS
    checkpoint: float = option("Interval between checkpoints.", "SECONDS", default=60.0, least=0)
    dedup: options.DedupName = option(options.DEDUP_HELP, default="auto")
    check: bool = flag("Compare the gradients with finite differences, without training.")
    engine: Literal["ray"] | None = option(
        "Compute gradients in many processes (docs/scale.md).",
        program="its file would run on every machine",
    )
    workers: int | None = option("Number of processes, with --threads each (1).", "N", least=1)
    address: str | None = options.ADDRESS


def train(
    changes: options.Changes,
    training: Training,
    output: options.Output,
    spec: options.SpecOrProgramOrNone = None,
) -> None:
    """Train a model by the section `train` of its spec; keep curve and weights under .abw/training/.

    A program says what to learn by net.loss (docs/programs.md).

    After Ctrl-C or a kill, `abw train --resume last` continues.
    """
    overrides = changes.overrides()
    from abw.core.train import session

    how = _options(spec, changes, training)
    program = _of_program(changes, training) if options.is_program(spec) else None
    if program is None and spec is not None:
        programs.refuse_format(training.format)
    if program is not None and training.check:
        from abw.core.train.programs.session import check_program

        output.summarize(check_program(str(spec), program), _print_check)
        return
    if spec is not None and training.check:
        from abw.core.train.check import check_gradients

        output.summarize(check_gradients(spec, overrides, how), _print_check)
        return

    def tell(row: Row) -> None:
        if not (output.as_json or output.quiet):
            print(_line(row), file=sys.stderr, flush=True)

    from abw.core.scale.team import TeamOnRay

    folders: list[Path] = []
    ways: dict[str, Any] = {
        "on_epoch": tell,
        "started": folders.append,
        "engine": TeamOnRay(training.address or ""),
    }
    try:
        with output.progress() as progress:
            if spec is None:
                name = None if training.resume == "last" else training.resume
                report = _resumed(name, progress, ways)
            elif program is not None:
                from abw.core.train.programs.session import train_program

                command = shlex.join(["abw", *sys.argv[1:]])
                ways.pop("engine")
                report = train_program(str(spec), program, progress=progress, command=command, **ways)
            else:
                command = shlex.join(["abw", *sys.argv[1:]])
                report = session.train(spec, overrides, how, progress=progress, command=command, **ways)
    except (KeyboardInterrupt, Terminated) as end:
        if not folders:
            raise
        again = f"`abw train --resume {number_of(folders[0])}` goes on from the last step"
        raise stopped(end, again) from None
    output.summarize(report, _print)


def _resumed(name: str | None, progress: Progress, ways: dict[str, Any]) -> dict[str, Any]:
    """Go on with a training of a spec or program."""
    from abw.core.base.files import read_json
    from abw.core.store.trainings import ABOUT, find_training
    from abw.core.train import session

    folder = find_training(name)
    about = read_json(folder / ABOUT, "training")
    if "program" not in about:
        return session.resume(name, progress=progress, **ways)
    from abw.core.train.programs.session import resume_program

    ways.pop("engine")
    return resume_program(about, folder, progress=progress, **ways)


def _of_program(changes: options.Changes, training: Training) -> ProgramTraining:
    """How a program is trained. Errors: a usage error for options that do not go with it."""
    from abw.core.train.programs.session import ProgramTraining

    programs.refuse_options(changes, training)
    if changes.data is None:
        raise typer.BadParameter("a program needs instances: --data FILE", param_hint="--data")
    return filled(ProgramTraining, changes, training, dims=changes.dims, every=training.checkpoint)


def _options(spec: Path | None, changes: options.Changes, training: Training) -> TrainOptions:
    """How to train, as core takes it. Errors: a usage error for options that do not go together; AbwError."""
    from abw.core.train.session import TrainOptions

    if spec is None and training.resume is None:
        hint = "`abw specs` lists the models that ship; --resume continues a training"
        raise AbwError("abw train needs SPEC or --resume", hint=hint, exit_code=2)
    typed = {name for name, _ in chosen(changes, training)} - {"--resume", "--address", "--allow-outside"}
    if training.resume and (spec or typed):
        message = "a training continues with its own options: leave out SPEC and other options"
        raise typer.BadParameter(message, param_hint="--resume")
    engine, workers, policy = training.engine, training.workers, training.policy
    if bool(engine) != bool(workers):
        message = "--engine and --workers go together: the bits of a gradient depend on how many add to it"
        raise typer.BadParameter(message, param_hint="--workers")
    if engine and training.check:
        raise typer.BadParameter("it works only in one process", param_hint="--check")
    if engine:
        from abw.core.scale.cluster import require_ray

        require_ray()
    options.require_policy(policy, "--policy")
    if policy.endswith(".json"):
        policy = str(Path(policy).absolute())  # as a training that goes on finds it
    threads = training.threads or (1 if workers and training.executor == "cpu" else None)
    others = {"policy": policy, "threads": threads, "metrics": training.metric or ()}
    return filled(TrainOptions, changes, training, every=training.checkpoint, **others)


def _print(report: dict[str, Any]) -> None:
    best = f", the best after epoch {report['best_epoch']}" if report["best"] is not None else ""
    steps = f"{counted(report['epochs'], 'epoch')}, {counted(report['steps'], 'step')}"
    say(f"{report['model']}: {steps}{best}")
    if len(report["curve"]) > 1:
        from abw.cli.trainings import show_curves
        from abw.core.store.trainings import stored_training

        show_curves(stored_training(report["path"]))
    say(f"weights: {report['weights']}")


def _line(row: Row) -> str:
    """One line about an epoch."""
    known = ("epoch", "steps", "loss", "rate", "instances_per_second")
    metrics = [f"{name} {_number(value)}" for name, value in row.items() if name not in known]
    loss, rate = f"loss {_number(row['loss'])}", f"{amount(row['instances_per_second'])} instances/s"
    return f"epoch {row['epoch']:>3}: {', '.join([loss, *metrics, rate])}"


def _number(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def _print_check(report: dict[str, Any]) -> None:
    for row in report["parameters"]:
        say(f"{row['name']}: {row['checked']} of {row['size']} numbers, largest error {row['error']:.1e}")
    say(
        f"{report['model']}: gradients are right, largest error {report['error']:.1e} of the largest gradient"
    )
