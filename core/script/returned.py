"""What programs return, written: as JSON lines whatever it is, as arrays where all return the like."""

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
from abw.core.store.arrays import ArrayFile, Sink
from abw.core.store.outputs import LineFile, Writer, add_whose, open_target, put_texts, put_whose

_AS_LINE = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
_LINES = "write JSON lines instead: --output FILE.jsonl"


@dataclass(frozen=True, slots=True)
class Row:
    """What came of an instance: its result, or what is wrong with it; `place` is where it stands."""

    name: str | int
    line: int
    place: str
    result: Any
    error: str = ""


@contextmanager
def open_rows(target: Path, named: bool) -> Iterator[Writer[Sequence[Row]]]:
    """A writer to a file by its suffix, or to standard output: see `abw.core.store.outputs.open_outputs`."""
    with open_target(target) as file:
        if isinstance(file, LineFile):
            yield Lines(file)
            return
        columns = Columns(file, named)
        yield columns
        columns.finish()


class Lines:
    """One JSON object a line, one line an instance; `outputs` is what its program returned."""

    def __init__(self, file: LineFile) -> None:
        self._file = file

    def write(self, rows: Sequence[Row]) -> None:
        """Write a line for each row."""
        self._file.write(b"".join(map(line_of, rows)))


def line_of(row: Row) -> bytes:
    """What came of an instance as a JSON line. Errors: AbwError for a result that JSON does not hold."""
    said: dict[str, Any] = {"id": row.name, "line": row.line, "outputs": row.result}
    if row.error:
        said["error"] = row.error
    try:
        return orjson.dumps(said, _plain, _AS_LINE)
    except (TypeError, RecursionError) as error:
        told = str(error).removeprefix("Type is not JSON serializable: ")
        message = f"{row.place}: what is returned cannot be written as JSON: {told}"
        hint = "numbers, texts, arrays, lists, tuples, dicts, sets and dataclasses can"
        raise AbwError(message, hint=hint) from None


def _plain(thing: Any) -> Any:  # noqa: ANN401
    """What orjson does not know, as what it does. Raises TypeError."""
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
    """What is returned as an array has: a text, or numbers of a shape; `several`: a list of these."""

    dtype: str
    shape: tuple[int, ...]
    several: bool

    def __str__(self) -> str:
        one = "a text" if self.dtype == "text" else f"{self.dtype} {list(self.shape) if self.shape else ''}"
        return f"a list of {one.strip()}" if self.several else one.strip()


class Columns:
    """The arrays of a file: those of what programs return, and whose each is."""

    def __init__(self, file: ArrayFile, named: bool) -> None:
        self._file, self._named, self._parts = file, named, Parts(file)
        add_whose(file, named)
        self.finish = self._parts.finish

    def write(self, rows: Sequence[Row]) -> None:
        """Append the rows to the arrays."""
        for row in rows:
            self._parts.add(row)
        lines = np.array([row.line for row in rows], np.int32)
        bad = [row.error != "" for row in rows]
        put_whose(self._file, self._named, lines, bad, [row.name for row in rows])


