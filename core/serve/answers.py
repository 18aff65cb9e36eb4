"""Replies to requests: a JSON line for each instance, or tensors by KServe's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, SpecError, printable
from abw.core.store.outputs import Column, Output, whole_numbers
from abw.core.store.outputs import line_of as written

# Values `begin` to `end` of a column.
Part = tuple[Column, int, int]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    tensors: Callable[[Sequence[Answer]], Mapping[str, NDArray[Any]]],
) -> Reply:
    """Write the tensors of all instances together, or 422 if one of them is wrong.

    `asked`: the `model`'s name; the request's `id`; `outputs`: names of the requested ones (none: all), each
    with whether it is sent as bytes; `binary`: the same for outputs that are not named.
    """
    for number, answer in enumerate(answers):
        if answer.error is not None:
            return refused(number, told(answer.error, number), answer.status)
    try:
        found = tensors(answers)
    except AbwError as error:
        said = {"error": f"{error.message} (/v1/predict answers in JSON)"}
        return Reply(422, orjson.dumps(said))
    return tensors_said(found, asked)


def tensors_of(answers: Sequence[Answer], outputs: Sequence[Output]) -> dict[str, NDArray[Any]]:
    """Concatenate a model's outputs, with the offsets of instances."""
    tensors: dict[str, NDArray[Any]] = {}
    for at, output in enumerate(outputs):
        parts = [answer.given[at] for answer in answers]
        tensors[output.name] = np.concatenate([column.values[begin:end] for column, begin, end in parts])
        if output.shares:
            shares = [column.shares[b:e] for column, b, e in parts if column.shares is not None]
            tensors[f"{output.name}.probability"] = np.concatenate(shares)
        if not output.single:
            sizes = [0, *(end - begin for _, begin, end in parts)]
            tensors[f"{output.name}.offsets"] = np.cumsum(sizes)
        for name in output.numbers:
            beside = [value for column, begin, end in parts for value in column.fields[name][begin:end]]
            tensors[f"{output.name}.fields.{name}"] = whole_numbers(beside)
    return tensors


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
    found = []
    for output in outputs:
        shape = [-1, *output.shape]
        found.append(
            {"name": output.name, "datatype": DATATYPES[np.dtype(output.dtype).name], "shape": shape}
        )
        if output.shares:
            found.append({"name": f"{output.name}.probability", "datatype": "FP32", "shape": shape})
        if not output.single:
            found.append({"name": f"{output.name}.offsets", "datatype": "INT64", "shape": [-1]})
        beside = [f"{output.name}.fields.{name}" for name in output.numbers]
        found += [{"name": name, "datatype": "INT32", "shape": [-1]} for name in beside]
    return found
