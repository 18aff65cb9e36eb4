"""Steps along the links of an instance, and comparisons: what sources, conditions and growth are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Hop:
    """One step along a link; `index` picks one of several (negative: from the end), None wants them all."""

    link: str
    index: int | None = None
