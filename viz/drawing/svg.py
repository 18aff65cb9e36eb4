"""SVG by hand: elements, a style in light and one in dark, patterns beside the colours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from abw.core.base.errors import AbwError
from abw.viz.drawing.letters import wide
from abw.viz.drawing.palette import COLOURS, PATTERNS, colour, ink, pattern

# The most parts of a drawing.
MOST = 20_000

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "soft": "#5c656e",
    "line": "#b0b8c0",
    "faint": "#eef1f4",
    "bad": "#c0143c",
    "fine": "#007d5b",
}
DARK = {
    "paper": "#16191d",
    "ink": "#e8eaed",
    "soft": "#9aa3ad",
    "line": "#4a525b",
    "faint": "#23282e",
    "bad": "#ff7b93",
    "fine": "#3ecf9f",
}
Theme = Literal["light", "dark"]
THEMES: Mapping[Theme, Mapping[str, str]] = {"light": LIGHT, "dark": DARK}
_RULES = """
.abw{font:12px system-ui,"Segoe UI","DejaVu Sans",sans-serif;color:var(--ink)}
.abw text{fill:var(--ink)} .abw .soft{fill:var(--soft)} .abw .bad{fill:var(--bad)} .abw .small{font-size:10px}
.abw .big{font-size:14px;font-weight:600} .abw .bold{font-weight:600}
.abw .mid{text-anchor:middle} .abw .end{text-anchor:end}
.abw .halo{paint-order:stroke;stroke:var(--paper);stroke-width:3px}
.abw .edge{fill:none;stroke:var(--line);stroke-width:1} .abw .axis{stroke:var(--line);stroke-width:1}
.abw .box{fill:var(--paper);stroke:var(--line)} .abw .back{fill:var(--faint)} .abw .paper{fill:var(--paper)}
.abw .copy{stroke:var(--bad);fill:none}
.abw .fine{stroke:var(--fine);fill:none;stroke-width:2}
.abw .other{stroke:var(--soft);fill:none;stroke-width:1.5} .abw .links{stroke-dasharray:5 3}
.abw .below{stroke-dasharray:2 2.5} .abw .hub{fill:var(--line)}
.abw .pqtree line{stroke:var(--line)} .abw .pqtree text{text-anchor:middle}
.abw .pqtree .p,.abw .pqtree .q{fill:var(--faint);stroke:var(--soft)}
"""


def variables(colours: Mapping[str, str]) -> str:
    """The colours as custom properties: what a page changes with its theme."""
    return ".abw{" + ";".join(f"--{name}:{paint}" for name, paint in colours.items()) + "}"


def _literal(colours: Mapping[str, str]) -> str:
    """The rules with the colours themselves: few programs but browsers know custom properties."""
    return re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], _RULES)


# The style of pictures within a page.
STYLE = f"\n{variables(LIGHT)}{_RULES}"


@dataclass(frozen=True, slots=True)
class Svg:
    """A picture's size in pixels, its elements, and what it shows in words."""

    width: float
    height: float
    body: str
    label: str


Attribute = str | float


def tag(name: str, content: str = "", /, **attributes: Attribute) -> str:
    """An element; `class_` is class, `_` is -; numbers are rounded to a tenth of a pixel."""
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(number(value))}"
        for key, value in attributes.items()
    )
    return f"<{name}{said}>{content}</{name}>" if content else f"<{name}{said}/>"


def number(value: Attribute) -> str:
    """A number as short as a tenth of a pixel allows."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, content: str, class_: str = "", /, **attributes: Attribute) -> str:
    """A line of text."""
    return tag("text", escape(content), x=x, y=y, **({"class_": class_} if class_ else {}), **attributes)


def rect(
    x: float, y: float, width: float, height: float, class_: str, inside: str = "", /, **more: Attribute
) -> str:
    """A rectangle as a class looks."""
    return tag("rect", inside, x=x, y=y, width=width, height=height, class_=class_, **more)


def title(content: str) -> str:
    """What a pointer resting on the element is told."""
    return tag("title", escape(content))


def filled(
    type: int, x: float, y: float, width: float, height: float, inside: str = "", /, **more: Attribute
) -> str:
    """A rectangle in a type's colour and pattern."""
    place: dict[str, Attribute] = {"x": x, "y": y, "width": width, "height": height}
    base = tag("rect", inside, **place, fill=colour(type), **more)
    if pattern(type) == "plain":
        return base
    return base + tag("rect", **place, fill=f"url(#abw-{pattern(type)})", pointer_events="none", **more)


