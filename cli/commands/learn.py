"""`abw learn`: learn a batching policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import duration, grid, print_json, progress, say_random

if TYPE_CHECKING:
    from abw.core.policy.learned.choice import ChosenPolicy
    from abw.core.run.learning import Learned


def learn(
    spec: options.Spec,
    data: options.Data = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    policy: Annotated[
        Literal["auto", "fsm"],
        typer.Option("--policy", help="auto: the best of rules, FSMs and searches; fsm: always an FSM."),
    ] = "auto",
    encoding: Annotated[
        Literal["best", "base", "max", "sort", "critical"] | None,
        typer.Option("--encoding", help=options.ENCODING_HELP + " Implies --policy fsm."),
    ] = None,
    executor: Annotated[
        Literal["cpu", "cuda", "blas", "reference"],
        typer.Option("--executor", help="Executor whose batch cost decides whether searches are tried."),
    ] = "cpu",
    batch: options.Batch = None,
    granularity: options.Granularity = "cell",
    train_limit: Annotated[
        int | None,
        typer.Option("--train-limit", min=1, metavar="N", help="Learn from the first N instances (fsm: 32)."),
    ] = None,
    trials: options.Trials = 1000,
    phases: Annotated[
        int,
        typer.Option(
            "--phases",
            min=0,
            metavar="N",
            help="Divide the graph into N phases and add the phase to each state.",
        ),
    ] = 0,
    seed: options.Seed = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the policy to this file instead of .abw/policies/."
        ),
    ] = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Choose a policy, or learn an FSM by Q-learning, and store it for `abw run` on any data.

    Candidates are rules in both directions, FSMs, and beam searches if batches are expensive enough, compared
    on unseen instances.
    """
    changes = options.overrides(data, None, batch, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.run.learning import Asked, launch_seconds, learn_policy, steps_at_most
    from abw.core.run.workload import (
        grows_at_random,
        open_model,
        open_networks,
        open_sample,
        usual_executor,
    )

    model = open_model(spec, changes)
    networks = open_networks(model, granularity)
    name = "fsm" if encoding or phases else policy
    launch = launch_seconds(networks.network, executor)
    asked = Asked(name, encoding or "best", seed or 0, model.data.batch, launch, train_limit)
    executor_of_rounds = usual_executor(model, networks, asked.seed) if model.growth else None
    workload, used = open_sample(model, networks, asked.instances, executor=executor_of_rounds)
    with progress(quiet) as told:
        told.phase("learn a policy", steps_at_most(asked, trials))
        learned = learn_policy(
            workload,
            asked,
            used=used,
            trials=trials,
            phases=phases,
            path=output,
            progress=told.reached,
        )
    if as_json:
        print_json({"schema_version": 1, "path": str(learned.path), **json.loads(learned.path.read_bytes())})
    elif not quiet:
        _print(learned, model.name)
        say_random(grows_at_random(model))


def _print(learned: Learned, model: str) -> None:
    from rich.text import Text

    from abw.core.base.console import Console
    from abw.core.policy.learned.choice import ChosenPolicy

    console = Console()
    policy = learned.policy
    if isinstance(policy, ChosenPolicy):
        console.print(Text.assemble((model, "bold"), f": {policy.reason}"))
        console.print(_tried(policy))
        console.print(f"policy: {learned.path}", soft_wrap=True)
        return
    training = policy.training
    console.print(
        Text.assemble(
            (model, "bold"),
            f", encoding {policy.encoding}: {training.batches} batches on its "
            f"{learned.data['instances']} training instances (lower bound {training.lower_bound}), "
            f"{len(policy.states)} states, {training.trials} trials, {duration(training.seconds)}",
        )
    )
    console.print(f"policy: {learned.path}", soft_wrap=True)


def _tried(policy: ChosenPolicy) -> Any:  # noqa: ANN401
    nodes, picked = policy.held.nodes, policy.picked
    table = grid("tried", "batches", "ns a node", "states", "learning", "")
    table.columns[-1].justify = "left"
    for t in policy.tried:
        batches = "" if t.batches is None else str(t.batches)
        time = "" if t.batches is None else f"{1e9 * t.scheduling / nodes:.0f}"
        learned = (str(t.states or ""), duration(t.learning)) if t.learning else ("", "")
        table.add_row(t.name, batches, time, *learned, t.refused or "", style="bold" if t is picked else None)
    return table
