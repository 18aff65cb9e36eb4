"""`abw viz`: pictures of runs and specs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import completion, options, programs
from abw.cli.console import print_json, progress, say, show
from abw.cli.groups import Command
from abw.core.base.errors import AbwError

app = typer.Typer(add_completion=False)

FileFormat = Literal["html", "svg", "dot", "png", "pdf", "text"]
SPEC = (".yaml", ".yml")
ENDINGS: dict[str, FileFormat] = {
    ".html": "html",
    ".svg": "svg",
    ".dot": "dot",
    ".png": "png",
    ".pdf": "pdf",
    ".txt": "text",
}

if TYPE_CHECKING:
    from abw.core.base.progress import Progress
    from abw.core.ir.network import Granularity
    from abw.core.run.learning import Choice
    from abw.core.spec.load import Overrides
    from abw.core.store.trainings import StoredTraining
    from abw.viz.data.pictures import Picture
    from abw.viz.data.scene import Scene
    from abw.viz.drawing.svg import Theme


class VizCommand(Command):
    """`abw viz`, where a policy's name behind --policy is answered: there it is the picture's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (Typer's or click's own)
        """Refuse a name behind --policy that only a policy can have. Errors: a usage error."""
        for at, arg in enumerate(args):
            name = arg.removeprefix("--policy=") if arg != "--policy" else "".join(args[at + 1 : at + 2])
            if arg.startswith("--policy") and name and _is_policy(name):
                said = "it is the picture of the policy and takes no name"
                raise typer.BadParameter(f"{said}; did you mean --by {name}?", param_hint="--policy")
        return super().parse_args(ctx, args)


def _is_policy(name: str) -> bool:
    """Whether a word names a policy, and no spec or file that could be drawn."""
    from abw.core.policy.registry import NAMES
    from abw.core.policy.user_policy import is_own
    from abw.core.spec.shipped import find_shipped

    return is_own(name) or (name in NAMES and not Path(name).exists() and not find_shipped(name))


