"""Writes the steps that `bind` goes by: what a format's readers give, and what a model asks for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from abw.core.data.readers.blanks import BEGIN, END
from abw.core.data.readers.jsonscan import TEXT, WHOLE
from abw.core.data.readers.planscan import FIELDS as PLAN_FIELDS
from abw.core.data.readers.planscan import NUMBERS as PLAN_NUMBERS
from abw.core.data.readers.words import masks_of
from abw.core.data.vertices import INDEX, FieldColumn
from abw.core.graph.bytecode import Bytecode, names_of
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import GivenColumn, RowColumn
from abw.core.ir.formats import COMMON, own_fields, own_links
from abw.core.ir.model import Model
from abw.core.ir.model import Table as Embedding
from abw.core.ir.network import Network
from abw.core.ir.schema import INVERSES, Comparison, Derived, Hop, Schema
from abw.core.jit.pointers import Table
from abw.core.run.onepass import bind as op
from abw.core.run.onepass import jsonlines, queryplans, read
from abw.core.run.onepass.state import Stage
from abw.core.run.onepass.vocabulary import vocabulary_of

_COMPARED: dict[Comparison, int] = {
    "==": op.EQUAL,
    "!=": op.UNEQUAL,
    "<": op.LESS,
    "<=": op.AT_MOST,
    ">": op.MORE_THAN,
    ">=": op.AT_LEAST,
}
_KINDS = 256


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is read: the stage, and the names of its registers in order.

    `halves`: which of the stage's columns the two halves of each have, -1 for none; of JSON no columns.
    """

    stage: Stage
    columns: tuple[str, ...]
    halves: tuple[int, ...] = ()


def format_of(model: Model) -> Format | None:
    """Return how a model's texts are read."""
    if model.data.tokens:
        return Format(read.tokens, ("word",), (0, 1)) if masks_of(model.data.tokens) else None
    if model.data.format != "json":
        return FORMATS.get(model.data.format)
    schema = model.given
    numbers = sorted(name for name in own_fields(schema) if not schema.fields[name].size)
    return Format(jsonlines.json_lines, (*sorted(own_links(schema)), *numbers))


FORMATS = {
    "trees": Format(read.trees, ("parent", "right", "label", "word"), (-1, 0, -1, 1, 2, 3, 4, 5)),
    "pairs": Format(read.pairs, ("word",), (BEGIN, END)),
    "words": Format(read.sentences, ("word",), (0, 1)),
    "tags": Format(read.sentences, ("word", "tag"), (0, 1, 2, 3)),
    "lattice": Format(read.lattices, ("from", "to", "id", "tag"), (-1, 0, -1, 1, 2, -1, 3, -1)),
    "plans": Format(queryplans.query_plans, (*queryplans.COLUMNS, *PLAN_FIELDS[len(PLAN_NUMBERS) :])),
}


class CannotPassError(Exception):
    """A pass cannot run the model, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class JsonNames:
    """What JSON lines may hold: vocabularies of the names of kinds, fields and links, and what `jsonlines` is
    told of fields (n, OF_FIELD) and links (n, OF_LINK).
    """

    names: tuple[Table, ...]
    fields: NDArray[np.int64]
    links: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Binding:
    """The `steps` (n, op.WIDTH) of a model's binding, which use so many `registers`; those that the format's
    reader fills begin at `columns`. `kinds`: which kinds steps mean; `vocabularies` by number; `json` and
    `plans` (n, queryplans.OF_FIELD) are what those readers go by. Of a model that grows, `given` says of each
    of its given columns which half of which register has it (-1: none), `lists` the registers of its lists.
    """

    steps: NDArray[np.int64]
    registers: int
    columns: int
    kinds: tuple[frozenset[str], ...]
    vocabularies: tuple[Table, ...]
    json: JsonNames | None = None
    plans: NDArray[np.int64] | None = None
    given: tuple[int, ...] = ()
    lists: tuple[int, ...] = ()

    def members(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which kinds of these names steps mean, (m, 256)."""
        found = np.zeros((len(self.kinds), _KINDS), np.bool_)
        for row, kinds in zip(found, self.kinds, strict=True):
            row[: len(names)] = [name in kinds for name in names]
        return found


def binding_of(
    model: Model,
    network: Network,
    program: Bytecode,
    columns: Sequence[str],
    growth: GrowthModel | None = None,
) -> Binding:
    """The steps that bind a model to what a reader gives; of one that grows its types before growth alone.

    Errors: CannotPassError.
    """
    return Writer(model, network, program, columns, growth).binding()


