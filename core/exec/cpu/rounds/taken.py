"""Which models' rounds are compiled."""

from __future__ import annotations

from abw.core.graph.growing.sprout import Sprouter


def why_not(sprouter: Sprouter) -> str | None:
    """Why the rounds of a model are driven by Python; None where they are compiled."""
    closed = sprouter.growth.closed
    if closed and not sprouter.phases.ordered:
        return f"its types wait for each other, and read lists of what grew ({', '.join(sorted(closed))})"
    return None
