"""Fields of vertices as arrays in a second file: `graphs.jsonl` and `graphs.npz`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances, Values
from abw.core.data.tensors import read_tensors
from abw.core.ir.schema import FieldSchema

_FORM = "arrays are called KIND.FIELD, atom.position: a number or a vector a vertex of that kind, in order"


@dataclass(slots=True)
class Sidecar:
    """The arrays `rows[field][kind]` (n, size) of a file; of each kind so many rows are `used`."""

    path: Path
    rows: Mapping[str, Mapping[str, NDArray[Any]]]
    used: Counter[str] = field(default_factory=Counter)

    @property
    def fields(self) -> dict[str, FieldSchema]:
        """The schemas of the arrays, by name."""
        return {
            name: FieldSchema(frozenset(rows), False, f"floats in {self.path.name}", _size(rows))
            for name, rows in self.rows.items()
        }

    def refuse_others(self, counts: Mapping[str, int]) -> None:
        """Raise AbwError unless there is a row for each of a whole file's vertices, of which `counts` are."""
        for name, rows in self.rows.items():
            for kind, array in rows.items():
                if len(array) != counts.get(kind, 0):
                    message = f"{self.path}: {kind}.{name} has {len(array)} rows, and the data"
                    raise AbwError(f"{message} {counts.get(kind, 0)} vertices of kind '{kind}'", hint=_FORM)

    def skip(self, counts: Mapping[str, int]) -> None:
        """Pass over the rows of vertices that are not wanted."""
        self.used.update(counts)

    def give(self, instances: Instances) -> Instances:
        """The instances, which come next in their file, with the fields of their vertices.

        Errors: AbwError where rows are missing, or a number is not finite.
        """
        vertices = {
            name: np.flatnonzero(instances.kind == k).astype(np.int32)
            for k, name in enumerate(instances.schema.kinds)
        }
        values = dict(instances.values)
        for name, rows in self.rows.items():
            if name in values and len(values[name].vertex):
                raise AbwError(
                    f"field '{name}' is on the lines of the data and in {self.path}", hint="one of them"
                )
            parts = [
                self._part(instances, name, kind, vertices.get(kind, np.empty(0, np.int32))) for kind in rows
            ]
            vertex = np.concatenate([part.vertex for part in parts])
            order = np.argsort(vertex, kind="stable")
            values[name] = Values(vertex[order], np.concatenate([part.rows for part in parts])[order])
        self.used.update({name: len(here) for name, here in vertices.items()})
        return replace(instances, values=values)

    def _part(self, instances: Instances, name: str, kind: str, vertex: NDArray[np.int32]) -> Values:
        first = self.used[kind]
        rows = self.rows[name][kind][first : first + len(vertex)]
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(wrong) or len(rows) < len(vertex):
            at = int(wrong[0]) if len(wrong) else len(rows)
            instance = int(np.searchsorted(instances.start, vertex[at], "right")) - 1
            place = f"{instances.source}:{int(instances.lines[instance])}"
            what = "is not finite" if len(wrong) else "is missing"
            raise AbwError(f"row {first + at} of {kind}.{name} in {self.path} {what} ({place})", hint=_FORM)
        return Values(vertex, rows)


def open_sidecar(data: Path, suffix: str) -> Sidecar:
    """Read the arrays of a data file's second file. Errors: AbwError. Memory: all of them, as float32."""
    path = data.with_suffix(suffix)
    rows: dict[str, dict[str, NDArray[Any]]] = {}
    for name, stored in read_tensors(path).tensors.items():
        kind, _, called = name.rpartition(".")
        array = stored.read()
        if not kind or array.ndim not in (1, 2) or array.dtype.kind not in "iubf" or 0 in array.shape[1:]:
            raise AbwError(f"{path}: '{name}' is {array.dtype} {list(array.shape)}", hint=_FORM)
        with np.errstate(over="ignore"):
            rows.setdefault(called, {})[kind] = array.reshape(len(array), -1).astype(np.float32)
    for called, parts in rows.items():
        if len({part.shape[1] for part in parts.values()}) > 1:
            shown = ", ".join(f"{part.shape[1]} of {kind}" for kind, part in parts.items())
            raise AbwError(f"{path}: field '{called}' has several sizes: {shown}", hint="one field, one size")
    return Sidecar(path, rows)


def _size(rows: Mapping[str, NDArray[Any]]) -> int:
    return int(next(iter(rows.values())).shape[1])
