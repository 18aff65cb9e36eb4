"""What a model says of its parameters and tables: each a part of a file's tensors, joined or turned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from abw.core.base.errors import Span

# One index, which drops its axis, or from where to where (None: the end).
Pick = int | tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file."""

    name: str


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a tensor: a pick for each of its first axes."""

    of: Expr
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class Combined:
    """The transpose of a matrix, tensors one after the other along the first axis, or their sum."""

    how: str
    of: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Zeros:
    """What the file does not have and is zero, as a bias that was left out."""


Expr = Tensor | Slice | Combined | Zeros


@dataclass(frozen=True, slots=True)
class Value:
    """What a parameter or table is, how that is written, and where."""

    expr: Expr
    text: str
    where: Span


@dataclass(frozen=True, slots=True)
class Weights:
    """The section `weights` of a model, with what the command line says instead.

    `file` is None where the model runs with parameters drawn from the seed. `map` has a value for parameters
    (by their names in `Model.params`) and tables; any other is the file's tensor of its own name. Tensors
    whose name fits a pattern of `ignore` need not be used. `where` is the section, if there is one, `named`
    what names the file there.
    """

    file: Path | None
    map: Mapping[str, Value]
    ignore: tuple[str, ...]
    where: Span | None
    named: Span | None

    def ignores(self, tensor: str) -> bool:
        """Whether a tensor of the file need not be used."""
        return any(fnmatchcase(tensor, pattern) for pattern in self.ignore)


def names_in(expr: Expr) -> Iterator[str]:
    """The tensors that a value is made of."""
    match expr:
        case Tensor(name):
            yield name
        case Slice(of, _):
            yield from names_in(of)
        case Combined(_, parts):
            for part in parts:
                yield from names_in(part)
