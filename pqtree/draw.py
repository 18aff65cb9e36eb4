"""A picture of a PQ-tree as SVG: P-nodes are circles, Q-nodes bars as wide as their children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from abw.pqtree.shape import Code, children_of, is_q
from abw.pqtree.tree import PQTree

GAP, LEVEL, MARGIN, LETTER = 34, 52, 24, 7.5  # pixels
STYLE = (
    "text{font:12px sans-serif;text-anchor:middle;fill:#222}"
    "line{stroke:#999;stroke-width:1.2}"
    ".p{fill:#fff;stroke:#2a6f97;stroke-width:1.6}"
    ".q{fill:#e9f1f7;stroke:#2a6f97;stroke-width:1.6}"
)


def tree_svg(tree: PQTree, names: Sequence[str] | None = None) -> str:
    """The tree as it lies, leaves in a row at the bottom, under their names (default: their numbers)."""
    label = [str(leaf) for leaf in range(tree.n)] if names is None else list(names)
    if len(label) != tree.n:
        raise ValueError(f"{len(label)} names for {tree.n} leaves")
    drawn = drawn_tree(tree.code(), label)
    size = f"{drawn.width:.0f}", f"{drawn.height:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="PQ-tree">'
        f"<style>{STYLE}</style>{drawn.body}</svg>\n"
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """The elements of a picture, of classes p and q, its size, and the middle of each Q-node's bar."""

    body: str
    width: float
    height: float
    bars: tuple[tuple[float, float], ...]


def drawn_tree(code: Code, label: Sequence[str]) -> Drawn:
    """The picture of a code, with its children in the order they have there."""
    gap = max(GAP, max((len(name) for name in label), default=0) * LETTER + 10)
    children = children_of(code)
    height = [0] * len(code)
    for at, kids in children.items():
        height[at] = 1 + max(height[kid] for kid in kids)
    top = height[0] if code else 0
    leaves = [at for at, token in enumerate(code) if token >= 0]
    x = {at: MARGIN + gap * (i + 0.5) for i, at in enumerate(leaves)}
    for at, kids in children.items():
        x[at] = (x[kids[0]] + x[kids[-1]]) / 2
    y = [MARGIN + LEVEL * (top - level) for level in height]
    lines, shapes = [], []
    for at, kids in children.items():
        bar = is_q(code[at])
        for kid in kids:
            begin = x[kid] if bar else x[at]
            lines.append(f'<line x1="{begin:.1f}" y1="{y[at]}" x2="{x[kid]:.1f}" y2="{y[kid]}"/>')
        if bar:
            left, width = x[kids[0]] - 11, x[kids[-1]] - x[kids[0]] + 22
            shapes.append(
                f'<rect class="q" x="{left:.1f}" y="{y[at] - 9}" width="{width:.1f}" height="18" rx="4"/>'
            )
        else:
            shapes.append(f'<circle class="p" cx="{x[at]:.1f}" cy="{y[at]}" r="11"/>')
            shapes.append(f'<text x="{x[at]:.1f}" y="{y[at] + 4}">P</text>')
    shapes += [f'<text x="{x[at]:.1f}" y="{y[at] + 16}">{escape(label[code[at]])}</text>' for at in leaves]
    width, low = 2 * MARGIN + gap * max(1, len(leaves)), 2 * MARGIN + LEVEL * top + 8
    bars = tuple((x[at], y[at]) for at in children if is_q(code[at]))
    return Drawn("".join(lines + shapes), round(width), low, bars)
