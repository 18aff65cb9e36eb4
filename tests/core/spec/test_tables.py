"""Tables, their vocabularies, and the row of unknown words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import Span
from abw.core.spec.models.tables import read_vocabulary
from abw.core.spec.text.report import reporting
from tests.core.spec.writing import Folder, edited

TREES = """\
model: trees
dims: {n: 3}
data: {format: trees, path: d.txt}
tables: {words: {dim: n, vocab: words.txt}}
types:
  leaf: {per: leaf, cell: linear.yaml, dims: {in: n, out: n}, inputs: {x: "words[word]"}}
outputs: {y: leaf.y}
"""
ASKED = Span("spec.yaml", 4)
WORDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1), unique=True
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def problems(path: Path) -> list[tuple[str, Span | None]]:
    with reporting() as report:
        assert read_vocabulary(path, ASKED) is None or len(report)
    with pytest.raises(Exception) as caught:
        report.check()
    return [(p.message, p.where) for p in caught.value.problems]  # type: ignore[attr-defined]


@given(WORDS.filter(bool), st.sampled_from(["\n", "\r\n"]))
def test_every_form_gives_each_word_its_row(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], end: str
) -> None:
    folder = tmp_path_factory.mktemp("vocab")
    expected = {word: row for row, word in enumerate(words)}
    backwards = dict(reversed(expected.items()))
    for path in (
        written(folder, "v.txt", end.join([*words, ""])),
        written(folder, "list.json", json.dumps(words)),
        written(folder, "rows.json", json.dumps(backwards, ensure_ascii=False)),
    ):
        with reporting() as report:
            assert read_vocabulary(path, ASKED) == expected
        assert not len(report)


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("v.txt", "", 1, "an empty vocabulary"),
        ("v.txt", "\n \n", 1, "an empty vocabulary"),
        ("v.txt", "<unk>\nthe\nold\nthe\n", 4, "'the' is already on line 2"),
        ("v.txt", "<unk>\n\nthe\n", 2, "a blank line"),
        ("v.json", "[\n'a']", 2, "not JSON"),
        ("v.json", "[]", 1, "no vocabulary"),
        ("v.json", "3", 1, "no vocabulary"),
        ("v.json", '["a", 3]', 1, "3 is no word"),
        ("v.json", '["a", "b", "a"]', 1, "'a' is there twice"),
        ("v.json", '{"a": -1}', 1, "-1 is no row"),
        ("v.json", '{"a": true}', 1, "True is no row"),
        ("v.json", '{"a": 3000000000}', 1, "3000000000 is no row"),
    ],
)
def test_unfit_vocabularies(name: str, text: str, line: int, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, text)
    ((said, where),) = problems(path)
    assert message in said
    assert where is not None and (where.file, where.line) == (str(path), line)


def test_vocabularies_that_cannot_be_read(tmp_path: Path) -> None:
    written(tmp_path, "words.txt", "a")
    for name, message in (("word.txt", "missing vocabulary"), (".", "cannot read")):
        ((said, where),) = problems(tmp_path / name)
        assert message in said and where == ASKED
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert "is not UTF-8" in problems(tmp_path / "latin.txt")[0][0]


@pytest.mark.parametrize(
    ("keys", "rows", "unknown"),
    [
        ("", 3, None),
        (", unknown: <unk>", 3, 1),
        (", unknown: 2", 3, 2),
        (", unknown: '7'", 3, 0),
        (", unknown: 9, rows: 10", 10, 9),
    ],
)
def test_the_row_of_unknown_words(folder: Folder, keys: str, rows: int, unknown: int | None) -> None:
    folder.write("words.txt", "7\n<unk>\nthe\n")
    model = folder.model(edited(TREES, "vocab: words.txt", f"vocab: words.txt{keys}"))
    (table,) = model.tables
    assert (table.rows, table.unknown) == (rows, unknown)
    assert table.vocab is not None and table.vocab.rows == {"7": 0, "<unk>": 1, "the": 2}
    assert model.files[-1] == table.vocab.path == folder.path / "words.txt"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (", unknown: 3", "table 'words' has no row 3"),
        (", unknown: a, rows: 3", "'a' is no word of"),
        (", rows: 2", "table 'words' has 2 rows, its vocabulary needs 3"),
    ],
)
def test_rows_that_are_not_there(folder: Folder, keys: str, message: str) -> None:
    folder.write("words.txt", "7\n<unk>\nthe\n")
    (problem,) = folder.model_problems(edited(TREES, "vocab: words.txt", f"vocab: words.txt{keys}"))
    assert message in problem.message and problem.where is not None and problem.where.line == 4


@pytest.mark.parametrize(("rows", "wrong"), [(2**30, True), (2**31 - 1, True), (2**30 - 2**20 - 256, False)])
def test_rows_beyond_what_can_be_numbered(folder: Folder, rows: int, wrong: bool) -> None:
    folder.write("words.txt", "a\n")
    text = edited(TREES, "vocab: words.txt", f"vocab: words.txt, rows: {rows}")
    text = edited(text, "tables: {", "tables: {more: {dim: 4}, ")
    problems = folder.model_problems(text)
    assert [p.message for p in problems if "of at most 1,072,693,248" in p.message and p.where] == (
        [f"the tables down to this one have {rows + 256:,} rows together, of at most 1,072,693,248"]
        if wrong
        else []
    )
