"""How types are told apart: by a mark, a colour that colour-blind people can tell, a pattern and a shape."""

from __future__ import annotations

from collections.abc import Sequence

# Okabe and Ito's palette (Color Universal Design, 2008), ordered so that neighbours differ in lightness.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#999999")

# Beside the colour, so that no picture needs it; a ninth type has the first colour, the second pattern.
PATTERNS = ("plain", "rising", "dots", "level", "falling", "upright", "grid", "cross")


def colour(type: int) -> str:
    """A type's colour, as #rrggbb."""
    return COLOURS[type % len(COLOURS)]


def pattern(type: int) -> str:
    """A type's pattern."""
    return PATTERNS[(type + type // len(COLOURS)) % len(PATTERNS)]


def ink(background: str) -> str:
    """Black or white, whichever is easier to read on a colour (WCAG's relative luminance)."""
    parts = [int(background[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def marks(types: Sequence[str]) -> tuple[str, ...]:
    """One character a type, no two the same while there are letters.

    The first of its name that no other name has at the same place (int0, int1: 0, 1), else any.
    """
    spare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    chosen: list[str] = []
    for name in types:
        own = [c for c in name if c.isascii() and c.isalnum()]  # one column wide on every terminal
        single = [
            c for i, c in enumerate(name) if c in own and sum(other[i : i + 1] == c for other in types) == 1
        ]
        wanted = [*single, *own, *spare]
        chosen.append(next((c for c in wanted if c not in chosen), "?"))
    return tuple(chosen)
