"""What clients send: lines of text or JSON, or KServe's request for inference; and how that is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from abw.core.base.errors import AbwError

# The content types whose lines are JSON values; those of all others are text.
JSON_TYPES = ("application/json", "application/jsonl", "application/x-ndjson", "application/ndjson")


# How a request wants its answer.
LINES, TENSORS = "lines", "tensors"


class BodyError(Exception):
    """A request that cannot be taken apart: a status of HTTP, and what to say."""

    def __init__(self, status: int, message: str, **place: int) -> None:
        super().__init__(message)
        self.status = status
        self.place = place


@dataclass(frozen=True, slots=True)
class Request:
    """Instances to be answered: a text each, or a JSON value where `json` says so.

    `lines` are those on which they begin; `asked` is what `as_tensors` is asked for.
    """

    form: str
    json: bool
    texts: Sequence[str]
    lines: Sequence[int]
    asked: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Instances."""
        return len(self.texts)

    def document(self) -> list[Any]:
        """As it is sent to the engine, which makes one of it again."""
        return [self.form, self.json, self.texts, list(self.lines), self.asked]


def of_lines(body: bytes, content_type: str, format: str) -> Request:
    """Instances of `/v1/predict`: a line each, as in a data file; of format lattice text is one instance.

    Empty lines at the end are none. Raises BodyError.
    """
    text = _decoded(body).removeprefix("\ufeff").rstrip("\r\n")
    if not text:
        raise BodyError(422, "there are no instances")
    json = content_type.partition(";")[0].strip().lower() in JSON_TYPES
    if format == "lattice" and not json:
        return Request(LINES, False, [text], [1])
    texts = text.split("\n")
    return Request(LINES, json and format != "json", texts, range(1, len(texts) + 1))


def parsed(text: str, number: int, errors: dict[int, AbwError]) -> Any:  # noqa: ANN401 (what JSON holds)
    """A JSON value; what is none is put into the errors by its number, and blank."""
    try:
        return orjson.loads(text)
    except ValueError as error:
        hint = "an instance a line, as docs/serving.md has it"
        errors[number] = AbwError(f"not JSON: {error}", hint=hint)
        return ""


def of_tensors(body: bytes, json_bytes: int | None, model: str) -> Request:
    """Instances of KServe's `infer`: one tensor of type BYTES; an element is an instance's text, or JSON
    where the tensor's parameter `content_type` is that of JSON. Raises BodyError.

    `json_bytes`: the length of the JSON part, where the tensor's elements follow as bytes; `model`: what the
    answer calls the model.
    """
    try:
        said = orjson.loads(body[:json_bytes])
        inputs = said["inputs"]
        (given,) = inputs
        if given["datatype"] != "BYTES":
            raise BodyError(400, f"the input is of datatype {given['datatype']}: instances are texts, BYTES")
        parameters = given.get("parameters") or {}
        if (size := parameters.get("binary_data_size")) is not None:
            texts = _elements(body[json_bytes or len(body) :][: int(size)])
        else:
            texts = _flat(given["data"])
        wanted = {
            _text(output["name"]): bool((output.get("parameters") or {}).get("binary_data", _binary(said)))
            for output in said.get("outputs") or ()
        }
        asked = {
            "model": model,
            "id": str(said.get("id") or ""),
            "outputs": wanted,
            "binary": _binary(said),
        }
        count = 1
        for n in given["shape"]:
            count *= int(n)
        json = str(parameters.get("content_type", "")) in JSON_TYPES
    except orjson.JSONDecodeError as error:
        raise BodyError(400, f"not JSON: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        message = 'not {"inputs": [{"name", "shape", "datatype": "BYTES", "data"}]}, with one input'
        raise BodyError(400, f"{message} ({type(error).__name__}: {error})") from None
    if count != len(texts):
        raise BodyError(400, f"shape {given['shape']} is not that of {len(texts)} elements")
    if not texts:
        raise BodyError(422, "there are no instances")
    return Request(TENSORS, json, texts, range(len(texts)), asked)


def _binary(said: Mapping[str, Any]) -> bool:
    return bool((said.get("parameters") or {}).get("binary_data_output"))


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        before = body[: error.start].decode()
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        raise BodyError(422, "not UTF-8", line=line, column=column) from None


def _elements(data: bytes) -> list[str]:
    """Elements of type BYTES: each behind its length in four bytes, the lowest first."""
    texts, at = [], 0
    while at < len(data):
        begin = at + 4
        at = begin + int.from_bytes(data[at:begin], "little")
        if at > len(data):
            raise ValueError("an element is longer than the tensor")
        texts.append(_decoded(data[begin:at]))
    return texts


def _flat(data: Any) -> list[str]:  # noqa: ANN401 (what JSON holds)
    found: list[str] = []
    for item in data:
        if isinstance(item, list):
            found += _flat(item)
        else:
            found.append(_text(item))
    return found


def _text(item: Any) -> str:  # noqa: ANN401 (what JSON holds)
    if not isinstance(item, str):
        raise TypeError(f"{str(item)[:40]} is no text")
    return item
