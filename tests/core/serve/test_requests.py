"""What clients send, taken apart; what is answered, put together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.script.returned import ReturnedArrays, Row
from abw.core.serve.answers import Answer, Reply, as_tensors, joined, tensors_of
from abw.core.serve.engine import windows_of
from abw.core.serve.requests import TENSORS, BodyError, Request, of_lines, of_tensors
from abw.core.serve.wire import packed
from abw.core.store.arrays import HeldArrays
from abw.core.store.outputs import Column, Output


def test_a_line_is_an_instance() -> None:
    request = of_lines(b"\xef\xbb\xbf(2 a)\r\n\n(3 b)\n\n", "text/plain", "trees")
    assert request.texts == ["(2 a)\r", "", "(3 b)"]
    assert list(request.lines) == [1, 2, 3] and not request.json
    assert of_lines(b"1\n7\n0\n", "", "lattice").texts == ["1\n7\n0"]
    assert of_lines(b'"a b"\n["a"]', "application/x-ndjson; charset=utf-8", "words").json
    assert not of_lines(b"{}", "application/json", "json").json  # its lines are JSON as they are


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"", "no instances"), (b"\n\r\n", "no instances"), (b"(2 a)\n(3 \xff)", "not UTF-8")],
)
def test_what_is_no_text_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(BodyError, match=said) as error:
        of_lines(body, "", "trees")
    assert error.value.status == 422
    if b"\xff" in body:
        assert error.value.place == {"line": 2, "column": 4}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.booleans())
def test_tensors_of_texts(texts: list[str], binary: bool) -> None:
    given: dict[str, Any] = {"name": "instances", "shape": [len(texts)], "datatype": "BYTES"}
    behind = b""
    if binary:
        behind = b"".join(len(t.encode()).to_bytes(4, "little") + t.encode() for t in texts)
        given["parameters"] = {"binary_data_size": len(behind)}
    else:
        given["data"] = texts
    head = json.dumps({"id": "7", "inputs": [given]}).encode()
    request = of_tensors(head + behind, len(head) if binary else None, "m")
    assert request.texts == texts
    assert request.asked == {"model": "m", "id": "7", "outputs": {}, "binary": False}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["BYTES", "x", "inputs"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["inputs", "datatype", "shape", "data", "parameters", "outputs", "name"]),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_anything_else_is_refused(document: Any) -> None:  # noqa: ANN401
    whole = {"datatype": "BYTES", "shape": [1], "data": ["x"]}
    wrapped = {"inputs": [document], "outputs": document}
    asked = {"inputs": [whole], "outputs": [{"name": document}]}
    for body in (json.dumps(document), json.dumps(wrapped), json.dumps(asked), json.dumps(document)[1:]):
        try:
            assert packed(of_tensors(body.encode(), None, "m").document())  # the engine can be told
        except BodyError as error:
            assert error.status in (400, 422)


@pytest.mark.parametrize(
    "wrong",
    [
        '"outputs": [{"name": 5}]',
        '"outputs": [{"name": ["x"]}]',
        f'"data": {"[" * 1000}"x"{"]" * 1000}',
        '"data": [5]',
    ],
)
def test_what_is_almost_a_request_is_refused(wrong: str) -> None:
    tensor = '"name": "instances", "datatype": "BYTES", "shape": [1], "data": ["(2 a)"]'
    where = (tensor, wrong) if wrong.startswith('"outputs"') else (f"{tensor}, {wrong}", '"id": "1"')
    body = '{{"inputs": [{{{}}}], {}}}'.format(*where)
    with pytest.raises(BodyError, match=r"not \{") as error:
        of_tensors(body.encode(), None, "m")
    assert error.value.status == 400


def test_tensors_have_values_and_offsets() -> None:
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    column = Column(values, np.array([2, 0, 3]), np.zeros(5, np.int32))
    single = Column(np.array([4, -1, 2], np.int32), np.array([1, 1, 1]), np.zeros(3, np.int32))
    outputs = (Output("y", (2,), False), Output("label", (), True, True))
    ends = [0, 2, 2, 5]
    answers = [Answer(i, ((column, ends[i], ends[i + 1]), (single, i, i + 1))) for i in range(3)]

    def tensors(some: Sequence[Answer], _: int) -> Mapping[str, Any]:
        return tensors_of(some, outputs)

    reply = as_tensors(answers, {"model": "m", "id": "", "outputs": {}, "binary": False}, tensors)
    found = {t["name"]: t for t in json.loads(reply.body)["outputs"]}
    assert found["y"]["shape"] == [5, 2] and found["y"]["data"] == list(range(10))
    assert found["y.offsets"] == {"name": "y.offsets", "datatype": "INT64", "shape": [4], "data": ends}
    assert found["label"]["datatype"] == "INT32" and found["label"]["data"] == [4, -1, 2]
    wanted = {"model": "m", "id": "a", "outputs": {"y": True}, "binary": False}
    reply = as_tensors(answers, wanted, tensors)
    head = json.loads(reply.body[: reply.json_bytes])
    assert head["model_name"] == "m" and head["id"] == "a"
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 40}
    np.testing.assert_array_equal(np.frombuffer(reply.body[reply.json_bytes :], np.float32), values.ravel())
    assert as_tensors(answers, {**wanted, "outputs": {"z": True}}, tensors).status == 400
    wrong = [*answers, Answer(3, (), AbwError("no"))]
    reply = as_tensors(wrong, wanted, tensors)
    assert reply.status == 422 and json.loads(reply.body)["error"] == "instance 3: no"


def returned(results: list[Any]) -> Callable[[Sequence[Answer], int], Mapping[str, Any]]:
    """What programs return, in arrays, as their engine collects it."""

    def tensors(answers: Sequence[Answer], first: int) -> Mapping[str, Any]:
        held = HeldArrays()
        arrays = ReturnedArrays(held)
        for n, answer in enumerate(answers, first):
            arrays.add(Row("", 0, f"instance {n}", results[int(answer.name)]))
        arrays.finish()
        return held.arrays()

    return tensors


def in_pieces(
    results: list[Any], cuts: Sequence[int], wanted: Mapping[str, bool], binary: bool
) -> tuple[Reply, Reply]:
    """The reply to a request that ran whole, and to the same in pieces."""
    tensors = returned(results)
    texts = ["x"] * len(results)
    asked = {"model": "m", "id": "a", "outputs": wanted, "binary": binary}
    request = Request(TENSORS, False, texts, range(len(texts)), asked)
    answers = [Answer(n) for n in range(len(results))]
    parts = {}
    for first, last in pairwise([0, *sorted(cuts), len(results)]):
        if first < last:
            part = Request(*request.document(first, last))
            assert part.texts == texts[first:last] and part.first == first
            parts[first] = as_tensors(answers[first:last], part.asked, tensors, first)
    return as_tensors(answers, asked, tensors), joined(parts, request) if len(parts) > 1 else parts[0]


def tensors_in(reply: Reply) -> dict[str, Any]:
    """What a reply says of each tensor, whatever their order."""
    head = json.loads(reply.body[: reply.json_bytes or None])
    found, at = {}, reply.json_bytes
    for output in head.pop("outputs", ()):
        size = output.get("parameters", {}).get("binary_data_size", 0)
        found[output["name"]] = output, reply.body[at : at + size]
        at += size
    if "error" in head:  # which names the tensors
        head["error"] = sorted(head["error"].replace(":", ",").split(", "))
    return {**head, **found}


numbers = st.floats(-9, 9, width=32)
results = st.fixed_dictionaries(
    {
        "one": numbers.map(np.float32),
        "label": st.integers(-5, 5),
        "several": st.lists(
            st.tuples(numbers, numbers).map(lambda two: np.array(two, np.float32)), max_size=3
        ),
        "text": st.text(max_size=5),
        "none": st.just([]),
    }
)


@given(st.lists(results, min_size=1, max_size=12), st.lists(st.integers(0, 12)), st.booleans())
def test_tensors_of_pieces_are_those_of_the_whole(found: list[Any], cuts: list[int], binary: bool) -> None:
    cuts = [min(cut, len(found)) for cut in cuts]
    for wanted in ({}, {"text": True, "several": False, "several.offsets": True}, {"other": True}):
        whole, pieces = in_pieces(found, cuts, wanted, binary)
        assert whole.status == pieces.status and tensors_in(whole) == tensors_in(pieces)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([{"a": 1}, {"b": 1}], "instance 1: b is returned, before it was a"),
        ([1, 2.5], "instance 1: .* is float64, before it was int64"),
        ([1, [1]], "instance 1: "),
        ([np.zeros(2), np.zeros(3)], r"instance 1: .* is float64 \[3\], before it was float64 \[2\]"),
        ([1, object()], "instance 1: .* fits no array"),
    ],
)
def test_pieces_that_fit_no_tensor_are_refused(results: list[Any], message: str) -> None:
    for reply in in_pieces(results, [1], {}, False):
        assert reply.status == 422 and re.match(message, json.loads(reply.body)["error"])


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(1, 8), st.integers(1, 40))
def test_mini_batches_by_instances_and_vertices(sizes: list[int], most: int, nodes: int) -> None:
    class Some:
        start = np.cumsum([0, *sizes])

    windows = windows_of(Some(), most, nodes)  # type: ignore[arg-type]
    assert [i for first, last in windows for i in range(first, last)] == list(range(len(sizes)))
    for (first, last), after in zip(windows, [*windows[1:], None], strict=True):
        assert last - first == 1 or (last - first <= most and sum(sizes[first:last]) <= nodes)
        if after:  # no mini-batch ends early
            assert last - first == most or sum(sizes[first : last + 1]) > nodes
