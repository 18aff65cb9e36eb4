"""JSON lines by compiled code and with care: the same, and the first wherever nothing is unusual."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abw.core.data.feed import Source
from abw.core.data.read import read
from abw.core.data.readers import jsonl
from abw.core.data.readers.jsonscan import scan
from tests.core.data import oracle
from tests.core.data.test_fuzz import NAMES, edits, quick
from tests.core.data.test_fuzz import _edited as edited


def source(text: str) -> Source:
    data = text.encode()
    return Source(Path("data"), data, np.frombuffer(data, np.uint8), data.count(b"\n"))


def rewritten_alone(source: Source, skip: int, stop: int, checked: bool = False) -> object:
    """Scan only what the careful reader has checked and rewritten."""
    return scan(source, skip, stop, checked) if checked else None


def lines(**fields: object) -> str:
    return json.dumps({"vertices": [{"kind": "a", **fields}]})


@pytest.mark.parametrize(
    "text",
    [
        lines(n=1, x=-0.5, p=[1e-3, 2, -3e10], s="è\n"),
        '\t{ "links" : {"l": [ [0 , 0] ], "m": []} , "vertices": [ {"n": 0, "kind": "a"} ], "id": -7 }\r\n\n',
        '{"id": "\\u00e8", "vertices": [{"kind": "a", "s": ""}]}',
        '{"vertices": [{"kind": "a"}], "links": {"r": 0, "l": [ 0 , [0,0],0], "m": [0]}}',
        lines(s='\U0001f600 \\ " \t/é汉'),
    ],
)
def test_what_is_plainly_right_is_scanned(text: str) -> None:
    assert scan(source(text), 0, 10) is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"vertices": [{"\\u006bind": "a"}]}',
        '{"vertices": [{"kind": "instance"}]}',
        '{"vertices": [{"kind": "a"}], "vertices": [{"kind": "a"}]}',
        '{"vertices": [{"kind": "a", "n": 1, "n": 1}]}',
        '{"vertices": [{"kind": "a"}], "links": {"l": [[0, 1]]}}',
        '{"vertices": [{"kind": "a"}], "links": {"l": 1}}',
        '{"vertices": [{"kind": "a"}], "links": {"l": [1]}}',
        '{"vertices": [{"kind": "a"}], "links": {"l": [-1]}}',
        '{"vertices": [{"kind": "a"}], "links": {"l": null}}',
        '{"vertices": [{"kind": "a", "n": 01}]}',
        '{"vertices": [{"kind": "a", "n": 1e40}]}',
        '{"vertices": [{"kind": "a"}]} 1',
        '{"vertice": [{"kind": "a"}]}',
        '{"vertices": [{"kind": "a"',
        *(
            '{"vertices": [{"kind": "a", "s": "' + s + '"}]}'
            for s in (r"\q", r"\u12g4", r"\ud800", r"\udc00\ud800")
        ),
        *(
            '{"vertices": [{"kind": "a", "n": ' + n + "}]}"
            for n in ("-", "1.", ".5", "1e", "+1", "[]", "[1,]")
        ),
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_the_careful_reader(text: str) -> None:
    assert scan(source(text), 0, 10) is None


@quick
@given(changes=edits, limit=st.none() | st.integers(1, 60))
def test_both_readers_say_the_same(
    changes: list[tuple[float, str, int]], limit: int | None, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    path.write_bytes(edited((root / "specs/data" / NAMES["json"]).read_bytes()[:4000], changes))

    def said() -> object:
        try:
            return oracle.plain(read(path, "json", limit=limit))
        except Exception as error:
            return str(error)

    fast = said()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "scan", rewritten_alone)
        assert said() == fast


@settings(max_examples=400, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False, width=32) | st.floats(-3e38, 3e38) | st.decimals(-9, 9)
)
@example(0.1)
@example(1.00000005960464477539062500001)  # beyond the middle of two float32, in no double
@example(7.038531e-26)
@example(1e-45)
def test_numbers_are_the_nearest_float32(number: object) -> None:
    text = str(number)
    if "N" in text or "n" in text:
        return
    found = scan(source('{"vertices": [{"kind": "a", "x": [' + text + "]}]}"), 0, 1)
    assert found is not None
    assert np.float32(found[0].number[0]) == np.float32(float(text))


def test_more_names_than_can_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "data"
    vertices = [{"kind": "a", f"field{i}": i} for i in range(300)]
    path.write_text(json.dumps({"vertices": vertices}))
    assert oracle.plain(read(path, "json")) == oracle.json_lines(path.read_text())


OWN = """{"vertices": [{"kind": "a"}, {"kind": "b"}], "links": {"root": 1, "of": [1, [0, 1]], "all": [1, 0]}}
{"vertices": [{"kind": "b"}], "links": {"of": []}}
{"vertices": [{"kind": "b"}, {"kind": "a"}], "links": {"of": [[1, 0]], "root": [0]}}
"""


@pytest.mark.parametrize("careful", [False, True])
def test_links_of_the_instance(careful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    path.write_text(OWN)
    if careful:
        monkeypatch.setattr(jsonl, "scan", rewritten_alone)
    found = read(path, "json")
    assert oracle.plain(found) == oracle.json_lines(OWN)
    oracle.check_arrays(found)
    schema = found.schema
    assert schema.links["root"].source == {"instance"} and not schema.links["root"].many
    assert schema.links["of"].source == {"instance", "a"} and not schema.links["of"].many
    assert schema.links["all"].many
    for skip in (1, 2):
        last = read(path, "json", skip=skip)
        assert oracle.plain(last) == oracle.json_lines(OWN)[skip:]


digits = st.text("0123456789", min_size=1, max_size=12)
# A decimal number as it may be written, with few digits or many.
decimals = st.tuples(
    st.sampled_from(["", "-"]),
    digits.map(lambda text: text.lstrip("0") or "0"),
    st.just("") | digits.map(".{}".format),
    st.sampled_from(["", "", "", "e3", "E-7"]),
).map("".join)


@quick
@given(texts=st.lists(decimals, min_size=1, max_size=40), space=st.sampled_from(["", " ", "\t "]))
def test_numbers_are_the_nearest(texts: list[str], space: str, tmp_path: Path) -> None:
    path = tmp_path / "numbers.jsonl"
    path.write_text(f'{{"vertices":[{{"kind":"a","x":[{f",{space}".join(texts)}]}}]}}')
    (found,) = read(path, "json").values["x"].rows
    expected = np.array([float(text) for text in texts]).astype(np.float32)
    assert found.tobytes() == expected.tobytes()
