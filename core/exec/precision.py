"""What the weights of products are kept in, and how far from the reference that may lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Precision = Literal["float32", "bf16", "int8"]
"""What the matrices are that vectors are multiplied with; all else is float32 (docs/cpu.md)."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
