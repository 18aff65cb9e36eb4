"""Instances made elsewhere as a model knows them: the same kinds, links and fields, or an error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.data.derive import floats
from abw.core.data.instances import Instances, Ints, Link, Values
from abw.core.ir.formats import own_fields, own_links
from abw.core.ir.schema import Schema


def conform(instances: Instances, schema: Schema) -> Instances:
    """The instances with the kinds, links and fields of a schema, in its numbers and forms.

    What the schema does not have is left out, but for kinds, of which there may be fewer; where a link or a
    field is not there, no vertex has one. Errors: AbwError for another kind, for several of a link of which
    the schema has one at most, for a field of another type or size. Cost: nothing where the schema is theirs.
    """
    own = instances.schema
    made = {name: link for name, link in schema.links.items() if name not in schema.derived}
    if own == schema or own == replace(schema, links=made, derived={}):
        return instances
    if own.format != schema.format:
        message = f"these are instances of format {own.format}, the model's are of format {schema.format}"
        raise AbwError(message, hint="read them with the model: model.read(...)")
    for kind in own.kinds:
        if kind not in schema.kinds:
            hint = did_you_mean(kind, schema.kinds[1:])
            raise AbwError(f"the data from which the model was opened has no kind '{kind}'", hint=hint)
    count = len(instances.kind)
    number = np.array([schema.kinds.index(kind) for kind in own.kinds], np.uint8)
    fields: dict[str, Ints] = {}
    values: dict[str, Values] = {}
    vocabulary = {}
    for name in own_fields(schema):
        known = schema.fields[name]
        if known.size:
            values[name] = _values(instances, name, known.size)
            continue
        if name in instances.values or (name in instances.fields and known.text != own.fields[name].text):
            wanted = "strings" if known.text else "whole numbers from 0"
            raise AbwError(f"field '{name}' does not hold {wanted}", hint="use the types of the model's data")
        fields[name] = instances.fields.get(name, np.full(count, -1, np.int32))
        if known.text:
            vocabulary[name] = instances.vocabulary.get(name, ())
    links = {name: _link(instances, name, schema.links[name].many) for name in own_links(schema)}
    return replace(
        instances,
        schema=schema,
        kind=number[instances.kind],
        links=links,
        fields=fields,
        vocabulary=vocabulary,
        values=values,
    )


def _values(instances: Instances, name: str, size: int) -> Values:
    """A field of floats, which may be given as whole numbers."""
    if name in instances.vocabulary:
        raise AbwError(f"field '{name}' holds strings, not floats", hint="use the types of the model's data")
    if name in instances.fields and size == 1:
        return floats(instances, name)
    nothing = Values(np.empty(0, np.int32), np.empty((0, size), np.float32))
    found = instances.values.get(name, nothing)
    if found.rows.shape[1] != size or name in instances.fields:
        given = 1 if name in instances.fields else found.rows.shape[1]
        raise AbwError(f"field '{name}' holds {given} numbers a vertex, not {size}")
    return found


def _link(instances: Instances, name: str, many: bool) -> Link:
    count = len(instances.kind)
    found = instances.links.get(name, Link(np.full(count, -1, np.int32)))
    if many and found.indptr is None:
        vertices = np.flatnonzero(found.target >= 0).astype(np.int32)
        return Link.many(vertices, found.target[vertices], count)
    if not many and found.indptr is not None:
        if (np.diff(found.indptr) > 1).any():
            message = f"several links '{name}' from one vertex, and the model's data has one at most"
            raise AbwError(message, hint="open the model with data that has several")
        vertices = np.flatnonzero(np.diff(found.indptr)).astype(np.int32)
        target = np.full(count, -1, np.int32)
        target[vertices] = found.target
        return Link(target)
    return found
