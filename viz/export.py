"""Pictures as files: text, SVG, DOT, PNG, PDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from abw.core.base.errors import AbwError, install
from abw.viz.data.pictures import GraphPicture, ModelPicture, Picture, PolicyPicture
from abw.viz.drawing.dot import as_dot, render
from abw.viz.drawing.draw import as_svg, plain
from abw.viz.drawing.svg import Svg, Theme, document, stacked

Format = Literal["text", "svg", "dot", "png", "pdf"]
Engine = Literal["own", "dot"]
# Dots an inch of a PNG: twice those of a browser's pixels.
RESOLUTION = 192


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
