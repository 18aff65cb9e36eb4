"""The training network: the types of the forward pass, and behind them those of the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.grad.cell import Differentiated, differentiate
from abw.core.grad.reductions import Part, Parts, Read, attended, largest, means, spreads, sums
from abw.core.graph.cells import MOST_GIVEN
from abw.core.ir.cell import Port, Shape
from abw.core.ir.model import QUERY, Attention
from abw.core.ir.network import LISTED, Constant, NetType, Network, Slot

# A value of a network: type and output.
Flow = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Derived:
    """A type of the backward pass: part `part` of forward type `source`.

    Of a reduction that sums, `part` is -1: its nodes are those of `source` whose output `output` several
    values read.
    """

    source: int
    part: int
    output: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A network with its backward pass.

    `network` has the types of `source`, by the same numbers, and behind them `derived`. `cells[t]` is the
    derivative of type t's cell, `parts[t]` those of its backward pass: one for a cell. Both are None where no
    gradient is wanted; the first part of type t is type `first[t]`. `wanted[t]` are the slots whose
    neighbours get a gradient, `sums[t, o]` the type that sums that of output o. `losses` are the outputs that
    have gradients from outside, with the constant whose rows these are; `count` is the constant with k in row
    k; `zeros` that of each shape.
    """

    source: Network
    network: Network
    cells: tuple[Differentiated | None, ...]
    parts: tuple[Parts | None, ...]
    wanted: tuple[tuple[int, ...], ...]
    derived: tuple[Derived, ...]
    first: tuple[int, ...]
    sums: Mapping[Flow, int]
    losses: Mapping[str, int]
    count: int
    zeros: Mapping[Shape, int]


def training_network(
    source: Network, losses: Sequence[str], *, all_train: bool = True, width: int = 1
) -> Training:
    """The training network of a network of cells whose outputs `losses` have gradients.

    Its width is `width` at least. Errors: AbwError for an output that there is not, or (where `all_train`)
    that no parameter reaches, and for networks of operations and those that read reductions in place. Cost:
    some milliseconds a type.
    """
    _refuse(source, losses)
    return _Builder(source, losses, all_train).build(width)


def _refuse(source: Network, losses: Sequence[str]) -> None:
    names = [name for name, _ in source.outputs]
    if not losses:
        hint = "decisions have no gradient: make their scores an output"
        raise AbwError(f"no output of {source.name} has a loss", hint="" if names else hint)
    for name in losses:
        if name not in names:
            raise AbwError(f"{source.name} has no output '{name}'", hint=did_you_mean(name, names))
    if source.granularity == "op":
        message = "the backward pass is one of cells, and at granularity op there are none"
        raise AbwError(message, hint="leave out --granularity op", exit_code=2)
    if any(slot.reduction for t in source.types for slot in t.slots):
        message = "the backward pass needs reductions as nodes, and --fuse reads them in place"
        raise AbwError(message, hint="leave out --fuse", exit_code=2)


