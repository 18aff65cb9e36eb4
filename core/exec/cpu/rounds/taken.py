"""Which models' rounds are compiled."""

from __future__ import annotations

from abw.core.graph.growing.sprout import Sprouter


def why_not(sprouter: Sprouter) -> str | None:
    """Why the rounds of a model are driven by Python; None where they are compiled."""
    if not sprouter.phases.ordered:
        return "its types may wait for each other in a round"
    return None
