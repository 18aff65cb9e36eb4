"""Links and fields that every format has, computed when they are needed; instances as a model knows them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.data.instances import Instances, Ints, Link, Longs, Values
from abw.core.data.links import Lazy, along, following, inverse, makers, reverse, single, where
from abw.core.ir.formats import own_fields, own_links
from abw.core.ir.schema import Derived, Schema
from abw.core.jit.decorators import njit
from abw.core.jit.splitmix import GOLDEN, mixed

_WORD = 2**64 - 1


def link(instances: Instances, name: str) -> Link:
    """A link by name: the data's own, `instance`, or an instance's to all vertices of a kind or group.

    Raises KeyError where the schema has no such name. Cost: linear in the vertices.
    """
    if name in instances.links:
        return instances.links[name]
    start = instances.start.astype(np.int32)
    owner = np.repeat(start[:-1], np.diff(start))
    owner[instances.start[:-1]] = -1
    if name == "instance":
        return Link(owner)
    members = instances.schema.members(name)
    if not members:
        raise KeyError(name)
    wanted = np.array([kind in members for kind in instances.schema.kinds])
    return inverse(where(wanted[instances.kind], owner))


def with_derived(instances: Instances, schema: Schema) -> Instances:
    """The instances with the links that a model's schema makes of their own, each at its first use."""
    missing = schema.derived and schema.derived.keys() - instances.links.keys()
    if not missing:
        return instances
    every = makers(instances.links)
    found = replace(instances, links=Lazy(every))
    every |= {name: partial(_derived, found, schema.derived[name]) for name in missing}
    return found


def _derived(instances: Instances, made: Derived) -> Link:
    count = len(instances.kind)
    if made.how == "reverse":
        return reverse(link(instances, made.of), count)
    if made.how == "all":
        owner = link(instances, "instance").target.copy()
        owner[instances.start[:-1]] = instances.start[:-1]
        return along([(Link(owner), None), (link(instances, made.of), None)], count)
    members = instances.schema.members(made.of)
    wanted = np.array([kind in members for kind in instances.schema.kinds])
    vertices = np.flatnonzero(wanted[instances.kind]).astype(np.int32)
    back, forth = following(vertices, _instance_of(instances)[vertices], count)
    return Link(back if made.how == "previous" else forth)


def field(instances: Instances, name: str, seed: int = 0) -> Ints:
    """A field by name, (V,): the data's own, `index`, or `coin`, which alone needs the seed.

    Raises KeyError where the data has no such field. Cost: linear in the vertices.
    """
    if name == "index":
        return _index(instances)
    if name == "coin":
        return _coin(instances, seed)
    return instances.fields[name]


def floats(instances: Instances, name: str, seed: int = 0) -> Values:
    """A field that is no text as vectors of floats; of one of whole numbers they are of size 1.

    Raises KeyError where the data has no such field. Cost: linear in the vertices.
    """
    if name in instances.values:
        return instances.values[name]
    numbers = field(instances, name, seed)
    vertex = np.flatnonzero(numbers >= 0).astype(np.int32)
    return Values(vertex, numbers[vertex, None].astype(np.float32))


def _instance_of(instances: Instances) -> Longs:
    return np.repeat(np.arange(len(instances), dtype=np.int64), np.diff(instances.start))


def _index(instances: Instances) -> Ints:
    """Each vertex's number among those of its kind in its instance."""
    index, counts = np.empty(len(instances.kind), np.int32), np.zeros(len(instances.schema.kinds), np.int32)
    _count(instances.kind, instances.start, counts, index)
    return index


@njit
def _count(kind: NDArray[np.uint8], start: Longs, counts: Ints, index: Ints) -> None:
    for i in range(len(start) - 1):
        counts[:] = 0
        for v in range(start[i], start[i + 1]):
            index[v] = counts[kind[v]]
            counts[kind[v]] += 1


def _coin(instances: Instances, seed: int) -> Ints:
    """0 or 1: the top bit of a hash, the same on every machine.

    With i the instance's number in the file and p the vertex's in its instance (0 is the first behind the
    instance's own vertex, which has p = 2^32 - 1; of a tree, p is the preorder number), the hash is
    splitmix64's finaliser (Steele, Lea and Flood, OOPSLA 2014) of (i << 32 | p) + seed * 0x9E3779B97F4A7C15
    modulo 2^64.
    """
    instance = _instance_of(instances)
    place = np.arange(len(instance)) - instances.start[instance] - 1
    number = instances.numbers[instance].astype(np.uint64) << np.uint64(32)
    x = number | (place.astype(np.uint64) & np.uint64(2**32 - 1))
    x += np.uint64(seed * GOLDEN & _WORD)
    toss: Ints = (mixed(x) >> np.uint64(63)).astype(np.int32)
    return toss


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
    if many:
        return along([(found, None)], count)
    if found.indptr is not None:
        if (np.diff(found.indptr) > 1).any():
            message = f"several links '{name}' from one vertex, and the model's data has one at most"
            raise AbwError(message, hint="open the model with data that has several")
        vertices = np.flatnonzero(np.diff(found.indptr)).astype(np.int32)
        return single(vertices, found.target, count)
    return found