class _Builder:
    """What is known of a network on the way to its training network."""

    def __init__(self, source: Network, losses: Sequence[str], all_train: bool) -> None:
        self.source, self.types, self.all_train = source, source.types, all_train
        self.outputs = {name: pairs for name, pairs in source.outputs if name in losses}
        self.wanted = self._wanted()
        self.cells: list[Differentiated | None] = [None] * len(self.types)
        self.given = self._given()
        self.constants = list(source.constants)
        self.fields = list(source.fields)
        self.end = max((c.first + c.rows for c in self.constants), default=0)
        self.zeros = {c.shape: n for n, c in enumerate(self.constants) if c.kind == "zeros"}

    def build(self, width: int) -> Training:
        source = self.source
        losses = {}
        for name, pairs in self.outputs.items():
            losses[name] = self._field(f"gradient of {name}", self._shape(pairs))
        count = self._field("count of neighbours", (1,))
        parts = [self._parts(t) for t in range(len(self.types))]
        derived: list[Derived] = []
        first, sums_of = [], {}
        for t, made in enumerate(parts):
            first.append(len(self.types) + len(derived))
            derived += [Derived(t, part) for part in range(len(made.parts))] if made else []
        for t, made in enumerate(parts):
            for o in sorted(self.given[t]) if made and self.types[t].reduction == "sum" else ():
                sums_of[t, o] = len(self.types) + len(derived)
                self.zero(self.types[t].outputs[o].shape)  # of a sum that no node reads
                derived.append(Derived(t, -1, o))
        flows = _Flows(self, parts, first, sums_of, losses)
        forward = []
        for kind, cell, own in zip(self.types, self.cells, parts, strict=True):
            if cell is not None:
                forward.append(replace(kind, cell=cell.forward, outputs=cell.forward.output_ports))
            elif own is not None and isinstance(how := kind.reduction, Attention):
                outputs = (*kind.outputs, Port("log-sums", (how.heads,)))
                forward.append(replace(kind, reduction=replace(how, log_sums=True), outputs=outputs))
            else:
                forward.append(kind)
        backward = [self._type(item, parts, first, flows, count) for item in derived]
        types = (*forward, *backward)
        if self.end > -LISTED:
            hint = "fewer outputs with a loss, or fewer rows in tables"
            raise AbwError("tables, fields and gradients are more than can be numbered", hint=hint)
        network = replace(
            source,
            name=f"{source.name} with its backward pass",
            types=types,
            constants=tuple(self.constants),
            fields=tuple(self.fields),
            width=max(width, 1 << (max(len(t.outputs) for t in types) - 1).bit_length()),
        )
        return Training(
            source, network, tuple(self.cells), tuple(parts), tuple(map(tuple, self.wanted)), tuple(derived),
            tuple(first), sums_of, losses, count, self.zeros,
        )  # fmt: skip

    def _wanted(self) -> list[list[int]]:
        """The slots of each type through which something can be trained: parameters or tables lie behind."""
        kinds = [c.kind for c in self.source.constants]
        found: list[list[int]] = [[] for _ in self.types]

        def trains(flow: Flow) -> bool:
            t, o = flow
            net_type = self.types[t]
            if isinstance(net_type.reduction, str):
                return o in found[t]
            return bool(found[t] or net_type.params)

        changed = True
        while changed:
            before = [*map(len, found)]
            for t, net_type in enumerate(self.types):
                found[t] = [
                    s
                    for s, slot in enumerate(net_type.slots)
                    if any(kinds[c] in ("param", "table") for c in slot.constants)
                    or any(map(trains, slot.producers))
                ]
            changed = before != [*map(len, found)]
        return found

    def _given(self) -> list[set[int]]:
        """The outputs of each type that have gradients; on the way cells are differentiated."""
        given: list[set[int]] = [set() for _ in self.types]
        waiting: list[Flow] = []

        def reach(flows: Sequence[Flow]) -> None:
            for t, o in flows:
                if o not in given[t]:
                    given[t].add(o)
                    waiting.append((t, o))

        for name, pairs in self.outputs.items():
            flows = [flow for pair in pairs for flow in self._stands_for(pair)[0]]
            if any(self.wanted[t] or self.types[t].params for t, _ in flows):
                reach(flows)
            elif self.all_train:
                raise AbwError(f"no parameter reaches output '{name}': there is nothing to train")
        while waiting:
            t, o = waiting.pop()
            net_type = self.types[t]
            slots: Sequence[int] = self.wanted[t]
            if net_type.cell is not None:
                made = self.cells[t] = differentiate(net_type.cell, self.wanted[t], given[t])
                slots = list(made.inputs)
            elif isinstance(net_type.reduction, str):
                slots = [o] if o in self.wanted[t] else []
            for s in slots:
                reach(net_type.slots[s].producers)
        return given

    def _stands_for(self, flow: Flow) -> tuple[list[Flow], set[int]]:
        """The values that may be meant by one: of a reduction over one link what it passes on."""
        net_type = self.types[flow[0]]
        if net_type.reduction is None:
            return [flow], set()
        slot = net_type.slots[flow[1]]
        return [flow, *slot.producers], set(slot.constants)

    def _parts(self, t: int) -> Parts | None:
        """The backward pass of a type; None where there is none."""
        net_type, made = self.types[t], self.cells[t]
        shapes = [slot.shape for slot in net_type.slots]
        if made is not None:
            if made.backward is None:
                return None
            reads = tuple(
                Read({"input": "operand", "saved": "output"}.get(leaf.source, "gradient"), leaf.number)  # type: ignore[arg-type]
                for leaf in made.reads
            )
            backward = made.backward
            part = Part("backward", "node", backward, None, reads, backward.inputs, backward.output_ports)
            gives = tuple((0, made.inputs[s]) if s in made.inputs else None for s in range(len(shapes)))
            return Parts((part,), gives)
        if not self.given[t] or not self.wanted[t]:
            return None
        match net_type.reduction:
            case "sum":
                return sums(len(shapes))
            case "mean":
                return means(shapes)
            case "max":
                return largest(shapes)
            case "var" | "std" as spread:
                return spreads(shapes, root=spread == "std")
            case Attention() as attention:
                return attended(attention, shapes[0], shapes[QUERY], self.wanted[t])
        return None

    def _type(
        self, item: Derived, parts: Sequence[Parts | None], first: Sequence[int], flows: _Flows, count: int
    ) -> NetType:
        """A type of the backward pass."""
        t = self.types[item.source]
        if item.part < 0:
            port = t.outputs[item.output]
            name = f"{t.name}.{port.name}-backward" if len(t.outputs) > 1 else f"{t.name}-backward"
            producers, constants = flows.gradient((item.source, item.output))
            slot = Slot("g", port.shape, producers, constants)
            return NetType(name, None, "sum", (slot,), (port,), ())
        made = parts[item.source]
        assert made is not None
        part, at = made.parts[item.part], first[item.source]
        slots = []
        for read, port in zip(part.reads, part.inputs, strict=True):
            match read.kind:
                case "operand":
                    slot = replace(t.slots[read.a], name=port.name)
                case "output":
                    slot = Slot(port.name, port.shape, ((item.source, read.a),), ())
                case "gradient":
                    producers, constants = flows.gradient((item.source, read.a))
                    constants = tuple(sorted({*constants, self.zero(port.shape)}))
                    slot = Slot(port.name, port.shape, producers, constants, "sum")
                case "count":
                    slot = Slot(port.name, port.shape, (), (count,))
                case "edges":
                    slot = Slot(port.name, port.shape, ((at + read.a, read.b),), (), "sum")
                case _:
                    slot = Slot(port.name, port.shape, ((at + read.a, read.b),), ())
            slots.append(slot)
        numbers: tuple[int, ...] = ()
        made_of = self.cells[item.source]
        if made_of is not None:
            numbers = tuple(t.params[p] for p in made_of.params)
        name = f"{t.name}-backward" if part.name == "backward" else f"{t.name}-backward-{part.name}"
        return NetType(name, part.cell, part.reduction, tuple(slots), part.outputs, numbers)

    def zero(self, shape: Shape) -> int:
        """The constant of zeros of a shape."""
        if shape not in self.zeros:
            self.zeros[shape] = self._constant("zeros", 0, shape, 1)
        return self.zeros[shape]

    def _field(self, name: str, shape: Shape) -> int:
        """A constant whose rows each mini-batch brings."""
        self.fields.append(name)
        number = sum(c.kind == "field" for c in self.constants)
        return self._constant("field", number, shape, MOST_GIVEN)

    def _constant(self, kind: str, number: int, shape: Shape, rows: int) -> int:
        self.constants.append(Constant(kind, number, shape, self.end, rows))  # type: ignore[arg-type]
        self.end += rows
        return len(self.constants) - 1

    def _shape(self, pairs: Sequence[Flow]) -> Shape:
        t, o = pairs[0]
        return self.types[t].outputs[o].shape


