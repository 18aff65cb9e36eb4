"""How a model's graphs are constructed, as a table of steps: the same for all mini-batches, written once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph import walk as op
from abw.core.graph.cells import constant_number
from abw.core.graph.edges import EdgeSlots, edge_slots
from abw.core.ir.model import (
    SPREADS,
    FieldSource,
    Input,
    Model,
    NodeSource,
    NodeType,
    Source,
    TableSource,
    ZeroSource,
)
from abw.core.ir.network import Network
from abw.core.ir.schema import Hop

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a step is there for: an input of type number `type`; with `hops`, to follow the last of them."""

    type: int
    wanted: Input
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Bytecode:
    """What the functions of `walk` go by, for a model's `types`.

    `measure` goes by `state`, `reductions` and `producers`, `fill` by the `steps` (steps, WIDTH): the first
    `aliasing` of them find what stands for the reductions' outputs, which may in turn stand for each other
    (`nested`). They use `rows` rows. By number they name types, then `links`, `lists` (hops to several
    vertices) and `lookups` (table and field; the table -1 for fields that flow in as they are): see
    `Binding.tables`. `given` are the steps that read such a field, by its name. `origins` is what the steps
    that can fail are there for, `edges` where edges are looked for.
    """

    types: tuple[str, ...]
    state: NDArray[np.int64]
    reductions: Ints
    producers: Ints
    steps: Ints
    aliasing: int
    nested: bool
    rows: int
    links: tuple[str, ...]
    lists: tuple[tuple[Hop, ...], ...]
    lookups: tuple[tuple[int, str], ...]
    given: dict[int, str]
    origins: dict[int, Origin]
    edges: EdgeSlots


def program_of(model: Model, network: Network) -> Bytecode:
    """A model's program; `network` is its own at granularity `cell`. Cost: linear in types and sources."""
    return _Writer(model, network).program()


