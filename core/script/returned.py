"""Writes what programs return: as JSON lines, or as arrays where all return the same kinds of things."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from abw.core.base.errors import AbwError
from abw.core.store.arrays import ArrayFile, HeldArrays
from abw.core.store.outputs import (
    LineFile,
    Writer,
    add_instance_arrays,
    open_target,
    put_instances,
    put_texts,
)

_AS_LINE = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
_LINES = "write JSON lines instead: --output FILE.jsonl"


@dataclass(frozen=True, slots=True)
class Row:
    """What came of an instance, which stands at `location`: its result, or what is wrong with it."""

    name: str | int
    line: int
    location: str
    result: Any
    error: str = ""


@contextmanager
def open_rows(target: Path, named: bool) -> Iterator[Writer[Sequence[Row]]]:
    """A writer to a file by its suffix, or to standard output: see `abw.core.store.outputs.open_outputs`."""
    with open_target(target) as file:
        if isinstance(file, LineFile):
            yield LineRows(file)
            return
        arrays = ArrayRows(file, named)
        yield arrays
        arrays.returned.finish()


class LineRows:
    """Writes one JSON object a line, one line an instance; `outputs` is what its program returned."""

    def __init__(self, file: LineFile) -> None:
        self._file = file

    def write(self, rows: Sequence[Row]) -> None:
        """Write a line for each row."""
        self._file.write(b"".join(map(line_of, rows)))


class ArrayRows:
    """Writes arrays of what programs return, and which instance each row belongs to."""

    def __init__(self, file: ArrayFile, named: bool) -> None:
        self._file, self._named, self.returned = file, named, ReturnedArrays(file)
        add_instance_arrays(file, named)

    def write(self, rows: Sequence[Row]) -> None:
        """Append the rows to the arrays."""
        for row in rows:
            self.returned.add(row)
        lines = np.array([row.line for row in rows], np.int32)
        bad = [row.error != "" for row in rows]
        put_instances(self._file, self._named, lines, bad, [row.name for row in rows])


def line_of(row: Row) -> bytes:
    """What came of an instance as a JSON line. Errors: AbwError for a result that JSON cannot hold."""
    said: dict[str, Any] = {"id": row.name, "line": row.line, "outputs": row.result}
    if row.error:
        said["error"] = row.error
    try:
        return orjson.dumps(said, _plain, _AS_LINE)
    except (TypeError, RecursionError) as error:
        told = str(error).removeprefix("Type is not JSON serializable: ")
        message = f"{row.location}: the returned value cannot be written as JSON: {told}"
        hint = "numbers, texts, arrays, lists, tuples, dicts, sets and dataclasses can"
        raise AbwError(message, hint=hint) from None


def _plain(thing: Any) -> Any:  # noqa: ANN401
    """Convert what orjson does not know to what it does. Raises TypeError."""
    if isinstance(thing, tuple) and hasattr(thing, "_asdict"):
        return thing._asdict()
    if isinstance(thing, tuple | deque):
        return list(thing)
    if isinstance(thing, set | frozenset):
        return sorted(thing)
    if isinstance(thing, np.ndarray | np.generic):
        return thing.tolist()
    if isinstance(thing, Mapping):
        return dict(thing)
    raise TypeError(type(thing).__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """What an array holds: texts, or numbers of a shape; `several`: lists of these, one an instance.

    Of lists that were all empty so far `dtype` is ''.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    several: bool = False

    def __str__(self) -> str:
        if not self.dtype:
            return "a list"
        one = "a text" if self.dtype == "text" else f"{self.dtype} {list(self.shape) if self.shape else ''}"
        return f"a list of {one.strip()}" if self.several else one.strip()


