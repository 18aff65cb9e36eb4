"""What the executor `cuda` can be told and what it can do, for who has no GPU to open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from abw.core.exec.interface import Abilities

# How it launches: each step of a batch, a whole plan, or whichever its costs say.
SchemeName = Literal["auto", "batch", "plan"]

ABILITIES = Abilities(overlaps=True)


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """`scheme`: None is `auto`. `tensor_cores`: whether products for many lanes may be computed there."""

    scheme: SchemeName | None = None
    tensor_cores: bool = True
