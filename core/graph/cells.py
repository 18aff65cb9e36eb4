"""The network of a model at granularity `cell`: a node is a cell, as in Cavs and ED-Batch."""

from __future__ import annotations

from abw.core.base.errors import AbwError
from abw.core.ir.cell import Shape
from abw.core.ir.model import (
    SPREADS,
    FieldSource,
    Input,
    Model,
    NodeSource,
    ParamSource,
    Source,
    TableSource,
    ZeroSource,
)
from abw.core.ir.network import LISTED, Constant, LayoutName, NetType, Network, Slot

# So many values of a field a mini-batch may have.
MOST_GIVEN = 1 << 24

# What may flow somewhere: producers (type, output) and constants.
Flow = tuple[set[tuple[int, int]], set[int]]


def constant_table(model: Model) -> tuple[Constant, ...]:
    """Every constant a model can mention: its tables, its parameters used as values, zeros of each shape."""
    constants: list[Constant] = []
    first = 0

    def add(kind: str, number: int, shape: Shape, rows: int) -> None:
        nonlocal first
        constants.append(Constant(kind, number, shape, first, rows))  # type: ignore[arg-type]
        first += rows

    inputs = [i for t in model.types for i in t.inputs]
    for shape in sorted({i.shape for i in inputs}):
        add("zeros", 0, shape, 1)
    used = {s.number for i in inputs for s in i.sources if isinstance(s, ParamSource)}
    for number in sorted(used):
        add("param", number, model.params[number].shape, 1)
    for number, table in enumerate(model.tables):
        add("table", number, table.shape, table.rows)
    for number, field in enumerate(fields_of(model)):
        shape = next(
            i.shape for i in inputs for s in i.sources if isinstance(s, FieldSource) and s.field == field
        )
        add("field", number, shape, MOST_GIVEN)
    if first > -LISTED:
        hint = "fewer rows in tables, or several fields as one vector"
        raise AbwError("the model's tables and fields are more than can be numbered", hint=hint)
    return tuple(constants)


def fields_of(model: Model) -> tuple[str, ...]:
    """The fields of vertices that flow into a model's types as they are."""
    sources = (s for t in model.types for i in t.inputs for s in i.sources)
    return tuple(sorted({s.field for s in sources if isinstance(s, FieldSource)}))


def constant_number(
    constants: tuple[Constant, ...], fields: tuple[str, ...], source: Source, shape: Shape
) -> int:
    """The constant that a source other than a node means; zeros for a ZeroSource."""
    match source:
        case TableSource(table=number):
            key = ("table", number)
        case FieldSource(field=field):
            key = ("field", fields.index(field))
        case ParamSource(number=number):
            key = ("param", number)
        case _:
            zeros = (n for n, c in enumerate(constants) if c.kind == "zeros" and c.shape == shape)
            return next(zeros)
    return next(n for n, c in enumerate(constants) if (c.kind, c.number) == key)


def cell_network(model: Model, layout: LayoutName = "planned") -> Network:
    """The network whose types are the model's own. Cost: a fixed point over types and inputs."""
    constants = constant_table(model)
    fields = fields_of(model)
    flows = _flows(model, constants, fields)
    types = tuple(
        NetType(
            name=t.name,
            cell=t.cell,
            reduction=t.reduction,
            slots=tuple(
                Slot(i.name, i.shape, tuple(sorted(flow[0])), tuple(sorted(flow[1])))
                for i, flow in zip(t.inputs, flows[number], strict=True)
            ),
            outputs=t.outputs,
            params=t.params,
        )
        for number, t in enumerate(model.types)
    )
    width = 1 << (max(len(t.outputs) for t in types) - 1).bit_length()
    return Network(
        model.name, "cell", types, model.params, model.tables, constants, model.outputs, width, layout, fields
    )


def _flows(model: Model, constants: tuple[Constant, ...], fields: tuple[str, ...]) -> list[list[Flow]]:
    """For each type and input, all that may flow in. A reduction over one link passes its operand on."""
    flows: list[list[Flow]] = [[_direct(i, constants, fields) for i in t.inputs] for t in model.types]
    for t, flow in zip(model.types, flows, strict=True):
        if t.reduction:  # over none it passes on its default: zeros unless another was named
            for i, (_, seen) in zip(t.inputs[: len(t.outputs)], flow, strict=False):
                if len(i.sources) == 1:
                    seen.add(constant_number(constants, fields, ZeroSource(), i.shape))
    changed = True
    while changed:
        changed = False
        for here in (flow for of_type in flows for flow in of_type):
            for producer, output in tuple(here[0]):
                reduction = model.types[producer].reduction
                if reduction is None:
                    continue
                producers, values = flows[producer][output]
                if reduction in SPREADS:  # over one link they pass on zeros
                    producers = set()
                if not (producers <= here[0] and values <= here[1]):
                    here[0].update(producers)
                    here[1].update(values)
                    changed = True
    return flows


def _direct(wanted: Input, constants: tuple[Constant, ...], fields: tuple[str, ...]) -> Flow:
    producers: set[tuple[int, int]] = set()
    values: set[int] = set()
    for source in wanted.sources:
        if isinstance(source, NodeSource):
            producers.update(source.producers)
        else:
            values.add(constant_number(constants, fields, source, wanted.shape))
    return producers, values
