"""`abw viz`: pictures of runs and specs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import completion, options, programs
from abw.cli.console import print_json, say, show
from abw.cli.groups import Command, flag, group, option
from abw.core.base.errors import AbwError

FileFormat = Literal["html", "svg", "dot", "png", "pdf", "text"]
SPEC = (".yaml", ".yml")
ENDINGS: dict[str, FileFormat] = {
    **{".html": "html", ".svg": "svg", ".dot": "dot", ".png": "png", ".pdf": "pdf", ".txt": "text"}
}
# A part of a mini-batch that `abw viz` can draw needs a model of which a program has none.
_NO_PLAN = "cells and arenas are planned before a run, and a program's graph is recorded while it runs"

if TYPE_CHECKING:
    from abw.core.base.progress import Progress
    from abw.core.spec.load import Overrides
    from abw.core.store.trainings import StoredTraining
    from abw.viz.data.pictures import Picture
    from abw.viz.data.scene import Scene


class COMMAND(Command):
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
    from abw.core.policy.user_policy import is_user_policy
    from abw.core.spec.shipped import find_shipped

    return is_user_policy(name) or (name in NAMES and not Path(name).exists() and not find_shipped(name))


@group
class Pictures:
    """Which pictures are drawn; by default those of `USUAL`."""

    policy: bool = flag("The policy's states and choices.")
    graph: bool = flag("The graph, with nodes numbered by batch.")
    frontier: bool = flag("What was ready at each step.")
    batches: bool = flag("The schedules of several policies.")
    rounds: bool = flag("What grew in each round, with every decision, its score and the runner-up.")
    memory: bool = flag("Cells' variables in memory, and arenas.", program=_NO_PLAN)
    pqtree: bool = flag("The PQ-trees of the cells' variables.")
    model: bool = flag(
        "The model: types, cells, shapes, parameters, links.",
        program="what joins a program's cells is its code; --graph draws what that recorded",
    )


@group
class View:
    """Which mini-batches are drawn, and what they are compared with."""

    by: str | None = options.policy_option("Show this policy's schedule (a run's own; for a spec auto).")
    against: list[str] | None = options.policy_option("Compare with this policy; repeatable (depth, agenda).")
    mini_batch: list[int] | None = option(
        "Number of the mini-batch (0); repeatable for a page.", "N", least=0
    )
    others: list[str] | None = option(
        "Show another run or spec in the same page; repeatable.",
        "RUN|SPEC",
        "--with",
        autocompletion=completion.runs_and_specs,
    )
    instances: int | None = option("Show only the first N instances of graph and rounds.", "N", least=1)
    format: options.DataFormat | None = options.FORMAT
    encoding: options.EncodingName | None = option(
        f"{options.ENCODING_HELP} Shows a spec's FSM instead of auto.", program=options.FSM_LATER
    )
    granularity: Literal["cell", "op", "graph"] = options.NODES_OF_ANY


@group
class Target:
    """In which format pictures are written, and where."""

    html: bool = flag("A page with everything, for any browser.")
    svg: bool = flag("SVG.")
    dot: bool = flag("DOT text for Graphviz: a policy, a graph or a model.")
    png: bool = flag("PNG (needs the extra images).")
    pdf: bool = flag("PDF (needs the extra images).")
    text: bool = flag("Text (the default).")
    engine: Literal["own", "dot"] = option(
        "Layout of a policy, graph or model: abw's own, or Graphviz's dot if installed.", default="own"
    )
    theme: Literal["light", "dark"] | None = option("Colours (light; for a page the system's).")
    output: Path | None = option("Write to this file; its extension sets the format.", "FILE", "-o")
    open: bool = flag("Open the file afterwards.")

    @property
    def format(self) -> FileFormat:
        """The format asked for, by a flag or by the file's extension. Errors: a usage error."""
        ending = ENDINGS.get(self.output.suffix.lower()) if self.output else None
        asked = [name for name in ENDINGS.values() if vars(self)[name] or name == ending]
        if len(asked) > 1:
            raise typer.BadParameter(f"{' and '.join(asked)} are different formats: ask for one")
        if self.output and not asked:
            said = f"the ending of '{self.output.name}' says no format: {', '.join(ENDINGS)}"
            raise typer.BadParameter(said, param_hint="--output")
        found = asked[0] if asked else "html" if self.open else "text"
        if self.theme and found in ("dot", "text"):
            raise typer.BadParameter(f"{found} has no colours of its own", param_hint="--theme")
        return found

    def write(self, content: bytes, usual: Path | None, reads: Sequence[Path], *, quiet: bool) -> None:
        """Write pictures to --output, to the file `usual`, or to standard output.

        The file is none of `reads`; its name is printed unless quiet.
        """
        from abw.core.base.files import refuse_overwrite, write_bytes

        path = self.output or usual
        if path is None:
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
            return
        refuse_overwrite(path, *reads)
        write_bytes(path, content)
        if not quiet:
            say(path)
        if self.open:
            typer.launch(str(path))


