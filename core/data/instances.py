"""Instances as arrays: the vertices of many small typed graphs, one after the other."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abw.core.base.errors import AbwError, DataError, Problem, did_you_mean
from abw.core.ir.formats import with_common
from abw.core.ir.schema import ARRAYS, FieldSchema, LinkSchema, Schema

_HINT = "a column holds one of: strings, numbers, vectors of one size; each vertex of a kind has a value"
_NUMBERS = "iubf"


def column(kind: str, name: str, given: ArrayLike) -> NDArray[Any]:
    """The values of a field on the vertices of a kind, none of them turned into another type.

    An array of objects is what the list of them is. Errors: DataError with kind, field and the first vertex
    that does not fit. Cost: nothing for arrays of NumPy's types, else 20 to 60 ns a value.
    """
    if isinstance(given, np.ma.MaskedArray):
        given = given.tolist()  # None where there is no value
    try:
        array = np.asarray(given)
        if array.dtype == object and array.size and array.ndim:
            given = array.tolist()
            array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(given, list | tuple):
            _refuse(kind, name, given)
        problem = Problem(f"field '{name}' of kind '{kind}' is no array: {error}", hint=_HINT)
        raise DataError([problem]) from None
    whole = isinstance(given, np.ndarray) or not array.ndim or array.dtype.kind in _NUMBERS
    if not whole and array.dtype.kind in "USO":
        values = given if isinstance(given, list | tuple) else np.asarray(given, object).tolist()
        if set(map(type, values)) - {str} and not _all_alike(values, str) and not _all_alike(values, bytes):
            _refuse(kind, name, values)
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            problem = Problem(f"field '{name}' of kind '{kind}' holds bytes that are not UTF-8")
            raise DataError([problem]) from None
    return array


def _all_alike(values: Sequence[object], wanted: type) -> bool:
    return all(isinstance(value, wanted) for value in values)


def _refuse(kind: str, name: str, values: Sequence[object]) -> Never:
    """Raise DataError with the first value that is of no type for fields, or of another than the first."""
    first = _form(values[0]) if values else ""
    forms = (_form(value) for value in values)
    wrong = next((v for v, form in enumerate(forms) if not form or form != first), 0)
    what = f"field '{name}' of vertex {wrong} of kind '{kind}' is {reprlib.repr(values[wrong])}"
    form = _form(values[wrong])
    if not form:
        problem = Problem(f"{what}, neither a string nor numbers", hint=_HINT)
    elif form != first:
        problem = Problem(f"{what}, {form}; of vertex 0 it is {first}", hint=_HINT)
    else:  # whole numbers of more than 64 bits
        problem = Problem(f"field '{name}' of kind '{kind}' holds numbers that fit no array", hint="floats")
    raise DataError([problem])


def _form(value: object) -> str:
    """What a value is; empty where no field can hold it."""
    if isinstance(value, str | bytes):
        return "a string" if isinstance(value, str) else "bytes"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return ""
    whole = array.dtype == object and isinstance(value, int)
    if array.ndim > 1 or not (whole or array.dtype.kind in _NUMBERS):
        return ""
    return f"a list of {array.size}" if array.ndim else "a number"


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# Of a link, the kinds that it leads from and to, and the numbers (2, E) of their vertices.
Edges = ArrayLike | tuple[str, str, ArrayLike]
_LARGEST = 2**31 - 1
_SHAPES = "numbers are (n,) or (n, size), strings (n,)"
_ROWS = "row 0 from where, row 1 to where; of pairs (E, 2) it is index.T"


@dataclass(frozen=True, slots=True)
class Link:
    """A link of all vertices, V of them.

    Single: `indptr` is None and `target[v]` the vertex that v leads to, -1 for none; shape (V,).
    Many: v leads to `target[indptr[v]:indptr[v + 1]]`, in order; shapes (V + 1,) and (edges,).
    Targets are numbers in the same arrays, always of the same instance.
    """

    target: Ints
    indptr: Ints | None = None

    @classmethod
    def many(cls, vertices: Ints, targets: Ints, count: int) -> Link:
        """The many-link of `count` vertices that leads from each `vertices[i]` to `targets[i]`, in order.

        Cost: linear where `vertices` are in order, else that of sorting them.
        """
        indptr = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(vertices, minlength=count), out=indptr[1:])
        if (vertices[1:] < vertices[:-1]).any():
            targets = targets[np.argsort(vertices, kind="stable")]
        return cls(np.ascontiguousarray(targets), indptr)


@dataclass(frozen=True, slots=True)
class Values:
    """Vectors of floats on some vertices: `vertex` (m,), ascending, have the `rows` (m, size), float32."""

    vertex: Ints
    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Instances:
    """N instances with V vertices.

    `kind` (V,) numbers into `schema.kinds`; instance i has the vertices `start[i]:start[i + 1]` (N + 1,),
    of which the first is its vertex of kind 'instance'. `fields[f]` (V,) is -1 where a vertex has none.
    `values[f]` are the fields of floats. `vocabulary[f]` are the distinct strings behind a text field's
    integers. `lines[i]` (N,) is the line of `source` on which instance i begins; `numbers[i]` (N,) its number
    in the file, from 0, for which the coin is tossed: it does not depend on whether others before it were
    left out. `names` are the instances' ids where the data has some.
    """

    schema: Schema
    kind: NDArray[np.uint8]
    start: Longs
    links: Mapping[str, Link]
    fields: Mapping[str, Ints]
    vocabulary: Mapping[str, Sequence[str]]
    source: Path
    lines: Ints
    numbers: Longs
    names: tuple[str | int, ...] | None = None
    values: Mapping[str, Values] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start) - 1

    @classmethod
    def from_arrays(
        cls,
        vertices: Mapping[str, Mapping[str, ArrayLike]],
        links: Mapping[str, Edges | Sequence[Edges]] | None = None,
        *,
        names: Sequence[str | int] | None = None,
    ) -> Instances:
        """Make instances of format json from columns, such as a data frame for each kind of vertices.

        `vertices[kind]` has arrays of the kind's n vertices by field: strings or integers from 0 (n,), floats
        (n,) or vectors (n, size); and `instance` (n,), the instance of each, ascending (without it all belong
        to one). `links[name]` is (from kind, to kind, index), or several of these; `index` (2, E) numbers the
        vertices of each kind across instances. A link from the instances themselves has the kind 'instance'
        and their numbers. If the data have one kind, `index` alone is enough. `names` (N,) are the instances'
        ids; without them `instance` sets the number of instances.

        In an instance vertices are ordered by kind. Only whole columns are copied. Errors: AbwError with
        field, vertex and instance. Cost: some 10 ns a value; strings are sorted.
        """
        return _from_arrays(vertices, links or {}, names)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The n vertices of a kind: the instance of each, and its place among all vertices (n,)."""

    instance: Longs
    position: Ints


