"""The outputs of a model for some instances: values, any number of them an instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, InstanceError, number_of
from abw.core.data.read import Piece
from abw.core.store.outputs import Column, Output

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, repr=False)
class Ragged(Sequence[Floats]):
    """An output of n instances: instance i has `values[offsets[i]:offsets[i + 1]]` of `values` (m, *shape).

    As a sequence it has an array for each instance. An instance's values are in the order of its vertices in
    the data; `vertex` (m,) are their numbers there, -1 for the instance's own. For outputs of labels (m,), or
    the `top` ones (m, top), `names` are the labels' names if the spec has them, and `probability` their
    probabilities. `fields` are the fields of vertices that the spec asks for, each a list of m, None if
    absent.
    """

    values: Floats
    offsets: NDArray[np.int64]
    vertex: NDArray[np.int32]
    names: tuple[str, ...] | None = None
    probability: Floats | None = None
    fields: Mapping[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401 (an array, or for a slice a list of them)
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        at = range(len(self))[key]
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    def __repr__(self) -> str:
        shape = ", ".join(map(str, ("m", *self.values.shape[1:])))
        size = f"{number_of(len(self.values), 'value')} of {number_of(len(self), 'instance')}"
        return f"Ragged: {size}, each ({shape})"


class Outputs(Mapping[str, Ragged]):
    """A model's outputs for some instances, by the names in its spec's `outputs`.

    `errors`, if asked for, are by number the errors of instances that have no values.
    """

    def __init__(self, columns: Mapping[str, Ragged], errors: Mapping[int, AbwError] | None = None) -> None:
        self._columns = dict(columns)
        self.errors = dict(errors or {})

    def __getitem__(self, name: str) -> Ragged:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        wrong = [f"errors: {number_of(len(self.errors), 'instance')}"] if self.errors else []
        return "\n".join([*(f"{name}: {column!r}" for name, column in self.items()), *wrong])


# What a piece's instances gave, from which one to before which: a column for each output.
Given = Iterable[tuple[int, int, tuple[Column, ...]]]


def gathered(
    outputs: Sequence[Output], pieces: Iterable[tuple[Piece, Given, Sequence[InstanceError]]]
) -> Outputs:
    """The outputs of pieces one behind the other.

    With each comes, known once all that it gave is taken, which instances the model could not be run on.
    """
    parts: list[list[Column]] = [[] for _ in outputs]
    place: list[tuple[int, NDArray[np.integer[Any]]]] = []
    wrong: dict[int, AbwError] = {}
    count = 0
    for piece, given, left in pieces:
        wrong |= {count + at: error for at, error in piece.errors.items()}
        for first, last, columns in given:
            place.append((count, piece.place[first:last]))
            for part, column in zip(parts, columns, strict=True):
                part.append(column)
        wrong |= {count + int(piece.place[error.instance]): error for error in left}
        count += piece.count
    named = {o.name: joined(o, part, place, count) for o, part in zip(outputs, parts, strict=True)}
    return Outputs(named, dict(sorted(wrong.items())))


def joined(
    output: Output, parts: Sequence[Column], place: Sequence[tuple[int, NDArray[np.integer[Any]]]], count: int
) -> Ragged:
    """Mini-batches' values one after the other, of `count` instances.

    `place` says of each mini-batch where its instances are: so many behind the first.
    """
    if not parts:
        parts = [output.nothing]
    offsets = np.zeros(count + 1, np.int64)
    each = _together([part.counts for part in parts])
    if len(each) == count:
        each.cumsum(out=offsets[1:])
    elif place:
        offsets[1 + np.concatenate([first + behind for first, behind in place])] = each
        offsets.cumsum(out=offsets)
    return Ragged(
        _together([part.values for part in parts]),
        offsets,
        _together([part.vertex for part in parts]),
        output.words,
        _together([part.shares for part in parts if part.shares is not None]) if output.shares else None,
        {name: [v for part in parts for v in part.fields[name]] for name in parts[0].fields},
    )


def _together(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
