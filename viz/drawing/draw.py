"""Pictures drawn: as SVG or text for the terminal, and as files of text, SVG, DOT, PNG and PDF."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rich.console import RenderableType

from abw.core.base.console import Console
from abw.core.base.errors import AbwError, install
from abw.viz.data.pictures import GraphPicture, ModelPicture, Picture, PolicyPicture
from abw.viz.drawing.dot import as_dot, render
from abw.viz.drawing.graph import graph_svg, graph_text
from abw.viz.drawing.memory import arena_svg, arena_text, memory_svg, memory_text, tree_svg, tree_text
from abw.viz.drawing.model import model_svg, model_text
from abw.viz.drawing.policy import policy_svg, policy_text
from abw.viz.drawing.rounds import rounds_svg, rounds_text
from abw.viz.drawing.steps import batches_svg, batches_text, frontier_svg, frontier_text
from abw.viz.drawing.svg import Svg, Theme, document, stacked

Format = Literal["text", "svg", "dot", "png", "pdf"]
Engine = Literal["own", "dot"]
# Dots an inch of a PNG: twice those of a browser's pixels.
RESOLUTION = 192

# By the kind of a picture.
_DRAWN: dict[str, tuple[Callable[[Any], Svg], Callable[[Any], RenderableType]]] = {
    "policy": (policy_svg, policy_text),
    "batches": (batches_svg, batches_text),
    "frontier": (frontier_svg, frontier_text),
    "rounds": (rounds_svg, rounds_text),
    "graph": (graph_svg, graph_text),
    "memory": (memory_svg, memory_text),
    "arena": (arena_svg, arena_text),
    "pqtree": (tree_svg, tree_text),
    "model": (model_svg, model_text),
}


def as_svg(picture: Picture) -> Svg:
    """A picture drawn by our own layout. Errors: AbwError for one too large."""
    return _DRAWN[picture.kind][0](picture)


def show(title: str, pictures: Sequence[Picture], console: Console | None = None) -> None:
    """Print pictures under a title, to standard output by default."""
    console = console or Console()
    console.print(title, style="bold")
    for picture in pictures:
        console.print()
        console.print(_DRAWN[picture.kind][1](picture))


def plain(title: str, pictures: Sequence[Picture], width: int = 120) -> str:
    """Return what `show` prints to a terminal of this width, without colours."""
    out = io.StringIO()
    show(title, pictures, Console(file=out, width=width, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def export(
    title: str,
    pictures: Sequence[Picture],
    format: Format,
    engine: Engine = "own",
    theme: Theme = "light",
) -> bytes:
    """Pictures as one file. They are drawn by our own layout, or by Graphviz where asked for and there.

    Errors: AbwError for DOT of what is no graph, or of several pictures at once, and for PNG and PDF where
    what makes them is not there.
    """
    if format == "text":
        return plain(title, pictures).encode()
    if format == "dot":
        if len(pictures) != 1:
            raise AbwError(
                f"DOT holds one picture, not {len(pictures)}", hint="add --policy, --graph or --model"
            )
        return as_dot(pictures[0]).encode()
    if engine == "dot" and (drawn := _by_graphviz(pictures)):
        return drawn if format == "svg" else image(drawn, format)
    return drawings([as_svg(picture) for picture in pictures], format, theme)


def drawings(drawn: Sequence[Svg], format: Literal["svg", "png", "pdf"], theme: Theme = "light") -> bytes:
    """Drawings under each other as one file. Errors: AbwError for PNG and PDF without the extra images."""
    svg = document(stacked(drawn), theme).encode()
    return svg if format == "svg" else image(svg, format)


def image(svg: bytes, format: Literal["png", "pdf"], *, resolution: int = RESOLUTION) -> bytes:
    """An SVG as PNG, or as PDF, whose lines and letters stay such. Errors: AbwError without the extra."""
    try:
        import typst
    except ImportError:
        raise AbwError(
            f"{format.upper()} needs a library that is not here",
            hint=f"--svg needs nothing; or, {install('images')}",
        ) from None
    page = '#set page(width: auto, height: auto, margin: 0pt)\n#image(bytes(sys.inputs.svg), format: "svg")'
    made: bytes = typst.compile(
        page.encode(), format=format, ppi=resolution, sys_inputs={"svg": svg.decode()}
    )
    return made


def _by_graphviz(pictures: Sequence[Picture]) -> bytes | None:
    """One graph drawn by Graphviz; None where it is not there, or for anything else."""
    if len(pictures) == 1 and isinstance(pictures[0], PolicyPicture | GraphPicture | ModelPicture):
        return render(as_dot(pictures[0]))
    return None