def _from_arrays(
    vertices: Mapping[str, Mapping[str, ArrayLike]],
    links: Mapping[str, Edges | Sequence[Edges]],
    names: Sequence[str | int] | None,
) -> Instances:
    # what has items is a mapping, a data frame, an archive of arrays
    columns = {
        kind: {name: column(kind, name, array) for name, array in fields.items()}
        for kind, fields in (vertices.items() if hasattr(vertices, "items") else ())
        if hasattr(fields, "items")
    }
    if not columns or len(columns) < len(vertices) or "instance" in columns or len(columns) > 255:
        message = "vertices are arrays by kind: one to 255 kinds, none of them called 'instance'"
        raise AbwError(message, hint='{"atom": {"instance": [0, 0, 1], "element": [6, 8, 6]}}')
    if not hasattr(links, "items"):
        raise AbwError("links are arrays by name", hint='{"bond": ("atom", "atom", index)}')
    owners = {kind: _owners(kind, fields) for kind, fields in columns.items()}
    count = len(names) if names is not None else 1 + max(int(o.max(initial=-1)) for o in owners.values())
    if not count:
        hint = "vertices, or names=[...] for instances that have none"
        raise AbwError("there are no instances: every column is empty", hint=hint)
    if max(int(o.max(initial=-1)) for o in owners.values()) >= count:
        raise AbwError(f"there are {count} instances, and vertices of others", hint="names: one an instance")
    each = np.stack([np.bincount(owner, minlength=count) for owner in owners.values()], axis=1)
    start = np.append(0, np.cumsum(1 + each.sum(axis=1)))
    # where the vertices of each kind begin in each instance
    begin = start[:-1, None] + 1 + np.cumsum(each, axis=1) - each
    kinds = {}
    kind = np.zeros(int(start[-1]), np.uint8)
    for k, (name, owner) in enumerate(owners.items()):
        first = np.cumsum(each[:, k]) - each[:, k]
        position = (begin[:, k] - first)[owner] + np.arange(len(owner))
        kinds[name] = _Kind(owner, position.astype(np.int32))
        kind[position] = 1 + k
    ends = {**kinds, "instance": _Kind(np.arange(count), start[:-1].astype(np.int32))}
    made_links = {name: _link(name, given, ends, len(kind)) for name, given in links.items()}
    fields, values, vocabulary, schemas = _fields(columns, kinds, len(kind))
    schema = with_common(
        Schema("json", tuple(columns), {}, {name: item for name, (_, item) in made_links.items()}, schemas)
    )
    return Instances(
        schema,
        kind,
        start,
        {name: link for name, (link, _) in made_links.items()},
        fields,
        vocabulary,
        ARRAYS,
        np.arange(1, count + 1, dtype=np.int32),
        np.arange(count),
        None if names is None else tuple(names),
        values,
    )


