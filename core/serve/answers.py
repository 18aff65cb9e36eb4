"""What the engine answers to a request: a JSON line an instance, or tensors as KServe's protocol has them."""

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
    """What one instance gave: of a model a part of a column an output, of a program what it returned; or
    what is wrong with it. `where` is the line of a program that raised ('': not known); `status` is HTTP's.
    """

    name: str | int
    given: Any = ()
    error: AbwError | None = None
    where: str | None = None
    status: int = 422


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: a status of HTTP, the body, and how much of that is JSON where more follows."""

    status: int
    body: bytes
    json_bytes: int = 0


def as_lines(
    answers: Sequence[Answer], lines: Sequence[int], line_of: Callable[[Answer, int], bytes]
) -> Reply:
    """A JSON line an instance, as docs/outputs.md has them; `lines` are those on which they begin.

    What `line_of` cannot write is an error, too. Where no instance could be run the status is the errors'.
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
    """What is wrong with an instance that begins on a line of the request: message, place and remedy."""
    problem = error.problems[0] if isinstance(error, SpecError) and error.problems else None
    where = problem.where if problem else None
    # a place in the spec, which is not the client's, is no place in the request
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
    """Tensors of all instances together.

    `asked`: the `model`'s name; `id` of the request; `outputs`, the names of those wanted (none: all) with
    whether each comes as bytes; `binary`, whether those not named do. 422 where any instance is
    wrong: tensors have no errors.
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
    """A model's outputs: values one behind the other, and offsets that say whose they are."""
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
    """Those of the tensors that are wanted, as KServe's protocol has them; `asked` as of `as_tensors`.

    400 where one is wanted that is not there.
    """
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
    """What is said in the place of tensors where an instance is wrong (`told`)."""
    column = f", column {wrong['column']}" if wrong["column"] else ""
    hint = f" ({wrong['hint']})" if wrong["hint"] else ""
    said = {"error": f"instance {number}{column}: {wrong['message']}{hint}"}
    return Reply(status, orjson.dumps(said))


# What the protocol calls NumPy's types.
DATATYPES = {
    **{"float64": "FP64", "float32": "FP32", "int64": "INT64", "int32": "INT32"},
    **{"uint8": "UINT8", "bool": "BOOL"},
}


def described(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """The tensors of a model's outputs, as its metadata has them; -1 is a size that differs."""
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
