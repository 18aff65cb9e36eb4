"""A library: types of cells with their parameters and tables, for programs that call them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from abw.core.ir.cell import Param
from abw.core.ir.model import NodeType, Table
from abw.core.ir.weights import Weights


@dataclass(frozen=True, slots=True)
class Library:
    """A checked library.

    `types` belong to no vertices, and nothing is said of what feeds them: a program does that. `params` are
    the library's own (`start`), which `given` (their numbers) are there as values, and every type's
    (`score.W`), each once. All else as of a `Model`.
    """

    name: str
    files: tuple[Path, ...]
    dims: Mapping[str, int]
    tables: tuple[Table, ...]
    params: tuple[Param, ...]
    given: tuple[int, ...]
    types: tuple[NodeType, ...]
    weights: Weights