class Parts:
    """An array for each thing that programs return: see docs/programs.md, "On the command line".

    What these are, the first instance that returned something says; the elements of a list the first that is
    not empty.
    """

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._kinds: dict[str, Kind | None] | None = None
        self._missing = 0
        self._several: set[str] = set()

    def finish(self) -> None:
        """Arrays for lists that were always empty."""
        for name, kind in (self._kinds or {}).items():
            if kind is None:
                self._file.add(name, np.float32)

    def add(self, row: Row) -> None:
        """Append what an instance returned. Errors: AbwError."""
        if row.error:
            if self._kinds is None:
                self._missing += 1
            else:
                self._leave_out()
            return
        parts = _parts(row.result)
        if self._kinds is None:
            self._begin(parts, row.place)
        assert self._kinds is not None
        if parts.keys() != self._kinds.keys():
            was, now = (", ".join(names) for names in (self._kinds, parts))
            raise AbwError(f"{row.place}: {now} is returned, before it was {was}", hint=_LINES)
        for name, thing in parts.items():
            self._put(name, thing, row.place)

    def _begin(self, parts: Mapping[str, Any], place: str) -> None:
        self._kinds = {}
        for name, thing in parts.items():
            if name.startswith(("instance.", "__")) or name.endswith(".offsets"):
                hint = f"return it under another name; or {_LINES}"
                raise AbwError(f"{place}: '{name}' is the name of an array that abw makes", hint=hint)
            kind = _kind(thing, name, place)
            self._kinds[name] = kind
            if kind is None or kind.several:
                self._several.add(name)
                self._file.add(f"{name}.offsets", np.int64, ends=True)
            if kind is not None:
                self._open(name, kind)
        for _ in range(self._missing):
            self._leave_out()

    def _open(self, name: str, kind: Kind) -> None:
        if kind.dtype == "text":
            self._file.add(name, np.uint8)
            self._file.add(f"{name}.offsets", np.int64, ends=True)
        else:
            self._file.add(name, kind.dtype, kind.shape)

    def _put(self, name: str, thing: Any, place: str) -> None:  # noqa: ANN401
        assert self._kinds is not None
        now, was = _kind(thing, name, place), self._kinds[name]
        if was is None and now is not None and now.several:
            self._kinds[name] = was = now
            self._open(name, now)
        if now != was and not (now is None and name in self._several):
            message = f"{place}: {_called(name)} is {now or 'a list'}, before it was {was or 'a list'}"
            raise AbwError(message, hint=_LINES)
        if now is not None and now.dtype == "text":
            put_texts(self._file, name, [thing])
            return
        if name in self._several:
            self._file.append(f"{name}.offsets", np.array([len(thing)], np.int64))
        if now is not None:
            rows = np.asarray(thing, now.dtype) if now.several else np.asarray(thing, now.dtype)[None]
            self._file.append(name, rows)

    def _leave_out(self) -> None:
        """A row of an instance that was left out: no values, or one of NaN, -1, no text."""
        assert self._kinds is not None
        for name, kind in self._kinds.items():
            if kind is not None and kind.dtype == "text":
                put_texts(self._file, name, [""])
            elif kind is None or kind.several:
                self._file.append(f"{name}.offsets", np.zeros(1, np.int64))
            else:
                fill = {"f": np.nan, "i": -1, "b": False}[np.dtype(kind.dtype).kind]
                self._file.append(name, np.full((1, *kind.shape), fill, kind.dtype))


def _called(name: str) -> str:
    return "what is returned" if name == _WHOLE else f"'{name}'"


# What it is called where what is returned is one thing.
_WHOLE = "result"


def _parts(result: Any) -> dict[str, Any]:  # noqa: ANN401
    """What is returned by names: of a dict, a dataclass or a tuple its parts; else it is one thing."""
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


def _kind(thing: Any, name: str, place: str) -> Kind | None:  # noqa: ANN401
    """What a thing is; None for an empty list. Errors: AbwError for what arrays cannot hold."""
    if isinstance(thing, str):
        return Kind("text", (), False)
    several = isinstance(thing, list | tuple)
    if several and not len(thing):
        return None
    try:
        found = np.asarray(thing)
        if found.dtype.kind not in _KINDS:
            raise ValueError
    except ValueError:
        said = _called(name)
        message = f"{place}: {said} fits no array: {type(thing).__name__}"
        hint = f"arrays hold numbers, arrays, texts, and lists of numbers or of arrays of one shape; {_LINES}"
        raise AbwError(message, hint=hint) from None
    dtype = str(found.dtype) if found.dtype == np.float32 else _KINDS[found.dtype.kind]
    return Kind(dtype, found.shape[1:] if several else found.shape, several)
