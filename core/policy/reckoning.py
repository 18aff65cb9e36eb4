"""About how long policies take to schedule: what `auto` reckons with."""

from __future__ import annotations

from typing import NamedTuple

from abw.core.policy.registry import REVERSED


class Size(NamedTuple):
    """How large some graphs of the same types are together; `work` is the number of their nodes and edges."""

    graphs: int
    work: int
    types: int


class Rate(NamedTuple):
    """Nanoseconds of a policy: a graph, a node or edge, a batch, and a type a batch."""

    graph: float
    work: float
    batch: float
    type: float


# What each takes; `-reversed`: what turning a graph round adds.
#
# Fitted to the thread CPU time on 19 families of graphs in mini-batches of 1, 8 and 64 instances (`abw bench
# policies --families` compares), mean error 12 %; beam, phases and FSMs, whose states differ more, 40 %.
RATES: dict[str, Rate] = {
    "depth": Rate(5200, 3.3, 8, 0.03),
    "phases": Rate(3000, 1.5, 0, 0),
    "agenda": Rate(10700, 7.6, 45, 0.95),
    "critical": Rate(5100, 9.4, 69, 1.1),
    "share": Rate(16000, 9.1, 115, 1.3),
    "weight": Rate(16000, 9.1, 105, 1.3),
    "sufficient": Rate(16000, 29, 90, 4.7),
    "critical-free": Rate(35000, 16, 117, 6.6),
    "weight-free": Rate(35000, 16, 140, 7.4),
    "share-free": Rate(35000, 16, 140, 7.5),
    "linear": Rate(6900, 19, 60, 0.2),
    "linear-learned": Rate(6900, 19, 60, 0.2),
    "linear-learned-free": Rate(20700, 23, 10, 5.2),
    "beam": Rate(56000, 590, 400, 16),
    "repair": Rate(50_000, 100, 850_000, 0),
    "fsm-base": Rate(8000, 5.1, 0, 2.4),
    "fsm-sort": Rate(6500, 3.5, 0, 13),
    "fsm-critical": Rate(9000, 10, 70, 20),
    REVERSED: Rate(9500, 1.1, 30, 0),
}


def seconds_of(name: str, size: Size, batches: float) -> float:
    """About how long a policy takes to make so many batches of graphs, on one core."""
    rule = name.removesuffix(REVERSED)
    rates = [RATES[rule]] if rule == name else [RATES[rule], RATES[REVERSED]]
    each = (size.graphs, size.work, batches, size.types * batches)
    return 1e-9 * sum(rate * many for r in rates for rate, many in zip(r, each, strict=True))
