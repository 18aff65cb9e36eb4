"""SVG by hand: elements, text and its width, a style in light and one in dark, patterns with the colours."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from abw.core.base.errors import AbwError
from abw.viz.drawing.palette import COLOURS, PATTERNS, colour, ink, marks, pattern

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

# The advance widths of DejaVu Sans, the widest of these fonts, from blank to tilde: thousandths of the size.
_REGULAR = """
318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 337
337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 635 611 732
684 989 685 611 685 390 337 390 838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 974 634 612 635
635 411 521 392 634 592 818 592 592 525 636 337 636 838
"""
_BOLD = """
348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696 696 696 696 400
400 838 838 838 580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995 837 850 733 850 770 720 682 812
774 1103 771 724 725 457 365 457 838 500 500 675 716 593 716 678 435 716 712 343 343 665 343 1042 712 687 716
716 493 595 478 712 652 924 645 652 582 712 365 712 838
"""
_WIDTHS = tuple(
    {chr(32 + i): int(width) for i, width in enumerate(widths.split())} for widths in (_REGULAR, _BOLD)
)


def wide(content: str, size: float = 12, bold: bool = False) -> float:
    """At most how wide a text is, in pixels; 12 is the size of `.abw`."""
    widths = _WIDTHS[bold]
    return size * sum(widths[c] if c in widths else _other(c) for c in content) / 1000


def _other(letter: str) -> int:
    """The width of what is not ASCII: an em where it is as wide as it is high, nothing where it combines."""
    if unicodedata.combining(letter):
        return 0
    return 1000 if unicodedata.east_asian_width(letter) in "WF" or letter in "…—" else 840


def variables(colours: Mapping[str, str]) -> str:
    """Define the colours as custom properties, which a page changes with its theme."""
    return ".abw{" + ";".join(f"--{name}:{paint}" for name, paint in colours.items()) + "}"


def _literal(colours: Mapping[str, str]) -> str:
    """Return the rules with the colours written out: few programs but browsers know custom properties."""
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
    """A rectangle in the look of a class."""
    return tag("rect", inside, x=x, y=y, width=width, height=height, class_=class_, **more)


def title(content: str) -> str:
    """The tip that a pointer resting on the element shows."""
    return tag("title", escape(content))


def tipped(tip: str, content: str, /, **attributes: Attribute) -> str:
    """Elements that say more to a pointer resting on them."""
    return tag("g", title(tip) + content, **attributes)


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
    """A heading: a name in large letters, a description, and what is wrong."""
    spans = tag("tspan", escape(name), class_="big") + tag("tspan", escape(said), dx=10, class_="soft")
    spans += tag("tspan", escape(blame), dx=10, class_="bad") if blame else ""
    return tag("text", spans, x=x, y=y)


def heading_width(name: str, said: str, blame: str = "") -> float:
    """About how wide a heading is."""
    return 10 * len(name) + wide(said) + wide(blame) + 20


class Sheet:
    """A drawing in the making: its elements, and how far they reach to the `right`."""

    def __init__(self, margin: float, name: str = "") -> None:
        """Begin a drawing, with its `name` in large letters on top if it has one."""
        self.margin, self.right = margin, 0.0
        self.parts: list[str] = [text(margin, 20, name, "big")] if name else []

    def add(self, *elements: str) -> None:
        """Put elements over those that are there."""
        self.parts += elements

    def put(self, body: str, y: float, width: float) -> None:
        """Put a drawing of its own, whose origin is its top left corner, at the left margin."""
        self.add(tag("g", body, transform=f"translate({self.margin:g} {y:g})"))
        self.reach(self.margin + width)

    def axis(self, x: float, y: float, width: float) -> None:
        """Draw a line from (x, y) to the right."""
        self.add(tag("path", d=f"M{x:.1f} {y:.1f}h{width:.1f}", class_="axis"))

    def reach(self, x: float) -> None:
        """Make the drawing as wide as something that ends at x."""
        self.right = max(self.right, x)

    def line(self, y: float, said: str, class_: str, size: float = 12, bold: bool = False) -> None:
        """Write a line from the left margin on, and leave room for all of it."""
        self.add(text(self.margin, y, said, class_))
        self.reach(self.margin + wide(said, size, bold))

    def legend(self, types: Sequence[str], y: float) -> tuple[str, ...]:
        """Write the types in a row: colour, mark, name. Return their marks."""
        letters, x = marks(types), self.margin
        for t, (name, letter) in enumerate(zip(types, letters, strict=True)):
            said = name if letter == name else f"{letter} {name}"
            self.add(filled(t, x, y - 11, 18, 14, rx=2), text(x + 23, y, said))
            x += 23 + wide(said) + 14
        self.reach(x)
        return letters

    def svg(self, height: float, label: str) -> Svg:
        """The drawing, described by `label`."""
        return Svg(self.right + self.margin, height, "".join(self.parts), label)


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


def arrow(type: int, d: str, width: Attribute, **look: Attribute) -> str:
    """A line in a type's colour with a head at its end."""
    end = f"url(#abw-arrow-{type % len(COLOURS)})"
    return tag("path", d=d, **look, fill="none", stroke=colour(type), stroke_width=width, marker_end=end)


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
