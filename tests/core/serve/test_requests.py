"""What clients send, taken apart; what is answered, put together."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.serve.answers import Answer, as_tensors, tensors_of
from abw.core.serve.engine import windows_of
from abw.core.serve.requests import BodyError, of_lines, of_tensors
from abw.core.serve.wire import packed
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
    tensors = partial(tensors_of, outputs=outputs)
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
