"""The fast readers against the slow ones, on random, shipped and real data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import DataError
from abw.core.data.derive import link
from abw.core.data.read import read
from abw.core.data.readers.jsonl import schema_of_json
from tests.core.data import oracle

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def words(without: str = "") -> st.SearchStrategy[str]:
    """Words in any script; many are equal, and some hold a no-break space, which parts nothing."""
    letters = st.characters(min_codepoint=33, exclude_categories=["Cs"], exclude_characters=without)
    return st.sampled_from(["a", "b", "ab", "x\u00a0y", "汉"]) | st.text(letters, min_size=1, max_size=9)


Tree = tuple[str, Any]
labels = words("()")
tree_strategy = st.recursive(
    st.tuples(labels, words("()")),
    lambda below: st.tuples(labels, st.lists(below, min_size=1, max_size=3)),
    max_leaves=12,
)


def _tree_text(tree: Tree, blank: Callable[[int], str]) -> str:
    label, rest = tree
    body = rest if isinstance(rest, str) else blank(0).join(_tree_text(child, blank) for child in rest)
    return f"({blank(0)}{label}{blank(1)}{body}{blank(0)})"


@st.composite
def tree_texts(draw: st.DrawFn) -> str:
    trees = draw(st.lists(tree_strategy, min_size=1, max_size=5))
    return _file([_tree_text(tree, _blanks(draw)) for tree in trees], draw)


@st.composite
def lattice_texts(draw: st.DrawFn) -> str:
    number = st.integers(0, 2**31 - 1)
    lines, sentences = [], draw(st.integers(1, 4))
    lines.append(str(sentences))
    blank = _blanks(draw)
    for _ in range(sentences):
        length = draw(st.integers(1, 7))
        lines += [str(length), blank(1).join(str(draw(number)) for _ in range(length))]
        for i in range(length):
            arc = st.tuples(st.integers(0, i - 1), number) if i else st.nothing()
            arcs = draw(st.lists(arc, max_size=4)) if i else []
            lines.append(blank(1).join(map(str, [len(arcs), *(n for pair in arcs for n in pair)])))
    return _file(lines, draw)


@st.composite
def tag_texts(draw: st.DrawFn) -> str:
    token = st.tuples(words(), words("|")).map("|".join)
    sentences = draw(st.lists(st.lists(token, min_size=1, max_size=6), min_size=1, max_size=6))
    return _file([_blanks(draw)(1).join(tokens) for tokens in sentences], draw)


@st.composite
def pair_texts(draw: st.DrawFn) -> str:
    side = st.lists(words().filter(lambda word: word != "|||"), max_size=7)
    sides = draw(st.lists(st.tuples(side, side), max_size=6))
    sides.append((["<s>", "a", "</s>"], ["<s>", "b", "</s>"]))
    return _file([_blanks(draw)(1).join([*a, "|||", *b]) for a, b in sides], draw)


@st.composite
def word_texts(draw: st.DrawFn) -> str:
    sentences = draw(st.lists(st.lists(words(), min_size=1, max_size=6), min_size=1, max_size=6))
    return _file([_blanks(draw)(1).join(tokens) for tokens in sentences], draw)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    number = st.floats(-3e38, 3e38) | st.integers(-(10**25), 10**25) | st.floats(-1, 1, width=16)
    values: dict[str, st.SearchStrategy[Any]] = {
        "number": st.integers(0, 2**31 - 1),
        "text": st.text(max_size=4),
        "float": number,
        "vector": st.lists(number, min_size=3, max_size=3),
    }
    style: dict[str, Any] = draw(
        st.sampled_from(
            [{}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"separators": (" ,\t", " : ")}]
        )
    )
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        vertices = []
        for _ in range(draw(st.integers(1, 5))):
            present = draw(st.sets(st.sampled_from(sorted(values))))
            kind = draw(st.sampled_from(["atom", "bond", "ring"]))
            vertices.append({"kind": kind} | {name: draw(values[name]) for name in sorted(present)})
        end = st.integers(0, len(vertices) - 1)
        names = st.sampled_from(["one", "two"])
        links = draw(st.dictionaries(names, st.lists(st.tuples(end, end), max_size=5), max_size=2))
        whole: dict[str, Any] = {"vertices": vertices, "links": links}
        if draw(st.booleans()):
            whole |= {"id": draw(st.text(max_size=3) | st.integers(-(2**63), 2**64 - 1))}
        names_of = draw(st.permutations(sorted(whole)))
        lines.append(json.dumps({name: whole[name] for name in names_of}, **style))
    return _file(lines, draw)


@st.composite
def plan_texts(draw: st.DrawFn) -> str:
    """Plans of both systems, on a line or several, alone or in arrays."""
    number = st.floats(0, 1e12) | st.integers(0, 10**20) | st.floats(-1, 1, width=16) | st.just(1e-30)
    of_postgres = {
        "Relation Name": st.text(max_size=4), "Parallel Aware": st.booleans(), "Plan Rows": number,
        "Total Cost": number, "Hash Cond": st.text(), "Sort Key": st.lists(st.text(max_size=3) | st.none()),
        "Actual Rows": st.none(), "Workers": st.just([{"Plan Rows": "x", "Node Type": 5, "Plans": 1}]),
        "Parent Relationship": st.sampled_from(["InitPlan", "SubPlan", "Outer", "Inner", "Member"]),
    }  # fmt: skip
    of_duckdb = {
        "timing": number, "cardinality": number, "result": st.none(),
        "extra_info": st.sampled_from([
            {}, {"Table": "t", "Estimated Cardinality": "1000"}, {"Estimated Cardinality": 7, "name": "no"},
            {"Projections": ["a", {"Table": "b"}]},
        ]),
    }  # fmt: skip

    def node(
        depth: int, keys: dict[str, st.SearchStrategy[Any]], types: list[str], plans: str
    ) -> dict[str, Any]:
        key = "Node Type" if plans == "Plans" else draw(st.sampled_from(["name", "operator_name"]))
        found: dict[str, Any] = {key: draw(st.sampled_from(types))}
        names = draw(st.permutations(sorted(draw(st.sets(st.sampled_from(sorted(keys)))))))
        found |= {name: draw(keys[name]) for name in names}
        children = draw(st.integers(0, 3)) if depth else 0
        if children or draw(st.booleans()):
            found[plans] = [node(depth - 1, keys, types, plans) for _ in range(children)]
        return found

    texts = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            root = node(2, of_postgres, ["Seq Scan", "Hash Join", "Limit", "Odd Scan", "Merge Join"], "Plans")
            whole: Any = {
                "Planning Time": draw(number),
                "Plan": root,
                "Triggers": [[{}]],
                "Execution Time": 5,
            }
        else:
            whole = node(2, of_duckdb, ["SEQ_SCAN ", "HASH_JOIN", "PROJECTION", "é"], "children")
            whole = whole if draw(st.booleans()) else {"latency": 0.5, "children": [whole], "extra_info": {}}
        whole = draw(st.sampled_from([whole, [whole], [whole, whole]]))
        style: dict[str, Any] = draw(
            st.sampled_from(
                [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False, "indent": 1}]
            )
        )
        texts.append(json.dumps(whole, **style))
    return _file(texts, draw)


def _blanks(draw: st.DrawFn) -> Callable[[int], str]:
    """A function: some blanks, at least as many as it is told."""
    random: Random = draw(st.randoms(use_true_random=False))
    return lambda least: "".join(random.choice(" \t\x0c") for _ in range(random.randint(least, 2)))


def _file(lines: list[str], draw: st.DrawFn) -> str:
    """The lines with some blank ones between them, in either convention, the last one open or closed."""
    random: Random = draw(st.randoms(use_true_random=False))
    end = random.choice(["\n", "\r\n"])
    spread = [part for line in lines for part in ([line] if random.random() < 0.8 else ["", " \t", line])]
    return end.join(spread) + random.choice(["", end, end + end])


TEXTS = {
    "trees": tree_texts(),
    "lattice": lattice_texts(),
    "tags": tag_texts(),
    "pairs": pair_texts(),
    "words": word_texts(),
    "plans": plan_texts(),
    "json": json_texts(),
}


@pytest.mark.parametrize("format", TEXTS)
@quick
@given(data=st.data())
def test_random_text_is_read_as_the_slow_reader_reads_it(
    format: str, data: st.DataObject, tmp_path: Path
) -> None:
    text = data.draw(TEXTS[format])
    path = tmp_path / "data"
    path.write_bytes(text.encode("utf-8-sig" if data.draw(st.booleans()) else "utf-8"))
    options: dict[str, Any] = {"frequency": data.draw(st.integers(0, 3))} if format == "tags" else {}
    if format == "words":
        options["tokens"] = data.draw(
            st.sampled_from(
                ["", r"\S+", r"\w+|[^\w\s]|\s", ".", r"\d+|\w+|[^\s]", r"(?:a|b)+|.", r"[^\W\d]+|\d|\W+"]
            )
        )
    try:
        expected = oracle.READERS[format](text, **options)
    except ValueError as error:  # a blank that is none between tokens, as U+00A0
        with pytest.raises(DataError, match="no token on this line"):
            read(path, format, **options)
        assert "no token" in str(error)
        return
    instances = read(path, format, **options)
    oracle.check_arrays(instances)
    assert oracle.plain(instances) == expected

    skip = data.draw(st.integers(0, len(expected) - 1))
    limit = data.draw(st.integers(1, len(expected) + 1))
    part = read(path, format, skip=skip, limit=limit, **options)
    oracle.check_arrays(part)
    assert part.numbers.tolist() == list(range(skip, skip + len(part)))
    assert oracle.plain(part) == expected[skip : skip + limit]


@pytest.mark.parametrize("format", ["trees", "lattice", "tags", "pairs", "words"])
@pytest.mark.parametrize("gap", [0, 9])
def test_a_limit_is_met_wherever_the_file_is_cut(format: str, gap: int, root: Path, tmp_path: Path) -> None:
    """The file is read piece by piece: blank lines between make the first pieces too short."""
    lines = (root / f"specs/data/{format}.txt").read_text("utf-8").rstrip("\n").split("\n")
    lines = [str(8 * int(lines[0])), *(8 * [*lines[1:], ""])] if format == "lattice" else lines * 8
    text = ("\n" + gap * (" " * 40 + "\n")).join(lines)
    path = tmp_path / "long.txt"
    path.write_text(text + "\n" * (1 << 17), "utf-8")
    expected = oracle.READERS[format](text)
    for skip, limit in ((0, 1), (0, 150), (300, 3), (200, 10**6)):
        assert oracle.plain(read(path, format, skip=skip, limit=limit)) == expected[skip : skip + limit]


@pytest.mark.parametrize(
    "name", ["trees", "nary-trees", "lattice", "tags", "pairs", "sentences", "fig1", "fig10"]
)
@pytest.mark.parametrize("frequency", [0, 5])
def test_shipped_data(name: str, frequency: int, root: Path) -> None:
    suffix, format = {
        "fig10": ("jsonl", "json"),
        "fig1": ("txt", "trees"),
        "nary-trees": ("txt", "trees"),
        "sentences": ("txt", "words"),
    }.get(name, ("txt", name))
    path = root / f"specs/data/{name}.{suffix}"
    options: dict[str, Any] = {"frequency": frequency} if format == "tags" else {}
    expected = oracle.READERS[format](path.read_text("utf-8"), **options)
    assert len(expected) >= (1 if name.startswith("fig") else 40)
    instances = read(path, format, **options)
    oracle.check_arrays(instances)
    assert oracle.plain(instances) == expected
    if format == "tags" and frequency:
        kinds = [kind for one in expected for kind in one.kinds]
        assert kinds.count("common") > 100 and kinds.count("rare") > 100


REAL = {
    "trees/dev.txt": ("trees", 1107),
    "lattice/dev.txt": ("lattice", 113),
    "tags/dev.txt": ("tags", 1696),
    "pairs/tst2012.en-vi.txt": ("pairs", 1553),
}


@pytest.mark.parametrize("name", REAL)
def test_real_data(name: str, shared_data: Path) -> None:
    format, count = REAL[name]
    path = shared_data / name
    expected = oracle.READERS[format](path.read_text("utf-8"))
    instances = read(path, format)
    assert len(instances) == count
    assert oracle.plain(instances) == expected


def test_real_trees_and_lattices_have_the_published_sizes(shared_data: Path) -> None:
    trees = read(shared_data / "trees/train.txt", "trees", limit=64)
    assert len(trees) == 64
    assert np.count_nonzero(trees.kind) == 2596  # so 5192 nodes with an output at each
    lattices = read(shared_data / "lattice/train.txt", "lattice", limit=64)
    kinds = dict(zip(lattices.schema.kinds, np.bincount(lattices.kind), strict=True))
    arcs = link(lattices, "arcs").indptr
    assert arcs is not None
    sums = np.count_nonzero(np.diff(arcs) >= 2)
    assert kinds["char-arc"] + kinds["word-arc"] + kinds["position"] + sums == 7955


def test_a_very_deep_tree(tmp_path: Path) -> None:
    depth = 200_000
    path = tmp_path / "deep.txt"
    path.write_text("(a " * depth + "word" + ")" * depth)
    instances = read(path, "trees")
    assert len(instances.kind) == depth + 1
    parent, right = link(instances, "parent").target, link(instances, "right").target
    assert np.array_equal(parent, [-1, -1, *range(1, depth)])
    assert np.array_equal(right, [-1, *range(2, depth + 1), -1])


def test_many_words(tmp_path: Path) -> None:
    """More distinct words than the first table has room for, each twice."""
    listed = [f"w{i * 7919 % 20000}" for i in range(20000)]
    path = tmp_path / "tags.txt"
    path.write_text("\n".join(f"{word}|T" for word in listed + listed))
    instances = read(path, "tags", frequency=2)
    assert list(instances.vocabulary["word"]) == listed
    assert instances.vocabulary["word"][-1] == listed[-1]
    assert instances.vocabulary["word"][:2] == listed[:2]
    word = instances.fields["word"]
    assert word[word >= 0].tolist() == 2 * list(range(20000))
    assert not np.any(instances.kind == instances.schema.kinds.index("rare"))


def test_rare_words_do_not_depend_on_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "tags.txt"
    path.write_text("a|X b|X\nc|X\na|X é|X\n")
    kinds = read(path, "tags", limit=1, frequency=2)
    assert [kinds.schema.kinds[k] for k in kinds.kind] == [
        "instance",
        "common",
        "rare",
        "char",
        "char",
        "char",
    ]
    assert kinds.fields["byte"].tolist() == [-1, -1, -1, 0, ord("b"), 0]
    last = read(path, "tags", skip=2, frequency=2)
    assert last.fields["byte"].tolist() == [-1, -1, -1, 0, 0xC3, 0xA9, 0]


def test_json_schema_and_names(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"id": "x", "vertices": [{"kind": "b", "n": 1}, {"kind": "a", "s": ""}], "links": {"l": [[0, 1]]}}\n'
        '{"vertices": [{"kind": "a"}, {"kind": "b"}], "links": {"l": [[1, 0]], "m": [[0, 1], [0, 0]]}}\n'
    )
    schema = schema_of_json(path)
    assert schema.kinds == ("instance", "b", "a")
    assert schema.links["l"].source == {"b"} and schema.links["l"].target == {"a"}
    assert not schema.links["l"].many and schema.links["m"].many
    assert schema.fields["s"].text and not schema.fields["n"].text
    assert schema.fields["n"].kinds == {"b"}
    instances = read(path, "json", limit=1)
    assert instances.schema == schema, "a limit does not change the schema"
    assert instances.names == ("x",)
    assert read(path, "json").names == ("x", "")


def test_different_words_with_one_hash(tmp_path: Path) -> None:
    """Two words that 64-bit FNV-1a cannot tell apart."""
    alike = ["8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"]
    path = tmp_path / "tags.txt"
    path.write_text(" ".join(f"{word}|T" for word in alike * 2))
    instances = read(path, "tags")
    assert list(instances.vocabulary["word"]) == alike
    assert instances.fields["word"].tolist() == [-1, 0, 1, 0, 1]
