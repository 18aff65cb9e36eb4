"""Which models' rounds are compiled."""

from __future__ import annotations

from abw.core.graph.growing.sprout import Sprouter


def why_not(sprouter: Sprouter) -> str | None:
    """Why the rounds of a model are driven by Python; None where they are compiled."""
    growth = sprouter.growth
    if growth.closed:
        return f"it has lists of what grew ({', '.join(sorted(growth.closed))})"
    if any(clause.each for kind in growth.kinds for clause in kind.clauses):
        return "its clauses add a vertex for each of a list (each)"
    return None
