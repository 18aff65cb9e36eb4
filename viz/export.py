"""Pictures as files: text, SVG, DOT, PNG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from abw.core.base.errors import AbwError
from abw.viz.data.collect import Picture
from abw.viz.data.pictures import GraphPicture, ModelPicture, PolicyPicture
from abw.viz.drawing.dot import as_dot, render
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.svg import document, stacked
from abw.viz.drawing.terminal import plain

Format = Literal["text", "svg", "dot", "png"]
Engine = Literal["own", "dot"]


def export(title: str, pictures: Sequence[Picture], format: Format, engine: Engine = "own") -> bytes:
    """Pictures as one file. SVG is drawn by our own layout, or by Graphviz where asked for and there.

    Errors: AbwError for DOT or PNG of what is no graph, of several pictures at once, and for PNG where
    neither `dot` nor pygraphviz is there.
    """
    if format == "text":
        return plain(title, pictures).encode()
    if format == "svg":
        drawn = _by_graphviz(pictures) if engine == "dot" else None
        return drawn or document(stacked([as_svg(picture) for picture in pictures])).encode()
    if len(pictures) != 1:
        raise AbwError(
            f"{format.upper()} holds one picture, not {len(pictures)}",
            hint="add --policy, --graph or --model",
        )
    dot = as_dot(pictures[0])
    if format == "dot":
        return dot.encode()
    drawn = render(dot, "png")
    if drawn is None:
        raise AbwError(
            "PNG needs Graphviz, which is not here",
            hint="pip install 'abw[dot]', or apt install graphviz; --svg needs nothing",
        )
    return drawn


def _by_graphviz(pictures: Sequence[Picture]) -> bytes | None:
    """One graph drawn by Graphviz; None where it is not there, or for anything else."""
    if len(pictures) == 1 and isinstance(pictures[0], PolicyPicture | GraphPicture | ModelPicture):
        return render(as_dot(pictures[0]), "svg")
    return None
