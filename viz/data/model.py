"""A model as a picture: its types with their cells and parameters, and what they read of each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from abw.core.ir.cell import Cell, Shape
from abw.core.ir.growth import GrowingKind
from abw.core.ir.model import (
    AS_IT_IS,
    Answer,
    Attention,
    FieldSource,
    Input,
    Model,
    NodeSource,
    NodeType,
    ParamSource,
    Source,
    Table,
    TableSource,
    ZeroSource,
)
from abw.core.ir.schema import Hop, Schema
from abw.viz.data.growth import growth_block
from abw.viz.data.pictures import Block, Flow, LinkView, ModelPicture, ParamView, SlotView, Way


def model_picture(model: Model) -> ModelPicture:
    """A model's blocks (tables, parameters, fields, types, growth, outputs), flows and links.

    Types that are repeated are one block. Cost: linear in the model, no data is read.
    """
    return _Drawn(model).picture()


# A block by its role and its number or name.
Key = tuple[str, object]


class _Drawn:
    """Blocks and flows in the making; a block's key says what it stands for."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.layers = layers_of(model.types)
        self.group = {t: g for g, members in enumerate(self.layers) for t in members}
        self.blocks: dict[Key, Block] = {}
        self.flows: dict[tuple[Key, Key, Way], dict[str, None]] = {}
        self.hops: dict[str, None] = {}
        self.growing = model.growth.kinds if model.growth else ()

    def picture(self) -> ModelPicture:
        model = self.model
        for number, table in enumerate(model.tables):
            self.blocks["table", number] = _table(table)
        for number, param in enumerate(model.params):
            if "." not in param.name:
                slot = SlotView(param.name, param.shape)
                size = math.prod(param.shape)
                self.blocks["param", number] = Block("param", param.name, outputs=(slot,), numbers=size)
        for g, members in enumerate(self.layers):
            self.blocks["type", g] = self.type(members)
        for kind in self.growing:
            self.growth(kind)
        for name, producers in model.outputs:
            self.output(name, producers)
        for decided in model.growth.outputs if model.growth else ():
            self.blocks["output", decided.name] = Block(
                "output", decided.name, f"chosen at every {', '.join(sorted(decided.kinds))}"
            )
            for key in self.filled(decided.decision.name):
                self.flow(key, ("output", decided.name), decided.decision.name)
        place = {key: i for i, key in enumerate(self.blocks)}
        return ModelPicture(
            model.name,
            f"{model.data.format}, mini-batches of {model.data.batch}",
            dict(model.dims),
            tuple(self.blocks.values()),
            tuple(Flow(place[a], place[b], tuple(v), way) for (a, b, way), v in self.flows.items()),
            tuple(_link(model, name) for name in self.hops if not _given(model.schema, name)),
            sum(math.prod(p.shape) for p in model.params)
            + sum(t.rows * math.prod(t.shape) for t in model.tables),
        )

    def flow(self, source: Key, target: Key, value: str, way: Way = "here") -> None:
        self.flows.setdefault((source, target, way), {})[value] = None

    def type(self, members: Sequence[int]) -> Block:
        """The block of a type, or of all layers of one."""
        model, first = self.model, self.model.types[members[0]]
        key = ("type", self.group[members[0]])
        names = {model.types[t].name for t in members}
        own = {
            p for t in members for p in model.types[t].params if model.params[p].name.split(".")[0] in names
        }
        params = []
        for param, number in zip(first.cell.params if first.cell else (), first.params, strict=True):
            whole = model.params[number]
            params.append(ParamView(param.name, param.shape, "" if number in own else whole.name))
            if "." not in whole.name:
                self.flow(("param", number), key, whole.name)
        conditions = [f"{w.field} {w.comparison} {w.value}" for w in first.where]
        for condition in first.where:
            for block in self.filled(condition.field):
                self.flow(block, key, condition.field)
        inputs = [self.slot(members, i) for i in range(len(first.inputs))]
        return Block(
            "type",
            first.name.removesuffix("-0") if len(members) > 1 else first.name,
            _does(first),
            " ".join([first.per, *(["where", " and ".join(conditions)] if conditions else [])]),
            len(members),
            tuple(inputs),
            tuple(params),
            tuple(SlotView(port.name, port.shape) for port in first.outputs),
            sum(math.prod(model.params[p].shape) for p in own),
            _notes(first.cell) if first.cell else (),
        )

    def slot(self, members: Sequence[int], at: int) -> SlotView:
        """An input: the sources of all layers, those of the last first; at the end what is always there."""
        written: dict[str, bool] = {}
        for t in reversed(members):
            wanted = self.model.types[t].inputs[at]
            for source in wanted.sources:
                written[self.source(t, wanted, source)] = isinstance(source, ParamSource | ZeroSource)
        wanted = self.model.types[members[0]].inputs[at]
        return SlotView(wanted.name, wanted.shape, " or ".join(sorted(written, key=written.__getitem__)))

    def source(self, reader: int, wanted: Input, source: Source) -> str:
        """A source as a spec writes it; what flows from it is noted."""
        target = ("type", self.group[reader])
        match source:
            case ZeroSource():
                return "zeros"
            case ParamSource(number):
                self.flow(("param", number), target, self.model.params[number].name)
                return self.model.params[number].name
            case TableSource(table, hops, field):
                self.flow(("table", table), target, self.model.tables[table].name)
                for key in self.filled(field):
                    self.flow(key, target, field, "links" if hops else "here")
                return f"{self.model.tables[table].name}[{self.path(hops)}{field}]"
            case FieldSource(hops, field):
                for key in self.filled(field) or [self.field(field, wanted.shape)]:
                    self.flow(key, target, field, "links" if hops else "here")
                return f"{self.path(hops)}{field}"
            case NodeSource(hops, producers):
                for t, o in producers:
                    output = self.model.types[t].outputs[o].name
                    way: Way = "links" if hops else "below" if self.above(reader, t) == 1 else "here"
                    self.flow(("type", self.group[t]), target, output, way)
                said = dict.fromkeys(self.produced(reader, t, o) for t, o in producers)
                ends = dict.fromkeys(self.model.types[t].outputs[o].name for t, o in producers)
                # several types that give it on their vertices are left out, as a spec may
                return self.path(hops) + (next(iter(ends)) if len(said) > len(ends) == 1 else "/".join(said))

    def produced(self, reader: int, producer: int, output: int) -> str:
        """`type.output`; of a repeated type as its reader's layer writes it."""
        kind = self.model.types[producer]
        name = kind.outputs[output].name
        if len(self.layers[self.group[producer]]) == 1:
            return f"{kind.name}.{name}"
        base, above = kind.name.rsplit("-", 1)[0], self.above(reader, producer)
        return f"{kind.name}.{name}" if above not in (0, 1) else f"{base}{'[below]' * above}.{name}"

    def above(self, reader: int, producer: int) -> int:
        """How many layers a reader is above its producer; one that is no layer of its reads the last."""
        mine, its = self.layers[self.group[reader]], self.layers[self.group[producer]]
        same = mine.index(reader) if len(mine) == len(its) else len(its) - 1
        return same - its.index(producer)

    def path(self, hops: Iterable[Hop]) -> str:
        """`from.arcs[0].`: links to follow, each kept for the list of them."""
        said = ""
        for hop in hops:
            self.hops[hop.link] = None
            said += hop.link + ("" if hop.index is None else f"[{hop.index}]") + "."
        return said

    def field(self, name: str, shape: Shape) -> Key:
        """The block of a field of the data."""
        kinds = ", ".join(sorted(self.model.schema.fields[name].kinds))
        self.blocks["field", name] = Block("field", name, per=kinds, outputs=(SlotView(name, shape),))
        return "field", name

    def filled(self, field: str) -> list[Key]:
        """The blocks of growth that fill a field."""
        return [
            ("growth", kind.name)
            for kind in self.growing
            if field in kind.fields or any(field == decision.name for decision in kind.decisions)
        ]

    def growth(self, kind: GrowingKind) -> None:
        key = ("growth", kind.name)
        self.blocks[key] = growth_block(self.model, kind)
        for decision in kind.decisions:
            if decision.type < 0:
                continue  # left to chance
            output = self.model.types[decision.type].outputs[decision.output].name
            self.flow(("type", self.group[decision.type]), key, output)
        for name in kind.links:
            self.hops[name] = None

    def output(self, name: str, producers: Sequence[tuple[int, int]]) -> None:
        shape: Shape = ()
        for t, o in producers:
            port = self.model.types[t].outputs[o]
            shape = port.shape
            self.flow(("type", self.group[t]), ("output", name), port.name)
        said = _given_back(self.model.answers.get(name, AS_IT_IS))
        self.blocks["output", name] = Block("output", name, said, outputs=(SlotView(name, shape),))