@app.command(cls=VizCommand)
def viz(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|SPEC]",
            help="A run's number or folder, a training (t1), a spec, program.py:function, or a "
            "policy's .json; by default the latest run.",
            autocompletion=completion.runs_and_specs,
        ),
    ] = None,
    policy: Annotated[bool, typer.Option("--policy", help="The policy's states and choices.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="The graph, with nodes numbered by batch.")] = False,
    frontier: Annotated[bool, typer.Option("--frontier", help="What was ready at each step.")] = False,
    batches: Annotated[bool, typer.Option("--batches", help="The schedules of several policies.")] = False,
    rounds: Annotated[
        bool,
        typer.Option(
            "--rounds", help="What grew in each round, with every decision, its score and the runner-up."
        ),
    ] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Cells' variables in memory, and arenas.")] = False,
    pqtree: Annotated[bool, typer.Option("--pqtree", help="The PQ-trees of the cells' variables.")] = False,
    model: Annotated[
        bool, typer.Option("--model", help="The model: types, cells, shapes, parameters, links.")
    ] = False,
    by: Annotated[
        str | None,
        options.policies("Show this policy's schedule (a run's own; for a spec auto).", "--by"),
    ] = None,
    against: Annotated[
        list[str] | None,
        options.policies("Compare with this policy; repeatable (depth, agenda).", "--against"),
    ] = None,
    mini_batch: Annotated[
        list[int] | None,
        typer.Option(
            "--mini-batch", min=0, metavar="N", help="Number of the mini-batch (0); repeatable for a page."
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="RUN|SPEC",
            help="Show another run or spec in the same page; repeatable.",
            autocompletion=completion.runs_and_specs,
        ),
    ] = None,
    instances: Annotated[
        int | None,
        typer.Option(
            "--instances", min=1, metavar="N", help="Show only the first N instances of graph and rounds."
        ),
    ] = None,
    data: options.Data = None,
    format_of_data: programs.Format = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    encoding: Annotated[
        Literal["best", "base", "max", "sort", "critical"] | None,
        typer.Option("--encoding", help=options.ENCODING_HELP + " Shows a spec's FSM instead of auto."),
    ] = None,
    granularity: options.GranularityOrGraph = "cell",
    seed: options.Seed = None,
    html: Annotated[bool, typer.Option("--html", help="A page with everything, for any browser.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="SVG.")] = False,
    dot: Annotated[
        bool, typer.Option("--dot", help="DOT text for Graphviz: a policy, a graph or a model.")
    ] = False,
    png: Annotated[bool, typer.Option("--png", help="PNG (needs the extra images).")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="PDF (needs the extra images).")] = False,
    text: Annotated[bool, typer.Option("--text", help="Text (the default).")] = False,
    engine: Annotated[
        Literal["own", "dot"],
        typer.Option(
            "--engine", help="Layout of a policy, graph or model: abw's own, or Graphviz's dot if installed."
        ),
    ] = "own",
    theme: Annotated[
        Literal["light", "dark"] | None,
        typer.Option("--theme", help="Colours (light; for a page the system's)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file; its extension sets the format."
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the file afterwards.")] = False,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Show batches and their reasons, or a model, as text, SVG, PNG, PDF, DOT or an HTML page.

    Options that change a spec (--data, --limit, --batch, --set, --weights, --granularity, --encoding) apply
    to specs; a run is shown as it was.
    """
    named = {
        "policy": policy,
        "graph": graph,
        "frontier": frontier,
        "batches": batches,
        "rounds": rounds,
        "memory": memory,
        "pqtree": pqtree,
        "model": model,
    }
    flags: dict[FileFormat, bool] = {
        "html": html,
        "svg": svg,
        "dot": dot,
        "png": png,
        "pdf": pdf,
        "text": text,
    }
    format = _format(flags, output, open_it)
    if theme and format in ("dot", "text"):
        raise typer.BadParameter(f"{format} has no colours of its own", param_hint="--theme")
    if by and encoding and by != "fsm":
        raise typer.BadParameter(f"it goes with --by fsm, not with {by}", param_hint="--encoding")
    for option, names in (("--by", [by] if by else []), ("--against", against or [])):
        for each in names:
            options.require_policy(each, option)
    numbers = mini_batch or [0]
    if format != "html" and (len(numbers) > 1 or beside):
        said = "several mini-batches or runs go into one page: --html"
        raise typer.BadParameter(said, param_hint="--with" if beside else "--mini-batch")
    changes = options.overrides(data, limit, batch, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.run.workload import open_model
    from abw.core.store.trainings import is_training, stored_training
    from abw.viz.data.collect import KINDS, USUAL, collect, document
    from abw.viz.data.fsm import read_policy
    from abw.viz.data.model import model_picture
    from abw.viz.drawing.draw import show as show_pictures
    from abw.viz.export import export
    from abw.viz.page import page

    if is_training(target):
        if any(named.values()) or as_json or format == "dot":
            said = "of a training there are curves: text, --html, --svg, --png or --pdf"
            raise typer.BadParameter(said, param_hint="RUN")
        _curves(stored_training(target), format, theme, output, open_it, quiet)
        return
    # DOT holds one graph
    asked = [kind for kind in KINDS if named[kind]]
    kinds = asked or (("policy",) if format == "dot" else USUAL)
    target, *others = (_shipped(name) for name in (target, *(beside or ())))
    pictures: list[Picture]
    reads: tuple[Path, ...]
    if target and target.endswith(".json"):
        if format == "html":
            raise typer.BadParameter("a page needs a run or a spec, not a policy alone", param_hint="--html")
        name, pictures, reads = target, [read_policy(Path(target))], (Path(target),)
    elif target and target.endswith(SPEC) and kinds == ["model"] and format != "html":
        # what a model is can be drawn without its graphs and their policies
        drawn = open_model(Path(target), changes)
        name, pictures, reads = drawn.name, [model_picture(drawn)], drawn.reads
    else:
        with progress(quiet) as told:
            scenes = []
            for what, number in product((target, *others), numbers):
                if options.is_program(what):
                    scenes.append(_program(context, str(what), number, against, by))
                    continue
                programs.refuse_for_spec(context)
                grain = programs.of_spec(granularity)
                scenes.append(_open(what, changes, grain, encoding, number, against, by, told))
        scene = scenes[0]
        if format == "html" and not as_json:
            files = [file for each in scenes for file in each.reads]
            _write(page(*scenes, theme=theme), output or Path(f"{scene.model}.html"), files, open_it, quiet)
            return
        if scene.growth and kinds == USUAL:
            kinds = (*USUAL, "rounds")
        name, pictures, reads = scene.title, collect(scene, kinds, by, instances), scene.reads
    if as_json or format == "html":
        print_json(document(name, pictures))
    elif format == "text" and not output:
        show_pictures(name, pictures)
    else:
        _write(
            export(name, pictures, format, engine, theme or "light"),
            output or _file(kinds, format),
            reads,
            open_it,
            quiet,
        )


def _shipped(name: str | None) -> str | None:
    """The path of a shipped spec by its name; any other name as it is."""
    from abw.core.spec.shipped import find_shipped

    return str(find_shipped(name) or name) if name else name


def _file(kinds: Sequence[str], format: FileFormat) -> Path | None:
    """Where pictures go that are no text, unless told: a terminal can do nothing with them."""
    name = kinds[0] if len(kinds) == 1 else "pictures"
    return Path(f"{name}.{format}") if format in ("png", "pdf") else None


def _curves(
    training: StoredTraining,
    format: FileFormat,
    theme: Theme | None,
    output: Path | None,
    open_it: bool,
    quiet: bool,
) -> None:
    """Loss and metrics of a training. Errors: AbwError before its first epoch has ended."""
    from abw.cli.trainings import best_said, charts_of
    from abw.viz.curves_page import curves_page
    from abw.viz.drawing.chart import chart_svg, chart_text
    from abw.viz.export import drawings

    charts = charts_of(training)
    if not charts:
        raise AbwError(f"training {training.name} has no epoch yet", hint="`abw train --resume` goes on")
    if format == "html":
        name, model = training.name, training.about["model"]
        facts = (f"best {best_said(training)}, epoch {training.best_epoch}", training.about["command"])
        content = curves_page(f"{model} ({name})", facts, charts, training.rows, training.best_epoch, theme)
        output = output or Path(f"{model}-{name}.html")
    elif format in ("svg", "png", "pdf"):
        content = drawings([chart_svg(chart) for chart in charts], format, theme or "light")
    else:
        content = "".join(f"{chart_text(chart).plain}\n" for chart in charts).encode()
        if output is None:
            show(*map(chart_text, charts))
            return
    _write(content, output or _file(["curves"], format), (), open_it, quiet)


def _format(flags: dict[FileFormat, bool], output: Path | None, open_it: bool) -> FileFormat:
    """The one format asked for, by a flag or by a file's ending; usage errors: several, or none of a file."""
    ending = ENDINGS.get(output.suffix.lower()) if output else None
    asked = [name for name, wanted in flags.items() if wanted or name == ending]
    if len(asked) > 1:
        raise typer.BadParameter(f"{' and '.join(asked)} are different formats: ask for one")
    if output and not asked:
        raise typer.BadParameter(
            f"the ending of '{output.name}' says no format: {', '.join(ENDINGS)}", param_hint="--output"
        )
    return asked[0] if asked else "html" if open_it else "text"


def _open(
    target: str | None,
    changes: Overrides,
    granularity: Granularity,
    encoding: Choice | None,
    mini_batch: int,
    against: list[str] | None,
    by: str | None,
    told: Progress,
) -> Scene:
    from abw.viz.data.scene import AGAINST, scene_of_run, scene_of_spec

    others = AGAINST if against is None else against
    if target and target.endswith(SPEC):
        return scene_of_spec(Path(target), changes, granularity, encoding, mini_batch, others, told, by)
    return scene_of_run(options.run_of(target), mini_batch, others, changes.allow_outside, by)


def _program(
    context: typer.Context, target: str, mini_batch: int, against: list[str] | None, by: str | None
) -> Scene:
    from abw.viz.data.scene import AGAINST, scene_of_program

    programs.refuse_options(context)
    if context.params["model"]:
        said = "what joins a program's cells is its code; --graph draws what that recorded"
        raise typer.BadParameter(said, param_hint="--model")
    others = AGAINST if against is None else against
    return scene_of_program(target, programs.looked_at(context.params), mini_batch, others, by)


def _write(content: bytes, output: Path | None, reads: Sequence[Path], open_it: bool, quiet: bool) -> None:
    """To a file that is none of those read, and whose name is printed unless quiet, or to standard output."""
    from abw.core.base.files import refuse_overwrite, write_bytes

    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    refuse_overwrite(output, *reads)
    write_bytes(output, content)
    if not quiet:
        say(output)
    if open_it:
        typer.launch(str(output))