class _Flows:
    """What may flow into the gradient of each value."""

    def __init__(
        self,
        builder: _Builder,
        parts: Sequence[Parts | None],
        first: Sequence[int],
        sums_of: Mapping[Flow, int],
        losses: Mapping[str, int],
    ) -> None:
        self.builder, self.sums = builder, sums_of
        self.from_parts: dict[Flow, set[Flow]] = {}
        self.from_sums: dict[Flow, set[Flow]] = {}
        self.constants: dict[Flow, set[int]] = {}
        for name, constant in losses.items():
            for pair in builder.outputs[name]:
                for flow in builder._stands_for(pair)[0]:
                    self.constants.setdefault(flow, set()).add(constant)
        for t, (net_type, made) in enumerate(zip(builder.types, parts, strict=True)):
            for s in builder.wanted[t] if made else ():
                assert made is not None
                gives = made.gives[s]
                for flow in net_type.slots[s].producers:
                    if gives is not None:
                        self.from_parts.setdefault(flow, set()).add((first[t] + gives[0], gives[1]))
                    elif net_type.reduction == "sum" and s in builder.given[t]:
                        self.from_sums.setdefault(flow, set()).add((t, s))

    def gradient(self, flow: Flow) -> tuple[tuple[Flow, ...], tuple[int, ...]]:
        """Producers and constants of one; a sum that one value reads passes its gradient on."""
        producers: set[Flow] = set()
        constants: set[int] = set()
        seen, waiting = {flow}, [flow]
        while waiting:
            at = waiting.pop()
            producers |= self.from_parts.get(at, set())
            constants |= self.constants.get(at, set())
            for behind in self.from_sums.get(at, ()):
                producers.add((self.sums[behind], 0))
                constants.add(self.builder.zero(self.builder.types[behind[0]].outputs[behind[1]].shape))
                if behind not in seen:
                    seen.add(behind)
                    waiting.append(behind)
        return tuple(sorted(producers)), tuple(sorted(constants))
