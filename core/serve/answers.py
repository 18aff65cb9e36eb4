"""What the engine answers to a request: a JSON line an instance, or tensors as KServe's protocol has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, SpecError, printable
from abw.core.store.outputs import Column, Output, line_of

Part = tuple[Column, int, int]
"""Values `begin` to `end` of a column."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one instance gave: a part of a column for each output; or what is wrong with it."""

    name: str | int
    parts: tuple[Part, ...] = ()
    error: AbwError | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: a status of HTTP, the body, and how much of that is JSON where more follows."""

    status: int
    body: bytes
    json_bytes: int = 0


def as_lines(answers: Sequence[Answer], outputs: Sequence[Output], lines: Sequence[int]) -> Reply:
    """A JSON line an instance, as docs/outputs.md has them; `lines` are those on which they begin.

    422 where no instance could be run, else 200.
    """
    said = []
    for answer, line in zip(answers, lines, strict=True):
        error = None if answer.error is None else told(answer.error, line)
        said.append(line_of(answer.name, line, outputs, answer.parts, error))
    return Reply(422 if all(answer.error for answer in answers) else 200, b"".join(said))


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


def as_tensors(answers: Sequence[Answer], outputs: Sequence[Output], asked: Mapping[str, Any]) -> Reply:
    """Tensors of all instances together: values one behind the other, and offsets that say whose they are.

    `asked`: the `model`'s name; `id` of the request; `outputs`, the names of those wanted (none: all) with
    whether each comes as bytes; `binary`, whether those not named do. 422 where any instance is
    wrong: tensors have no errors.
    """
    for number, answer in enumerate(answers):
        if answer.error is not None:
            return refused(number, told(answer.error, number))
    tensors: dict[str, NDArray[Any]] = {}
    for at, output in enumerate(outputs):
        parts = [answer.parts[at] for answer in answers]
        tensors[output.name] = np.concatenate([column.values[begin:end] for column, begin, end in parts])
        if output.shares:
            shares = [column.shares[b:e] for column, b, e in parts if column.shares is not None]
            tensors[f"{output.name}.probability"] = np.concatenate(shares)
        if not output.single:
            sizes = [0, *(end - begin for _, begin, end in parts)]
            tensors[f"{output.name}.offsets"] = np.cumsum(sizes)
    return tensors_said(tensors, asked)


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


DATATYPES = {
    **{"float64": "FP64", "float32": "FP32", "int64": "INT64", "int32": "INT32"},
    **{"uint8": "UINT8", "bool": "BOOL"},
}
"""What the protocol calls NumPy's types."""


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
    return found
