"""HTML pages that hold everything and ask no network for anything: mini-batches, or how a training went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from abw.viz.data.collect import tree_pictures
from abw.viz.data.memory import arena_picture, memory_pictures
from abw.viz.data.model import model_picture
from abw.viz.data.scene import Scene
from abw.viz.data.steps import batches_picture
from abw.viz.drawing.chart import Chart, chart_svg
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.svg import DARK, STYLE, Svg, Theme, inline, patterns, variables
from abw.viz.page_data import scene_document

SCRIPTS = (
    "model.js",
    "layout.js",
    "rounds.js",
    "panels.js",
    "graph.js",
    "far.js",
    "pointer.js",
    "timeline.js",
    "machine.js",
    "bytes.js",
    "process.js",
    "time.js",
    "range.js",
    "app.js",
    "keys.js",
)

# Drawings of more batches or blocks than this are left out: the page's own views show them.
STILL = 4_000


def page(*scenes: Scene, theme: Theme | None = None) -> bytes:
    """Scenes as a file that works without a network: some 90 bytes a node, 100,000 nodes 9 MB.

    The first is shown when the page opens; the others are a press away, or beside it. `theme`: the colours
    that it opens with; None: the system's. Cost: layout, plans and the text itself, about 20 us a node.
    """
    title = scenes[0].title
    if len(scenes) > 1:
        title = f"{', '.join(dict.fromkeys(scene.model for scene in scenes))}: {len(scenes)} mini-batches"
    return _filled(
        "page.html",
        title,
        theme,
        sections=_all_sections(scenes),
        still=_still(scenes[0]),
        data="\n".join(map(_data, scenes)),
        script="\n".join(map(_asset, SCRIPTS)),
    )


def curves_page(
    title: str,
    facts: Sequence[str],
    charts: Sequence[Chart],
    rows: Sequence[Mapping[str, Any]],
    best: int,
    theme: Theme | None = None,
) -> bytes:
    """A training as a page without scripts: its curves, and its epochs as a table, with epoch `best` marked.

    `facts` stand below the title.
    """
    names = list(rows[0]) if rows else []
    head = "".join(f'<th scope="col">{escape(name.replace("_", " "))}</th>' for name in names)
    body = []
    for row in rows:
        cells = "".join(f"<td>{escape(_said(row[name]))}</td>" for name in names)
        body.append(f'<tr class="best">{cells}</tr>' if row["epoch"] == best else f"<tr>{cells}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    drawn = _scrolling(map(chart_svg, charts))
    return _filled("curves.html", title, theme, facts=escape(" · ".join(facts)), charts=drawn, table=table)


def _said(value: Any) -> str:  # noqa: ANN401 (a number of a stored curve)
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _filled(template: str, title: str, theme: Theme | None, **parts: str) -> bytes:
    """A page of the assets with its parts in their places, and what all pages have."""
    return (
        Template(_asset(template))
        .substitute(
            parts,
            title=escape(title),
            theme=f' data-theme="{theme}"' if theme else "",
            style=STYLE + dark() + _asset("page.css"),
            patterns=patterns(),
        )
        .encode()
    )


def _asset(name: str) -> str:
    return (files("abw.viz") / "assets" / name).read_text(encoding="utf-8")


def _data(scene: Scene) -> str:
    document = scene_document(scene)
    # apart, so that the table of all scenes needs none of them read
    name, figures = escape(scene.name or scene.title), escape(embedded(document.pop("figures")))
    of = f'class="scene" data-name="{name}" data-figures="{figures}"'
    return f'<script type="application/json" {of}>{embedded(document)}</script>'


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


def _all_sections(scenes: Sequence[Scene]) -> str:
    """The sections of each scene; what is the same in several is there once."""
    whose: dict[str, list[int]] = {}
    for number, scene in enumerate(scenes):
        for section in _sections(scene):
            whose.setdefault(section, []).append(number)
    parts = []
    for section, numbers in whose.items():
        hidden = "" if 0 in numbers else " hidden"
        parts.append(f'<div data-scenes="{" ".join(map(str, numbers))}"{hidden}>{section}</div>\n')
    return "".join(parts)


def _sections(scene: Scene) -> list[str]:
    """The model, memory and PQ-trees, folded; in place of those that are missing, why they are."""
    found = []
    if scene.spec:
        found.append(
            _details("the model: types, cells, parameters, links", [as_svg(model_picture(scene.spec))])
        )
    elif not scene.missing:
        found.append(_missing("the model", "what joins a program's cells is its code"))
    if scene.network is None or scene.graph is None:
        what = "memory and PQ-trees" if scene.spec else "the model, memory and PQ-trees"
        return [*found, _missing(what, scene.missing)]
    arenas = arena_picture(scene.graph, scene.schedules[scene.own])
    many = f"{len(arenas.blocks):,} blocks are too many to draw (at most {STILL:,})"
    return [
        *found,
        _details("memory: the cells' variables", map(as_svg, memory_pictures(scene.network))),
        _details("memory: the arenas' rows", [as_svg(arenas)])
        if len(arenas.blocks) <= STILL
        else _missing("memory: the arenas' rows", many),
        _details("PQ-trees", map(as_svg, tree_pictures(scene.network))),
    ]


def _missing(name: str, why: str) -> str:
    return f'<p class="missing soft">Not shown: {escape(name)}. Reason: {escape(why)}.</p>'


def _details(name: str, drawn: Iterable[Svg]) -> str:
    none = "<p>No cell has more than one variable of its own.</p>"
    return f"<details><summary>{escape(name)}</summary>{_scrolling(drawn) or none}</details>"


def _scrolling(drawn: Iterable[Svg]) -> str:
    return "".join(f'<div class="scroll" tabindex="0">{inline(svg)}</div>' for svg in drawn)


def _still(scene: Scene) -> str:
    """For readers without JavaScript: the schedules."""
    short = sum(len(schedule) for schedule in scene.schedules.values()) <= STILL
    return inline(as_svg(batches_picture(scene))) if short else ""
