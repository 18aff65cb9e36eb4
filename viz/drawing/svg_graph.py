"""Drawing the dataflow graph: instances side by side, layers downwards, nodes numbered by batch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.viz.data.pictures import GraphPicture
from abw.viz.drawing.layered import across, side_by_side, with_bends
from abw.viz.drawing.palette import marks
from abw.viz.drawing.svg import Svg, legend, swatch, tag, text, title

Ints = NDArray[np.int32]
Floats = NDArray[np.floating[Any]]

NODES = 4000
"""The most nodes an SVG is made of; a browser takes seconds for more."""

WIDE, HIGH, STEP, MARGIN = 26.0, 20.0, 44.0, 20.0


def layers(picture: GraphPicture) -> Ints:
    """(n,): the longest path to each node from a node without producers. O((n + m) * depth) at worst."""
    layer = np.zeros(len(picture.type), np.int32)
    source, target = picture.source, picture.target
    while len(source):
        pushed = layer.copy()
        np.maximum.at(pushed, target, layer[source] + 1)
        if np.array_equal(pushed, layer):
            break
        layer = pushed
    return layer


def graph_svg(picture: GraphPicture, policy: str | None = None) -> Svg:
    """The graph numbered by the batches of `policy`, the first one for None. Errors: AbwError above NODES."""
    if len(picture.type) > NODES:
        raise AbwError(
            f"an SVG of {len(picture.type)} nodes is too much for any browser (at most {NODES})",
            hint="draw some instances with --instances N, or look at all of them with --html",
        )
    name = policy or picture.policies[0]
    batch = picture.batch[picture.policies.index(name)]
    letters = marks(picture.types)
    bent = with_bends(layers(picture), picture.instance, picture.source, picture.target)
    place = side_by_side(across(bent.layer, bent.group, bent.source, bent.target), bent.group)
    x = MARGIN + WIDE / 2 + place * (WIDE + 10)
    y = 64 + HIGH / 2 + bent.layer * STEP
    parts = [text(MARGIN, 20, f"numbered by the batches of {name}", "big")]
    head, right = legend(picture.types, letters, MARGIN, 42)
    parts.append(head)
    bounds = bent.path_ptr.tolist()
    parts += [
        tag("path", d=_route(x, y, bent.path[first:last]), class_="edge") for first, last in pairwise(bounds)
    ]
    for v, t in enumerate(picture.type.tolist()):
        others = ", ".join(
            f"{p} {b + 1}" for p, b in zip(picture.policies, picture.batch[:, v].tolist(), strict=True)
        )
        tip = title(
            f"node {v}: {picture.types[t]}, instance {picture.instance[v]}; batch by policy: {others}"
        )
        label = f"{letters[t]}{batch[v] + 1}"
        corner = float(x[v]) - WIDE / 2, float(y[v]) - HIGH / 2
        parts.append(tag("g", tip + swatch(t, *corner, WIDE, HIGH, label, rx=4)))
    width = max(right, float(x.max(initial=0)) + WIDE / 2) + MARGIN
    height = float(y.max(initial=0)) + HIGH / 2 + MARGIN
    count = int(picture.instance.max(initial=-1)) + 1
    return Svg(width, height, "".join(parts), f"graph of {len(picture.type)} nodes in {count} instances")


def _route(x: Floats, y: Floats, path: Ints) -> str:
    """A smooth line through the nodes of an edge, from below the first to above the last."""
    xs, ys = x[path].tolist(), y[path].tolist()
    ys[0] += HIGH / 2
    ys[-1] -= HIGH / 2
    parts = [f"M{xs[0]:.1f} {ys[0]:.1f}"]
    for i in range(1, len(xs)):
        half = (ys[i - 1] + ys[i]) / 2
        parts.append(f"C{xs[i - 1]:.1f} {half:.1f} {xs[i]:.1f} {half:.1f} {xs[i]:.1f} {ys[i]:.1f}")
    return "".join(parts)
