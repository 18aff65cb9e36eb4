"""Finished instances as JSON lines: data that the format `json` reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.ir.model import Model
from abw.core.store.outputs import LINES, LineFile, emptied


class GrownWriter:
    """Writes instances with all that grew in them, one a line. Errors: AbwError for a row without a word.

    Vertices have their data's fields, grown fields and decisions: where a table with a vocabulary says what a
    number means, its word. Links that lead to an instance's own vertex are left out: the format makes them.
    """

    def __init__(self, file: LineFile, model: Model) -> None:
        self._file = file
        growth = model.growth
        assert growth is not None
        self._tables = model.tables
        self._rows: dict[tuple[str, str], int] = {}
        self._words: dict[tuple[str, str], dict[int, str]] = {}
        for kind in growth.kinds:
            for name, number in kind.fields.items():
                if number is not None and model.tables[number].vocab is not None:
                    self._rows[kind.name, name] = number
                    self._words[kind.name, name] = model.tables[number].words
            for decision in kind.decisions:
                if decision.names is not None and decision.allow is None:
                    for member in kind.kinds:
                        self._words[member, decision.name] = dict(enumerate(decision.names))

    def write(self, instances: Instances) -> None:
        """Append some instances."""
        kinds = [instances.schema.kinds[k] for k in instances.kind.tolist()]
        fields = {name: values.tolist() for name, values in instances.fields.items()}
        floats = {name: _floats(instances, name) for name in instances.values}
        own = instances.links.keys() - instances.schema.derived.keys()
        pairs = {name: _pairs(instances, name) for name in instances.links if name in own}
        lines = []
        for i, (first, last) in enumerate(zip(instances.start[:-1], instances.start[1:], strict=True)):
            begin, end = int(first) + 1, int(last)
            vertices = [self._vertex(instances, kinds[v], fields, v) for v in range(begin, end)]
            for name, held in floats.items():
                for v in range(begin, end):
                    if v in held:
                        vertices[v - begin][name] = held[v]
            links = {}
            for name, (source, target) in pairs.items():
                low, high = np.searchsorted(source, [begin - 1, end])
                if high > low:
                    edges = zip(
                        (source[low:high] - begin).tolist(), (target[low:high] - begin).tolist(), strict=True
                    )
                    links[name] = [b if a < 0 else (a, b) for a, b in edges]
            said: dict[str, Any] = {"vertices": vertices, "links": links}
            said["id"] = instances.names[i] if instances.names else int(instances.numbers[i])
            lines.append(orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE))
        self._file.write(b"".join(lines))

    def _vertex(
        self, instances: Instances, kind: str, fields: dict[str, list[int]], v: int
    ) -> dict[str, Any]:
        said: dict[str, Any] = {"kind": kind}
        for name, values in fields.items():
            if values[v] >= 0:
                words = self._words.get((kind, name))
                if name in instances.vocabulary:
                    said[name] = instances.vocabulary[name][values[v]]
                else:
                    said[name] = values[v] if words is None else self._word(kind, name, words, values[v])
        return said

    def _word(self, kind: str, name: str, words: dict[int, str], row: int) -> str:
        if row in words:
            return words[row]
        table = self._tables[self._rows[kind, name]]
        vocab = f" in {table.vocab.path.name}" if table.vocab else ""
        hint = f"it is {kind}.{name}: give the row a word that the file can have in its place"
        raise AbwError(
            f"row {row} of table {table.name} has no word{vocab}: --grown cannot say it", hint=hint
        )


def _floats(instances: Instances, name: str) -> dict[int, float | list[float]]:
    """A field of floats by vertex: a vector, or the one number."""
    values = instances.values[name]
    rows = values.rows.tolist()
    return {v: row if len(row) > 1 else row[0] for v, row in zip(values.vertex.tolist(), rows, strict=True)}


def _pairs(instances: Instances, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A link's edges in the order of their sources, without those that lead to instances' own vertices."""
    way = instances.links[name]
    if way.indptr is None:
        source = np.flatnonzero(way.target >= 0)
        target = way.target[source]
    else:
        source = np.repeat(np.arange(len(way.indptr) - 1), np.diff(way.indptr))
        target = way.target
    own = np.isin(target, instances.start[:-1])
    return source[~own], target[~own]


def require_lines(target: Path) -> None:
    """Raise AbwError for a file of grown instances that is not one of JSON lines."""
    if target.suffix not in LINES:
        hint = f"its suffix is {' or '.join(LINES)}: grown instances are data of the format json"
        raise AbwError(f"grown instances are not written to {target}", hint=hint, exit_code=2)


@contextmanager
def open_grown(target: Path | None, model: Model) -> Iterator[GrownWriter | None]:
    """A writer to a file of JSON lines; None where there is no file. Errors: AbwError."""
    if target is None:
        yield None
        return
    require_lines(target)
    with emptied(target) as file:
        yield GrownWriter(LineFile(file, str(target)), model)
