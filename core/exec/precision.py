"""What the weights of products are kept in, and how far from the reference that may lead."""

from __future__ import annotations

from typing import Literal, get_args

# What the matrices are kept in that vectors are multiplied with; all else is float32 (docs/cpu.md).
Precision = Literal["float32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

# The largest error that `--verify` lets pass, relative to an output's root mean square: two to three times
# the largest that was measured on the shipped specs (bf16 2e-2, int8 9.5e-2).
ALLOWED: dict[Precision, float] = {"bf16": 5e-2, "int8": 2.5e-1}


def allowed(precision: Precision, single: float) -> float:
    """The error that is let pass; `single`: in float32."""
    return ALLOWED.get(precision, single)
