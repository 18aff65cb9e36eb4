"""Any picture as SVG or as text for the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import RenderableType

from abw.core.base.console import Console
from abw.viz.data.pictures import Picture
from abw.viz.drawing.graph import graph_svg, graph_text
from abw.viz.drawing.memory import arena_svg, arena_text, memory_svg, memory_text, tree_svg, tree_text
from abw.viz.drawing.model import model_svg, model_text
from abw.viz.drawing.policy import policy_svg, policy_text
from abw.viz.drawing.rounds import rounds_svg, rounds_text
from abw.viz.drawing.steps import batches_svg, batches_text, frontier_svg, frontier_text
from abw.viz.drawing.svg import Svg

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
