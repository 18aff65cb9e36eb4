"""Requests of clients: lines of text or JSON, or KServe's request for inference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from abw.core.base.errors import AbwError

# The content types whose lines are JSON values; lines of others are text.
JSON_TYPES = ("application/json", "application/jsonl", "application/x-ndjson", "application/ndjson")


# The forms of replies.
LINES, TENSORS = "lines", "tensors"
# Asks for all tensors, as bytes (`as_tensors`).
ALL: Mapping[str, Any] = {"model": "", "id": "", "outputs": {}, "binary": True}


class BodyError(Exception):
    """A request that is refused: HTTP status, message, and place."""

    def __init__(self, status: int, message: str, **place: int) -> None:
        super().__init__(message)
        self.status = status
        self.place = place


@dataclass(slots=True)
class Request:
    """The instances of a request, or some of them: texts, of JSON values if `json`.

    `lines`: those on which the instances begin; `asked`: see `as_tensors`; `first`: the number of the first
    instance in its request.
    """

    form: str
    json: bool
    texts: Sequence[str]
    lines: Sequence[int]
    asked: Mapping[str, Any] = field(default_factory=dict)
    first: int = 0

    def __len__(self) -> int:
        """Instances."""
        return len(self.texts)

    def document(self, first: int = 0, last: int | None = None) -> list[Any]:
        """Return the arguments of instances `first` to `last`, as they are sent to an engine.

        Tensors of only some of its instances are all asked for, as bytes: they are joined (`joined`).
        """
        some = slice(first, last)
        texts = self.texts[some]
        asked = self.asked if len(texts) == len(self) else ALL
        return [self.form, self.json, texts, list(self.lines[some]), asked, first]


def of_lines(body: bytes, content_type: str, format: str) -> Request:
    """Parse `/v1/predict`: an instance on each line, as in a data file.

    In format lattice, text is one instance. Empty lines at the end are ignored. Raises BodyError.
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
    """Parse a JSON value; if it is malformed, its error is added to `errors`, and the value is ''."""
    try:
        return orjson.loads(text)
    except ValueError as error:
        hint = "an instance a line, as docs/serving.md has it"
        errors[number] = AbwError(f"not JSON: {error}", hint=hint)
        return ""


def of_tensors(body: bytes, json_bytes: int | None, model: str) -> Request:
    """Parse KServe's `infer`: one tensor of type BYTES, whose elements are instances. Raises BodyError.

    Elements are texts, or JSON if the tensor's parameter `content_type` says so. `json_bytes`: the length of
    the JSON part, if the elements follow as bytes; `model`: its name in the reply.
    """
    try:
        said = orjson.loads(body[:json_bytes])
        inputs = said["inputs"]
        (given,) = inputs
        if given["datatype"] != "BYTES":
            raise BodyError(400, f"the input has datatype {given['datatype']}; instances are BYTES")
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
        count = math.prod(map(int, given["shape"]))
        json = str(parameters.get("content_type", "")) in JSON_TYPES
    except orjson.JSONDecodeError as error:
        raise BodyError(400, f"not JSON: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        message = 'not {"inputs": [{"name", "shape", "datatype": "BYTES", "data"}]}, with one input'
        raise BodyError(400, f"{message} ({type(error).__name__}: {error})") from None
    if count != len(texts):
        raise BodyError(400, f"shape {given['shape']} does not match {len(texts)} elements")
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
    """Split elements of type BYTES, each preceded by its length in four bytes, little-endian."""
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
        raise TypeError(f"{str(item)[:40]} is not a text")
    return item
