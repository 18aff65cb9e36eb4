"""Sections of a file hold each of its instances once, with the numbers and lines that they have in it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import DataError
from abw.core.data import shards as indices
from abw.core.data import shards as module
from abw.core.data.feed import Feed, Section, open_feed
from abw.core.data.read import chunks
from abw.core.data.readers.jsonl import schema_of_json
from abw.core.data.shards import index_of, made
from tests.core.data.test_skip_bad import SPECS, entries, written

FORMATS = (*SPECS, "words")
WRONG = {**{name: wrong for name, (_, _, wrong) in SPECS.items()}, "words": ["\xff", "\x02 "]}
BLANK = {"json": ["", " \t"], "lattice": ["", "\x01"], "trees": ["", " \r"]}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks end in the middle of lines, and some lines are longer than a block."""
    monkeypatch.setattr(module, "BLOCK", 61)
    monkeypatch.setattr(indices, "SPACING", 100)
    yield


def split(path: Path, format: str, batch: int, parts: int, limit: int | None = None) -> list[Section]:
    index = made(path, format)
    sections = list(index.sections(parts, batch, limit))
    assert sections == [index.section(n, parts, batch, limit) for n in range(1, parts + 1)]
    return sections


def seen(feed: Feed, format: str, root: Path) -> list[tuple[int, int, str]]:
    """Line, number (-1: left out) and what is said of each instance of a feed."""
    schema = schema_of_json(root / "specs/data/expressions.jsonl") if format == "json" else None
    found = []
    for chunk in chunks(feed, format, 7, schema=schema, skip_bad=True):
        numbers, lines = chunk.instances.numbers.tolist(), chunk.instances.lines.tolist()
        found += [(line, number, "") for line, number in zip(lines, numbers, strict=True)]
        found += [(bad.line, -1, bad.message) for bad in chunk.bad]
    return sorted(found)


def of_sections(path: Path, sections: list[Section], format: str, root: Path) -> list[tuple[int, int, str]]:
    found = []
    for section in sections:
        with open_feed(path, section) as feed:
            here = seen(feed, format, root)
        assert len(here) == section.count
        found += here
    return found


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=25)
@given(data=st.data())
def test_every_instance_is_in_one_section(format: str, root: Path, data: st.DataObject) -> None:
    good = entries(root, format) if format in SPECS else ["It works well", "a b", "c"]
    pool = st.sampled_from([*good, *WRONG[format], *BLANK.get(format, ["", "\x0b "])])
    texts = data.draw(st.lists(pool, max_size=30))
    if format == "pairs":
        texts = [*texts, "a b ||| c d"]  # too short to be an instance
    batch, parts = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        wrong = [text for text in texts if text.strip("\x00\x01\x02 \t\r")]
        written(path, texts if format != "lattice" else wrong, format)
        if data.draw(st.booleans()):
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
        if data.draw(st.booleans()):
            path.write_bytes(path.read_bytes().rstrip(b"\r\n"))
        with open_feed(path) as feed:
            whole = seen(feed, format, root)
        sections = list(split(path, format, batch, parts))
        assert len(sections) == parts
        assert sections[0].begin == 0 and sections[-1].end == path.stat().st_size
        for one, other in pairwise(sections):
            assert one.end == other.begin and one.seen + one.count == other.seen
            assert other.seen % batch == 0 or other.seen == len(whole)
        assert of_sections(path, sections, format, root) == whole
        limit = data.draw(st.integers(1, 30))
        limited = list(split(path, format, batch, parts, limit))
        assert sum(section.count for section in limited) == min(limit, len(whole))
        assert of_sections(path, limited, format, root) == whole[:limit]


@settings(max_examples=25)
@given(data=st.data())
def test_plans_of_several_lines_and_in_arrays_are_in_one_section(root: Path, data: st.DataObject) -> None:
    lines = (root / "specs/plans/data/plans.jsonl").read_text().splitlines()[:6]
    plans = [json.loads(line)[0] for line in lines]
    style: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{}, {"indent": 1}, {"separators": (",", ":")}]
    )
    given_plans = st.sampled_from([*plans, {"Plan": {"Node Type": 'a"{\\'}}])
    group = st.lists(given_plans, min_size=1, max_size=3)
    texts = [json.dumps(g, **data.draw(style)) for g in data.draw(st.lists(group, min_size=1, max_size=6))]
    batch, parts = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_text("\n".join(texts))
        with open_feed(path) as feed:
            whole = seen(feed, "plans", root)
        sections = list(split(path, "plans", batch, parts))
        assert of_sections(path, sections, "plans", root) == whole


