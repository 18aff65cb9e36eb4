"""Replies to requests: a JSON line for each instance, or tensors by KServe's protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, SpecError, printable
from abw.core.serve.requests import LINES, Request
from abw.core.store.outputs import Output, OutputArray, whole_numbers
from abw.core.store.outputs import line_of as written


@dataclass(slots=True)
class Answer:
    """The answer of one instance: its result, or the error.

    `given`: for a model, a part of a column for each output; for a program, what it returned. `where`: the
    line of a program that raised ('': unknown); `status`: of HTTP.
    """

    name: str | int
    given: Any = ()
    error: AbwError | None = None
    where: str | None = None
    status: int = 422


@dataclass(slots=True)
class Reply:
    """A reply: HTTP status, body, and the bytes of JSON at its beginning if more follows."""

    status: int
    body: bytes
    json_bytes: int = 0


def as_lines(
    answers: Sequence[Answer], lines: Sequence[int], line_of: Callable[[Answer, int], bytes]
) -> Reply:
    """Write a JSON line for each instance (docs/outputs.md); `lines` are those on which the instances begin.

    If `line_of` cannot write an answer, its line is an error. If all are errors, the status is theirs.
    """
    said, good, status = [], False, 0
    for answer, line in zip(answers, lines, strict=True):
        error = answer.error
        if error is None:
            try:
                said.append(line_of(answer, line))
                good = True
                continue
            except AbwError as unwritten:
                error = unwritten
        status = max(status, answer.status)
        wrong = told(error, line) | ({} if answer.where is None else {"where": answer.where or None})
        said.append(written(answer.name, line, (), (), wrong))
    return Reply(200 if good else status, b"".join(said))


def told(error: AbwError, line: int) -> dict[str, Any]:
    """Describe the error of an instance that begins on a line of the request: message, place and remedy."""
    problem = error.problems[0] if isinstance(error, SpecError) and error.problems else None
    where = problem.where if problem else None
    # a place in the spec, which the client does not have, is no place in the request
    inside = where is not None and where.file.startswith("instance ")
    return {
        "message": printable(problem.message if problem else error.message),
        "line": line + where.line - 1 if where and inside else line,
        "column": where.column if where and inside else None,
        "text": where.text[:200] if where and inside else None,
        "hint": printable(problem.hint if problem else error.hint) or None,
    }


def as_tensors(
    answers: Sequence[Answer],
    asked: Mapping[str, Any],
    tensors: Callable[[Sequence[Answer], int], Mapping[str, NDArray[Any]]],
    first: int = 0,
) -> Reply:
    """Write the tensors of all instances together, or 422 if one of them is wrong.

    `asked`: the `model`'s name; the request's `id`; `outputs`: names of the requested ones (none: all), each
    with whether it is sent as bytes; `binary`: the same for outputs that are not named. `first`: the
    number of the first instance.
    """
    for number, answer in enumerate(answers, first):
        if answer.error is not None:
            return refused(number, told(answer.error, number), answer.status)
    try:
        found = tensors(answers, first)
    except AbwError as error:
        return _unlike(error.message)
    return tensors_said(found, asked)


def joined(parts: Mapping[int, Reply], request: Request) -> Reply:
    """Join the replies to the pieces of a request; `parts`: by their first instances, in order."""
    replies = list(parts.values())
    if request.form == LINES:
        status = min((each.status for each in replies), key=lambda status: (status != 200, -status))
        return Reply(status, b"".join(each.body for each in replies))
    if failed := next((each for each in replies if each.status != 200), None):
        return failed
    pieces = {first: _read_tensors(reply) for first, reply in parts.items()}
    found = {}
    for name in (names := pieces[0].keys()):
        values: list[NDArray[Any]] = []
        for first, tensors in pieces.items():
            if tensors.keys() != names:
                now, was = ", ".join(tensors), ", ".join(names)
                return _unlike(f"instance {first}: {now} is returned, before it was {was}")
            piece = tensors[name]
            if values and _ends(name, piece):
                piece = piece[1:] + values[-1][-1]
            elif len(piece) and values and (now := _kind(piece)) != (was := _kind(values[0])):
                return _unlike(f"instance {first}: '{name}' is {now}, before it was {was}")
            if len(piece):
                values.append(piece)
        found[name] = np.concatenate(values or [pieces[0][name]])
    return tensors_said(found, request.asked)


def _read_tensors(reply: Reply) -> dict[str, NDArray[Any]]:
    """Read a reply that has all tensors as bytes."""
    found, at = {}, reply.json_bytes
    types = {name: dtype for dtype, name in DATATYPES.items()}
    for entry in orjson.loads(reply.body[:at])["outputs"]:
        shape = entry["shape"]
        values = np.frombuffer(reply.body, types[entry["datatype"]], math.prod(shape), at)
        found[entry["name"]] = values.reshape(shape)
        at += values.nbytes
    return found


def _ends(name: str, values: NDArray[Any]) -> bool:
    """Whether a tensor says where the values of instances end."""
    return name.endswith(".offsets") and values.dtype == np.int64


def _kind(values: NDArray[Any]) -> str:
    """The type and shape of a value."""
    return f"{values.dtype} {list(values.shape[1:]) or ''}".strip()


def _unlike(message: str) -> Reply:
    """Refuse what tensors cannot hold."""
    return Reply(422, orjson.dumps({"error": f"{message} (/v1/predict answers in JSON)"}))


def tensors_of(answers: Sequence[Answer], outputs: Sequence[Output]) -> dict[str, NDArray[Any]]:
    """Concatenate a model's outputs, with the offsets of instances."""
    tensors: dict[str, NDArray[Any]] = {}
    for at, output in enumerate(outputs):
        parts = [answer.given[at] for answer in answers]
        for array in _arrays(output):
            if array.ends:
                tensors[array.name] = np.cumsum([0, *(end - begin for _, begin, end in parts)])
                continue
            found = [array.of(column)[begin:end] for column, begin, end in parts]
            lists = isinstance(found[0], list)
            tensors[array.name] = whole_numbers(chain(*found)) if lists else np.concatenate(found)
    return tensors