def layers_of(types: Sequence[NodeType]) -> list[list[int]]:
    """The types by where they are written: those of a repeated one together, in the order of their layers."""
    found: list[list[int]] = []
    for _, run in groupby(range(len(types)), key=lambda t: (types[t].span.line, types[t].span.column)):
        members = list(run)
        base = types[members[0]].name.removesuffix("-0")
        repeated = [types[t].name for t in members] == [f"{base}-{i}" for i in range(len(members))]
        found += [members] if repeated else [[t] for t in members]
    return found


def _does(kind: NodeType) -> str:
    if kind.cell is not None:
        return f"cell {kind.cell.name}"
    if isinstance(kind.reduction, Attention):
        how = "added scores" if kind.reduction.added else "" if kind.reduction.scaled else "unscaled"
        heads = f"{kind.reduction.heads} head{'' if kind.reduction.heads == 1 else 's'}"
        return ", ".join(filter(None, ["attention", heads, how]))
    return str(kind.reduction)


def _notes(cell: Cell) -> tuple[str, ...]:
    """A cell's operations and its constants, which are no parameters."""
    counts = Counter(op.name for op in cell.ops if op.name != "constant")
    said = ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
    constants = [
        f"constant {op.label}: {'×'.join(map(str, op.shape)) or op.attr[0]}"
        for op in cell.ops
        if op.name == "constant" and op.label
    ]
    return (said, *constants)


def _given_back(answer: Answer) -> str:
    """The form in which an output is returned, in words."""
    labels = "as labels" if not answer.top else f"as the {answer.top} most probable labels"
    said = {"values": "", "probabilities": "as probabilities", "label": labels}[answer.form]
    if answer.fields:
        said += f" with {', '.join(answer.fields)}"
    return said.strip()


def _table(table: Table) -> Block:
    shape = (table.rows, *table.shape)
    words = f"rows by {table.vocab.path.name}" if table.vocab else ""
    slot = SlotView(table.name, table.shape)
    return Block("table", table.name, words, outputs=(slot,), numbers=math.prod(shape))


def _given(schema: Schema, name: str) -> bool:
    """Whether a link is one that all instances have: to their vertices of a kind, and back."""
    return name == "instance" or (schema.links[name].source == {"instance"} and bool(schema.members(name)))


def _link(model: Model, name: str) -> LinkView:
    link = model.schema.links[name]
    made = model.schema.derived.get(name)
    how = f"{made.how} of {made.of}" if made else link.doc
    reach = {kind: tuple(sorted(link.reached(frozenset({kind})))) for kind in sorted(link.source)}
    return LinkView(name, reach, link.many, how)
