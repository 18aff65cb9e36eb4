"""A model: types of nodes over the vertices of an instance, each with where its inputs come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from abw.core.base.errors import Span
from abw.core.ir.cell import Cell, Param, Port, Shape
from abw.core.ir.growth import Growth
from abw.core.ir.schema import Comparison, Hops, Kinds, Schema
from abw.core.ir.training import Training
from abw.core.ir.weights import Weights

Form = Literal["values", "probabilities", "label"]
# Those that a spec writes, in `as`.
FORMS: tuple[Form, ...] = get_args(Form)[1:]


# Beside values: the number of their vertex in its instance, unless the data have a field of this name.
VERTEX = "vertex"


@dataclass(frozen=True, slots=True)
class Answer:
    """`values` as they are; their `probabilities` (softmax); or the `label`, the number of the largest.

    Of labels the `top` most probable ones, with probabilities; 0: the first alone, without. `names[i]` is
    what label i is called, None where it has none but its number. `fields` are those of the vertices that
    stand beside the values: fields, links that lead to one vertex, and `VERTEX`. `path` is the file that the
    names come from.
    """

    form: Form = "values"
    top: int = 0
    names: tuple[str, ...] | None = None
    fields: tuple[str, ...] = ()
    path: Path | None = None


AS_IT_IS = Answer()

# What a list of values can be reduced by on its own.
Reduction = Literal["sum", "mean", "max", "var", "std"]
SIMPLE: tuple[Reduction, ...] = get_args(Reduction)
# The variance divides by the number of values; these are zeros over one value and over none.
SPREADS: tuple[Reduction, ...] = ("var", "std")


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention over a list of neighbours, in `heads` heads: each part of the result is the mean of the same
    part of the neighbours' values, weighted by the softmax of scores.

    A score is the product of a neighbour's key with the query (Vaswani et al., 2017), divided by the root of
    their length where `scaled`; or where `added` the sum of leaky_relu(key + query), with SLOPE below zero:
    so graph attention networks have it, of one number a head (Veličković et al., 2018). VALUES, KEYS and
    QUERY are its inputs in order; the query is read again for each neighbour. Where a backward pass follows
    (`log_sums`) a second output has of each head the logarithm of the sum of all exponentials of scores.
    """

    heads: int
    scaled: bool = True
    added: bool = False
    log_sums: bool = False

    def __str__(self) -> str:
        """A name, of which a difference in meaning is a part."""
        how = ", added" if self.added else "" if self.scaled else ", unscaled"
        return f"attend[{self.heads}{how}]"

    def factor(self, size: int) -> float:
        """What the scores of a query and keys of this size are multiplied with."""
        return 1 / math.sqrt(size // self.heads) if self.scaled and not self.added else 1.0


VALUES, KEYS, QUERY = range(3)
SLOPE = 0.2


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """The gradient of one of an attention's inputs: of a query a sum over its neighbours, of a value or a
    key one over all nodes that read it.

    Its slots are VALUES, KEYS and, for QUERY, states of nodes: query, gradient of the result, log-sums, and
    of each head the product of result and gradient, one behind the other. `of` is one of these slots.
    """

    attention: Attention
    of: int

    def __str__(self) -> str:
        """A name, of which a difference in meaning is a part."""
        return f"{self.attention}-gradient-{self.of}"


@dataclass(frozen=True, slots=True)
class NodeSource:
    """`from.state.h`: along `hops` to other vertices, there the output `output` of a type.

    `producers` holds, for each type that may be met there, (type number, output number). At most one of
    them has a node on any one vertex.
    """

    hops: Hops
    producers: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TableSource:
    """`words[next.word]`: a row of table number `table`, by a field of the vertex that `hops` lead to."""

    table: int
    hops: Hops
    field: str


@dataclass(frozen=True, slots=True)
class FieldSource:
    """`from.position`: a field's number or vector, of the vertex that `hops` lead to."""

    hops: Hops
    field: str


@dataclass(frozen=True, slots=True)
class ParamSource:
    """A parameter of the model (`number` in `Model.params`) as a value."""

    number: int


@dataclass(frozen=True, slots=True)
class ZeroSource:
    """Zeros of the input's shape."""


Source = NodeSource | TableSource | FieldSource | ParamSource | ZeroSource


@dataclass(frozen=True, slots=True)
class Input:
    """What feeds one input: the first of `sources` that is there (`prev.h or zeros`)."""

    name: str
    shape: Shape
    sources: tuple[Source, ...]
    where: Span


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on a vertex's field: `coin == 0`."""

    field: str
    comparison: Comparison
    value: int


@dataclass(frozen=True, slots=True)
class NodeType:
    """A type of nodes: a cell with its parameters, or a reduction.

    Of a cell, `inputs` are the cell's, in its order, and `params[i]` is the number in `Model.params` that
    the cell's i-th parameter uses; types that share a parameter name the same number. Of a reduction,
    `inputs[i]` is what output i reduces: its first source is a NodeSource that may lead to many vertices,
    what follows is the default where there is none (zeros unless said otherwise). All of a reduction's
    inputs have the same hops. Attention is a reduction of its values: of its three inputs (see there) the
    query is one value for each node, and its output is that of its values.
    """

    name: str
    per: str
    kinds: Kinds
    where: tuple[Where, ...]
    cell: Cell | None
    reduction: Reduction | Attention | None
    inputs: tuple[Input, ...]
    outputs: tuple[Port, ...]
    params: tuple[int, ...]
    span: Span

    @property
    def listed(self) -> int:
        """How many inputs, the first ones, follow a link to many vertices."""
        if self.reduction is None:
            return 0
        return QUERY if isinstance(self.reduction, Attention) else len(self.inputs)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The row of each word, and the file that says so."""

    path: Path
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Table:
    """An embedding table: `rows` values of shape `shape`.

    With `vocab` a text field's strings are looked up in it, unknown ones have the row `unknown`; without it
    a field's integer is taken modulo `rows`, or in a model with weights is the row itself.
    """

    name: str
    rows: int
    shape: Shape
    vocab: Vocabulary | None
    unknown: int | None
    span: Span

    @property
    def words(self) -> dict[int, str]:
        """A word for each row that has one: what is written so is read as that row.

        Row `unknown` without a word of its own has its number, unless that is another row's word.
        """
        if self.vocab is None:
            return {}
        found = {row: word for word, row in self.vocab.rows.items()}
        if self.unknown is not None and str(self.unknown) not in self.vocab.rows:
            found.setdefault(self.unknown, str(self.unknown))
        return found


@dataclass(frozen=True, slots=True)
class DataSpec:
    """Where the instances come from, and how many make a mini-batch.

    `seed` is the coin's. `frequency` (format tags): words rarer than that in the data are spelt out as
    characters. `tokens` (format words): the regular expression that finds a line's tokens, '' for what stands
    between blanks. `beside` (format json): the suffix of the file of arrays beside it, '' for none.
    """

    format: str
    path: Path
    batch: int
    limit: int | None
    seed: int
    frequency: int
    tokens: str
    beside: str
    span: Span


@dataclass(frozen=True, slots=True)
class Model:
    """A checked model.

    `params` are the model's own (`h0`) and every type's (`char.Wi`), each once. `outputs` maps the name of
    a result to (type number, output number). `dims` are the sizes in force. `weights` are where its
    parameters and tables come from. `files` are the model's file, then its cells' and vocabularies.
    `schema` is what the instances of its data are made of; where `growth` is there, with what they grow.
    `answers` say what some outputs are given back as, `training` how it is trained.
    """

    name: str
    files: tuple[Path, ...]
    dims: Mapping[str, int]
    data: DataSpec
    tables: tuple[Table, ...]
    params: tuple[Param, ...]
    types: tuple[NodeType, ...]
    outputs: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    weights: Weights
    schema: Schema
    growth: Growth | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    training: Training | None = None

    @property
    def given(self) -> Schema:
        """What the instances are made of as they are read."""
        return self.growth.given if self.growth else self.schema

    @property
    def reads(self) -> tuple[Path, ...]:
        """Every file that it is made of or runs on: what `files` are, its data, its weights."""
        beside = [self.data.path.with_suffix(self.data.beside)] if self.data.beside else []
        return (*self.files, self.data.path, *beside, *([self.weights.file] if self.weights.file else []))


@dataclass(frozen=True, slots=True)
class Library:
    """A checked library.

    `types` belong to no vertices, and nothing is said of what feeds them: a program does that. `params` are
    the library's own (`start`), which `given` (their numbers) are there as values, and every type's
    (`score.W`), each once. `outputs`: room for types that are added (`abw.core.ir.model`), of so many.
    `training` has no losses, which programs say. All else as of a `Model`.
    """

    name: str
    files: tuple[Path, ...]
    dims: Mapping[str, int]
    tables: tuple[Table, ...]
    params: tuple[Param, ...]
    given: tuple[int, ...]
    types: tuple[NodeType, ...]
    weights: Weights
    outputs: int = 1
    training: Training | None = None


NOWHERE = Span("", 0)
# Of attention; other reductions have one input, x.
ATTENDED = ("values", "keys", "query")


def library_of(
    name: str,
    *,
    dims: Mapping[str, int] | None = None,
    tables: Sequence[Table] = (),
    params: Sequence[Param] = (),
    outputs: int = 1,
) -> Library:
    """Make a library without types, whose `params` are all values.

    `outputs`: the most that a type may have which is added while programs run.
    """
    weights = Weights(None, {}, (), None, None)
    given = tuple(range(len(params)))
    return Library(name, (), dims or {}, tuple(tables), tuple(params), given, (), weights, outputs)


def with_type(library: Library, cell: Cell, params: Sequence[int | Param], where: Span = NOWHERE) -> Library:
    """Add a type that is called as its cell is.

    `params`: of each of the cell's, the number in the library's `params`, or a new one.
    """
    new = [each for each in params if isinstance(each, Param)]
    fresh = iter(range(len(library.params), len(library.params) + len(new)))
    numbers = tuple(next(fresh) if isinstance(each, Param) else each for each in params)
    made = NodeType(cell.name, "", frozenset(), (), cell, None, (), cell.output_ports, numbers, where)
    return replace(library, params=(*library.params, *new), types=(*library.types, made))


def with_reduction(library: Library, reduction: Reduction | Attention, shapes: Sequence[Shape]) -> Library:
    """Add a reduction of values of a shape; attention's `shapes` are those of values, keys and query."""
    names = ATTENDED if isinstance(reduction, Attention) else ("x",)
    inputs = tuple(Input(name, shape, (), NOWHERE) for name, shape in zip(names, shapes, strict=True))
    of = ", ".join("x".join(map(str, shape)) for shape in dict.fromkeys(shapes))
    outputs = (Port("y", shapes[0]),)
    made = NodeType(f"{reduction}({of})", "", frozenset(), (), None, reduction, inputs, outputs, (), NOWHERE)
    return replace(library, types=(*library.types, made))