def swatch(
    type: int, x: float, y: float, width: float, height: float, said: str, /, **more: Attribute
) -> str:
    """A rectangle in a type's colour with text on it: no pattern, which would make it hard to read."""
    label = text(x + width / 2, y + height / 2 + 4, said, "mid small bold", style=f"fill:{ink(colour(type))}")
    return tag("rect", x=x, y=y, width=width, height=height, fill=colour(type), **more) + label


def heading(x: float, y: float, name: str, said: str, blame: str = "") -> str:
    """A name in large letters, what is said of it, and what is wrong with it."""
    spans = tag("tspan", escape(name), class_="big") + tag("tspan", escape(said), dx=10, class_="soft")
    spans += tag("tspan", escape(blame), dx=10, class_="bad") if blame else ""
    return tag("text", spans, x=x, y=y)


def heading_width(name: str, said: str, blame: str = "") -> float:
    """About how wide a heading is."""
    return 10 * len(name) + wide(said) + wide(blame) + 20


def legend(types: Sequence[str], letters: Sequence[str], x: float, y: float) -> tuple[str, float]:
    """The types in a row: colour, mark, name. Returns also where it ends."""
    parts = []
    for t, name in enumerate(types):
        parts.append(filled(t, x, y - 11, 18, 14, rx=2))
        said = name if letters[t] == name else f"{letters[t]} {name}"
        parts.append(text(x + 23, y, said))
        x += 23 + wide(said) + 14
    return "".join(parts), x


_STROKES = {
    "rising": "M0 6L6 0",
    "falling": "M0 0L6 6",
    "level": "M0 3H6",
    "upright": "M3 0V6",
    "grid": "M0 3H6M3 0V6",
    "cross": "M0 0L6 6M0 6L6 0",
}


def patterns() -> str:
    """The definitions that `filled` refers to."""
    made = []
    for name in PATTERNS[1:]:
        shape = (
            tag("circle", cx=3, cy=3, r=1.2, fill="#fff", fill_opacity="0.6")
            if name == "dots"
            else tag("path", d=_STROKES[name], stroke="#fff", stroke_opacity="0.5", stroke_width=1.2)
        )
        made.append(tag("pattern", shape, id=f"abw-{name}", width=6, height=6, patternUnits="userSpaceOnUse"))
    made += [_head(f"abw-arrow-{i}", fill=paint) for i, paint in enumerate(COLOURS)]
    return "".join(made) + _head("abw-arrow-copy", class_="bad")


def _head(id: str, **look: Attribute) -> str:
    """The head of a line, one for each colour: not every program knows how to take the line's."""
    box: dict[str, Attribute] = {"viewBox": "0 0 8 8", "refX": 7, "refY": 4, "markerWidth": 8}
    shape = tag("path", d="M0 0L8 4L0 8Z", **look)
    return tag("marker", shape, id=id, markerHeight=8, orient="auto", markerUnits="userSpaceOnUse", **box)


def arrow(type: int) -> str:
    """The reference to a head in a type's colour."""
    return f"url(#abw-arrow-{type % len(COLOURS)})"


def document(picture: Svg, theme: Theme = "light") -> str:
    """A file of its own: its colours are written out, and so the same in any program."""
    style = f"<style>{_literal(THEMES[theme])}</style>"
    paper = rect(0, 0, picture.width, picture.height, "paper")
    return inline(picture, style + tag("defs", patterns()) + paper) + "\n"


def inline(picture: Svg, head: str = "") -> str:
    """An element for a page that holds the style and the patterns itself."""
    return tag(
        "svg",
        head + title(picture.label) + picture.body,
        xmlns="http://www.w3.org/2000/svg",
        class_="abw",
        width=number(float(round(picture.width))),
        height=number(float(round(picture.height))),
        viewBox=f"0 0 {picture.width:.0f} {picture.height:.0f}",
        role="img",
        aria_label=picture.label,
        # blanks at the ends of tspans, which all but browsers leave out otherwise
        **{"xml:space": "preserve"},
    )


def require_small(parts: int, what: str) -> None:
    """Raise AbwError where a drawing would have more parts than a browser can bear."""
    if parts > MOST:
        raise AbwError(
            f"an SVG of {parts} {what} is too much for any browser (at most {MOST})",
            hint="look at them with --html, or have them with --json",
        )


def stacked(pictures: Sequence[Svg]) -> Svg:
    """Pictures under each other as one."""
    if len(pictures) == 1:
        return pictures[0]
    parts, y = [], 0.0
    for picture in pictures:
        parts.append(tag("g", picture.body, transform=f"translate(0 {number(y)})"))
        y += picture.height + 16
    return Svg(max(p.width for p in pictures), y - 16, "".join(parts), "; ".join(p.label for p in pictures))
