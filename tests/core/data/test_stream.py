"""Instances chunk by chunk: those of the whole file, whatever the chunks, however a pipe gives its bytes."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import DataError
from abw.core.data.feed import Feed, open_feed
from abw.core.data.instances import Instances
from abw.core.data.read import Chunk, chunks, read
from abw.core.data.readers.jsonl import schema_of_json
from abw.core.ir.schema import Schema
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
quick = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextmanager
def piped(*parts: bytes, path: str = "stdin") -> Iterator[Feed]:
    """A pipe into which the parts are written one after the other."""
    end, begin = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(begin, "wb", buffering=0) as file:
            for part in parts:
                file.write(part)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield Feed(Path(path), end)
    finally:
        os.close(end)
        writer.join()


def schema_of(path: Path, format: str) -> Schema | None:
    return schema_of_json(path) if format == "json" else None


def plain(found: list[Chunk[Instances]]) -> list[oracle.Plain]:
    for chunk in found:
        oracle.check_arrays(chunk.instances)
    return [one for chunk in found for one in oracle.plain(chunk.instances)]


@pytest.mark.parametrize("format", NAMES)
@quick
@given(size=st.integers(1, 40), limit=st.none() | st.integers(1, 30), blank=st.booleans(), end=st.booleans())
def test_the_chunks_of_a_file_are_the_file(
    format: str, size: int, limit: int | None, blank: bool, end: bool, root: Path, tmp_path: Path
) -> None:
    text = (root / "specs/data" / NAMES[format]).read_text("utf-8")
    path = tmp_path / "data"
    path.write_text(
        ("\n \n" if blank else "\ufeff") + (text.replace("\n", "\n\n") if blank else text.rstrip("\n" * end)),
        "utf-8",
    )
    with open_feed(path) as feed:
        found = list(chunks(feed, format, size, limit=limit, schema=schema_of(path, format)))
    whole = read(path, format, limit=limit)
    assert plain(found) == oracle.plain(whole)
    assert [len(c.instances) for c in found[:-1]] == [size] * (len(found) - 1)
    numbers = [number for c in found for number in c.instances.numbers.tolist()]
    assert numbers == list(range(len(whole)))
    if format == "json":
        assert [n for c in found for n in c.instances.names or ()] == list(whole.names or ())


@pytest.mark.parametrize("format", NAMES)
@quick
@given(data=st.data())
def test_however_a_pipe_gives_its_bytes(format: str, data: st.DataObject, root: Path) -> None:
    path = root / "specs/data" / NAMES[format]
    content = path.read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    with piped(*parts) as feed:
        found = list(chunks(feed, format, data.draw(st.integers(1, 50)), schema=schema_of(path, format)))
        assert feed.size is None and feed.taken == len(content)
    assert plain(found) == oracle.plain(read(path, format))


ONE = {
    "trees": "(3 (2 It) (4 works))\n",
    "tags": "It|O works|O\n",
    "pairs": "<s> a </s> ||| <s> b </s>\n",
    "words": "It works.\n",
    "lattice": "2\n0 0\n0\n1 0 5\n",
    "plans": '{"Plan":\n{"Node Type": "Result"}}\n',
    "json": '{"vertices": [{"kind": "a", "n": 1}]}\n',
}


@pytest.mark.parametrize("format", ONE)
def test_what_is_there_comes_before_the_pipe_ends(format: str, tmp_path: Path) -> None:
    path = tmp_path / "sample"
    path.write_text(("1\n" if format == "lattice" else "") + ONE[format])
    end, begin = os.pipe()
    got = chunks(Feed(Path("stdin"), end), format, 100, schema=schema_of(path, format))
    one = ONE[format].encode()
    os.write(begin, b"3\n" * (format == "lattice") + 2 * one + one[:7])
    assert len(next(got).instances) == 2
    os.write(begin, one[7:])
    chunk = next(got)
    assert len(chunk.instances) == 1 and chunk.instances.numbers.tolist() == [2]
    assert chunk.instances.lines[0] == 1 + 2 * one.count(b"\n") + (format == "lattice")
    os.close(begin)
    assert list(got) == []
    os.close(end)


WRONG = {"trees": "(3 (2 It)\n", "tags": "It works|O\n", "pairs": "a b c\n", "json": '{"vertices": 1}\n'}
WRONG["plans"] = '[{"Plan": {"Alias": 1}}]\n'
WRONG["lattice"] = "2\n0 0\n0\n1 1 5\n"


@pytest.mark.parametrize("format", WRONG)
@quick
@given(good=st.lists(st.booleans(), min_size=1, max_size=40), size=st.integers(1, 20), pipe=st.booleans())
def test_bad_instances_are_left_out_where_that_is_asked_for(
    format: str, good: list[bool], size: int, pipe: bool, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    head = f"{len(good)}\n" if format == "lattice" else ""
    path.write_text(head + "".join(ONE[format] if g else WRONG[format] for g in good))
    sample = tmp_path / "sample"
    sample.write_text(ONE["json"])
    schema = schema_of(sample, format)

    def found() -> list[Chunk[Instances]]:
        with piped(path.read_bytes(), path=str(path)) if pipe else open_feed(path) as feed:
            return list(chunks(feed, format, size, schema=schema, skip_bad=True))

    lines, line = [], 1 + head.count("\n")
    for g in good:
        lines.append(line)
        line += (ONE if g else WRONG)[format].count("\n")
    came: list[int] = []
    for chunk in found():
        bad = [b.line for b in chunk.bad]
        assert all(b.message.startswith(f"{path}:") for b in chunk.bad)
        came += sorted([*chunk.instances.lines.tolist(), *bad])
    assert came == lines
    if not all(good):
        before: list[int] = []
        with (
            pytest.raises(DataError) as caught,
            piped(path.read_bytes(), path=str(path)) if pipe else open_feed(path) as feed,
        ):
            for chunk in chunks(feed, format, size, schema=schema):
                before += chunk.instances.lines.tolist()
        where = caught.value.problems[0].where
        assert before == lines[: good.index(False)]
        assert where and lines[len(before)] <= where.line < [*lines, line][len(before) + 1]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("3\n0\n2\n0 0\n0\n1 0 5\n1\n0\n0\n", [2]),  # of no length
        ("3\n1\n0\n0\n2\n0\n0\n1 0 5\n1\n0\n0\n", [5]),  # tags are missing
        ("3\n1\n0\n0\n1\n0\n0\n2\n0 0\n0\n", [8]),  # the file ends
    ],
)
def test_lattices_that_can_be_left_out(text: str, lines: list[int], tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text(text)
    with open_feed(path) as feed:
        found = list(chunks(feed, "lattice", 10, skip_bad=True))
    assert [b.line for c in found for b in c.bad] == lines
    assert sum(len(c.instances) for c in found) == 2


@pytest.mark.parametrize(("text", "line"), [("2\n1x\n0\n0\n1\n0\n0\n", 2), ("3\n1\n0\n0\n", 1), ("x\n", 1)])
def test_lattices_that_cannot_be_left_out(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text(text)
    seen = 0
    with open_feed(path) as feed, pytest.raises(DataError) as caught:
        for chunk in chunks(feed, "lattice", 10, skip_bad=True):
            seen += len(chunk.instances)
    assert seen == (line == 1 and text.startswith("3"))
    assert caught.value.problems[0].where and caught.value.problems[0].where.line == line


def test_a_bad_line_is_told_while_the_pipe_waits() -> None:
    end, begin = os.pipe()
    got = chunks(Feed(Path("stdin"), end), "trees", 10, skip_bad=True)
    os.write(begin, b"(2 It\n")
    chunk = next(got)
    assert len(chunk.instances) == 0 and [b.line for b in chunk.bad] == [1]
    os.close(begin)
    assert list(got) == []
    os.close(end)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"vertices": [{"kind": "c"}]}', "unknown kind 'c'"),
        ('{"vertices": [{"kind": "b", "n": 1}]}', "unknown field 'n' on a vertex of kind 'b'"),
        ('{"vertices": [{"kind": "a", "n": "x"}]}', "field 'n' is not a whole number"),
        ('{"vertices": [{"kind": "a", "n": 1.5}]}', "field 'n' is not a whole number"),
        ('{"vertices": [{"kind": "b", "p": [1, 2, 3]}]}', "field 'p' is not a list of 2 numbers"),
        ('{"vertices": [{"kind": "b", "q": "1"}]}', "field 'q' is not a number"),
        ('{"vertices": [{"kind": "b", "p": "1 2"}]}', "field 'p' is not a list of 2 numbers"),
        ('{"vertices": [{"kind": "a"}, {"kind": "b"}], "links": {"l": [[1, 0]]}}', "unknown link 'l'"),
        ('{"vertices": [{"kind": "a"}, {"kind": "b"}], "links": {"l": [[0, 1], [0, 1]]}}', "several links"),
        ('{"vertices": [{"kind": "a"}, {"kind": "b"}], "links": {"m": [[0, 1]]}}', "unknown link 'm'"),
    ],
)
def test_json_instances_must_be_made_of_what_the_model_knows(line: str, message: str, tmp_path: Path) -> None:
    path, sample = tmp_path / "data", tmp_path / "sample"
    sample.write_text(
        '{"vertices": [{"kind": "a", "n": 1}, {"kind": "b", "p": [1, 2], "q": 0.5}], '
        '"links": {"l": [[0, 1]]}}\n'
    )
    path.write_text(sample.read_text() + line + "\n")
    with open_feed(path) as feed, pytest.raises(DataError, match=message) as caught:
        list(chunks(feed, "json", 10, schema=schema_of_json(sample)))
    assert caught.value.problems[0].where and caught.value.problems[0].where.line == 2


def test_memory_does_not_grow_with_the_input() -> None:
    """Three and thirty times the same through a pipe: no more is alive at a time, be it that all differs."""
    one = [f"(3 (2 w{i}) (4 (4 v{i}) (2 here)))\n" for i in range(40_000)]

    def peak(count: int) -> int:
        with piped("".join(one[:count]).encode()) as feed:
            tracemalloc.start()
            seen = sum(len(chunk.instances) for chunk in chunks(feed, "trees", 256))
            top = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert seen == count
        return top

    peak(1000)
    assert peak(40_000) < 1.3 * peak(4000)
