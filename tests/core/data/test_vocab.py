"""Rows of embedding tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.base.errors import DataError, Span
from abw.core.data.instances import Instances
from abw.core.data.intern import trained_ids
from abw.core.data.read import read
from abw.core.ir.model import Table, Vocabulary
from tests.core.data.rows import table_rows


@pytest.fixture
def tree(tmp_path: Path) -> Instances:
    path = tmp_path / "tree.txt"
    path.write_text("(3 (2 the) (1 (2 new) (2 the)))")
    return read(path, "trees")


def _table(rows: int, words: str | None = None, unknown: int | None = 0) -> Table:
    vocab = Vocabulary(Path("words.txt"), {w: i for i, w in enumerate(words.split())}) if words else None
    return Table("words", rows, (4,), vocab, unknown, Span("spec.yaml", 3))


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


def test_words_are_looked_up(tree: Instances) -> None:
    assert table_rows(tree, "word", _table(3, "<unk> old the")).tolist() == [-1, -1, 2, -1, 0, 2]
    assert table_rows(tree, "word", _table(9, "<unk> old the", 8)).tolist() == [-1, -1, 2, -1, 8, 2]


def test_without_a_word_for_the_unknown_others_have_no_row(tree: Instances) -> None:
    assert table_rows(tree, "word", _table(2, "new the", None)).tolist() == [-1, -1, 1, -1, 0, 1]
    # the graph's construction says which is missing, and where
    assert table_rows(tree, "word", _table(2, "the", None)).tolist() == [-1, -1, 0, -1, -1, 0]


def test_a_vocabulary_for_a_number(root: Path) -> None:
    lattices = read(root / "specs/data/lattice.txt", "lattice", limit=1)
    with pytest.raises(DataError, match="the field 'id' is a number") as caught:
        table_rows(lattices, "id", _table(4, "<unk>"))
    assert caught.value.problems[0].where == Span("spec.yaml", 3)


def test_a_trained_table_has_no_row_for_numbers_beyond_it(root: Path) -> None:
    lattices = read(root / "specs/data/lattice.txt", "lattice", limit=2)
    ids = lattices.fields["id"]
    rows = trained_ids(lattices, "id", ids, _table(5))
    assert (rows[ids < 5] == ids[ids < 5]).all() and (rows[ids >= 5] == -1).all() and (ids >= 5).any()


def test_a_trained_table_of_words_needs_its_vocabulary(tree: Instances) -> None:
    words = tree.fields["word"]
    assert trained_ids(tree, "word", words, _table(2, "the")) is words
    with pytest.raises(DataError, match="has weights, but no vocabulary") as caught:
        trained_ids(tree, "word", words, _table(2))
    assert caught.value.problems[0].where == Span("spec.yaml", 3)
