"""Parts are there whole or not at all, and joined only where they belong together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.data.feed import Section
from abw.core.store.reading import StoredArrays, StoredLines, open_outputs
from abw.core.store.shard_files import (
    Part,
    discard,
    folder_of,
    is_done,
    join,
    join_share,
    leave,
    refuse_others,
    writing_part,
)

WHOSE = {"data": "a" * 64, "abw": "1", "dims": {"hidden": 8}}
SECTION = Section(0, 10, 1, 0, 2)


def write(output: Path, number: int, parts: int, text: bytes, **other: object) -> Part:
    part = Part(output, number, parts)
    with writing_part(part, {**WHOSE, **other}, SECTION) as draft:
        draft.path.write_bytes(text)
        draft.instances, draft.skipped = 2, number
    return part


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The parts of an output of three."""
    path = tmp_path / "out.jsonl"
    for number, text in ((3, b"e\nf\n"), (1, b"a\nb\n"), (2, b"")):
        write(path, number, 3, text)
    return path


def test_they_are_joined_in_their_order(output: Path) -> None:
    found = join(output, WHOSE)
    assert found == {"output": str(output), "parts": 3, "instances": 6, "skipped": 6}
    assert output.read_bytes() == b"a\nb\ne\nf\n"
    assert all(is_done(Part(output, number, 3), WHOSE) for number in (1, 2, 3))
    discard(output)
    assert not folder_of(output).exists()
    assert not is_done(Part(output, 1, 3), WHOSE)


def test_shares_of_parts_are_joined_by_any_processes_in_any_order(tmp_path: Path) -> None:
    output, texts = tmp_path / "out.jsonl", [b"%d\n" % n * n for n in range(1, 8)]
    for number, text in enumerate(texts, 1):
        write(output, number, 7, text)
    joined = folder_of(output) / "joined"
    for number in (3, 1):
        found = join_share(output, number, 3)
        assert found["parts"] == len(range(number, 8, 3))
    assert not output.exists() and joined.stat().st_size == sum(map(len, texts))
    join(output)  # without the second one
    assert output.read_bytes() == b"".join(texts)
    join_share(output, 2, 3)
    output.unlink()
    joined.write_bytes(b"".join(texts).replace(b"7", b"x"))  # it is taken as it is
    join(output)
    assert output.read_bytes() == b"".join(texts).replace(b"7", b"x")
    assert not list(folder_of(output).glob("joined*"))
    join_share(output, 1, 2)
    write(output, 7, 7, b"other\n")
    join_share(output, 2, 2)
    join(output)  # the first share was written before
    assert output.read_bytes() == b"".join([*texts[:-1], b"other\n"])
    Part(output, 2, 7).path.write_bytes(b"2\n3\n")
    join_share(output, 1, 2)
    with pytest.raises(AbwError, match="part 2 of 7 is damaged"):
        join_share(output, 2, 2)


def drop_note(part: Part) -> None:
    part.note.unlink()


def drop(part: Part) -> None:
    part.path.unlink()


def cut(part: Part) -> None:
    part.path.write_bytes(part.path.read_bytes()[:-1])


def change(part: Part) -> None:
    part.path.write_bytes(b"X" + part.path.read_bytes()[1:])


def no_json(part: Part) -> None:
    part.note.write_text("{")


def no_note(part: Part) -> None:
    part.note.write_text('{"whose": 3}')


def other_count(part: Part) -> None:
    write(part.output, 1, 4, b"")


def other(key: str, value: object) -> Callable[[Part], None]:
    def change(part: Part) -> None:
        note = json.loads(part.note.read_text())
        note["whose"][key] = value
        part.note.write_text(json.dumps(note))

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (drop_note, "part 3 of 3 is missing"),
        (drop, "part 3 of 3 is damaged: .* is not there"),
        (cut, "part 3 of 3 is damaged: .* has 3 bytes, and 4 were written"),
        (change, "part 3 of 3 is damaged: .* holds other bytes than were written"),
        (no_json, "part-00003-of-00003.json is damaged"),
        (no_note, "part-00003-of-00003.json is damaged"),
        (other_count, "part 1 of 4: two runs"),
        (other("data", "b" * 64), r"part 3 of 3 .* differs in data \(bbbbbbbb, not aaaaaaaa\)"),
        (other("abw", "2"), r"differs in abw \(2, not 1\)"),
        (other("new", 1), r"differs in new \(1, not None\)"),
    ],
)
def test_what_does_not_fit_is_named(damage: Callable[[Part], None], said: str, output: Path) -> None:
    output.write_text("before")
    damage(Part(output, 3, 3))
    with pytest.raises(AbwError, match=said):
        join(output)
    assert output.read_text() == "before"