def test_sections_have_about_as_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("(3 (2 It) (4 works))\n" * 1000)
    sizes = [section.end - section.begin for section in split(path, "trees", 10, 8)]
    assert max(sizes) - min(sizes) <= 10 * len("(3 (2 It) (4 works))\n")


def test_a_lattice_file_that_promises_too_many_or_too_few(root: Path, tmp_path: Path) -> None:
    texts = entries(root, "lattice")
    for promised, message in ((len(texts) - 1, "more lines than"), (len(texts) + 1, "fewer sentences than")):
        path = tmp_path / "lattice.txt"
        path.write_text(f"{promised}\n" + "\n".join(texts) + "\n")
        sections = list(split(path, "lattice", 2, 3))
        told = []
        for section in sections:
            try:
                with open_feed(path, section) as feed:
                    list(chunks(feed, "lattice", 100))
            except DataError as error:
                told.append(str(error))
        assert len(told) == 1 and message in told[0]


def test_nothing_is_cut_behind_a_lattice_whose_length_cannot_be_read(tmp_path: Path, root: Path) -> None:
    texts = entries(root, "lattice")
    path = written(tmp_path / "lattice.txt", [texts[0], "x", *texts[1:]], "lattice")
    sections = list(split(path, "lattice", 1, 4))
    assert [section.count for section in sections[-2:]] == [0, 0]
    assert sum(section.count for section in sections) == 2


def test_the_index_of_a_large_file_is_kept_while_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indices, "KEPT", 100)
    path, beside = tmp_path / "trees.txt", tmp_path / "trees.txt.shards.json"
    path.write_text("(3 (2 It) (4 works))\n" * 50)
    first = index_of(path, "trees")
    assert beside.is_file() and first.count == 50 and first.places.shape[1] > 5

    def again(*_: object) -> None:
        raise AssertionError("the data are read again")

    def same(one: indices.Index, other: indices.Index) -> bool:
        return list(one.sections(7, 3)) == list(other.sections(7, 3)) and one.hash == other.hash

    with monkeypatch.context() as patched:
        patched.setattr(indices, "made", again)
        assert same(index_of(path, "trees"), first)
        with pytest.raises(AssertionError):
            index_of(path, "words")  # begins elsewhere
    for damaged in ("{", '{"schema_version": 1}', "[]"):
        beside.write_text(damaged)
        assert same(index_of(path, "trees"), first)
    path.write_text("(3 (2 It) (4 worKs))\n" * 50)
    os.utime(path, ns=(1, 1))
    other = index_of(path, "trees")
    assert other.hash != first.hash and list(other.sections(7, 3)) == list(first.sections(7, 3))
    assert index_of(path, "trees").hash == other.hash
    beside.unlink()
    (tmp_path / ".draft-trees.txt.shards.json").mkdir()  # nothing can be written there
    assert same(index_of(path, "trees"), other) and not beside.exists()


def test_the_hash_is_of_all_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data"
    content = bytearray(b"a b c\n" * 100)
    path.write_bytes(content)
    hashes = {made(path, "words").hash}
    for at in (0, 99, 100, 101, 599):
        content[at] ^= 1
        path.write_bytes(content)
        hashes.add(made(path, "words").hash)
        content[at] ^= 1
    assert len(hashes) == 6


@pytest.mark.parametrize("format", ["lattice", "plans", "trees"])
def test_blocks_are_looked_at_side_by_side_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr(indices, "SPACING", 700)
    if format == "plans":
        lines = (root / "specs/plans/data/plans.jsonl").read_text().splitlines()
        (tmp_path / "data").write_text(json.dumps([json.loads(line)[0] for line in lines[:20]], indent=1))
    else:
        written(tmp_path / "data", entries(root, format) * 5, format)
    path = tmp_path / "data"
    looked: list[int] = []
    before = indices._looked

    def counted(path: Path, format: str, begin: int, end: int, left: int) -> indices.Block:
        looked.append(begin)
        return before(path, format, begin, end, left)

    monkeypatch.setattr(indices, "_looked", counted)
    index = made(path, format)
    assert len(looked) - 1 <= len(set(looked)) > 3  # in the last one nothing may begin
    (offsets, lines_of, numbers) = (
        np.concatenate(each) for each in zip(*module.begins(path, format), strict=True)
    )
    assert index.count == len(numbers)
    firsts = np.unique(offsets // 700, return_index=True)[1]
    np.testing.assert_array_equal(index.places, [offsets[firsts], lines_of[firsts], numbers[firsts]])
