"""`abw learn`: learn a batching policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abw.cli import options
from abw.cli.console import duration, print_json, progress

if TYPE_CHECKING:
    from abw.core.learning import Learned


def learn(
    spec: options.Spec,
    data: options.Data = None,
    sizes: options.Set = None,
    encoding: options.Encoding = "best",
    granularity: options.Granularity = "cell",
    train_limit: options.TrainLimit = 32,
    trials: options.Trials = 1000,
    phases: Annotated[
        int,
        typer.Option(
            "--phases", min=0, metavar="N", help="Let states say which N-th of the graph is executed."
        ),
    ] = 0,
    seed: options.Seed = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the policy here, not to .abw/policies/."),
    ] = None,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Learn an FSM policy by Q-learning and keep it; `abw run` then uses it on any data and batch size."""
    changes = options.overrides(data, train_limit, None, sizes, seed)
    from abw.core.learning import learn_policy, trials_at_most
    from abw.core.workload import load_workload, open_model

    model = open_model(spec, changes)
    workload = load_workload(model, granularity)
    with progress(quiet) as told:
        told.phase("learn a policy", trials_at_most(encoding, trials))
        learned = learn_policy(
            workload,
            encoding,
            seed or 0,
            limit=train_limit,
            trials=trials,
            phases=phases,
            path=output,
            progress=told.reached,
        )
    if as_json:
        print_json({"schema_version": 1, "path": str(learned.path), **json.loads(learned.path.read_text())})
    else:
        _print(learned, model.name)


def _print(learned: Learned, model: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    policy, training = learned.policy, learned.policy.training
    console.print(
        f"[bold]{model}[/], encoding {policy.encoding}: {training.batches} batches on its "
        f"{learned.data['instances']} training instances (lower bound {training.lower_bound}), "
        f"{len(policy.states)} states, {training.trials} trials, {duration(training.seconds)}"
    )
    console.print(f"policy: {learned.path}", soft_wrap=True)
