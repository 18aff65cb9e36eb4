"""YAML with positions: the traps are errors, and errors have places."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.base.errors import SpecError
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, read
from abw.core.spec.text.report import Report, reporting


def load(tmp_path: Path, data: bytes | str) -> tuple[Node | None, Report]:
    path = tmp_path / "x.yaml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with reporting() as report:
        return read(path), report


def problems(report: Report) -> list[tuple[str, int, int]]:
    with pytest.raises(SpecError) as error:
        report.check()
    return [
        (p.message, p.where.line if p.where else 0, p.where.column if p.where else 0)
        for p in error.value.problems
    ]


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate key 'a'", 3, 1),
        ("{a: 1, a: 2}", "duplicate key 'a'", 1, 8),
        ("a: 1\n\tb: 2\n", "not YAML: while scanning for the next token, found character '\\t' that", 2, 1),
        (
            "a: {x: chars[id]}\n",
            "not YAML: while parsing a flow mapping, expected ',' or '}', but got '['",
            1,
            13,
        ),
        ("a: b: c\n", "not YAML: mapping values are not allowed here", 1, 5),
        ("a: 'open\n", "not YAML: while scanning a quoted scalar, found unexpected end of stream", 2, 1),
        ("", "the file is empty", 1, 1),
        ("# nothing\n", "the file is empty", 1, 1),
        ("---\n", "the file is empty", 1, 1),
        ("a: 1\n---\nb: 2\n", "a spec is one YAML document, here begins a second", 2, 1),
        ("a: !!python/object:os.system x\n", "a tag (tag:yaml.org,2002:python/object:os.system)", 1, 4),
        ("a: *b\n", "'*b' repeats what is not (yet) there", 1, 4),
        ("a: &a [*a]\n", "'*a' repeats what is not (yet) there", 1, 8),
        ("? [x]\n: 1\n", "a key must be a name", 1, 3),
        ('"": 1\n', "a key must be a name", 1, 1),
        ("a: " + "[" * 30, "nested more than 20 deep", 1, 23),
        ("a: " + "[" * 100_000, "nested more than 20 deep", 1, 23),
        ("ok: 1\na: \x07\n", "not YAML: a control character (U+0007)", 2, 4),
        ('a: "\\ud800"\n', "half of a surrogate pair is no character", 1, 4),
        ('a: "\\UFFFFFFFF"\n', "not YAML:", 1, 1),
    ],
)
def test_what_is_no_spec_is_told_with_its_place(
    tmp_path: Path, text: str, message: str, line: int, column: int
) -> None:
    _, report = load(tmp_path, text)
    (found,) = problems(report)
    assert found[0].startswith(message)
    assert found[1:] == (line, column)


def test_hints_for_the_common_slips(tmp_path: Path) -> None:
    for text, hint in (
        ("a:\n\t- b\n", "not with tabs"),
        ("{x: words[id], y: 2}", 'quotes around what has brackets: x: "words[id]"'),
        ("a: *b\n", "needs quotes"),
        ("a: 1\na: 2\n", "the first is on line 1"),
    ):
        _, report = load(tmp_path, text)
        with pytest.raises(SpecError, match="hint: ") as error:
            report.check()
        assert hint in error.value.problems[0].hint


def test_not_utf8(tmp_path: Path) -> None:
    _, report = load(tmp_path, b"a: 1\nb: \xff\n")
    assert problems(report) == [("not UTF-8", 2, 1)]


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "lattice.yaml").write_text("a: 1")
    with reporting() as report:
        assert read(tmp_path / "latice.yaml") is None
    with pytest.raises(
        SpecError, match=r"there is no file .*latice.yaml\n  hint: did you mean 'lattice.yaml'\?"
    ):
        report.check()
    with reporting() as report:
        assert read(tmp_path / "nowhere" / "a.yaml") is None
    with pytest.raises(SpecError, match=r"there is no folder .*nowhere"):
        report.check()


def test_a_folder_and_a_nul_in_the_name(tmp_path: Path) -> None:
    with reporting() as report:
        assert read(tmp_path) is None
        assert read(tmp_path / "a\0b") is None
    first, second = problems(report)
    assert first[0].endswith("is a folder, not a file")
    assert "a\\x00b" in second[0]


def test_too_large(tmp_path: Path) -> None:
    _, report = load(tmp_path, "a: " + "x" * 1_000_001)
    assert "too large to be a spec" in problems(report)[0][0]


def test_aliases_repeat_on_a_budget(tmp_path: Path) -> None:
    node, report = load(tmp_path, "a: &a {x: 1}\nb: *a\nc: [*a, *a]\n")
    assert not len(report)
    assert isinstance(node, Mapping)
    assert node.get("b") is node.get("a")
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
    )
    _, report = load(tmp_path, laughs)
    (found,) = problems(report)
    assert found == ("aliases repeat more than 1000 values", 4, 10)


def test_scalars_know_where_their_parts_stand(tmp_path: Path) -> None:
    text = (
        "plain: some text\n"
        "single: 'in quotes'\n"
        'double: "in quotes"\n'
        'escape: "a\\tb"\n'
        "block: |\n\n    one = 1\n      two\n"
        "list:\n  - deep: |  # comment\n      x y\n"
        "fold: >\n  a\n  b\n"
    )
    node, report = load(tmp_path, text)
    assert isinstance(node, Mapping)
    assert not len(report)

    def place(key: str, part: str) -> tuple[int, int]:
        value = node.get(key)
        assert isinstance(value, Scalar)
        span = value.at(value.text.index(part), len(part))
        assert span.text == text.split("\n")[span.line - 1]
        return span.line, span.column

    assert place("plain", "text") == (1, 13)
    assert place("single", "quotes") == (2, 13)
    assert place("double", "quotes") == (3, 13)
    assert place("escape", "b") == (4, 9)
    assert place("block", "one") == (7, 5)
    assert place("block", "two") == (8, 7)
    assert place("fold", "b") == (12, 7)
    items = node.get("list")
    assert items is not None and not isinstance(items, Scalar)
    inner = items.items[0]
    assert isinstance(inner, Mapping)
    deep = inner.get("deep")
    assert isinstance(deep, Scalar)
    assert (deep.at(2).line, deep.at(2).column) == (11, 9)


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    node, report = load(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\nc: 2\r\nc: 3\r\n")
    assert isinstance(node, Mapping)
    block = node.get("b")
    assert isinstance(block, Scalar)
    assert block.text == "x\ny\n"
    assert (block.at(2).line, block.at(2).column, block.at(2).text) == (4, 3, "  y")
    assert problems(report) == [("duplicate key 'c'", 6, 1)]


def test_scalars_mean_what_yaml_1_2_says(tmp_path: Path) -> None:
    texts = [
        "12",
        "-3",
        "012",
        "1_000",
        "0x1f",
        "1.5",
        "1e-3",
        ".5",
        "'12'",
        "on",
        "true",
        "12345678901234567890",
    ]
    whole = [12, None, None, None, None, None, None, None, None, None, None, None]
    numbers = [12.0, -3.0, 12.0, None, None, 1.5, 1e-3, 0.5, None, None, None, 12345678901234567890.0]
    for text, integer, number in zip(texts, whole, numbers, strict=True):
        node, _ = load(tmp_path, f"a: {text}")
        assert isinstance(node, Mapping)
        with reporting() as report:
            assert fields.integer(node.get("a"), "a") == integer
        assert bool(len(report)) == (integer is None)
        assert fields.number(node.get("a"), "a") == number
    node, report = load(tmp_path, "on: yes\n")
    assert isinstance(node, Mapping)
    key, value = node.items[0]
    assert isinstance(value, Scalar)
    assert (key.text, value.text) == ("on", "yes")


def test_a_text_that_was_read_before_is_told_of_again_and_one_that_changed_is_read(tmp_path: Path) -> None:
    (first, _), (again, _) = load(tmp_path, "a: 1\n"), load(tmp_path, "a: 1\n")
    assert first is again
    other, _ = load(tmp_path, "a: 2\n")
    assert isinstance(other, Mapping) and isinstance(value := other.get("a"), Scalar) and value.text == "2"
    for _ in range(2):
        node, report = load(tmp_path, "a: 1\na: 3\n")
        assert isinstance(node, Mapping)
        assert problems(report) == [("duplicate key 'a'", 2, 1)]