class _Writer:
    """A program while it is written."""

    def __init__(self, model: Model, network: Network) -> None:
        self.model, self.network = model, network
        self.edges = edge_slots(model, network)
        self.reductions = [t for t, node_type in enumerate(model.types) if node_type.reduction]
        first: dict[Hashable, int] = {}
        self.like = {t: first.setdefault(self._what(t), t) for t in self.reductions}
        # a row for each type, three for each reduction unlike those before, then those that the steps use
        rows = {t: len(model.types) + 3 * i for i, t in enumerate(first.values())}
        self.lists_from = {t: rows[like] for t, like in self.like.items()}
        self.steps_from = len(model.types) + 3 * len(rows)
        self.links, self.lists, self.lookups = names_of(model.types)
        names = enumerate((*self.links, *self.lists, *self.lookups), len(model.types))
        self.number: dict[Hashable, int] = {name: number for number, name in names}
        self.steps: list[list[int]] = []
        self.origins: dict[int, Origin] = {}
        self.given: dict[int, str] = {}
        self.rows: dict[Hashable, int] = {}
        self.made: set[Hashable] = set()  # what the steps so far have made for those to come
        self.known = False  # whether what stands for the reductions' outputs is known to the end

    def program(self) -> Bytecode:
        """Write it."""
        types = self.model.types
        reductions, producers = self._reductions()
        for t in self.reductions:
            self._aliases(t, types[t])
        aliasing, self.known = len(self.steps), True
        for t, node_type in enumerate(types):
            if node_type.reduction:
                self._write(t, node_type)
            else:
                for s, wanted in enumerate(node_type.inputs):
                    self._step(op.INTO, t, s)
                    self._feed(t, wanted, wanted.sources)
        state = np.zeros((len(types) + 1, op.FIELDS), np.int64)
        state[:-1, op.SLOTS] = [len(t.inputs) for t in types]
        state[:-1, op.ROWS] = [self.lists_from.get(t, -1) for t in range(len(types))]
        return Bytecode(
            tuple(t.name for t in types),
            state,
            _table(reductions, 6),
            np.array(producers, np.int32),
            _table(self.steps, op.WIDTH),
            aliasing,
            self._nested(),
            self.steps_from + max(len(self.rows), 1),
            self.links,
            self.lists,
            self.lookups,
            self.given,
            self.origins,
            self.edges,
        )

    def _reductions(self) -> tuple[list[tuple[int, ...]], list[int]]:
        """What `measure` goes by."""
        rows: list[tuple[int, ...]] = []
        producers: list[int] = []
        for t in self.reductions:
            sources = [source for _, source in reduced(self.model.types[t])]
            first = len(producers)
            producers += [p for p, _ in sources[0].producers]
            loop = self._loop(t, *sources)
            rows.append((t, self.number[sources[0].hops], loop, first, len(producers), self.like[t]))
        return rows, producers

    def _what(self, t: int) -> Hashable:
        """What decides which vertices a reduction reads from on each of its own: mostly as a layer before."""
        types, sources = self.model.types, [source for _, source in reduced(self.model.types[t])]
        read = frozenset(_where(types[p]) for p, _ in sources[0].producers)
        return _where(types[t]), sources[0].hops, self._loop(t, *sources), read

    def _aliases(self, t: int, node_type: NodeType) -> None:
        """What stands for a reduction's outputs."""
        outputs = len(node_type.outputs)
        if node_type.reduction in SPREADS:
            for s, wanted in enumerate(node_type.inputs):
                number = constant_number(
                    self.network.constants, self.network.fields, ZeroSource(), wanted.shape
                )
                self._step(op.ALIAS, t, s, 0, 0, -1 - self.network.constants[number].first)
            return
        for s, source in reduced(node_type)[:outputs]:
            self._step(op.ALIAS, t, s, *self._value_map(source))
        for s, wanted in enumerate(node_type.inputs[:outputs]):
            self._step(op.INTO, t, s)
            with self._unless_missing():
                self._feed(t, wanted, wanted.sources[1:] or (ZeroSource(),))

    def _write(self, t: int, node_type: NodeType) -> None:
        """The operands of a reduction's nodes."""
        for s, source in reduced(node_type):
            row, more = self._value_map(source)
            self._step(op.WRITE, t, s, row, self.number[source.hops], more)
        for s, wanted in enumerate(node_type.inputs[node_type.listed :], node_type.listed):
            row = self._row("each")
            self._step(op.INTO, t, s, row)
            self._feed(t, wanted, wanted.sources)
            self._step(op.SPREAD, t, s, row)

    def _step(self, *step: int) -> None:
        self.steps.append([*step, *[0] * (op.WIDTH - len(step))])

    @contextmanager
    def _unless_missing(self) -> Iterator[None]:
        """Steps that are passed over where nothing is missing: what they make is there for them alone."""
        step, made = len(self.steps), self.made.copy()
        self._step(op.UNLESS_MISSING)
        yield
        self.made = made
        self.steps[step][2] = len(self.steps) - step - 1

    def _new(self, key: Hashable) -> bool:
        """Whether something is not made yet; it will be."""
        new = key not in self.made
        self.made.add(key)
        return new

    def _row(self, key: Hashable) -> int:
        return self.steps_from + self.rows.setdefault(key, len(self.rows))

    def _walk(self, t: int, hops: tuple[Hop, ...], wanted: Input, loop: int = -1) -> int:
        """The row of where hops lead from each of type t's vertices; which way is noted for a `loop`."""
        if not hops:
            return t
        row = self._row((t, hops))
        if self._new((t, hops, loop)):
            begin = self._walk(t, hops[:-1], wanted)
            index = op.ONLY if hops[-1].index is None else hops[-1].index
            self.origins[len(self.steps)] = Origin(t, wanted, hops)
            self._step(op.FOLLOW, t, begin, self.number[hops[-1].link], index, row, loop)
        return row

    def _value_map(self, source: NodeSource) -> tuple[int, int]:
        """The row of what a source's producers give on each vertex, and what to add: where they are cells,
        their first outputs stand there for the others, too.
        """
        reduces = any(t in self.lists_from for t, _ in source.producers)
        more = 0 if reduces else min((output for _, output in source.producers), default=0)
        producers, waiting = tuple((t, o - more) for t, o in source.producers), reduces and not self.known
        row = self._row((producers, waiting))
        if self._new((producers, waiting)):
            self._step(op.CLEAR, 0, row)
            for t, output in producers:
                reduction = op.WAITING if waiting else op.ALIASED
                self._step(op.SETTLE, t, row, output, reduction if t in self.lists_from else op.CELL)
        return row, more

    def _loop(self, t: int, *sources: NodeSource) -> int:
        """The loop of types in which type t reads from some of the sources, or -1."""
        loop = self.edges.loop
        producers = (p for source in sources for p, _ in source.producers)
        return int(loop[t]) if any(loop[p] == loop[t] for p in producers) else -1

    def _feed(self, t: int, wanted: Input, sources: tuple[Source, ...]) -> None:
        """Fill what is missing of the column begun last, of type t."""
        if not sources:
            self.origins[len(self.steps)] = Origin(t, wanted)
            self._step(op.NEED)
            return
        source = sources[0]
        if isinstance(source, NodeSource):
            row = self._walk(t, source.hops, wanted, self._loop(t, source))
            self._step(op.FILL_NODES, t, row, *self._value_map(source))
        else:
            number = constant_number(self.network.constants, self.network.fields, source, wanted.shape)
            constant = self.network.constants[number]
            if not isinstance(source, TableSource | FieldSource):
                self._step(op.FILL_CONSTANT, t, t, -1 - constant.first)
                return
            row = self._walk(t, source.hops, wanted)
            table = source.table if isinstance(source, TableSource) else -1
            lookup = self.number[table, source.field]
            if table < 0:
                self.given[len(self.steps)] = source.field
            self._step(op.FILL_ROWS, t, row, lookup, -1 - constant.first, constant.rows)
        with self._unless_missing():
            self._feed(t, wanted, sources[1:])

    def _nested(self) -> bool:
        """Whether a reduction's output can stand for another's."""
        sources = (s for t in self.reductions for i in self.model.types[t].inputs for s in i.sources)
        return any(t in self.lists_from for s in sources if isinstance(s, NodeSource) for t, _ in s.producers)


