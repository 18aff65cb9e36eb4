"""Any picture as SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abw.viz.data.pictures import (
    ArenaPicture,
    BatchesPicture,
    FrontierPicture,
    GraphPicture,
    MemoryPicture,
    ModelPicture,
    PolicyPicture,
    RoundsPicture,
    TreePicture,
)
from abw.viz.drawing.svg import Svg
from abw.viz.drawing.svg_graph import graph_svg
from abw.viz.drawing.svg_memory import arena_svg, memory_svg, tree_svg_of
from abw.viz.drawing.svg_model import model_svg
from abw.viz.drawing.svg_policy import policy_svg
from abw.viz.drawing.svg_rounds import rounds_svg
from abw.viz.drawing.svg_steps import batches_svg, frontier_svg

_DRAW: dict[type[Any], Callable[[Any], Svg]] = {
    PolicyPicture: policy_svg,
    BatchesPicture: batches_svg,
    FrontierPicture: frontier_svg,
    RoundsPicture: rounds_svg,
    GraphPicture: graph_svg,
    MemoryPicture: memory_svg,
    ArenaPicture: arena_svg,
    TreePicture: tree_svg_of,
    ModelPicture: model_svg,
}


def as_svg(picture: object) -> Svg:
    """A picture drawn by our own layout. Raises KeyError for what is none, AbwError for one too large."""
    return _DRAW[type(picture)](picture)