def viz(
    asked: Pictures,
    view: View,
    changes: options.Changes,
    into: Target,
    output: options.Output,
    target: Annotated[
        str | None,
        options.run_or_spec(
            "A run's number or folder, a training (t1), a spec, program.py:function, or a policy's .json; by "
            "default the latest run."
        ),
    ] = None,
) -> None:
    """Show batches and their reasons, or a model, as text, SVG, PNG, PDF, DOT or an HTML page.

    Options that change a spec (--data, --limit, --batch, --set, --weights, --granularity, --encoding) apply
    to specs; a run is shown as it was.
    """
    format, overrides = into.format, changes.overrides()
    _require(view, format)
    from abw.core.store.trainings import is_training, stored_training
    from abw.viz.data.collect import KINDS, USUAL, collect, document
    from abw.viz.drawing.draw import export
    from abw.viz.drawing.draw import show as show_pictures
    from abw.viz.page import page

    named = [kind for kind in KINDS if vars(asked)[kind]]
    if is_training(target):
        if named or output.as_json or format == "dot":
            said = "of a training there are curves: text, --html, --svg, --png or --pdf"
            raise typer.BadParameter(said, param_hint="RUN")
        _curves(stored_training(target), into, output.quiet)
        return
    # DOT holds one graph
    kinds = named or (("policy",) if format == "dot" else USUAL)
    target, *others = (_shipped(name) for name in (target, *(view.others or ())))
    made = _without_scene(target, kinds, format, overrides)
    if made is None:
        with output.progress() as progress:
            every = product((target, *others), view.mini_batch or [0])
            scenes = [_scene(what, number, asked, view, changes, progress) for what, number in every]
        scene = scenes[0]
        if format == "html" and not output.as_json:
            files = [file for each in scenes for file in each.reads]
            content = page(*scenes, theme=into.theme)
            into.write(content, Path(f"{scene.model}.html"), files, quiet=output.quiet)
            return
        if scene.growth and kinds == USUAL:
            kinds = (*USUAL, "rounds")
        made = scene.title, collect(scene, kinds, view.by, view.instances), scene.reads
    name, pictures, reads = made
    if output.as_json or format == "html":
        print_json(document(name, pictures))
    elif format == "text" and not into.output:
        show_pictures(name, pictures)
    else:
        content = export(name, pictures, format, into.engine, into.theme or "light")
        into.write(content, _file(kinds, format), reads, quiet=output.quiet)