def _where(node_type: NodeType) -> Hashable:
    """What decides on which vertices a type is."""
    conditions = ((c.field, c.comparison, c.value) for c in node_type.where)
    return node_type.kinds, tuple(conditions)


def reduced(node_type: NodeType) -> list[tuple[int, NodeSource]]:
    """What the slots of a reduction reduce, with their numbers."""
    firsts = enumerate(i.sources[0] for i in node_type.inputs[: node_type.listed])
    return [(s, source) for s, source in firsts if isinstance(source, NodeSource)]


def _table(rows: Sequence[Sequence[int]], width: int) -> Ints:
    return np.array(rows, np.int32).reshape(len(rows), width)


def names_of(
    types: Sequence[NodeType],
) -> tuple[tuple[str, ...], tuple[tuple[Hop, ...], ...], tuple[tuple[int, str], ...]]:
    """The links, lists and lookups that types name."""
    lists = [reduced(t)[0][1].hops for t in types if t.reduction]
    sources = [s for t in types for n, i in enumerate(t.inputs) for s in i.sources[int(n < t.listed) :]]
    links = {h.link for s in sources if isinstance(s, NodeSource | TableSource | FieldSource) for h in s.hops}
    lookups = {(s.table, s.field) for s in sources if isinstance(s, TableSource)}
    lookups |= {(-1, s.field) for s in sources if isinstance(s, FieldSource)}
    return tuple(sorted(links)), tuple(dict.fromkeys(lists)), tuple(sorted(lookups))
