"""The outputs of a run, in the order of the input: JSON lines, or arrays in an .npz or .safetensors.

`docs/outputs.md` describes the formats.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.files import open_alone, writing
from abw.core.base.interrupts import finished_before_interrupt
from abw.core.data.read import Bad
from abw.core.ir.cell import Shape
from abw.core.ir.model import AS_IT_IS, Answer, Model
from abw.core.store.arrays import ArrayFile, HeldArrays, write_npz, write_safetensors

# The path that means standard output.
STDOUT = "-"
LINES = (".jsonl", ".ndjson")
_AS_LINE = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
ARRAYS = {".npz": write_npz, ".safetensors": write_safetensors}


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a model: its name, the shape of a value, and whether an instance has exactly one.

    The values of decisions and labels are whole numbers (`decided`), -1 where nothing was allowed or is
    known, for which JSON lines have null; `words` say what the others mean. `shares`: with probabilities.
    `numbers`: those of the fields beside its values that are whole numbers, which arrays have, too.
    """

    name: str
    shape: Shape
    single: bool
    decided: bool = False
    words: tuple[str, ...] | None = None
    shares: bool = False
    numbers: tuple[str, ...] = ()

    @property
    def dtype(self) -> type[np.float32 | np.int32]:
        """The type of its values."""
        return np.int32 if self.decided else np.float32

    def shown(self, column: Column, begin: int, end: int) -> Any:  # noqa: ANN401 (what JSON can hold)
        """Values `begin` to `end` of a column as JSON lines have them; the one value of a single one."""
        values = column.values[begin:end]
        found: Any = values
        if column.shares is not None:
            pairs = zip(values.tolist(), column.shares[begin:end], strict=True)
            found = [[[self._word(n), s] for n, s in zip(ns, shares, strict=True)] for ns, shares in pairs]
        elif self.decided and (self.words is not None or values.min(initial=0) < 0):
            found = [self._word(number) for number in values.tolist()]
        return found[0] if self.single else found

    def _word(self, number: int) -> str | int | None:
        if number < 0:
            return None
        return number if self.words is None else self.words[number]

    @property
    def arrays(self) -> Iterator[OutputArray]:
        """The arrays that hold it: its values, probabilities, whose they are, and fields."""
        yield OutputArray(self.name, self.dtype, self.shape, attrgetter("values"))
        if self.shares:
            yield OutputArray(f"{self.name}.probability", np.float32, self.shape, attrgetter("shares"))
        if not self.single:
            yield OutputArray(f"{self.name}.offsets", np.int64, (), attrgetter("counts"), ends=True)
            yield OutputArray(f"{self.name}.vertex", np.int32, (), attrgetter("vertex"))
        for name in self.numbers:
            yield OutputArray(f"{self.name}.fields.{name}", np.int32, (), partial(_field, name))

    @property
    def nothing(self) -> Column:
        """A column of no instances."""
        values = np.empty((0, *self.shape), self.dtype)
        shares = np.empty(values.shape, np.float32) if self.shares else None
        return Column(
            values, np.empty(0, np.int64), np.empty(0, np.int32), shares, {name: [] for name in self.numbers}
        )


@dataclass(frozen=True, slots=True)
class Column:
    """An output of n instances: `values` (m, *shape), of which instance i has `counts[i]` (n,), in order.

    `vertex` (m,) are their vertices, numbered within their instance as in the data: 0 is the first behind
    the instance's own, which is -1. `shares` (m, top) are labels' probabilities; `fields` those of the
    vertices, each as long. `lost`: of the values behind labels so many were no numbers.
    """

    values: NDArray[np.float32 | np.int32]
    counts: NDArray[np.int64]
    vertex: NDArray[np.int32]
    shares: NDArray[np.float32] | None = None
    fields: Mapping[str, list[Any]] = field(default_factory=dict)
    lost: int = 0


# Values `begin` to `end` of a column.
Part = tuple[Column, int, int]


@dataclass(frozen=True, slots=True)
class OutputArray:
    """An array of an output; `of` takes it from a column, fields as lists. `ends`: of counts, their sums."""

    name: str
    dtype: type[np.generic]
    shape: Shape
    of: Callable[[Column], Any]
    ends: bool = False


def _field(name: str, column: Column) -> list[Any]:
    return column.fields[name]


@dataclass(frozen=True, slots=True)
class Rows:
    """What n instances that follow each other gave: a column for each output of the model.

    `ids` are theirs in the data, else their numbers; `lines` those on which they begin; `errors` is what is
    wrong with an instance that was left out, '' for the others.
    """

    ids: tuple[str | int, ...]
    lines: NDArray[np.int32]
    columns: tuple[Column, ...]
    errors: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


