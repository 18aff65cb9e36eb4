"""One HTML page that holds everything and asks no network for anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from abw.core.graph.bounds import lower_bound
from abw.core.graph.graph import Graph
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import plan
from abw.core.policy.schedule import Schedule
from abw.viz.data.collect import tree_pictures
from abw.viz.data.fsm import policy_picture
from abw.viz.data.memory import arena_picture, memory_pictures
from abw.viz.data.model import model_picture
from abw.viz.data.pictures import FATES, PolicyPicture
from abw.viz.data.rounds import rounds_picture
from abw.viz.data.scene import Kept, Scene
from abw.viz.data.steps import batches_picture, frontier_picture
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.palette import colour, ink, marks, pattern
from abw.viz.drawing.rounds_text import cut_text
from abw.viz.drawing.svg import DARK, STYLE, Svg, Theme, inline, patterns, variables
from abw.viz.placement import arrange

SCRIPTS = ("model.js", "rounds.js", "graph.js", "timeline.js", "panels.js", "app.js")
VALUES, SHORT = 60_000, 8
"""The most computed numbers put into the page, and how many of a node's there are at most."""

CHOICES = 20_000
"""The most choices of what grows put into the page."""

STILL = 4_000
"""Drawings of more batches, blocks or states than this are left out: the page's own views show them."""


