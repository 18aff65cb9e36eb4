"""The types of a model, connected: sources resolved, shapes checked, parameters shared, loops refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from abw.core.ir.cell import Param, Port, Shape
from abw.core.ir.model import (
    ATTENDED,
    QUERY,
    SPREADS,
    Attention,
    FieldSource,
    Input,
    NodeSource,
    NodeType,
    ParamSource,
    TableSource,
)
from abw.core.ir.schema import Kinds
from abw.core.spec.models.drafts import ATTEND_KEY, ATTEND_OUTPUT, TypeDraft, check_shapes, named
from abw.core.spec.models.resolve import Conditions, Resolved, Resolver, coexist, same_vertices
from abw.core.spec.models.sources import parse_reference
from abw.core.spec.text import fields
from abw.core.spec.text.document import Scalar, pairs
from abw.core.spec.text.report import note, report, suggest
from abw.core.spec.text.sizes import ExpressionError

# By type number and input: how it is written, and what it means.
Wires = dict[tuple[int, str], tuple[Scalar, list[Resolved]]]


def connect(resolver: Resolver) -> Wires:
    """Resolve every input, and check what flows along."""
    wires: Wires = {}
    for draft in resolver.drafts:
        for name, (_, text) in draft.bindings.items():
            if draft.kinds and (found := resolver.input(draft, text)):
                wires[draft.number, name] = (text, found)
        if draft.reduction:
            _reduction(draft, wires, resolver)
    _reduced_shapes(wires, resolver)
    _shapes(wires, resolver)
    _loops(wires, resolver)
    return wires


def _reduction(draft: TypeDraft, wires: Wires, resolver: Resolver) -> None:
    """A reduction follows the same links for all its inputs; what it reads of a vertex is there together."""
    first: tuple[NodeSource, dict[str, list[Conditions]]] | None = None
    for name in draft.bindings:
        single = isinstance(draft.reduction, Attention) and name == ATTENDED[QUERY]
        if (draft.number, name) not in wires or single:
            continue
        text, found = wires[draft.number, name]
        source = found[0].source
        location = text.at(found[0].at, len(found[0].text))
        simple = isinstance(draft.reduction, str)
        what = f"a {draft.reduction}" if simple else "an attention"
        if not isinstance(source, NodeSource) or not source.hops:
            message = f"{draft.reduction if simple else ATTEND_KEY} needs a link to what it reduces"
            hint = "link.output comes first, a default may follow: arcs.h or h0"
            if isinstance(source, FieldSource):
                hint = "fields are reduced as the outputs of a type: of a cell that takes them"
            note(message, location, hint)
            continue
        where = _vertices(draft, source, resolver)
        first = first or (source, where)
        if source.hops != first[0].hops:
            message = f"all inputs of {what} must follow the same links"
            note(message, location, "make it two types")
        elif any(not same_vertices(where[kind], first[1][kind]) for kind in where):
            message = f"what {what} reads must be there on the same vertices"
            note(message, location, "types with the same kinds and conditions give it")
        elif isinstance(draft.reduction, Attention) and name != draft.reduced[ATTEND_OUTPUT] and found[1:]:
            hint = "the default after `or` of `values` applies without neighbours"
            note(f"the {name} have no default", text.at(found[1].at, len(found[1].text)), hint)
        elif draft.reduction in SPREADS and found[1:]:
            hint = "over one value and over none it is zeros"
            note(f"{what} has no default", text.at(found[1].at, len(found[1].text)), hint)


def _vertices(draft: TypeDraft, source: NodeSource, resolver: Resolver) -> dict[str, list[Conditions]]:
    """Where there is what a source reads, as far as the model says: for each kind the conditions of types."""
    kinds = draft.kinds
    for hop in source.hops:
        kinds = resolver.schema.links[hop.link].reached(kinds)
    producers = [resolver.drafts[number] for number, _ in source.producers]
    return {kind: [d.where for d in producers if kind in d.kinds] for kind in sorted(kinds)}


def _shape(item: Resolved, resolver: Resolver) -> Iterator[tuple[str, Shape | None]]:
    """What an alternative gives: for each producer its name and its shape; zeros give nothing to check."""
    source, drafts = item.source, resolver.drafts
    if isinstance(source, NodeSource):
        for number, output in source.producers:
            name = tuple(drafts[number].outputs)[output]
            yield f"{drafts[number].name}.{name}", drafts[number].outputs[name]
    elif isinstance(source, TableSource):
        name, table = next((n, t) for n, (i, t) in resolver.tables.items() if i == source.table and t)
        yield name, table.shape
    elif isinstance(source, FieldSource):
        yield f"field '{source.field}'", (resolver.schema.fields[source.field].size or 1,)
    elif isinstance(source, ParamSource):
        name, param = next((name, p) for name, (i, p) in resolver.params.items() if i == source.number)
        yield name, param.shape if param else None


def _reduced_shapes(wires: Wires, resolver: Resolver) -> None:
    """Give the inputs and outputs of reductions their shapes, which may come through other reductions."""
    drafts = resolver.drafts
    waiting = [(d, name) for d in drafts if d.reduction for name in d.bindings if (d.number, name) in wires]
    progress = True
    while progress:
        progress = False
        for draft, name in tuple(waiting):
            shapes = (s for item in wires[draft.number, name][1] for _, s in _shape(item, resolver))
            shape = next((s for s in shapes if s is not None), None)
            if shape is not None:
                draft.ports[name] = shape
                draft.outputs.update({o: shape for o, of in draft.reduced.items() if of == name})
                waiting.remove((draft, name))
                progress = True
    for draft in drafts:
        if isinstance(draft.reduction, Attention):
            like = draft.ports.get("keys")
            if like and (draft, "query") in waiting:  # zeros alone
                draft.ports["query"] = like
                waiting.remove((draft, "query"))
            locations = {name: text for name, (_, text) in draft.bindings.items()}
            shapes_of = {name: draft.ports.get(name) for name in ATTENDED}
            check_shapes(draft.reduction, shapes_of, locations)
    if len(report()):
        return
    for draft, name in waiting:
        text, _ = wires[draft.number, name]
        message = f"'{draft.name}.{name}' has no shape: it reduces only itself"
        note(message, text.where, "give it something else too, or a parameter as default")


def _shapes(wires: Wires, resolver: Resolver) -> None:
    for draft in resolver.drafts:
        if draft.reduction:
            wanted = {name: (shape, f"{draft.reduction} '{name}'") for name, shape in draft.ports.items()}
        elif draft.cell:
            file = draft.cell.name
            wanted = {p.name: (p.shape, f"input '{p.name}' of {file}") for p in draft.cell.inputs}
        else:
            continue
        for name, (shape, what) in wanted.items():
            text, found = wires.get((draft.number, name), (None, []))
            for item in found:
                for giver, gives in _shape(item, resolver):
                    if text and gives is not None and shape != gives:
                        message = f"{what} wants {list(shape)}, {giver} gives {list(gives)}"
                        note(message, text.at(item.at, len(item.text)), "check the dims of both")


def _loops(wires: Wires, resolver: Resolver) -> None:
    """Types that wait for each other on one vertex never run."""
    drafts = resolver.drafts
    for kind in sorted(Kinds().union(*(draft.kinds for draft in drafts))):
        feeds: dict[int, set[int]] = {draft.number: set() for draft in drafts if kind in draft.kinds}
        for (number, _), (_, found) in wires.items():
            for item in found:
                if (
                    kind in drafts[number].kinds
                    and isinstance(item.source, NodeSource)
                    and not item.source.hops
                ):
                    feeds[number] |= {
                        producer
                        for producer, _ in item.source.producers
                        if coexist(drafts[producer], drafts[number], frozenset({kind}))
                    }
        try:
            TopologicalSorter(feeds).prepare()
        except CycleError as error:
            cycle: list[int] = error.args[1]
            names = " -> ".join(drafts[number].name for number in cycle)
            hint = "one of them must follow a link"
            message = f"types feed each other on the same vertex: {names}"
            note(message, drafts[min(cycle)].key.where, hint)


def share(resolver: Resolver) -> tuple[tuple[Param, ...], dict[int, tuple[int, ...]]]:
    """The model's parameters, each once, and for each type the numbers of those that its cell uses."""
    drafts = resolver.drafts
    asked: dict[tuple[int, str], tuple[int, str] | int] = {}
    locations: dict[tuple[int, str], Scalar] = {}
    for draft in drafts:
        for name, location, target in _requests(draft, resolver):
            asked[draft.number, name] = target
            locations[draft.number, name] = location
    params = [param for _, param in resolver.params.values() if param]
    numbers: dict[tuple[int, str], int] = {}
    for draft in drafts:
        for param in draft.cell.params if draft.cell else ():
            if (draft.number, param.name) not in asked:
                numbers[draft.number, param.name] = len(params)
                params.append(Param(f"{draft.name}.{param.name}", param.shape, param.init))
    for key, location in locations.items():
        seen = [key]
        target = asked[key]
        while not isinstance(target, int) and target in asked and target not in seen:
            seen.append(target)
            target = asked[target]
        if isinstance(target, int):
            numbers[key] = target
        elif target in numbers:
            numbers[key] = numbers[target]
        else:
            names = " -> ".join(f"{drafts[number].name}.{name}" for number, name in (*seen, target))
            note(f"no type owns this parameter: {names}", location.where, "one type must have its own")
            continue
        wanted = _param_shape(drafts[key[0]], key[1])
        shared = params[numbers[key]]
        if wanted != shared.shape:
            message = (
                f"parameter '{key[1]}' wants {list(wanted or ())}, {shared.name} is {list(shared.shape)}"
            )
            note(message, location.where, "shared parameters have one shape")
    return tuple(params), {
        draft.number: tuple(numbers.get((draft.number, param.name), 0) for param in draft.cell.params)
        for draft in drafts
        if draft.cell
    }