def outputs_of(model: Model) -> tuple[Output, ...]:
    """The outputs that a model names. One of a single type `per: instance` has one value an instance."""
    outputs = []
    for name, producers in model.outputs:
        types = [model.types[t] for t, _ in producers]
        single = len(types) == 1 and types[0].kinds == {"instance"} and not types[0].where
        answer = model.answers.get(name, AS_IT_IS)
        shape = types[0].outputs[producers[0][1]].shape
        if answer.form == "label":
            shape = (answer.top,) if answer.top else ()
        label = answer.form == "label"
        numbers = _numbers(model, answer)
        outputs.append(Output(name, shape, single, label, answer.names, answer.top > 0, numbers))
    for d in model.growth.outputs if model.growth else ():
        numbers = _numbers(model, model.answers.get(d.name, AS_IT_IS))
        outputs.append(Output(d.name, (), False, True, d.decision.names, False, numbers))
    return tuple(outputs)


def _numbers(model: Model, answer: Answer) -> tuple[str, ...]:
    """The fields beside an output that are neither words nor floats."""
    fields = model.schema.fields
    return tuple(n for n in answer.fields if n not in fields or not (fields[n].text or fields[n].size))


def with_bad(rows: Rows, bad: Sequence[Bad], first: int, outputs: Sequence[Output]) -> Rows:
    """The rows with those left out between them, by line; instances without an id get their number.

    `bad` are in the order of their lines; `first` is the number of the first row then.
    """
    if not bad:
        return replace(rows, ids=_numbered(rows.ids, first))
    place = np.searchsorted(rows.lines, [b.line for b in bad])
    ids, errors = list(rows.ids), list(rows.errors)
    for b, at in reversed(list(zip(bad, place.tolist(), strict=True))):
        ids.insert(at, b.name)
        errors.insert(at, b.message)
    lines = np.insert(rows.lines, place, [b.line for b in bad])
    columns = tuple(replace(c, counts=np.insert(c.counts, place, 0)) for c in rows.columns)
    return Rows(_numbered(ids, first), lines, columns, tuple(errors))


def _numbered(ids: Iterable[str | int], first: int) -> tuple[str | int, ...]:
    return tuple([name if name != "" else number for number, name in enumerate(ids, first)])


class LineFile:
    """An open file that takes whole lines; `name` is what errors call it."""

    def __init__(self, file: int, name: str) -> None:
        self._file = file
        self._name = name

    def write(self, lines: bytes) -> None:
        """Write lines, all of them. Errors: BrokenPipeError where nobody reads any more, AbwError.

        Where a disk is full, the lines that still fit are kept, and no part of one.
        """
        with finished_before_interrupt(), writing(self._name):
            left = memoryview(lines)
            try:
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                written = len(lines) - len(left)
                self._take_back(written - (lines.rfind(b"\n", 0, written) + 1))
                raise

    def _take_back(self, count: int) -> None:
        """Cut off the last bytes written, where they still are the file's last."""
        with suppress(OSError):
            end = os.lseek(self._file, 0, os.SEEK_CUR)
            about = os.fstat(self._file)
            if count and stat.S_ISREG(about.st_mode) and about.st_size == end:
                os.ftruncate(self._file, end - count)


R = TypeVar("R", contravariant=True)


class Writer(Protocol[R]):
    """Takes rows, mini-batch by mini-batch."""

    def write(self, rows: R, /) -> None:
        """Write what follows. Errors: AbwError for what cannot be written so."""


@contextmanager
def open_outputs(target: Path, outputs: Sequence[Output], named: bool) -> Iterator[Writer[Rows]]:
    """A writer to a file by its suffix, or to standard output; `named`: instances have ids that are texts.

    Lines are written as they come. Arrays lie in unnamed temporary files until the end: the file appears
    whole, or not at all where the block ends with an error. Errors: AbwError for a suffix that none of the
    formats has, where the file cannot be written or another process writes it; BrokenPipeError where nobody
    reads any more.
    """
    with open_target(target) as file:
        yield _Lines(file, outputs) if isinstance(file, LineFile) else _Arrays(file, outputs, named)


@contextmanager
def open_target(target: Path) -> Iterator[LineFile | ArrayFile]:
    """Open the file that outputs are written to, by its suffix. Errors: as `open_outputs`."""
    require_suffix(target)
    if target.is_dir():  # said now, not when all is done
        raise AbwError(f"cannot write {target}: Is a directory")
    if str(target) == STDOUT:
        if sys.stdout is None:
            raise AbwError("cannot write standard output: it is closed")
        sys.stdout.flush()
        yield LineFile(1, "standard output")
    elif target.suffix in LINES:
        with emptied(target) as file:
            yield LineFile(file, str(target))
    else:
        with ArrayFile(target, ARRAYS[target.suffix]) as arrays:
            yield arrays