@dataclass(slots=True)
class Writer:
    """Steps while they are written."""

    model: Model
    network: Network
    program: Bytecode
    columns: Sequence[str]
    growth: GrowthModel | None = None
    steps: list[tuple[int, ...]] = field(default_factory=list)
    members: dict[frozenset[str], int] = field(default_factory=dict)
    vocabularies: list[Table] = field(default_factory=list)
    made: dict[Hashable, int] = field(default_factory=dict)
    free: int = 0

    @property
    def format(self) -> str:
        """What a reader reads, if there is one."""
        return self.model.data.format

    @property
    def schema(self) -> Schema:
        """What instances are made of."""
        return self.model.given

    @property
    def bound(self) -> Sequence[int]:
        """The types that are bound."""
        return self.growth.phases.before if self.growth else range(len(self.model.types))

    def binding(self) -> Binding:
        """Write one or more steps for each of `Binding.tables`, in order."""
        program, types = self.program, self.model.types
        names = [*program.links, *program.lists, *program.lookups]
        first = len(types) + len(names)
        self.free = first + len(self.columns)
        self.made |= {name: first + n for n, name in enumerate(self.columns)}
        named = names_of([types[t] for t in self.bound])
        same: list[tuple[int, int]] = []
        same += [(t, self.vertices(t)) for t in range(len(types))]
        for n, name in enumerate(program.links, len(types)):
            if name in named[0]:
                same.append((n, self._link(name)))
        for n, hops in enumerate(program.lists, len(types) + len(program.links)):
            if hops in named[1]:
                same.append((n, self._hops(hops)))
        for n, lookup in enumerate(program.lookups, first - len(program.lookups)):
            if lookup in named[2]:
                same.append((n, self._lookup(*lookup)))
        given, lists = self._grown()
        self.steps += [(op.SAME, to, register) for to, register in same]
        json = self._json() if self.format == "json" else None
        plans = self._plans() if self.format == "plans" else None
        steps = [(*step, *[0] * (op.WIDTH - len(step))) for step in self.steps]
        table = np.array(steps, np.int64).reshape(-1, op.WIDTH)
        there = tuple(self.members), tuple(self.vocabularies)
        return Binding(table, self.free, first, *there, json, plans, given, lists)

    def vertices(self, t: int) -> int:
        """The register of the vertices of a type; there are none unless it is bound."""
        node_type, there = self.model.types[t], t in self.bound
        mask = self._mask(node_type.kinds if there else ())
        vertices = self._once(("kinds", mask), op.SELECT, mask)
        for c in node_type.where if there else ():
            how = (vertices, self._field(c.field), _COMPARED[c.comparison], c.value)
            vertices = self._once(("where", *how), op.FILTER, *how)
        return vertices

    def _grown(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What `Binding.given` and `Binding.lists` say of a model that grows."""
        if self.growth is None:
            return (), ()
        names = list(self.growth.columns)[: self.growth.given]
        return tuple(map(self._column, names)), tuple(map(self._hops, self.growth.lists))

    def _column(self, name: Hashable) -> int:
        """Twice the register of a given column, one more for its second half; -1 where nothing is given."""
        schema = self.model.given
        match name:
            case Hop(link) if link in schema.links or schema.members(link):
                register = self._link(link)
                if name.index is not None:
                    register = self._once(("one", name), op.ONE, register, name.index)
                return 2 * register + 1
            case GivenColumn(field):
                return 2 * self._lookup(-1, field)
            case RowColumn(table, field):
                return 2 * self._lookup(table, field)
            case FieldColumn(field) if field in schema.fields:
                return 2 * self._field(field)
        return 2 * self._field(INDEX) if name == INDEX else -1

    def _json(self) -> JsonNames:
        """What JSON lines may hold."""
        schema = self.model.given
        fields, links = sorted(own_fields(schema)), sorted(own_links(schema))
        own = []
        for name in fields:
            item = schema.fields[name]
            form, flows = (TEXT if item.text else WHOLE), name in self.network.fields
            number = self.network.fields.index(name) if item.size and flows else -1
            own.append((form, item.size, self.made.get(name, -1), number, self._mask(item.kinds)))
        ways = []
        for name in links:
            link = schema.links[name]
            ways.append((int(link.many), self.made[name], self._mask(link.source), self._mask(link.target)))
        kinds = {kind: number for number, kind in enumerate(schema.kinds) if number}
        ranks = ({name: number for number, name in enumerate(names)} for names in (fields, links))
        return JsonNames(
            tuple(vocabulary_of(names) for names in (kinds, *ranks)),
            np.array(own, np.int64).reshape(-1, jsonlines.OF_FIELD),
            np.array(ways, np.int64).reshape(-1, jsonlines.OF_LINK),
        )

    def _plans(self) -> NDArray[np.int64]:
        """What becomes of query plans' fields: those that the model reads have a register, or flow in."""
        read, flows = {name for _, name in self.program.lookups}, self.network.fields
        if self.growth is not None:
            read |= {name.name for name in self.growth.columns if isinstance(name, FieldColumn)}
        own = []
        for name in PLAN_FIELDS:
            number = flows.index(name) if name in flows else -1
            own.append((self.made[name] if name in read and name in self.made else -1, number))
        return np.array(own, np.int64)

    def _step(self, do: int, *arguments: int) -> int:
        """Write a step; the register that it fills, a new one."""
        self.free += 1
        self.steps.append((do, self.free - 1, *arguments))
        return self.free - 1

    def _mask(self, kinds: Iterable[str]) -> int:
        return self.members.setdefault(frozenset(kinds), len(self.members))

    def _once(self, key: Hashable, do: int, *arguments: int) -> int:
        if key not in self.made:
            self.made[key] = self._step(do, *arguments)
        return self.made[key]

    def _link(self, name: str) -> int:
        """The register of a link: the reader's, every format's, or one that the model derives."""
        schema = self.schema
        if name in self.made:
            return self.made[name]
        if name in schema.derived:
            return self._derived(name, schema.derived[name])
        if name not in schema.links and not schema.members(name):
            raise CannotPassError(f"link '{name}' has no compiled stage")
        match name:
            case "left":
                return self._once(name, op.FIRST_CHILD, self._link("right"))
            case "root" | "first":
                return self._once(name, op.EDGE, 0)
            case "last":
                return self._once(name, op.EDGE, 1)
            case "children" | "arcs":
                return self._once(name, op.INVERSE, self._link(INVERSES[name]))
            case "prev" | "next" if schema.format == "lattice":
                return self._once(name, op.FOLLOWING, int(name == "next"), self._mask({"position"}))
            case "prev" | "next":
                return self._once(name, op.ADJACENT, int(name == "next"))
            case "of" | "chars":  # of words spelt out, of which there are none
                return self._once(name, op.NONE, int(name == "chars"))
            case "instance":
                return self._once(name, op.OWNER)
        return self._once(name, op.INVERSE, self._step(op.MEMBERS, self._mask(schema.members(name))))

    def _derived(self, name: str, made: Derived) -> int:
        if made.how == "reverse":
            return self._once(name, op.INVERSE, self._link(made.of))
        members = self._mask(self.schema.members(made.of))
        if made.how != "all":
            return self._once(name, op.FOLLOWING, int(made.how == "next"), members)
        homes = self._once(("all", "list"), op.ALONG, -1, self._once("all", op.HOME), op.EVERY)
        return self._once(name, op.ALONG, homes, self._link(made.of), op.EVERY)

    def _hops(self, hops: tuple[Hop, ...]) -> int:
        """The register of a list."""
        register = -1
        for n, hop in enumerate(hops, 1):
            edge = op.EVERY if hop.index is None else hop.index
            register = self._once(hops[:n], op.ALONG, register, self._link(hop.link), edge)
        return register

    def _field(self, name: str) -> int:
        """The register of a field of numbers."""
        if name == "index":
            return self._once(name, op.INDEX, 0, len(self.model.schema.kinds))
        if name == "coin":
            return self._once(name, op.COIN)
        if name not in self.made or self.model.schema.fields[name].text:
            raise CannotPassError(f"field '{name}' has no compiled stage")
        return self.made[name]

    def _lookup(self, table: int, name: str) -> int:
        """The register of the rows that a field stands for."""
        schema = self.model.schema.fields[name]
        if table < 0:
            f = self.network.fields.index(name)
            if schema.size:
                return self._once((name, "rows"), op.PLACED, f)
            return self._once((name, "rows"), op.FLOWING, self._field(name), f)
        found = self.model.tables[table]
        if schema.text and name not in COMMON:
            return self._text(found, table, self.made[name])
        if found.vocab is not None and not schema.rows:
            raise CannotPassError(f"table '{found.name}' has a vocabulary for numbers")
        if self.model.weights.file and found.vocab is None:
            return self._once((name, table), op.BELOW, self._field(name), found.rows)
        return self._field(name)

    def _text(self, table: Embedding, number: int, texts: int) -> int:
        """The rows of words."""
        if table.vocab is None:
            if self.model.weights.file:
                raise CannotPassError(f"table '{table.name}' has weights but no vocabulary")
            return self._once((texts, number), op.HASHED, texts, table.rows)
        self.vocabularies.append(vocabulary_of(table.vocab.rows))
        unknown = -1 if table.unknown is None else table.unknown
        return self._once((texts, number), op.WORD, texts, len(self.vocabularies) - 1, unknown)