def _param_shape(draft: TypeDraft, name: str) -> Shape | None:
    params = draft.cell.params if draft.cell else ()
    return next((param.shape for param in params if param.name == name), None)


def _requests(draft: TypeDraft, resolver: Resolver) -> Iterator[tuple[str, Scalar, tuple[int, str] | int]]:
    """The parameters a type does not own: (parameter, place, (type number, parameter) or a model's own)."""
    drafts = resolver.drafts
    node = draft.node.get("params")
    if node is None or draft.cell is None:
        return
    names = [param.name for param in draft.cell.params]
    types = {d.name for d in drafts}
    if isinstance(node, Scalar) and (written := fields.text(node, "params")):
        owner = named(drafts, written.text, draft)
        if owner is None:
            note(f"unknown type '{written.text}'", written.where, suggest(written.text, types))
        elif owner is draft and draft.layers:
            return  # the layer whose parameters all the layers have
        elif owner.cell:
            for name in names:
                if name in {param.name for param in owner.cell.params}:
                    yield name, written, (owner.number, name)
                else:
                    hint = "types with cells of the same parameters can share them all"
                    note(f"type '{written.text}' has no parameter '{name}'", written.where, hint)
        return
    for key, value in pairs(fields.mapping(node, f"params of type '{draft.name}'")):
        if key.text not in names:
            note(f"the cell has no parameter '{key.text}'", key.where, suggest(key.text, names))
            continue
        written = fields.text(value, f"parameter '{key.text}'")
        if written is None:
            continue
        if written.text in resolver.params:
            resolver.used.add(written.text)
            yield key.text, written, resolver.params[written.text][0]
            continue
        try:
            first, second = parse_reference(written.text)
        except ExpressionError:
            hint = suggest(written.text, resolver.params) or "write TYPE.PARAMETER"
            note(f"unknown parameter '{written.text}'", written.where, hint)
            continue
        owner = named(drafts, first.text, draft)
        if owner is None:
            hint = suggest(first.text, types)
            note(f"unknown type '{first.text}'", written.at(first.at, len(first.text)), hint)
        elif owner.cell:
            params = [param.name for param in owner.cell.params]
            if second.text in params:
                if owner is not draft or not draft.layers:
                    yield key.text, written, (owner.number, second.text)
            else:
                location = written.at(second.at, len(second.text))
                note(
                    f"type '{first.text}' has no parameter '{second.text}'",
                    location,
                    suggest(second.text, params),
                )


def finish(
    drafts: Sequence[TypeDraft], wires: Wires, numbers: Mapping[int, tuple[int, ...]]
) -> tuple[NodeType, ...]:
    """The types, once all is well."""
    types = []
    for draft in drafts:
        outputs = tuple(Port(name, shape or ()) for name, shape in draft.outputs.items())
        reduced = tuple(Port(name, draft.ports[name]) for name in draft.bindings if not draft.cell)
        ports = draft.cell.inputs if draft.cell else reduced
        inputs = []
        for port in ports:
            text, found = wires[draft.number, port.name]
            inputs.append(Input(port.name, port.shape, tuple(item.source for item in found), text.where))
        types.append(
            NodeType(
                draft.name,
                draft.per,
                draft.kinds,
                draft.where,
                draft.cell,
                draft.reduction,
                tuple(inputs),
                outputs,
                numbers.get(draft.number, ()),
                draft.key.where,
            )
        )
    return tuple(types)