def _arrays(output: Output) -> Iterator[OutputArray]:
    """The arrays of an output that are tensors: nobody asks on which vertices values are."""
    return (array for array in output.arrays if array.name != f"{output.name}.vertex")


def tensors_said(tensors: Mapping[str, NDArray[Any]], asked: Mapping[str, Any]) -> Reply:
    """Write the requested tensors by KServe's protocol (`asked`: see `as_tensors`); 400 if one is unknown."""
    wanted: Mapping[str, bool] = asked["outputs"] or dict.fromkeys(tensors, bool(asked["binary"]))
    if unknown := sorted(wanted.keys() - tensors.keys()):
        said = {"error": f"no output is called '{unknown[0]}': {', '.join(tensors)}"}
        return Reply(400, orjson.dumps(said))
    shown, behind = [], []
    for name, binary in wanted.items():
        values = np.ascontiguousarray(tensors[name])
        entry: dict[str, Any] = {
            "name": name,
            "shape": values.shape,
            "datatype": DATATYPES[values.dtype.name],
        }
        if binary:
            entry["parameters"] = {"binary_data_size": values.nbytes}
            behind.append(values.tobytes())
        else:
            entry["data"] = values.ravel()
        shown.append(entry)
    document = {"model_name": asked["model"], "model_version": "1", "outputs": shown}
    if asked["id"]:
        document["id"] = asked["id"]
    head = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return Reply(200, b"".join((head, *behind)), len(head) if behind else 0)


def refused(number: int, wrong: Mapping[str, Any], status: int = 422) -> Reply:
    """Write the reply to a request with a wrong instance, reported in `told`."""
    column = f", column {wrong['column']}" if wrong["column"] else ""
    hint = f" ({wrong['hint']})" if wrong["hint"] else ""
    said = {"error": f"instance {number}{column}: {wrong['message']}{hint}"}
    return Reply(status, orjson.dumps(said))


# The protocol's names of NumPy's types.
DATATYPES = {
    **{"float64": "FP64", "float32": "FP32", "int64": "INT64", "int32": "INT32"},
    **{"uint8": "UINT8", "bool": "BOOL"},
}


def described(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """Describe the tensors of a model's outputs as metadata; -1 is a variable size."""
    return [
        {"name": array.name, "datatype": DATATYPES[np.dtype(array.dtype).name], "shape": [-1, *array.shape]}
        for output in outputs
        for array in _arrays(output)
    ]
