"""Every mistake in a data file: its message, its line, its column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abw.core.base.errors import AbwError, DataError
from abw.core.data.feed import ALL, open_feed
from abw.core.data.given.objects import read_objects
from abw.core.data.read import read, take
from abw.core.data.readers.jsonl import schema_of_json

OK = {
    "trees": "(3 (2 It) (4 works))\n",
    "tags": "It|O works|O\n",
    "pairs": "<s> a </s> ||| <s> b </s>\n",
    "words": "It works\n",
    "lattice": "",
    "plans": '[{"Plan": {"Node Type": "Result"}}]\n',
    "json": '{"vertices": [{"kind": "a", "n": 1}]}\n',
}
VERTICES = '{"vertices": [{"kind": "a"}, {"kind": "b"}]'

WRONG = [
    ("trees", "(3 (2 It) (4 works)", 1, 20, "ends inside a tree"),
    ("trees", "(3 (2 It)\n  (4 works))", 1, 10, "ends inside a tree"),
    ("trees", "(3 (2 It) (4 works)))", 1, 21, "without its '('"),
    ("trees", ")", 1, 1, "without its '('"),
    ("trees", "It works", 1, 1, "where a tree should begin"),
    ("trees", "(2 It) .", 1, 8, "after the tree"),
    ("trees", "(2 It) (2 is)", 1, 8, "after the tree"),
    ("trees", "((2 It) (4 works))", 1, 2, "without a label"),
    ("trees", "(3 () (4 works))", 1, 5, "without a label"),
    ("trees", "(3 (2) (4 works))", 1, 6, "without a word"),
    ("trees", "(3 (2 It  works))", 1, 11, "a word beside"),
    ("trees", "(3 (2 It) works)", 1, 11, "a word beside"),
    ("trees", "(3 It (4 works))", 1, 7, "a word beside"),
    ("trees", "(3 (2 Éé) é)", 1, 11, "a word beside"),
    ("tags", "It works|O", 1, 1, "without a '|'"),
    ("tags", "It|O works", 1, 6, "without a '|'"),
    ("tags", "It|O |O", 1, 6, "without a word"),
    ("tags", "It|O é| x", 1, 6, "without a tag"),
    ("pairs", "<s> a </s> | <s> b </s>", 1, 24, "without '|||'"),
    ("pairs", "a b c||| d e f", 1, 15, "without '|||'"),
    ("pairs", "a b c ||| d e f ||| g h i", 1, 17, "a second '|||'"),
    *(
        (format, text, 1, column, "nothing but control characters")
        for format in ("trees", "tags", "pairs", "words")
        for text, column in (("\x00", 1), (" \t\x1f \x01", 3))
    ),
    ("lattice", "one\n", 1, 1, "not a whole number"),
    ("lattice", "1 2\n", 1, 3, "more numbers"),
    ("lattice", "1\n-3\n", 2, 1, "not a whole number"),
    ("lattice", "1\n2147483648\n", 2, 1, "not a whole number"),
    ("lattice", "1\n2x\n0 0\n", 2, 1, "not a whole number"),
    ("lattice", "1\n2 0\n0 0\n", 2, 3, "more numbers"),
    ("lattice", "1\n0\n\n", 2, 1, "length 0"),
    ("lattice", "1\n2\n0\n0\n1 0 5\n", 3, 2, "ends too early"),
    ("lattice", "1\n2\n0 0 0\n0\n1 0 5\n", 3, 5, "more numbers"),
    ("lattice", "1\n2\n0 0\n0\n1 0\n", 5, 4, "ends too early"),
    ("lattice", "1\n2\n0 0\n0\n1 0 5 7\n", 5, 7, "more numbers"),
    ("lattice", "1\n2\n0 0\n0\n1 0 a\n", 5, 5, "not a whole number"),
    ("lattice", "1\n2\n0 0\n0\n1 1 5\n", 5, 3, "before the one where it ends"),
    ("lattice", "1\n1\n0\n1 0 5\n", 4, 3, "before the one where it ends"),
    ("lattice", "1\n2\n0 0\n0\n", 4, 2, "ends inside a sentence"),
    ("lattice", "1\n2\n", 2, 2, "ends inside a sentence"),
    ("lattice", "\n2\n1\n0\n0\n", 2, 1, "fewer sentences"),
    ("lattice", "1\n1\n0\n0\n\n1\n0\n0\n", 6, 1, "more lines"),
    ("json", '{"vertices": [}', 1, 15, "not JSON"),
    ("json", VERTICES + ', "vertices": []}', 1, 1, "key 'vertices' twice"),
    ("json", "[1, 2]", 1, 1, "the line is not an object"),
    ("json", '{"links": {}}', 1, 1, "no key 'vertices'"),
    ("json", '{"vertexes": []}', 1, 1, "unknown key 'vertexes'"),
    ("json", '{"vertices": {}}', 1, 1, "vertices is not a list"),
    ("json", '{"vertices": []}', 1, 1, "no vertices"),
    ("json", '{"vertices": ["a"]}', 1, 1, "vertices[0] is not an object"),
    ("json", '{"vertices": [{"n": 1}]}', 1, 1, "vertices[0] has no key 'kind'"),
    ("json", '{"vertices": [{"kind": 1}]}', 1, 1, "vertices[0].kind is not a string"),
    ("json", '{"vertices": [{"kind": "instance"}]}', 1, 1, "may not be 'instance'"),
    ("json", '{"vertices": [{"kind": "a", "n": null}]}', 1, 1, "vertices[0].n is not a number"),
    ("json", '{"vertices": [{"kind": "a", "n": true}]}', 1, 1, "vertices[0].n is not a number"),
    ("json", '{"vertices": [{"kind": "a", "n": NaN}]}', 1, 1, "vertices[0].n is nan"),
    ("json", '{"vertices": [{"kind": "a", "n": [1, Infinity]}]}', 1, 1, "vertices[0].n is inf"),
    ("json", '{"vertices": [{"kind": "a", "n": [1, [2]]}]}', 1, 1, "vertices[0].n is not a list of numbers"),
    ("json", '{"vertices": [{"kind": "a", "n": []}]}', 1, 1, "vertices[0].n is an empty list"),
    ("json", '{"vertices": [{"kind": "a", "n": -3.5e38}]}', 1, 1, "n is -3.5e+38"),
    (
        "json",
        '{"vertices": [{"kind": "a", "n": [1, 2]}]}',
        1,
        1,
        "field 'n' is 2 numbers here, a number on line",
    ),
    ("json", '{"vertices": [{"kind": "a", "n": 1' + 5000 * "0" + "}]}", 1, 1, "not JSON"),
    ("json", VERTICES + ', "id": 1.5}', 1, 1, "id is not a string"),
    ("json", VERTICES + ', "links": []}', 1, 1, "links is not an object"),
    ("json", VERTICES + ', "links": {"l": "a"}}', 1, 1, "links.l is not a list"),
    ("json", VERTICES + ', "links": {"l": true}}', 1, 1, "links.l is not a whole number"),
    ("json", VERTICES + ', "links": {"l": 2}}', 1, 1, "links.l: there is no vertex 2"),
    ("json", VERTICES + ', "links": {"l": [0, 2]}}', 1, 1, "links.l[1]: there is no vertex 2"),
    ("json", VERTICES + ', "links": {"l": [0.5]}}', 1, 1, "links.l[0] is not a pair"),
    ("json", VERTICES + ', "links": {"l": [[0]]}}', 1, 1, "links.l[0] has 1 members"),
    ("json", VERTICES + ', "links": {"l": [[0, "b"]]}}', 1, 1, "links.l[0] is not a pair"),
    ("json", VERTICES + ', "links": {"l": [[0, 2]]}}', 1, 1, "there is no vertex 2"),
    ("json", VERTICES + ', "links": {"l": [[-1, 0]]}}', 1, 1, "there is no vertex -1"),
    ("json", "[" * 100_000, 1, 1, "nested too deeply"),
    ("json", '{"vertices": [{"kind": "a", "n": "x"}]}', 1, 1, "field 'n' is a string here, a number on line"),
]

PLAN = '[{"Plan": {"Node Type": "Append", "Plans": [{"Node Type": "Result"}, '
WRONG += [
    ("plans", "Seq Scan on t  (cost=0.00..1.00)", 1, 1, "no plan begins here"),
    ("plans", "[1]", 1, 2, "no plan begins here"),
    ("plans", "{}", 1, 1, "no plan in this object"),
    ("plans", '[{"Planning Time": 1}]', 1, 2, "no plan in this object"),
    ("plans", '{"Plan": {"Plan Rows": 1}}', 1, 10, "Plan: a node without its operator"),
    ("plans", PLAN + '{"Plan Rows": 1}]}}]', 1, 70, "Plan.Plans[1]: a node without its operator"),
    ("plans", PLAN + '{"Total Cost": "a"}]}}]', 1, 85, "Plan.Plans[1].Total Cost: not a number"),
    ("plans", PLAN + '{"Total Cost": [1]}]}}]', 1, 85, "Plan.Plans[1].Total Cost: not a number"),
    (
        "plans",
        PLAN + '{"Node Type": "x", "Total Cost": 1e39}]}}]',
        1,
        103,
        "Plan.Plans[1].Total Cost: a number that float32",
    ),
    ("plans", PLAN + '{"Alias": 1}]}}]', 1, 80, "Plan.Plans[1].Alias: not a text"),
    ("plans", PLAN + '{"Node Type": {}}]}}]', 1, 84, "Plan.Plans[1].Node Type: not a text"),
    ("plans", PLAN + '{"Plans": {}}]}}]', 1, 80, "Plan.Plans[1].Plans: not a list of nodes"),
    ("plans", PLAN + '{"Plans": "x"}]}}]', 1, 80, "Plan.Plans[1].Plans: not a list of nodes"),
    ("plans", PLAN + "5]}}]", 1, 70, "Plan.Plans[1]: not a node"),
    ("plans", PLAN + "null]}}]", 1, 70, "Plan.Plans[1]: not a node"),
    ("plans", '{"Plan": []}', 1, 10, "Plan: not a node"),
    ("plans", PLAN + "]}}]", 1, 70, "Plan.Plans[1]: this is not JSON"),
    ("plans", '{"Plan": {"Node Type": "Result" "Alias": 1}}', 1, 33, "this is not JSON"),
    ("plans", '{"Plan": {"Node Type": "Res\\x"}}', 1, 24, "Plan.Node Type: this is not JSON"),
    ("plans", '{"children": [{"name": "A"}, {"name": "B"}]}', 1, 30, "children[1]: a second root"),
    ("plans", '{"children": [{"name": "A"}], "name": "B"}', 1, 39, "name: the operator comes behind"),
    ("plans", '{"Plan": {"Node Type": "Result", "x": ' + "[" * 1200, 1, 1037, "more than 1000 brackets"),
    ("plans", PLAN + '\n{"Node Type": "Result"', 2, 23, "ends inside a plan"),
    ("plans", "\x00", 1, 1, "no plan begins here"),
]

# one or two texts of each reader, each after good lines and after none, with every end of line
CROSSED = {
    "(3 (2 It)\n  (4 works))",
    "It|O works",
    "a b c ||| d e f ||| g h i",
    "1\n2 0\n0 0\n",
    "1\n2\n0 0\n0\n",
    '{"vertices": [{"kind": "a", "n": [1, [2]]}]}',
}
FORMS = [
    (good_lines, end, *wrong)
    for wrong in WRONG
    for good_lines in ((0, 3) if wrong[1] in CROSSED else (3,))
    for end in (("\n", "\r\n", "") if wrong[1] in CROSSED else ("\n",))
]


def _refused(path: Path, format: str) -> DataError:
    with pytest.raises(DataError) as caught:
        read(path, format)
    return caught.value


@pytest.mark.parametrize(("good_lines", "end", "format", "text", "line", "column", "message"), FORMS)
def test_mistakes(
    good_lines: int, end: str, format: str, text: str, line: int, column: int, message: str, tmp_path: Path
) -> None:
    lead = good_lines * OK[format]
    path = tmp_path / "data.txt"
    path.write_bytes((lead + text.rstrip("\n") + end).replace("\n", end or "\n").encode())
    problem = _refused(path, format).problems[0]
    assert message in problem.message and problem.hint
    assert problem.where is not None and problem.where.file == str(path)
    assert (problem.where.line, problem.where.column) == (line + lead.count("\n"), column)
    if format == "json":
        with pytest.raises(DataError) as caught:
            schema_of_json(path)
        assert message in caught.value.problems[0].message


@pytest.mark.parametrize("format", ["trees", "tags", "pairs", "plans", "json"])
def test_all_malformed_lines_are_told_up_to_ten(format: str, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(OK[format] + "\nbroken\n" + OK[format] + "broken again (\n")
    assert [p.where and p.where.line for p in _refused(path, format).problems] == [3, 5]
    path.write_text(12 * (OK[format] + "broken\n"))
    assert [p.where and p.where.line for p in _refused(path, format).problems] == list(range(2, 22, 2))


@pytest.mark.parametrize("format", OK)
@pytest.mark.parametrize("content", ["", "\n", " \r\n\n\t", "\ufeff"])
def test_empty_data(format: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(content, "utf-8")
    assert "no instances" in str(_refused(path, format))


def test_pairs_that_are_all_too_short(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a b ||| c d e\nhello ||| hallo\n")
    assert "fewer than 3 words" in str(_refused(path, "pairs"))


@pytest.mark.parametrize("format", ["trees", "tags", "pairs", "json"])
def test_text_that_is_not_utf8(format: str, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(OK[format].encode() + OK[format].replace("a", "é").replace("It", "é").encode("latin-1"))
    problem = _refused(path, format).problems[0]
    assert "not UTF-8" in problem.message
    assert problem.where and problem.where.line == 2
    path.write_bytes(OK[format].encode("utf-16"))
    assert "not UTF-8" in str(_refused(path, format))


def test_a_line_where_a_pattern_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("It works\n\n  ...\nyes\n !\n")
    with pytest.raises(DataError) as caught:
        read(path, "words", tokens=r"\w+")
    assert [(p.where and p.where.line, p.where and p.where.column) for p in caught.value.problems] == [
        (3, 3),
        (5, 2),
    ]
    assert len(read(path, "words", tokens=r"\w+", limit=1)) == 1


def test_what_follows_the_limit_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    for format in ("trees", "tags", "pairs"):
        path.write_bytes(2 * OK[format].encode() + b"broken \xff")
        assert len(read(path, format, limit=2)) == 2
        with pytest.raises(DataError):
            read(path, format, limit=3)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("(2 It)")
    error = _refused(tmp_path / "trian.txt", "trees")
    assert "no such file" in str(error) and "did you mean 'train.txt'?" in str(error)
    error = _refused(tmp_path / "no/train.txt", "trees")
    assert "there is no folder" in str(error)
    error = _refused(tmp_path, "trees")
    assert "a folder" in str(error) and "train.txt" in str(error)


@pytest.mark.parametrize("format", ["trees", "tags", "pairs", "words", "plans", "json", "lattice"])
@pytest.mark.parametrize("limit", [1, None])
def test_skipping_everything(format: str, limit: int | None, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(3 * OK[format] if OK[format] else "3\n" + 3 * "1\n0\n0\n")
    assert len(read(path, format, skip=2, limit=limit)) == 1
    for skip in (3, 4):
        with pytest.raises(DataError, match=f"cannot skip {skip} instances: the file has 3"):
            read(path, format, skip=skip, limit=limit)


def test_wrong_arguments(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("(2 It)")
    with pytest.raises(AbwError, match="no data format 'tree'") as caught:
        read(path, "tree")
    assert "did you mean 'trees'?" in str(caught.value)
    wrong: list[dict[str, Any]] = [
        *({"skip": -1}, {"limit": 0}, {"frequency": -1}, {"skip": 10**20}, {"limit": 10**20})
    ]
    for options in wrong:
        with pytest.raises(AbwError, match=r"cannot be -?[0-9]+"):
            read(path, "trees", **options)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"vertices": [{"kind": "a", "coin": 1}]}', "'coin' in the data is a name that every format gives"),
        ('{"vertices": [{"kind": "a"}], "links": {"a": [[0, 0]]}}', "'a' in the data is a name"),
        ("\n".join(f'{{"vertices": [{{"kind": "k{i}"}}]}}' for i in range(256)), "256 kinds of vertices"),
    ],
)
def test_json_names_that_are_taken(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(line)
    assert message in str(_refused(path, "json"))


def test_a_long_line_is_shown_around_the_column(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("é|O " * 2000 + "here " + "é|O " * 2000)
    error = _refused(path, "tags")
    assert error.problems[0].where and error.problems[0].where.column == 8001
    shown, marks = str(error).split("\n")[1:3]
    assert len(shown) < 120
    assert shown[marks.index("^") :].startswith("here")


def test_a_long_line_wrong_at_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("here " + "é|O " * 2000)
    shown, marks = str(_refused(path, "tags")).split("\n")[1:3]
    assert shown[marks.index("^") :].startswith("here") and len(shown) < 120
    path.write_text("é|O " * 2000 + "here")
    shown, marks = str(_refused(path, "tags")).split("\n")[1:3]
    assert shown[marks.index("^") :] == "here" and len(shown) < 120


@pytest.mark.parametrize("name", ["index", "coin"])
def test_fields_of_every_format_are_refused_alike(name: str, tmp_path: Path) -> None:
    good: dict[str, Any] = {"vertices": [{"kind": "a"}]}
    bad: dict[str, Any] = {"vertices": [{"kind": "a"}, {"kind": "a", name: 1}]}
    path = tmp_path / "x.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    message = f":1: '{name}' in the data is a name that every format gives"
    with pytest.raises(DataError, match=r"x\.jsonl:2" + message):
        read(path, "json")
    with pytest.raises(DataError, match=r"x\.jsonl:2" + message):
        schema_of_json(path)
    schema = schema_of_json(path, skip_bad=True)
    assert schema == read_objects([good], "json").schema
    with pytest.raises(DataError, match="instance 1:1" + message):
        read_objects([good, bad], "json", schema=schema)
    with open_feed(path) as feed, pytest.raises(DataError, match=r"x\.jsonl:2" + message):
        take(feed, "json", 0, ALL, schema=schema)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('[{"vertices": [{"kind": "a"}]}, {"vertices": [{"kind": "a"}]}]\n', "jq -c '.[]' FILE"),
        ('[\n  {\n    "vertices": [{"kind": "a"}]\n  }\n]\n', "jq -c '.[]' FILE"),
        ('{\n  "vertices": [{"kind": "a"}]\n}\n', "jq -c . FILE"),
    ],
)
def test_json_that_is_not_in_lines_is_one_error_with_a_remedy(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "data.json"
    path.write_text(text)
    (problem,) = _refused(path, "json").problems
    assert "not one JSON object a line" in problem.message and hint in problem.hint


@pytest.mark.parametrize("format", ["trees", "tags", "pairs", "lattice"])
def test_json_lines_in_place_of_another_format_are_one_error(tmp_path: Path, format: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(12 * OK["json"])
    (problem,) = _refused(path, format).problems
    assert "this looks like JSON lines" in problem.message and "format: json" in problem.hint
    assert problem.where and (problem.where.line, problem.where.column) == (1, 1)
