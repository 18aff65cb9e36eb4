"""Rows of embedding tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.data.instances import Instances
from abw.core.data.read import read
from abw.core.data.vocab import table_rows
from abw.core.errors import DataError, Span
from abw.core.spec.model import Table


@pytest.fixture
def tree(tmp_path: Path) -> Instances:
    path = tmp_path / "tree.txt"
    path.write_text("(3 (2 the) (1 (2 new) (2 the)))")
    return read(path, "trees")


def _table(rows: int, vocab: Path | None = None, unknown: str | None = "<unk>") -> Table:
    return Table("words", rows, (4,), vocab, unknown, Span("spec.yaml", 3))


def _vocab(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "words.txt"
    path.write_bytes(text.encode())
    return path


def _fnv(word: str) -> int:
    value = 0xCBF29CE484222325
    for byte in word.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def test_without_a_vocabulary_a_word_has_its_hash_modulo_the_rows(tree: Instances, tmp_path: Path) -> None:
    the, new = _fnv("the") % 256, _fnv("new") % 256
    assert table_rows(tree, "word", _table(256)).tolist() == [-1, -1, the, -1, new, the]
    path = tmp_path / "other.txt"
    path.write_text("(3 (2 a) (1 (2 new) (2 é)))")
    assert table_rows(read(path, "trees"), "word", _table(256)).tolist()[4:] == [new, _fnv("é") % 256]


def test_without_a_vocabulary_numbers_are_taken_modulo_the_rows(root: Path) -> None:
    lattices = read(root / "specs/data/lattice.txt", "lattice", limit=2)
    ids = lattices.fields["id"]
    rows = table_rows(lattices, "id", _table(5))
    assert (rows[ids >= 0] == ids[ids >= 0] % 5).all() and (rows[ids < 0] == -1).all()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_words_are_looked_up(end: str, tree: Instances, tmp_path: Path) -> None:
    path = _vocab(tmp_path, end.join(["<unk>", "old", "the", ""]))
    assert table_rows(tree, "word", _table(3, path)).tolist() == [-1, -1, 2, -1, 0, 2]


def test_without_a_word_for_the_unknown_others_have_no_row(tree: Instances, tmp_path: Path) -> None:
    path = _vocab(tmp_path, "new\nthe")
    assert table_rows(tree, "word", _table(2, path, None)).tolist() == [-1, -1, 1, -1, 0, 1]
    rows = table_rows(tree, "word", _table(2, _vocab(tmp_path, "the"), None))
    assert rows.tolist() == [
        -1,
        -1,
        0,
        -1,
        -1,
        0,
    ]  # the graph's construction says which is missing, and where


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "empty vocabulary"),
        ("\n \n", 1, "empty vocabulary"),
        ("<unk>\nthe\nold\nthe\n", 4, "'the' stands on line 2 already"),
        ("<unk>\n\nthe\n", 2, "a blank line"),
        ("the\nold\n", 1, "'<unk>', is not in the vocabulary"),
        ("<unk>\na\nb\nc\nd\n", 1, "5 words, but table 'words' has 4 rows"),
    ],
)
def test_unfit_vocabularies(text: str, line: int, message: str, tree: Instances, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        table_rows(tree, "word", _table(4, _vocab(tmp_path, text)))
    where = caught.value.problems[0].where
    assert where is not None and where.line == line and where.file.endswith("words.txt")


def test_a_missing_vocabulary(tree: Instances, tmp_path: Path) -> None:
    _vocab(tmp_path, "<unk>")
    with pytest.raises(DataError, match=r"word\.txt: no such file") as caught:
        table_rows(tree, "word", _table(4, tmp_path / "word.txt"))
    assert "did you mean 'words.txt'?" in str(caught.value)


def test_a_vocabulary_for_a_number(root: Path, tmp_path: Path) -> None:
    lattices = read(root / "specs/data/lattice.txt", "lattice", limit=1)
    with pytest.raises(DataError, match="the field 'id' is a number") as caught:
        table_rows(lattices, "id", _table(4, _vocab(tmp_path, "<unk>")))
    assert caught.value.problems[0].where == Span("spec.yaml", 3)