class ReturnedArrays:
    """An array for each thing that programs return: see docs/programs.md, "On the command line".

    What these are, the first instance that returned something says; the elements of a list the first that is
    not empty.
    """

    def __init__(self, file: HeldArrays) -> None:
        self._file = file
        self._kinds: dict[str, Kind] = {}
        self._begun = False
        self._missing = 0  # instances left out before any returned something

    def finish(self) -> None:
        """Add arrays for lists that were always empty."""
        for name, kind in self._kinds.items():
            if not kind.dtype:
                self._file.add(name, np.float32)

    def add(self, row: Row) -> None:
        """Append what an instance returned. Errors: AbwError."""
        if row.error:
            self._missing += 1
            self._leave_out()
            return
        parts = _parts(row.result)
        if not self._begun:
            self._begun = True
            for name, thing in parts.items():
                self._begin(name, thing, row.location)
            for _ in range(self._missing):
                self._leave_out()
        if parts.keys() != self._kinds.keys():
            was, now = (", ".join(names) for names in (self._kinds, parts))
            raise AbwError(f"{row.location}: {now} is returned, before it was {was}", hint=_LINES)
        for name, thing in parts.items():
            self._put(name, thing, row.location)

    def _begin(self, name: str, thing: Any, location: str) -> None:  # noqa: ANN401
        if name.startswith(("instance.", "__")) or name.endswith(".offsets"):
            hint = f"return it under another name; or {_LINES}"
            raise AbwError(f"{location}: '{name}' is the name of an array that abw makes", hint=hint)
        kind = _kind(thing, name, location)
        if kind.several:
            self._file.add(f"{name}.offsets", np.int64, ends=True)
        self._open(name, kind)

    def _open(self, name: str, kind: Kind) -> None:
        self._kinds[name] = kind
        if kind.dtype == "text":
            self._file.add(name, np.uint8)
            self._file.add(f"{name}.offsets", np.int64, ends=True)
        elif kind.dtype:
            self._file.add(name, kind.dtype, kind.shape)

    def _put(self, name: str, thing: Any, location: str) -> None:  # noqa: ANN401
        now, was = _kind(thing, name, location), self._kinds[name]
        if now.several and was.several and not was.dtype:
            self._open(name, now)
        elif now != was and (now.dtype or not was.several):
            raise AbwError(f"{location}: {_called(name)} is {now}, before it was {was}", hint=_LINES)
        if now.dtype == "text":
            put_texts(self._file, name, [thing])
            return
        if now.several:
            self._file.append(f"{name}.offsets", np.array([len(thing)], np.int64))
        if now.dtype:
            rows = np.asarray(thing, now.dtype)
            self._file.append(name, rows if now.several else rows[None])

    def _leave_out(self) -> None:
        """Append a row of an instance that was left out: an empty list, or NaN, -1, or an empty text."""
        for name, kind in self._kinds.items():
            if kind.dtype == "text":
                put_texts(self._file, name, [""])
            elif kind.several:
                self._file.append(f"{name}.offsets", np.zeros(1, np.int64))
            else:
                fill = {"f": np.nan, "i": -1, "b": False}[np.dtype(kind.dtype).kind]
                self._file.append(name, np.full((1, *kind.shape), fill, kind.dtype))


def _called(name: str) -> str:
    return "the returned value" if name == _WHOLE else f"'{name}'"


# What it is called where what is returned is one thing.
_WHOLE = "result"


def _parts(result: Any) -> dict[str, Any]:  # noqa: ANN401
    """Name the parts of a dict, a dataclass or a tuple that is returned; anything else is one part."""
    if is_dataclass(result) and not isinstance(result, type):
        return {field.name: getattr(result, field.name) for field in fields(result)}
    if isinstance(result, tuple) and hasattr(result, "_asdict"):
        return dict(result._asdict())
    if isinstance(result, dict) and all(isinstance(key, str) for key in result):
        return result
    if isinstance(result, tuple):
        return {str(number): part for number, part in enumerate(result)}
    return {_WHOLE: result}


_KINDS = {"f": "float64", "i": "int64", "u": "int64", "b": "bool"}


def _kind(thing: Any, name: str, location: str) -> Kind:  # noqa: ANN401
    """What array holds a thing. Errors: AbwError where none can."""
    if isinstance(thing, str):
        return Kind("text")
    several = isinstance(thing, list | tuple)
    if several and not len(thing):
        return Kind("", several=True)
    try:
        found = np.asarray(thing)
        if found.dtype.kind not in _KINDS:
            raise ValueError
    except ValueError:
        said = _called(name)
        message = f"{location}: {said} fits no array: {type(thing).__name__}"
        hint = f"arrays hold numbers, arrays, texts, and lists of numbers or of arrays of one shape; {_LINES}"
        raise AbwError(message, hint=hint) from None
    dtype = str(found.dtype) if found.dtype == np.float32 else _KINDS[found.dtype.kind]
    return Kind(dtype, found.shape[1:] if several else found.shape, several)
