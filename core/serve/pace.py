"""The seconds that engines take for mini-batches, and how many instances large requests may run at once."""

from __future__ import annotations

from dataclasses import dataclass

# How much the last mini-batch counts.
NEWEST = 0.2
# Between two mini-batches of small requests, large ones run for a third of the seconds of one, so that they
# get a quarter of an engine; or for twice as many, but no more than these.
THIRD, TWICE, SHORT = 1 / 3, 2.0, 0.5e-3


@dataclass(slots=True)
class Pace:
    """Seconds of mini-batches, of which the last ones count most.

    `each`: for an instance; `large`: for an instance of a large request; `small`: for a mini-batch of small
    requests. 0 until there was one.
    """

    each: float = 0.0
    large: float = 0.0
    small: float = 0.0

    def add(self, seconds: float, instances: int, *, large: bool) -> None:
        """Note a mini-batch; `large`: of large requests."""
        self.each = _newer(self.each, seconds / instances)
        if large:
            self.large = _newer(self.large, seconds / instances)
        else:
            self.small = _newer(self.small, seconds)

    @property
    def piece(self) -> int:
        """How many instances of large requests run between two mini-batches of small ones.

        Small requests that wait for them take at most three times as long as without.
        """
        seconds = max(self.small * THIRD, min(self.small * TWICE, SHORT))
        each = self.large or self.each
        return max(1, int(seconds / each)) if each else 1


def _newer(before: float, now: float) -> float:
    return before + NEWEST * (now - before) if before else now
