"""What the data says of a mini-batch's vertices: words and other fields, whose they are, on which line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances
from abw.viz.data.pictures import listed

Ints = NDArray[np.int32]
# So many numbers of a vector are shown at most.
MOST = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a mini-batch comes from: instances `first` to `last` (exclusive) of these."""

    instances: Instances
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of V vertices: `of` (V,) is -1 where a vertex has none, else its number, or that of its word in
    `words`. Of vectors, `vertex` (m,) have the `rows` (m, size at most 8), `cut` where there is more of them.
    """

    name: str
    of: Ints | None
    words: tuple[str, ...] | None
    vertex: Ints | None = None
    rows: NDArray[np.float32] | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class VerticesPicture:
    """A mini-batch's V vertices: `kind` (V,) numbers into `kinds`.

    Of its N instances: `lines` (N,) of `source` on which each begins, `numbers` (N,) in the data from 0 on,
    `names` where the data has some.
    """

    kinds: tuple[str, ...]
    kind: NDArray[np.uint8]
    fields: tuple[FieldView, ...]
    source: str
    lines: Ints
    numbers: NDArray[np.int64]
    names: tuple[str | int, ...] | None


def vertices_picture(origin: Origin) -> VerticesPicture:
    """All that the data says of a mini-batch's vertices. O(vertices * fields)."""
    found, whose = origin.instances, slice(origin.first, origin.last)
    begin, end = (int(found.start[at]) for at in (origin.first, origin.last))
    fields = []
    for name, numbers in found.fields.items():
        part, words = numbers[begin:end], found.vocabulary.get(name)
        if words is None:
            fields.append(FieldView(name, part, None))
            continue
        used = np.unique(part[part >= 0])
        of = np.where(part < 0, -1, np.searchsorted(used, part)).astype(np.int32)
        fields.append(FieldView(name, of, tuple(str(words[i]) for i in used.tolist())))
    for name, values in found.values.items():
        low, high = np.searchsorted(values.vertex, (begin, end))
        rows = values.rows[low:high, :MOST]
        cut = values.rows.shape[1] > MOST
        fields.append(
            FieldView(name, None, None, (values.vertex[low:high] - begin).astype(np.int32), rows, cut)
        )
    return VerticesPicture(
        tuple(found.schema.kinds),
        found.kind[begin:end],
        tuple(
            field
            for field in fields
            if field.rows is not None or (field.of is not None and (field.of >= 0).any())
        ),
        str(found.source),
        found.lines[whose],
        found.numbers[whose],
        found.names[whose] if found.names else None,
    )


def vertices_document(picture: VerticesPicture) -> dict[str, Any]:
    """The vertices as the page's scripts read them."""
    return {
        "kinds": picture.kinds,
        "kind": picture.kind.tolist(),
        "fields": [_field(field) for field in picture.fields],
        "source": picture.source,
        **listed(lines=picture.lines, numbers=picture.numbers),
        "names": picture.names,
    }


def _field(field: FieldView) -> dict[str, Any]:
    if field.rows is None or field.vertex is None:
        of = field.of.tolist() if field.of is not None else []
        return {"name": field.name, "of": of, "words": field.words}
    rows = [[float(f"{value:.4g}") for value in row] for row in field.rows.tolist()]
    return {"name": field.name, "vertex": field.vertex.tolist(), "rows": rows, "cut": field.cut}
