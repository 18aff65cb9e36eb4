"""Graphviz: policies, graphs and models as DOT text, and DOT rendered by whatever is there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import graphviz

from abw.core.base.errors import AbwError
from abw.viz.data.pictures import END, GraphPicture, ModelPicture, Picture, PolicyPicture
from abw.viz.drawing.model import paints
from abw.viz.drawing.model_rows import beside, facts, head, link_row, rows
from abw.viz.drawing.palette import colour, ink, marks
from abw.viz.drawing.policy import shown_states, state_name

# The most nodes handed to Graphviz, which takes half a minute for so many.
NODES = 3000
NODE = {"shape": "box", "style": "rounded,filled", "fontname": "sans-serif", "fontsize": "10"}


def as_dot(picture: Picture) -> str:
    """A policy's, graph's or model's picture as DOT. Errors: AbwError for one that is no graph."""
    if isinstance(picture, PolicyPicture):
        return _policy(picture)
    if isinstance(picture, GraphPicture):
        return _graph(picture)
    if isinstance(picture, ModelPicture):
        return _model(picture)
    raise AbwError(
        "DOT is for --policy, --graph and --model: the other pictures are no graphs",
        hint="--svg, --png and --pdf draw all of them",
    )


def _paint(type: int) -> dict[str, str]:
    return {"fillcolor": colour(type), "fontcolor": ink(colour(type))}


def _policy(picture: PolicyPicture) -> str:
    dot = graphviz.Digraph(f"policy {picture.policy}", graph_attr={"rankdir": "LR"})
    dot.attr("node", **(NODE | {"fontsize": "11"}))
    dot.attr("edge", fontname="sans-serif", fontsize="10")
    shown = shown_states(picture)
    for s in shown:
        state = picture.states[s]
        lines = [
            f"{s} {state_name(state)}: {state.chosen}",
            state.ranked(),
            f"met {state.met} times" + ("" if state.known else ", unseen in training"),
        ]
        label = graphviz.escape("\n".join(line for line in lines if line))
        dot.node(f"s{s}", label, **_paint(picture.types.index(state.chosen)))
    for t in picture.merged():
        if t.source not in shown or t.target not in (*shown, END):
            continue
        if t.target == END:
            dot.node("end", "end", shape="plaintext", style="")
        end = "end" if t.target == END else f"s{t.target}"
        dot.edge(f"s{t.source}", end, graphviz.escape(f"{t.type} ×{t.count}"))
    return str(dot.source)


def _graph(picture: GraphPicture) -> str:
    if len(picture.type) > NODES:
        raise AbwError(
            f"Graphviz takes minutes for {len(picture.type)} nodes (at most {NODES})",
            hint="draw some instances with --instances N, or look at all of them with --html",
        )
    dot = graphviz.Digraph("graph", graph_attr={"rankdir": "TB"})
    dot.attr("node", **(NODE | {"height": "0.2"}))
    dot.attr("edge", color="#8a939c", arrowsize="0.5")
    letters = marks(picture.types)
    for v, t in enumerate(picture.type.tolist()):
        many = f" ×{picture.equal[v]}" if picture.equal[v] > 1 else ""
        label = graphviz.escape(f"{letters[t]}{picture.batch[0, v] + 1}{many}")
        dot.node(f"n{v}", label, tooltip=graphviz.escape(picture.types[t]), **_paint(t))
    for u, v in zip(picture.source.tolist(), picture.target.tolist(), strict=True):
        dot.edge(f"n{u}", f"n{v}")
    return str(dot.source)


def _model(picture: ModelPicture) -> str:
    lines = [picture.model, facts(picture), *("  ".join(link_row(link)) for link in picture.links)]
    dot = graphviz.Digraph("model", graph_attr={"rankdir": "TB", "label": _left(lines), "labeljust": "l"})
    dot.attr("graph", fontname="sans-serif", fontsize="10")
    dot.attr("node", **NODE)
    dot.attr("edge", fontname="sans-serif", fontsize="9")
    paint = paints(picture)
    for b, block in enumerate(picture.blocks):
        said = [f"{head(block)}  {beside(block)}".rstrip(), *map(str, rows(block))]
        look = _paint(paint[b]) if block.role == "type" else {"fillcolor": "#eef1f4"}
        dot.node(f"b{b}", _left(said), **look)
    styles = {"here": "solid", "links": "dashed", "below": "dotted"}
    for flow in picture.flows:
        values = graphviz.escape(", ".join(flow.values))
        line = {"style": styles[flow.way], "color": colour(paint[flow.source])}
        dot.edge(f"b{flow.source}", f"b{flow.target}", values, **line)
    return str(dot.source)


def _left(lines: Iterable[str]) -> str:
    """Lines of a label, each to the left."""
    return "".join(f"{graphviz.escape(line)}\\l" for line in lines)


def render(dot: str) -> bytes | None:
    """DOT as SVG, by the system's `dot`, else by pygraphviz; None where neither is there.

    Errors: AbwError where Graphviz is there and fails.
    """
    if program := shutil.which("dot"):
        done = subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, check=False)
        if done.returncode:
            raise AbwError(f"dot failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    try:
        import pygraphviz as untyped
    except ImportError:
        return None
    drawn: bytes = _drawn(untyped, dot)
    return drawn


def _drawn(pygraphviz: Any, dot: str) -> Any:  # noqa: ANN401 - pygraphviz has no types
    try:
        return pygraphviz.AGraph(string=dot).draw(format="svg", prog="dot")
    except OSError as error:
        raise AbwError(f"pygraphviz failed: {error}") from None
