"""Labels that do not collide: each at the first place of those wanted where nothing else is."""

from __future__ import annotations

from collections.abc import Iterable

Box = tuple[float, float, float, float]
"""Left, top, right, low, in pixels."""

Point = tuple[float, float]


class Labels:
    """What lies within `frame` already, and what was placed since."""

    def __init__(self, frame: Box, taken: Iterable[Box] = ()) -> None:
        """Nothing is to lie over `taken`, or outside the frame."""
        self.frame, self.taken = frame, list(taken)

    def place(self, wanted: Iterable[Point], width: float, height: float) -> Point | None:
        """The first of these middles where a label of this size is free; it is taken then. None: no room."""
        left, top, right, low = self.frame
        for x, y in wanted:
            box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            inside = box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= low
            if inside and not any(overlap(box, other) for other in self.taken):
                self.taken.append(box)
                return x, y
        return None


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share more than an edge."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def along(curve: tuple[Point, Point, Point, Point], share: float) -> Point:
    """A point of a cubic Bézier curve: its first at share 0, its last at 1."""
    t, s = share, 1 - share
    weights = (s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t)
    x, y = (sum(w * point[i] for w, point in zip(weights, curve, strict=True)) for i in (0, 1))
    return x, y