def _owners(kind: str, fields: Mapping[str, NDArray[Any]]) -> Longs:
    """The instance of each vertex of a kind. Errors: AbwError."""
    sizes = {name: array.shape[0] if array.ndim else -1 for name, array in fields.items()}
    if not sizes or len(set(sizes.values())) > 1 or -1 in sizes.values():
        shown = ", ".join(f"{name} {size}" for name, size in sizes.items()) or "it has none"
        raise AbwError(f"the arrays of kind '{kind}' have not one length: {shown}", hint="a row a vertex")
    owner = fields.get("instance", np.zeros(next(iter(sizes.values())), np.int64))
    if owner.ndim != 1 or (len(owner) and owner.dtype.kind not in "iu"):
        raise AbwError(f"'instance' of kind '{kind}' is no array of whole numbers")
    owner = owner.astype(np.int64)
    if (owner < 0).any() or (owner[1:] < owner[:-1]).any():
        hint = "sort them: order = np.argsort(instance, kind='stable'), and every array[order]"
        raise AbwError(f"'instance' of kind '{kind}' does not ascend from 0", hint=hint)
    return owner


def _link(
    name: str, given: Edges | Sequence[Edges], kinds: Mapping[str, _Kind], count: int
) -> tuple[Link, LinkSchema]:
    """A link of columns; `kinds` end with the instances themselves. Errors: AbwError."""
    parts = given if isinstance(given, list) and given and isinstance(given[0], tuple) else [given]
    ends: list[tuple[Ints, Ints]] = []
    sources, targets = set(), set()
    for part in parts:
        whole = part if isinstance(part, tuple) and len(part) == 3 else (None, None, part)
        named = isinstance(part, tuple) and any(isinstance(end, str) for end in part)
        if whole[0] is None and (len(kinds) > 2 or named):
            raise AbwError(f"link '{name}' does not say its kinds", hint='("atom", "atom", index)')
        only = next(iter(kinds))
        source, target = (str(only if kind is None else kind) for kind in whole[:2])
        for kind, known in ((source, tuple(kinds)), (target, tuple(kinds)[:-1])):
            if kind not in known:
                raise AbwError(f"link '{name}': no kind '{kind}'", hint=did_you_mean(kind, known))
        index = _index(name, whole[2])
        if index.size == 0:
            index = np.zeros((2, 0), np.int64)
        if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
            message = f"link '{name}' is {index.dtype} {list(index.shape)}, not whole numbers (2, E)"
            raise AbwError(message, hint=_ROWS)
        for side, kind in zip(index, (source, target), strict=True):
            wrong = np.flatnonzero((side < 0) | (side >= len(kinds[kind].position)))
            if len(wrong):
                message = (
                    f"link '{name}', edge {wrong[0]}: there is no vertex {side[wrong[0]]} of kind '{kind}'"
                )
                raise AbwError(message, hint=f"they are 0 to {len(kinds[kind].position) - 1}")
        across = np.flatnonzero(kinds[source].instance[index[0]] != kinds[target].instance[index[1]])
        if len(across):
            raise AbwError(f"link '{name}', edge {across[0]} leads from one instance to another")
        ends.append((kinds[source].position[index[0]], kinds[target].position[index[1]]))
        sources.add(source)
        targets.add(target)
    vertices, reached = (np.concatenate(side) for side in zip(*ends, strict=True))
    many = bool(np.bincount(vertices).max(initial=0) > 1)
    if many:
        link = Link.many(vertices, reached, count)
    else:
        link = Link(np.full(count, -1, np.int32))
        link.target[vertices] = reached
    return link, LinkSchema(frozenset(sources), frozenset(targets), many)