@contextmanager
def emptied(target: Path) -> Iterator[int]:
    """A file to write from its beginning, which no other process does at the same time. Errors: AbwError."""
    with writing(target):
        if target.exists() and not target.is_file():  # a pipe, or a device
            file = os.open(target, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        else:
            file = open_alone(Path(os.path.realpath(target)), wait=False, named=target)
            os.ftruncate(file, 0)
    try:
        yield file
    finally:
        os.close(file)


def writes_lines(target: Path) -> bool:
    """Whether outputs are written there as JSON lines."""
    return str(target) == STDOUT or target.suffix in LINES


def require_suffix(target: Path) -> None:
    """Raise AbwError for a file of outputs whose suffix says no format."""
    if not writes_lines(target) and target.suffix not in ARRAYS:
        hint = f"its extension sets the format: {', '.join((*LINES, *ARRAYS))}; - is standard output"
        raise AbwError(f"no format of outputs is written to {target}", hint=hint, exit_code=2)


class _Lines:
    """One JSON object a line, one line an instance."""

    def __init__(self, file: LineFile, outputs: Sequence[Output]) -> None:
        self._file = file
        self._outputs = outputs

    def write(self, rows: Rows) -> None:
        """Write a line for each row."""
        each = zip(rows.ids, rows.lines.tolist(), parts_of(rows.columns, len(rows)), rows.errors, strict=True)
        lines = (line_of(name, line, self._outputs, parts, error) for name, line, parts, error in each)
        self._file.write(b"".join(lines))


def parts_of(columns: Sequence[Column], count: int) -> Iterator[tuple[Part, ...]]:
    """The parts of columns that each of `count` instances has."""
    ends = [[0, *np.cumsum(column.counts).tolist()] for column in columns]
    for i in range(count):
        yield tuple([(column, end[i], end[i + 1]) for column, end in zip(columns, ends, strict=True)])


def line_of(
    name: str | int,
    line: int,
    outputs: Sequence[Output],
    parts: Iterable[Part],
    error: object = None,
) -> bytes:
    """Make the JSON line of an instance: values `begin` to `end` of each output's column, or an error."""
    said: dict[str, Any] = {"id": name, "line": line, "outputs": None}
    if error:
        said["error"] = error
    else:
        found = list(zip(outputs, parts, strict=True))
        said["outputs"] = {o.name: o.shown(*part) for o, part in found}
        if any(column.fields for _, (column, _, _) in found):
            said["fields"] = {
                o.name: {
                    name: values[begin] if o.single else values[begin:end]
                    for name, values in column.fields.items()
                }
                for o, (column, begin, end) in found
                if column.fields
            }
    return orjson.dumps(said, option=_AS_LINE)


class _Arrays:
    """All values one after the other, with the offsets of the instances."""

    def __init__(self, file: ArrayFile, outputs: Sequence[Output], named: bool) -> None:
        self._file = file
        self._outputs = outputs
        self._named = named
        for output in outputs:
            for array in output.arrays:
                file.add(array.name, array.dtype, array.shape, ends=array.ends)
        add_instance_arrays(file, named)

    def write(self, rows: Rows) -> None:
        """Append the rows to the arrays."""
        for output, column in zip(self._outputs, rows.columns, strict=True):
            for array in output.arrays:
                values = array.of(column)
                if isinstance(values, list):
                    values = whole_numbers(values)
                self._file.append(array.name, _whole(output, column, values))
        put_instances(self._file, self._named, rows.lines, [error != "" for error in rows.errors], rows.ids)


def whole_numbers(values: Iterable[int | None]) -> NDArray[np.int32]:
    """A field of whole numbers as an array, -1 for none."""
    return np.array([-1 if value is None else value for value in values], np.int32)


def add_instance_arrays(file: ArrayFile, named: bool) -> None:
    """The arrays that say of each instance on which line it is, whether it was left out, and its id: a text
    where they are `named`.
    """
    file.add("instance.line", np.int32)
    file.add("instance.bad", np.bool_)
    file.add("instance.id", np.uint8 if named else np.int64)
    if named:
        file.add("instance.id.offsets", np.int64, ends=True)


def put_instances(
    file: ArrayFile, named: bool, lines: NDArray[np.int32], bad: Sequence[bool], ids: Sequence[str | int]
) -> None:
    """Append instances to these arrays. Errors: AbwError."""
    file.append("instance.line", lines)
    file.append("instance.bad", np.array(bad, np.bool_))
    if named:
        put_texts(file, "instance.id", map(str, ids))
    else:
        file.append("instance.id", np.array(ids, np.int64))


def put_texts(file: HeldArrays, name: str, texts: Iterable[str]) -> None:
    """Append texts to an array of UTF-8 bytes and to that of its offsets. Errors: AbwError."""
    written = [text.encode() for text in texts]
    file.append(name, np.frombuffer(b"".join(written), np.uint8))
    file.append(f"{name}.offsets", np.array([len(text) for text in written], np.int64))


def _whole(output: Output, column: Column, values: NDArray[Any]) -> NDArray[Any]:
    """Values as arrays have them: of a single output one an instance, NaN or -1 for those left out."""
    if not output.single:
        return values
    missing = np.nan if values.dtype == np.float32 else -1
    found = np.full((len(column.counts), *values.shape[1:]), missing, values.dtype)
    found[column.counts > 0] = values
    return found