def page(scene: Scene, theme: Theme | None = None) -> bytes:
    """A scene as a file that works without a network: some 65 bytes a node, 100,000 nodes 7 MB.

    `theme`: the colours that it opens with; None: the system's.
    Cost: layout, plans and the text itself, about 15 us a node.
    """
    machines = [policy_picture(scene, name) for name in scene.schedules]
    assets = files("abw.viz") / "assets"
    filled = Template((assets / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(scene.title),
        theme=f' data-theme="{theme}"' if theme else "",
        style=STYLE + dark() + (assets / "page.css").read_text(encoding="utf-8"),
        patterns=patterns(),
        machines="".join(_machine(picture) for picture in machines),
        sections=_sections(scene),
        still=_still(scene),
        data=embedded(_data(scene, machines)),
        script="\n".join((assets / name).read_text(encoding="utf-8") for name in SCRIPTS),
    )
    return filled.encode()


def embedded(document: object) -> str:
    """JSON that can stand in a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def dark() -> str:
    """The dark colours: where the system asks for them, and where the reader does."""
    system = f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]) {variables(DARK)}}}"
    return f"{system}\n:root[data-theme=dark] {variables(DARK)}\n"


def _machine(picture: PolicyPicture) -> str:
    return f'<div data-policy="{escape(picture.policy)}">{inline(as_svg(picture))}</div>'


def _sections(scene: Scene) -> str:
    """The model, memory and PQ-trees, folded; nothing where a run's model cannot be read any more."""
    model = [as_svg(model_picture(scene.spec))] if scene.spec else []
    written = _details("the model: types, cells, parameters, links", model)
    if scene.network is None or scene.graph is None:
        return written
    arenas = arena_picture(scene.graph, scene.schedules[scene.own])
    drawn = [as_svg(picture) for picture in memory_pictures(scene.network)]
    drawn += [as_svg(arenas)] if len(arenas.blocks) <= STILL else []
    trees = [as_svg(picture) for picture in tree_pictures(scene.network)]
    return (
        written
        + _details("memory: the cells' variables, and the arenas", drawn)
        + _details("PQ-trees", trees)
    )


def _details(name: str, drawn: Sequence[Svg]) -> str:
    inside = "".join(f'<div class="scroll">{inline(svg)}</div>' for svg in drawn)
    return f"<details><summary>{escape(name)}</summary>{inside}</details>\n" if drawn else ""


def _still(scene: Scene) -> str:
    """For readers without JavaScript: the schedules."""
    short = sum(len(schedule) for schedule in scene.schedules.values()) <= STILL
    return inline(as_svg(batches_picture(scene))) if short else ""


def _data(scene: Scene, machines: Sequence[PolicyPicture]) -> dict[str, Any]:
    """What the scripts read; `model.js` says what they make of it."""
    dag = scene.dag
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    x, y, layer = arrange(dag, scene.instance, source)
    types = range(len(dag.types))
    bound = lower_bound(dag)
    instances = int(scene.instance.max(initial=-1)) + 1
    facts = [
        f"{len(dag):,} nodes, {len(dag.succ):,} edges, {instances:,} instance{'' if instances == 1 else 's'}",
        f"mini-batch {scene.number + 1} of {scene.mini_batches}",
        f"lower bound {int(bound.sum()):,} batches",
    ]
    return {
        "facts": " · ".join(facts),
        "types": dag.types,
        "marks": marks(dag.types),
        "colours": [colour(t) for t in types],
        "inks": [ink(colour(t)) for t in types],
        "patterns": [pattern(t) for t in types],
        "bound": bound.tolist(),
        "graph": {
            "type": dag.type.tolist(),
            "instance": scene.instance.tolist(),
            "vertex": scene.vertex.tolist(),
            "source": source.tolist(),
            "target": dag.succ.tolist(),
            "x": np.round(x, 2).tolist(),
            "y": np.round(y, 2).tolist(),
            # what the range picker cuts: instances, or one instance's layers
            "layer": layer.tolist() if instances == 1 else None,
        },
        "policies": [_policy(scene, machine) for machine in machines],
        "outputs": _outputs(_placed(scene)),
        "width": scene.network.width if scene.network else 0,
        "growth": _growth(scene),
        "values": [_values(kept) for kept in scene.kept if kept.values.size],
    }


def _growth(scene: Scene) -> dict[str, Any] | None:
    """The rounds, their vertices and choices; `rounds.js` says what it makes of them."""
    found = scene.growth
    if found is None:
        return None
    picture = rounds_picture(scene)
    choices = picture.choices[:CHOICES]
    return {
        "kinds": found.kinds,
        "kind": found.kind.tolist(),
        "index": found.index.tolist(),
        "of": found.instance.tolist(),
        "round": found.round.tolist(),
        "node": found.node_round.tolist(),
        "nodes": picture.nodes.tolist(),
        "instances": picture.instances,
        "growing": picture.growing.tolist(),
        "grown": picture.kinds,
        "came": picture.came.tolist(),
        "made": [choice.round for choice in choices],
        "at": [choice.vertex for choice in choices],
        "chosen": [choice.chosen for choice in choices],
        "fate": [FATES.index(choice.fate) for choice in choices],
        "said": [choice.said for choice in choices],
        "left": len(picture.choices) - len(choices),
        "cut": "; ".join(map(cut_text, picture.cut)),
    }


def _policy(scene: Scene, machine: PolicyPicture) -> dict[str, Any]:
    picture = frontier_picture(scene, machine.policy)
    schedule = scene.schedules[machine.policy]
    return {
        "name": machine.policy,
        "type": picture.lane.type.tolist(),
        "width": picture.lane.width.tolist(),
        "late": picture.lane.late.tolist(),
        "behind": picture.lane.behind.tolist(),
        "nodes": schedule.nodes.tolist(),
        "ready": picture.ready.ravel().tolist(),
        "machine": {"steps": machine.steps},
        "base": _base(_placed(scene), schedule),
    }


def _placed(scene: Scene) -> Graph | None:
    """The graph whose rows the page names: none where a batch is of several types, as those of groups are."""
    graph = scene.graph
    return graph if graph is not None and graph.dag.types == scene.dag.types else None


def _base(graph: Graph | None, schedule: Schedule) -> list[int] | None:
    """The first row of each batch's outputs in their arenas, batch after batch."""
    return None if graph is None else plan(graph, schedule).base.ravel().tolist()


def _outputs(graph: Graph | None) -> list[list[tuple[str, int]]] | None:
    """For each type its outputs' names and arenas."""
    if graph is None:
        return None
    arena = arenas_of(graph.network).output_arena
    return [
        [(port.name, int(arena[t, o])) for o, port in enumerate(type.outputs)]
        for t, type in enumerate(graph.network.types)
    ]


def _values(kept: Kept) -> dict[str, Any]:
    """Computed values of the first nodes, four digits each."""
    rows = kept.values.reshape(len(kept.values), -1)
    short = min(rows.shape[1], SHORT)
    shown = rows[: VALUES // max(1, short), :short]
    return {
        "name": kept.name,
        "node": kept.node[: len(shown)].tolist(),
        "values": [[float(f"{value:.4g}") for value in row] for row in shown.tolist()],
        "cut": short < rows.shape[1],
    }
