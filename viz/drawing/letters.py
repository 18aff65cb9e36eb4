"""How wide a text is: the advance widths of DejaVu Sans, the widest of the fonts that pictures ask for."""

from __future__ import annotations

import unicodedata

_FIRST = 32
_REGULAR = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295,
    295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838,
    500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
)  # fmt: skip
# From the blank to the tilde, in thousandths of the size.
_BOLD = (
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696,
    696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372,
    372, 775, 637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838,
    500, 500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595,
    478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838,
)  # fmt: skip


def wide(content: str, size: float = 12, bold: bool = False) -> float:
    """About how wide a text is, in pixels, on the wide side; its size is that of `.abw` unless told."""
    widths = _BOLD if bold else _REGULAR
    total = 0
    for letter in content:
        at = ord(letter) - _FIRST
        total += widths[at] if 0 <= at < len(widths) else _other(letter)
    return size * total / 1000


def _other(letter: str) -> int:
    """What is no ASCII: an em where it is as wide as it is high, nothing where it stands on another."""
    if unicodedata.combining(letter):
        return 0
    return 1000 if unicodedata.east_asian_width(letter) in "WF" or letter in "…—" else 840