def _require(view: View, format: FileFormat) -> None:
    """Check policies, and options that do not go together. Errors: usage errors, AbwError."""
    by, numbers = view.by, view.mini_batch or ()
    if by and view.encoding and by != "fsm":
        raise typer.BadParameter(f"it goes with --by fsm, not with {by}", param_hint="--encoding")
    for name, names in (("--by", [by] if by else []), ("--against", view.against or [])):
        for each in names:
            options.require_policy(each, name)
    if format != "html" and (len(numbers) > 1 or view.others):
        said = "several mini-batches or runs go into one page: --html"
        raise typer.BadParameter(said, param_hint="--with" if view.others else "--mini-batch")


def _without_scene(
    target: str | None, kinds: Sequence[str], format: FileFormat, overrides: Overrides
) -> tuple[str, list[Picture], tuple[Path, ...]] | None:
    """Name, pictures and files read of a policy, or of a model alone, which need no graphs; else None."""
    if target and target.endswith(".json"):
        from abw.viz.data.fsm import read_policy

        if format == "html":
            raise typer.BadParameter("a page needs a run or a spec, not a policy alone", param_hint="--html")
        return target, [read_policy(Path(target))], (Path(target),)
    if target and target.endswith(SPEC) and kinds == ["model"] and format != "html":
        from abw.core.run.workload import open_model
        from abw.viz.data.model import model_picture

        model = open_model(Path(target), overrides)
        return model.name, [model_picture(model)], model.reads
    return None


def _shipped(name: str | None) -> str | None:
    """The path of a shipped spec by its name; any other name as it is."""
    from abw.core.spec.shipped import find_shipped

    return str(find_shipped(name) or name) if name else name


def _file(kinds: Sequence[str], format: FileFormat) -> Path | None:
    """The file of pictures that are no text, by default: a terminal cannot show them."""
    name = kinds[0] if len(kinds) == 1 else "pictures"
    return Path(f"{name}.{format}") if format in ("png", "pdf") else None


def _curves(training: StoredTraining, into: Target, quiet: bool) -> None:
    """Show loss and metrics of a training. Errors: AbwError before its first epoch has ended."""
    from abw.cli.trainings import best_said, charts_of
    from abw.viz.drawing.chart import chart_svg, chart_text
    from abw.viz.drawing.draw import drawings
    from abw.viz.page import curves_page

    charts, format, usual = charts_of(training), into.format, _file(["curves"], into.format)
    if not charts:
        raise AbwError(f"training {training.name} has no epoch yet", hint="`abw train --resume` continues it")
    if format == "html":
        name, model, best = training.name, training.about["model"], training.best_epoch
        facts = (f"best {best_said(training)}, epoch {best}", training.about["command"])
        content = curves_page(f"{model} ({name})", facts, charts, training.rows, best, into.theme)
        usual = Path(f"{model}-{name}.html")
    elif format in ("svg", "png", "pdf"):
        content = drawings([chart_svg(chart) for chart in charts], format, into.theme or "light")
    elif into.output is None:
        show(*map(chart_text, charts))
        return
    else:
        content = "".join(f"{chart_text(chart).plain}\n" for chart in charts).encode()
    into.write(content, usual, (), quiet=quiet)


def _scene(
    target: str | None,
    mini_batch: int,
    asked: Pictures,
    view: View,
    changes: options.Changes,
    progress: Progress,
) -> Scene:
    """One mini-batch of a run, a spec or a program. Errors: usage errors, AbwError."""
    from abw.viz.data.scene import AGAINST, scene_of_program, scene_of_run, scene_of_spec

    others = AGAINST if view.against is None else view.against
    if target and options.is_program(target):
        programs.refuse_options(asked, view)
        chosen = programs.program_options(changes, view, batch=changes.batch)
        return scene_of_program(target, chosen, mini_batch, others, view.by)
    programs.refuse_format(view.format)
    granularity = programs.of_spec(view.granularity)
    if target and target.endswith(SPEC):
        overrides = changes.overrides()
        return scene_of_spec(
            Path(target), overrides, granularity, view.encoding, mini_batch, others, progress, view.by
        )
    return scene_of_run(options.run_of(target), mini_batch, others, changes.allow_outside, view.by)
