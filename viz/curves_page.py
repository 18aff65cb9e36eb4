"""A training as one HTML page: its curves, its epochs as a table, and what it was begun with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from abw.viz.drawing.chart import Chart, chart_svg
from abw.viz.drawing.svg import STYLE, Theme, inline, patterns
from abw.viz.page import dark

_PAGE = """<!doctype html>
<html lang="en"{theme}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}
tr.best {{ font-weight: 600; }}</style>
</head>
<body class="abw">
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>{patterns}</defs></svg>
<header><h1>{title}</h1><span class="facts">{facts}</span></header>
<main>
<section class="wide" aria-label="Curves">{charts}</section>
<section class="wide" aria-label="Epochs"><h2>epochs</h2>
<div class="scroll" tabindex="0">{table}</div></section>
</main>
</body>
</html>
"""


def curves_page(
    title: str,
    facts: Sequence[str],
    charts: Sequence[Chart],
    rows: Sequence[Mapping[str, Any]],
    best: int,
    theme: Theme | None = None,
) -> bytes:
    """A page without scripts. `facts` stand below the title; of the `rows` that of epoch `best` is marked."""
    style = (files("abw.viz") / "assets" / "page.css").read_text(encoding="utf-8")
    drawn = (inline(chart_svg(chart)) for chart in charts)
    made = _PAGE.format(
        theme=f' data-theme="{theme}"' if theme else "",
        title=escape(title),
        style=STYLE + dark() + style,
        patterns=patterns(),
        facts=escape(" · ".join(facts)),
        charts="".join(f'<div class="scroll" tabindex="0">{svg}</div>' for svg in drawn),
        table=_table(rows, best),
    )
    return made.encode()


def _table(rows: Sequence[Mapping[str, Any]], best: int) -> str:
    names = list(rows[0]) if rows else []
    head = "".join(f'<th scope="col">{escape(name.replace("_", " "))}</th>' for name in names)
    body = []
    for row in rows:
        cells = "".join(f"<td>{escape(_said(row[name]))}</td>" for name in names)
        body.append(f'<tr class="best">{cells}</tr>' if row["epoch"] == best else f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _said(value: Any) -> str:  # noqa: ANN401 (a number of a stored curve)
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