def test_all_that_are_missing_are_named(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with pytest.raises(AbwError, match=r"holds no parts of out\.jsonl"):
        join(output)
    write(output, 2, 4, b"")
    with pytest.raises(AbwError, match="parts 1, 3, 4 of 4 are missing"):
        join(output)


def test_parts_of_another_run_are_refused_before_work(output: Path) -> None:
    refuse_others(output, WHOSE, 3)
    with pytest.raises(AbwError, match="this run has 2 parts"):
        refuse_others(output, WHOSE, 2)
    with pytest.raises(AbwError, match="differs in dims"):
        refuse_others(output, {**WHOSE, "dims": {}}, 3)
    with pytest.raises(AbwError, match="differs in dims"):
        is_done(Part(output, 1, 3), {**WHOSE, "dims": {}})


def test_what_fails_leaves_the_part_as_it_was(output: Path) -> None:
    names = {path.name for path in folder_of(output).iterdir()}
    with pytest.raises(ZeroDivisionError), writing_part(Part(output, 1, 3), WHOSE, SECTION) as draft:
        draft.path.write_bytes(b"half")
        raise ZeroDivisionError
    assert {path.name for path in folder_of(output).iterdir()} == names
    assert is_done(Part(output, 1, 3), WHOSE)


def test_a_part_without_its_note_is_written_again(output: Path) -> None:
    part = Part(output, 1, 3)
    part.note.unlink()  # killed between the two
    assert not is_done(part, WHOSE)
    write(output, 1, 3, b"a\nb\n")
    assert is_done(part, WHOSE)


def test_arrays_are_joined(tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    for number, counts in ((1, [2, 1]), (2, []), (3, [0, 3])):
        with writing_part(Part(output, number, 3), WHOSE, SECTION) as draft:
            offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
            values = np.arange(offsets[-1], dtype=np.float32) + 10 * number
            arrays: dict[str, Any] = {"x.offsets": offsets, "x": values}
            np.savez(draft.path, **arrays)
    join(output)
    with np.load(output) as found:
        assert found["x.offsets"].tolist() == [0, 2, 3, 3, 6]
        assert found["x"].tolist() == [10, 11, 12, 30, 31, 32]


def test_parts_that_are_left_are_read_as_one(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    lines = [b'{"id":%d}\n' % i for i in range(7)]
    for number, some in ((2, lines[3:3]), (1, lines[:3]), (3, lines[3:])):
        write(output, number, 3, b"".join(some))
    with pytest.raises(AbwError, match=r"there is no .*out\.jsonl, and no .*manifest") as told:
        open_outputs(output)
    assert "--leave-parts" in told.value.hint
    assert leave(output, WHOSE) == {"output": str(output), "parts": 3, "instances": 6, "skipped": 6}
    assert not output.exists()
    left = open_outputs(output)
    assert isinstance(left, StoredLines) and list(left) == [{"id": i} for i in range(7)] == list(left)
    assert len(left.files) == 3
    cut(Part(output, 1, 3))
    with pytest.raises(AbwError, match=r"part-00001-of-00003\.jsonl is not there as"):
        open_outputs(output)
    write(output, 1, 3, b"".join(lines[:3]))
    join(output, WHOSE)
    joined = open_outputs(output)
    assert list(joined) == list(left) and joined.files == (output,)
    output.write_bytes(b"{\n")
    with pytest.raises(AbwError, match=r"out\.jsonl:1: not JSON"):
        list(open_outputs(output))


def test_arrays_that_are_left_are_read_as_one(tmp_path: Path) -> None:
    output = tmp_path / "out.safetensors"
    values, counts = np.arange(20.0).reshape(10, 2), np.array([2, 0, 3, 1, 4])
    for number, (first, last) in enumerate(((0, 2), (2, 2), (2, 5)), 1):
        ends = np.cumsum([0, *counts])
        begin, end = ends[first], ends[last]
        with writing_part(Part(output, number, 3), WHOSE, SECTION) as draft, draft.path.open("wb") as file:
            own = np.cumsum([0, *counts[first:last]])
            np.savez(file, **{"y": values[begin:end], "y.offsets": own})  # type: ignore[arg-type]
    leave(output)
    left = open_outputs(output)
    assert isinstance(left, StoredArrays) and sorted(left) == ["y", "y.offsets"] and len(left) == 2
    np.testing.assert_array_equal(left["y"], values)
    np.testing.assert_array_equal(left["y.offsets"], np.cumsum([0, *counts]))
    join(output)
    joined = open_outputs(output)
    assert isinstance(joined, StoredArrays)
    for name in left:
        np.testing.assert_array_equal(joined[name], left[name])


def test_large_parts_are_placed_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.core.store.shard_files.PIECE", 7)
    output = tmp_path / "out.jsonl"
    texts = [b"%d\n" % number * (number * 37 % 23) for number in range(1, 30)]
    for number, text in enumerate(texts, 1):
        write(output, number, len(texts), text)
    join(output)
    assert output.read_bytes() == b"".join(texts)
    monkeypatch.delattr("os.pwrite")  # as on Windows
    join(output)
    assert output.read_bytes() == b"".join(texts)