def _index(name: str, given: Any) -> NDArray[Any]:  # noqa: ANN401 (whatever is in an array's place)
    """The numbers of a link as an array, of whatever shape. Errors: AbwError."""
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError):
        message = f"link '{name}' is not an array of integers with rows of one length"
        raise AbwError(message, hint=_ROWS) from None


def _fields(
    columns: Mapping[str, Mapping[str, NDArray[Any]]], kinds: Mapping[str, _Kind], count: int
) -> tuple[dict[str, Ints], dict[str, Values], dict[str, list[str]], dict[str, FieldSchema]]:
    """The fields of all kinds together. Errors: AbwError."""
    names = dict.fromkeys(name for given in columns.values() for name in given if name != "instance")
    fields, values, vocabulary, schemas = {}, {}, {}, {}
    for name in names:
        have = [kind for kind, given in columns.items() if name in given]
        parts = [columns[kind][name] for kind in have]
        text = {part.dtype.kind in "UST" or part.dtype == object for part in parts}
        sizes = {part.shape[1] if part.ndim == 2 else 1 for part in parts}
        dimensions = {part.ndim for part in parts}
        several = any(len(found) > 1 for found in (text, sizes, dimensions))
        if several or max(dimensions) > (1 if True in text else 2) or 0 in sizes:
            given = zip(have, parts, strict=True)
            shown = ", ".join(f"{part.dtype} {list(part.shape)} of {kind}" for kind, part in given)
            raise AbwError(f"field '{name}' is not of one type and size: {shown}", hint=_SHAPES)
        position = np.concatenate([kinds[kind].position for kind in have])
        array = np.concatenate(parts)
        if text == {True}:
            words, number = np.unique(array.astype(str), return_inverse=True)
            vocabulary[name] = words.tolist()
            fields[name] = _spread(position, number, count)
            schemas[name] = FieldSchema(frozenset(have), True)
        elif (
            array.ndim == 1
            and array.dtype.kind in "iub"
            and _LARGEST >= array.max(initial=0) >= array.min(initial=0) >= 0
        ):
            fields[name] = _spread(position, array, count)
            schemas[name] = FieldSchema(frozenset(have))
        else:
            rows = _floats(name, array, have, columns)
            order = np.argsort(position, kind="stable") if len(have) > 1 else slice(None)
            values[name] = Values(position[order], rows[order])
            schemas[name] = FieldSchema(frozenset(have), False, f"{array.dtype}s", rows.shape[1])
    return fields, values, vocabulary, schemas


def _spread(position: Ints, numbers: NDArray[Any], count: int) -> Ints:
    field = np.full(count, -1, np.int32)
    field[position] = numbers
    return field


def _floats(
    name: str, array: NDArray[Any], have: Sequence[str], columns: Mapping[str, Mapping[str, NDArray[Any]]]
) -> NDArray[np.float32]:
    """An array as vectors of float32. Errors: AbwError for other types, and for what is not finite."""
    if array.dtype.kind not in "iubf":
        raise AbwError(f"field '{name}' is of type {array.dtype}", hint="floats, whole numbers or strings")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array.reshape(len(array), -1), np.float32)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        at = int(wrong[0])
        for kind in have:
            if at < len(columns[kind][name]):
                break
            at -= len(columns[kind][name])
        given = array.reshape(rows.shape)[wrong[0], int(np.isfinite(rows[wrong[0]]).argmin())]
        raise AbwError(
            f"field '{name}' of vertex {at} of kind '{kind}' is {given}",
            hint="numbers are finite and fit float32; np.nan_to_num replaces others",
        )
    return rows
