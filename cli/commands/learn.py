"""`abw learn`: learn a batching policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import duration, grid, print_json, progress

if TYPE_CHECKING:
    from abw.core.policy.learned.choice import ChosenPolicy
    from abw.core.run.learning import Learned


def learn(
    spec: options.Spec,
    data: options.Data = None,
    sizes: options.Set = None,
    policy: Annotated[
        Literal["auto", "fsm"],
        typer.Option("--policy", help="auto: the best of rules, FSMs and searches; fsm: an FSM, always."),
    ] = "auto",
    encoding: Annotated[
        Literal["best", "base", "max", "sort", "critical"] | None,
        typer.Option("--encoding", help=options.ENCODING_HELP + " Makes the policy an FSM."),
    ] = None,
    executor: Annotated[
        Literal["cpu", "cuda", "blas", "reference"],
        typer.Option("--executor", help="For which a search must pay to be tried."),
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
            "--phases", min=0, metavar="N", help="Let states say which N-th of the graph is executed."
        ),
    ] = 0,
    seed: options.Seed = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the policy here, not to .abw/policies/."),
    ] = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Choose a policy, or learn an FSM by Q-learning, and keep it; `abw run` then uses it on any data.

    Candidates are rules in both directions, FSMs, and beam searches where batches are expensive enough; they
    are judged on mini-batches of instances that none of them has seen.
    """
    changes = options.overrides(data, None, batch, sizes, seed, allow_outside=allow_outside)
    from abw.core.run.learning import Asked, launch_seconds, learn_policy, steps_at_most
    from abw.core.run.workload import open_model, open_networks, open_sample

    model = open_model(spec, changes)
    networks = open_networks(model, granularity)
    name = "fsm" if encoding or phases else policy
    launch = launch_seconds(networks.network, executor)
    asked = Asked(name, encoding or "best", seed or 0, model.data.batch, launch, train_limit)
    workload, used = open_sample(model, networks, asked.instances)
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
    else:
        _print(learned, model.name)


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
