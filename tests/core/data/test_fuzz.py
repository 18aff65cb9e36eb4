"""Broken files: an error that names the file, or instances that hold together; never anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import DataError
from abw.core.data.feed import Bytes
from abw.core.data.instances import Ints
from abw.core.data.read import read
from abw.core.data.readers import blanks, jsonscan, jsontokens, lattice, pairs, planscan, tags, trees
from tests.core.data import oracle

NAMES = {
    "trees": "trees.txt",
    "lattice": "lattice.txt",
    "tags": "tags.txt",
    "pairs": "pairs.txt",
    "words": "sentences.txt",
    "plans": "../plans/data/plans.jsonl",
    "json": "fig10.jsonl",
}
quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["change", "delete", "insert", "cut", "double"]),
        st.sampled_from([*b'\n\r ()|0129-<a{}[],:"\x00\x80\xff\xc3']) | st.integers(0, 255),
    ),
    min_size=1,
    max_size=6,
)


def _edited(data: bytes, changes: list[tuple[float, str, int]]) -> bytes:
    for where, what, byte in changes:
        at = int(where * len(data))
        match what:
            case "change":
                data = data[:at] + bytes([byte]) + data[at + 1 :]
            case "delete":
                data = data[:at] + data[at + 1 + byte % 8 :]
            case "insert":
                data = data[:at] + bytes([byte]) + data[at:]
            case "cut":
                data = data[: max(at, 1)]
            case _:
                data = data[:at] + data[at : at + byte] + data[at:]
    return data


def _holds_together(path: Path, format: str, limit: int | None = None, frequency: int = 0) -> None:
    try:
        instances = read(path, format, limit=limit, frequency=frequency)
    except DataError as error:
        assert str(path) in str(error)
        assert 1 <= len(error.problems) <= 10
    else:
        oracle.check_arrays(instances)
        oracle.plain(instances)


@pytest.mark.parametrize("format", NAMES)
@quick
@given(changes=edits, limit=st.none() | st.integers(1, 60), frequency=st.integers(0, 2))
def test_broken_files(
    format: str,
    changes: list[tuple[float, str, int]],
    limit: int | None,
    frequency: int,
    root: Path,
    tmp_path: Path,
) -> None:
    path = tmp_path / "data"
    path.write_bytes(_edited((root / "specs/data" / NAMES[format]).read_bytes()[:4000], changes))
    _holds_together(path, format, limit, frequency)


PARSERS: dict[str, tuple[dict[ModuleType, tuple[str, ...]], Sequence[str]]] = {
    "trees": ({trees: ("parse_trees", "control", "kept")}, "()a \n\0"),
    "lattice": ({lattice: ("parse_lattices", "_numbers")}, "012 \n"),
    "tags": ({tags: ("lay_out",), blanks: ("parse_sentences", "split_line", "control", "kept")}, "a| \n\0"),
    "pairs": ({pairs: ("parse_pairs", "split_line", "control", "kept")}, "a| \n\0"),
}


CALLED = ("split_line", "control", "kept")


@pytest.mark.parametrize("format", PARSERS)
@quick
@given(data=st.data())
def test_parsers_stay_inside_their_arrays(format: str, data: st.DataObject, tmp_path: Path) -> None:
    """Compiled code does not check its indices; the same code run by Python, over short texts, does."""
    modules, letters = PARSERS[format]
    path = tmp_path / "data"
    path.write_text("".join(data.draw(st.lists(st.sampled_from(letters), max_size=40))))
    with pytest.MonkeyPatch.context() as patch:
        for module, names in modules.items():
            for name in names:
                function = getattr(module, name)
                function = getattr(function, "py_func", function)  # itself under NUMBA_DISABLE_JIT
                # what these call is given arrays of 64 bits already
                patch.setattr(module, name, function if name in CALLED else _interpreted(function))
        _holds_together(path, format)


@contextmanager
def _widened(arrays: Iterable[object]) -> Iterator[list[object]]:
    """The arrays, those of 32 bits in 64, from which they are written back, cut as by compiled code.

    Python makes small sums of NumPy's small integers, and refuses to let them overflow.
    """
    given = list(arrays)
    wide = [a.astype(np.int64) if isinstance(a, np.ndarray) and a.dtype == np.int32 else a for a in given]
    try:
        yield wide
    finally:
        for array, made in zip(given, wide, strict=True):
            if array is not made:
                np.copyto(cast(Ints, array), cast(Ints, made), casting="unsafe")


def _interpreted(function: Callable[..., object]) -> Callable[..., object]:
    def call(text: Bytes, *rest: object) -> object:
        with _widened(rest) as wide:
            return function(text.astype(np.int64), *wide)

    return call


JSON_LETTERS = {
    "json": (
        *'{}[]":,1-e\\ \n',
        *('{"vertices":[{"kind":"a"', '}],"links":{"l":[[0,0]]}}\n', '}],"links":{"r":0,"l":[0,'),
        *(',"n":', "1.5", "12345.678", '"x"'),
    ),
    "plans": (
        *'{}[]":,1-e\\ \n',
        *('{"Plan":{"Node Type":"Result"', ',"Plans":[{"Node Type":"Hash"', "}]}}\n"),
        *('{"name":"LIMIT","children":[', ',"Total Cost":', '"extra_info":{"Estimated Cardinality":"5"}'),
        *("1.5", "12345.678", "true", "null", '"Alias":"a"', "]}"),
    ),
}


@pytest.mark.parametrize("format", JSON_LETTERS)
@quick
@given(data=st.data())
def test_readers_of_json_stay_inside_their_arrays(format: str, data: st.DataObject, tmp_path: Path) -> None:
    _stays_inside(
        "".join(data.draw(st.lists(st.sampled_from(JSON_LETTERS[format]), max_size=30))), format, tmp_path
    )


@pytest.mark.parametrize(
    ("format", "text"), [("plans", '{"'), ("json", '"'), ("json", '{"vertices":[{"kind":"a",')]
)
def test_they_do_where_a_text_ends_in_the_middle(format: str, text: str, tmp_path: Path) -> None:
    _stays_inside(text, format, tmp_path)


def _stays_inside(text: str, format: str, tmp_path: Path) -> None:
    """Read a text by Python, which says where an array has no such place."""
    path = tmp_path / "data"
    path.write_text(text)
    planscan.names()
    with pytest.MonkeyPatch.context() as patch:
        for module in (jsonscan, planscan, jsontokens):
            for name, function in vars(module).items():
                if hasattr(function, "py_func"):
                    patch.setattr(module, name, function.py_func)
        patch.setattr(jsonscan, "parse", _of_json(jsonscan.parse))
        patch.setattr(planscan, "scan_plans", _of_json(planscan.scan_plans))
        _holds_together(path, format)


def _of_json(function: Callable[..., object]) -> Callable[..., object]:
    def call(json: jsontokens.Json, *rest: Any) -> object:  # noqa: ANN401 (a room, and others)
        *others, room = rest
        with _widened(room) as wide, np.errstate(over="ignore"):
            return function(json._replace(text=json.text.astype(np.int64)), *others, type(room)(*wide))

    return call
