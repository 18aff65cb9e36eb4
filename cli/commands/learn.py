"""`abw learn`: learn a batching policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from abw.cli import options
from abw.cli.console import duration, grid, print_json, say_random, show
from abw.cli.groups import group, option, without

if TYPE_CHECKING:
    from abw.core.policy.learned.choice import ChosenPolicy
    from abw.core.run.learning import Learned


@group
class Learning:
    """What is learned, from how much, and where it is written."""

    policy: Literal["auto", "fsm"] = option(
        "auto: the best of rules, FSMs and searches; fsm: always an FSM.", default="auto"
    )
    encoding: options.EncodingName | None = option(f"{options.ENCODING_HELP} Implies --policy fsm.")
    executor: Literal["cpu", "cuda", "blas", "reference"] = option(
        "Executor whose batch cost decides whether searches are tried.", default="cpu"
    )
    granularity: Literal["cell", "op"] = options.GRANULARITY
    train_limit: int | None = option("Learn from the first N instances (fsm: 32).", "N", least=1)
    trials: int = options.TRIALS
    phases: int = option(
        "Divide the graph into N phases and add the phase to each state.", "N", default=0, least=0
    )
    output: Path | None = option("Write the policy to this file instead of .abw/policies/.", "FILE", "-o")


def learn(
    spec: options.Spec,
    changes: Annotated[options.Changes, without("limit")],
    learning: Learning,
    output: options.Output,
) -> None:
    """Choose a policy, or learn an FSM by Q-learning, and store it for `abw run` on any data.

    Candidates are rules in both directions, FSMs, and beam searches if batches are expensive enough, compared
    on unseen instances.
    """
    overrides = changes.overrides()
    from abw.core.run.learning import Asked, learn_policy, steps_at_most
    from abw.core.run.workload import (
        grows_at_random,
        open_model,
        open_networks,
        open_sample,
        usual_executor,
    )

    model = open_model(spec, overrides)
    networks = open_networks(model, learning.granularity)
    asked = Asked(
        "fsm" if learning.encoding or learning.phases else learning.policy,
        learning.encoding or "best",
        changes.seed or 0,
        model.data.batch,
        limit=learning.train_limit,
    ).on(networks.network, learning.executor)
    executor_of_rounds = usual_executor(model, networks, asked.seed) if model.growth else None
    workload, used = open_sample(model, networks, asked.instances, executor=executor_of_rounds)
    with output.progress() as progress:
        progress.phase("learn a policy", steps_at_most(asked, learning.trials))
        learned = learn_policy(
            workload,
            asked,
            used=used,
            trials=learning.trials,
            phases=learning.phases,
            path=learning.output,
            progress=progress.reached,
        )
    if output.as_json:
        print_json({"schema_version": 1, "path": str(learned.path), **json.loads(learned.path.read_bytes())})
    elif not output.quiet:
        _print(learned, model.name)
        say_random(grows_at_random(model))


def _print(learned: Learned, model: str) -> None:
    from abw.core.policy.learned.choice import ChosenPolicy

    policy = learned.policy
    if isinstance(policy, ChosenPolicy):
        show([(model, "bold"), f": {policy.reason}"], _tried(policy))
    else:
        training = policy.training
        said = (
            f", encoding {policy.encoding}: {training.batches} batches on its "
            f"{learned.data['instances']} training instances (lower bound {training.lower_bound}), "
            f"{len(policy.states)} states, {training.trials} trials, {duration(training.seconds)}"
        )
        show([(model, "bold"), said])
    show(f"policy: {learned.path}", whole=True)


def _tried(policy: ChosenPolicy) -> Any:  # noqa: ANN401 (a table)
    nodes, picked = policy.held.nodes, policy.picked
    table = grid("tried", "batches", "ns a node", "states", "learning", "", left=[""])
    for t in policy.tried:
        judged = t.batches is not None
        batches, cost = (str(t.batches), f"{1e9 * t.scheduling / nodes:.0f}") if judged else ("", "")
        learned = (str(t.states or ""), duration(t.learning)) if t.learning else ("", "")
        table.add_row(t.name, batches, cost, *learned, t.refused or "", style="bold" if t is picked else None)
    return table
