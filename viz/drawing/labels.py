"""Labels and lines that do not collide: each at the first place of those wanted where nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Left, top, right, low, in pixels.
Box = tuple[float, float, float, float]

Point = tuple[float, float]
# A cubic Bézier curve.
Curve = tuple[Point, Point, Point, Point]

# At so many points of a curve it is seen whether it lies over something.
SAMPLES = 40


class Labels:
    """Boxes within a frame: those that were there, and the labels placed since."""

    def __init__(self, frame: Box, taken: Iterable[Box] = ()) -> None:
        """Keep labels off the boxes `taken` and inside the frame."""
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


def clearest(curves: Iterable[Curve], boxes: Sequence[Box]) -> Curve:
    """The first curve that runs through no box, else the first of those that do so least. At least one."""
    found: list[tuple[int, Curve]] = []
    for curve in curves:
        inside = within(curve, boxes)
        if not inside:
            return curve
        found.append((inside, curve))
    return min(found, key=lambda each: each[0])[1]


def within(curve: Curve, boxes: Sequence[Box]) -> int:
    """Count the points of a curve that lie in boxes."""
    points = [along(curve, i / SAMPLES) for i in range(SAMPLES + 1)]
    return sum(left < x < right and top < y < low for x, y in points for left, top, right, low in boxes)


def along(curve: Curve, share: float) -> Point:
    """Return a point of a curve: its first at share 0, its last at 1."""
    t, s = share, 1 - share
    weights = (s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t)
    x, y = (sum(w * point[i] for w, point in zip(weights, curve, strict=True)) for i in (0, 1))
    return x, y
