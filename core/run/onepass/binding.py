"""Writes the steps that `bind` goes by: what a format's readers give, and what a model asks for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from abw.core.data.intern import hash_pieces
from abw.core.graph.bytecode import Bytecode
from abw.core.ir.formats import COMMON
from abw.core.ir.model import Model
from abw.core.ir.model import Table as Embedding
from abw.core.ir.network import Network
from abw.core.ir.schema import Comparison, Derived, Hop
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import Table
from abw.core.run.onepass import bind as op
from abw.core.run.onepass import read
from abw.core.run.onepass.state import Stage

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
    """How a format is read: the stage, and the names of its registers, in their order."""

    stage: Stage
    columns: tuple[str, ...]


FORMATS = {
    "trees": Format(read.trees, ("parent", "right", "label", "word")),
    "pairs": Format(read.pairs, ("word",)),
    "words": Format(read.sentences, ("word",)),
    "tags": Format(read.sentences, ("word", "tag")),
    "lattice": Format(read.lattices, ("from", "to", "id", "tag")),
}


class CannotPassError(Exception):
    """The message says what of a model the pass cannot take."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The `steps` (n, op.WIDTH) of a model's binding, which use so many `registers`; those that the format's
    reader fills begin at `columns`. `members` (m, 256): which kinds steps mean; `vocabularies` by number.
    """

    steps: NDArray[np.int64]
    registers: int
    columns: int
    members: NDArray[np.bool_]
    vocabularies: tuple[Table, ...]


def binding_of(model: Model, network: Network, program: Bytecode, columns: Sequence[str]) -> Binding:
    """The steps that bind a model to what a reader gives. Errors: CannotPassError."""
    return _Writer(model, network, program, columns).binding()


@dataclass(slots=True)
class _Writer:
    """Steps while they are written."""

    model: Model
    network: Network
    program: Bytecode
    columns: Sequence[str]
    steps: list[tuple[int, ...]] = field(default_factory=list)
    members: dict[frozenset[str], int] = field(default_factory=dict)
    vocabularies: list[Table] = field(default_factory=list)
    made: dict[Hashable, int] = field(default_factory=dict)
    free: int = 0

    def binding(self) -> Binding:
        """Write them: a step or more for each of `Binding.tables`, in their order."""
        program, types = self.program, self.model.types
        names = [*program.links, *program.lists, *program.lookups]
        first = len(types) + len(names)
        self.free = first + len(self.columns)
        self.made |= {name: first + n for n, name in enumerate(self.columns)}
        for t, node_type in enumerate(types):
            vertices = self._step(op.SELECT, self._mask(node_type.kinds), to=None if node_type.where else t)
            for n, c in enumerate(node_type.where, 1):
                to = t if n == len(node_type.where) else None
                number = self._field(c.field)
                vertices = self._step(op.FILTER, vertices, number, _COMPARED[c.comparison], c.value, to=to)
        same: list[tuple[int, int]] = []
        for n, name in enumerate(program.links, len(types)):
            same.append((n, self._link(name)))
        for n, hops in enumerate(program.lists, len(types) + len(program.links)):
            same.append((n, self._hops(hops)))
        for n, lookup in enumerate(program.lookups, first - len(program.lookups)):
            same.append((n, self._lookup(*lookup)))
        self.steps += [(op.SAME, to, register) for to, register in same]
        members = np.zeros((len(self.members), _KINDS), np.bool_)
        for row, kinds in zip(members, self.members, strict=True):
            row[[k for k, kind in enumerate(self.model.schema.kinds) if kind in kinds]] = True
        steps = [(*step, *[0] * (op.WIDTH - len(step))) for step in self.steps]
        table = np.array(steps, np.int64).reshape(-1, op.WIDTH)
        return Binding(table, self.free, first, members, tuple(self.vocabularies))

    def _step(self, do: int, *arguments: int, to: int | None = None) -> int:
        """Write a step; the register that it fills, by default a new one."""
        if to is None:
            to = self.free
            self.free += 1
        self.steps.append((do, to, *arguments))
        return to

    def _mask(self, kinds: Iterable[str]) -> int:
        return self.members.setdefault(frozenset(kinds), len(self.members))

    def _once(self, key: Hashable, do: int, *arguments: int) -> int:
        if key not in self.made:
            self.made[key] = self._step(do, *arguments)
        return self.made[key]

    def _link(self, name: str) -> int:
        """The register of a link: the reader's, every format's, or one that the model derives."""
        schema = self.model.given
        if name in self.made:
            return self.made[name]
        if name in schema.derived:
            return self._derived(name, schema.derived[name])
        if name not in schema.links and not schema.members(name):
            raise CannotPassError(f"the link '{name}'")
        match name:
            case "left":
                return self._once(name, op.FIRST_CHILD, self._link("right"))
            case "root" | "first":
                return self._once(name, op.EDGE, 0)
            case "last":
                return self._once(name, op.EDGE, 1)
            case "children":
                return self._once(name, op.INVERSE, self._link("parent"))
            case "arcs":
                return self._once(name, op.INVERSE, self._link("to"))
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
        members = self._mask(self.model.given.members(made.of))
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
            raise CannotPassError(f"the field '{name}'")
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
            raise CannotPassError(f"the vocabulary of table '{found.name}' for numbers")
        if self.model.weights.file and found.vocab is None:
            return self._once((name, table), op.BELOW, self._field(name), found.rows)
        return self._field(name)

    def _text(self, table: Embedding, number: int, texts: int) -> int:
        """The rows of words."""
        if table.vocab is None:
            if self.model.weights.file:
                raise CannotPassError(f"table '{table.name}' with weights and no vocabulary")
            return self._once((texts, number), op.HASHED, texts, table.rows)
        self.vocabularies.append(_vocabulary(table.vocab.rows))
        unknown = -1 if table.unknown is None else table.unknown
        return self._once((texts, number), op.WORD, texts, len(self.vocabularies) - 1, unknown)


def _vocabulary(rows: Mapping[str, int]) -> Table:
    """Words as `bind` looks them up: by open addressing, in a table half full at most."""
    pieces = [word.encode() for word in rows]
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    known = np.frombuffer(b"".join(pieces) + b"\0", np.uint8)
    hashes = np.empty(len(pieces), np.uint64)
    hash_pieces(known, ends[:-1], ends[1:], hashes)
    slots = np.full(2 << len(pieces).bit_length(), -1, np.int32)
    fill_slots(hashes, slots)
    found = Table(np.zeros(op.OF_VOCABULARY, np.int64))
    found.words[op.SLOT_COUNT] = len(slots)
    arrays = (op.SLOTS, slots), (op.ENDS, ends), (op.BYTES, known)
    for word, array in (*arrays, (op.ROWS, np.fromiter(rows.values(), np.int32, len(rows)))):
        found.point(word, array)
    return found


@njit
def fill_slots(hashes: NDArray[np.uint64], slots: NDArray[np.int32]) -> None:
    """Write words' numbers into the slots that their hashes lead to, -1 at first."""
    mask = np.uint64(len(slots) - 1)
    for w in range(len(hashes)):
        slot = hashes[w] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = w
