"""`abw viz`: pictures of runs and specs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abw.cli import options
from abw.cli.console import print_json, progress

if TYPE_CHECKING:
    from abw.core.graph.network import Granularity
    from abw.core.policy.states import Encoding
    from abw.core.progress import Progress
    from abw.core.spec.load import Overrides
    from abw.viz.collect import Kind, Picture
    from abw.viz.scene import Scene


def viz(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|SPEC]",
            help="A run's number or folder, a spec, or a policy's .json; the latest run.",
        ),
    ] = None,
    policy: Annotated[bool, typer.Option("--policy", help="The policy as a state machine.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="The graph, nodes numbered by batch.")] = False,
    frontier: Annotated[bool, typer.Option("--frontier", help="What was ready at every step.")] = False,
    batches: Annotated[bool, typer.Option("--batches", help="The schedules of several policies.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Cells' variables in memory; arenas.")] = False,
    pqtree: Annotated[bool, typer.Option("--pqtree", help="The PQ-trees behind cells' memory.")] = False,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="POLICY", help="Look at this policy's schedule [the run's own]."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option("--against", metavar="POLICY", help="Compare with this one; repeat [depth, agenda]."),
    ] = None,
    mini_batch: Annotated[
        int, typer.Option("--mini-batch", min=0, metavar="N", help="Which mini-batch.")
    ] = 0,
    instances: Annotated[
        int | None, typer.Option("--instances", min=1, metavar="N", help="Draw only the first N instances.")
    ] = None,
    data: options.Data = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    encoding: options.Encoding = "sort",
    granularity: options.Granularity = "cell",
    seed: options.Seed = None,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Show what was batched, how, and why: on the terminal, or as SVG, DOT, PNG or one HTML page.

    Options that change a spec (--data, --limit, --batch, --set, --granularity, --encoding) apply to specs;
    a run is shown as it was.
    """
    flags = {
        "policy": policy,
        "graph": graph,
        "frontier": frontier,
        "batches": batches,
        "memory": memory,
        "pqtree": pqtree,
    }
    changes = options.overrides(data, limit, batch, sizes, seed)
    from abw.viz.collect import KINDS, USUAL, collect, document

    kinds: list[Kind] = [kind for kind in KINDS if flags[kind]] or list(USUAL)
    if target and target.endswith(".json"):
        title, pictures = _policy_file(Path(target))
    else:
        with progress(quiet) as told:
            scene = _open(target, changes, granularity, encoding, mini_batch, against, told)
        title, pictures = scene.title, collect(scene, kinds, by, instances)
    if as_json:
        print_json(document(title, pictures))
    else:
        _print(title, pictures)


def _policy_file(path: Path) -> tuple[str, list[Picture]]:
    from abw.core.policy.fsm import FsmPolicy
    from abw.core.store.files import read_json
    from abw.viz.fsm import policy_alone

    read_json(path, "policy")  # says what is wrong with a file that is none
    return str(path), [policy_alone(FsmPolicy.from_json(path.read_text(encoding="utf-8")))]


def _open(
    target: str | None,
    changes: Overrides,
    granularity: Granularity,
    encoding: Encoding,
    mini_batch: int,
    against: list[str] | None,
    told: Progress,
) -> Scene:
    from abw.core.store.runs import find_run
    from abw.viz.scene import AGAINST, scene_of_run, scene_of_spec

    others = AGAINST if against is None else against
    if target and target.endswith((".yaml", ".yml")):
        return scene_of_spec(Path(target), changes, granularity, encoding, mini_batch, others, told)
    return scene_of_run(find_run(target), mini_batch, others)


def _print(title: str, pictures: list[Picture]) -> None:
    from rich.console import Console

    from abw.viz.text import as_text

    console = Console(highlight=False)
    console.print(title, style="bold")
    for picture in pictures:
        console.print()
        console.print(as_text(picture))
