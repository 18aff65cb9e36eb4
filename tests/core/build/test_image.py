"""An image put together again elsewhere leads to the same numbers as the tables that it is of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.build.library import LINE, TO_CODE, TO_PART, Image, image_of
from abw.core.jit.pointers import Table

FLOATS = [np.arange(n, dtype=np.float32) + n for n in range(1, 4)]
INTS = [np.arange(n, dtype=np.int32) + n for n in range(1, 4)]
CODE = {0x7F00_0000_1000 + 16 * n: n for n in range(4)}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[Any]]:
    """A table, and what its words mean: numbers, arrays, tables that were made before, functions."""
    made: list[tuple[Table, list[Any]]] = []
    arrays = [*FLOATS, *INTS]
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 6))
        table = Table(np.zeros(size, np.int64))
        means: list[Any] = []
        for word in range(size):
            what = draw(st.sampled_from(["number", "array", "inside", "table", "code"]))
            if what == "array" or (what == "table" and not made):
                array = draw(st.sampled_from(arrays))
                table.point(word, array)
                means.append(array)
            elif what == "inside":
                array, at = draw(st.sampled_from(arrays)), 0
                table.spread(
                    np.array([word]), array, np.array([at := 4 * draw(st.integers(0, len(array) - 1))])
                )
                means.append(array[at // 4 :])
            elif what == "table":
                inner = draw(st.sampled_from(made))
                table.point(word, inner[0])
                means.append(inner[1])
            elif what == "code":
                address = draw(st.sampled_from(sorted(CODE)))
                table.words[word] = address
                means.append(("code", CODE[address]))
            else:
                table.words[word] = draw(st.integers(-(2**62), 2**32))
                means.append(int(table.words[word]))
        made.append((table, means))
    return made[-1]


def check(image: Image, part: int, offset: int, means: Any) -> None:  # noqa: ANN401
    """Follow an image's relocations from a part on, and compare with what is meant."""
    begin, _, shared = image.parts[part].tolist()
    assert begin % LINE == 0
    at = begin + offset
    if isinstance(means, np.ndarray):
        assert image.data[at : at + means.nbytes] == means.tobytes()
        assert bool(shared) == (means.dtype == np.float32)
        return
    found = {(p, b): (kind, to, more) for p, b, kind, to, more in image.relocations.tolist()}
    for word, meant in enumerate(means):
        relocation = found.get((part, offset + 8 * word))
        if isinstance(meant, int):
            assert relocation is None
            assert (
                int.from_bytes(image.data[at + 8 * word : at + 8 * word + 8], "little", signed=True) == meant
            )
        elif isinstance(meant, tuple):
            assert relocation == (TO_CODE, meant[1], 0)
        else:
            assert relocation is not None
            assert relocation[0] == TO_PART
            check(image, relocation[1], relocation[2], meant)


@given(tables())
def test_an_image_leads_to_what_its_tables_lead_to(made: tuple[Table, list[Any]]) -> None:
    table, means = made
    check(image_of(table, CODE, FLOATS), 0, 0, means)


def test_the_address_of_something_unknown_is_refused() -> None:
    table = Table(np.array([3, 0x7F12_3456_7890], np.int64))
    with pytest.raises(RuntimeError, match="word 1 of a table is an unknown address"):
        image_of(table, {}, [])
