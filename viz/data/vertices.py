"""What the data says of a mini-batch's vertices: words and other fields, their instances and lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abw.core.data.instances import Instances
from abw.viz.data.pictures import listed

# So many numbers of a vector are shown at most.
MOST = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a mini-batch comes from: instances `first` to `last` (exclusive) of these."""

    instances: Instances
    first: int
    last: int


def vertices_document(origin: Origin) -> dict[str, Any]:
    """What the data says of a mini-batch's V vertices and N instances, as the page's scripts read it.

    `kind` (V,) numbers into `kinds`; `lines` (N,) of `source` on which instances begin, their `numbers` (N,)
    in the data, `names` where the data has some. Of fields `of` (V,) is -1 where a vertex has none, else its
    number, or that of its word in `words`; of vectors `vertex` (m,) have the `rows` (m, at most 8), `cut`
    where there is more of them. O(vertices * fields).
    """
    found, inside = origin.instances, slice(origin.first, origin.last)
    begin, end = (int(found.start[at]) for at in (origin.first, origin.last))
    fields: list[dict[str, Any]] = []
    for name, numbers in found.fields.items():
        of, words = numbers[begin:end], found.vocabulary.get(name)
        if not (of >= 0).any():
            continue
        said = None
        if words is not None:
            used = np.unique(of[of >= 0])
            of = np.where(of < 0, -1, np.searchsorted(used, of))
            said = [str(words[i]) for i in used.tolist()]
        fields.append({"name": name, "of": of.tolist(), "words": said})
    for name, values in found.values.items():
        low, high = np.searchsorted(values.vertex, (begin, end))
        rows = [[float(f"{value:.4g}") for value in row] for row in values.rows[low:high, :MOST].tolist()]
        vertex, cut = (values.vertex[low:high] - begin).tolist(), values.rows.shape[1] > MOST
        fields.append({"name": name, "vertex": vertex, "rows": rows, "cut": cut})
    return {
        "kinds": found.schema.kinds,
        "kind": found.kind[begin:end].tolist(),
        "fields": fields,
        "source": str(found.source),
        **listed(lines=found.lines[inside], numbers=found.numbers[inside]),
        "names": found.names[inside] if found.names else None,
    }
