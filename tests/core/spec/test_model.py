"""Models: what a spec's types are connected to, and what is wrong with a spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError, DataError, Problem, Span, SpecError
from abw.core.ir.cell import Param, Port
from abw.core.ir.formats import with_common
from abw.core.ir.model import Model, NodeSource, NodeType, ParamSource, TableSource, Where, ZeroSource
from abw.core.ir.schema import FieldSchema, Hop, LinkSchema, Schema
from abw.core.spec.load import Overrides, load_model
from tests.core.spec.writing import LATTICE, LINEAR, Folder, edited, marks_of, unmark

TREE = """\
model: tree
dims: {hidden: 8, embed: 4}
data: {format: trees, path: d.txt}
tables: {words: {dim: embed}}
types:
  leaf: {per: leaf, cell: leaf.yaml, inputs: {x: "words[word]"}}
  inner: {per: internal, cell: inner.yaml, inputs: {l: left.h, r: right.h}}
  out: {per: node, cell: linear.yaml, dims: {in: hidden, out: 5}, inputs: {x: h}}
outputs: {y: out.y}
"""
LEAF = """\
cell: leaf
dims: [embed, hidden]
inputs: {x: embed}
params: {W: [hidden, embed]}
equations: h = tanh(W @ x)
outputs: {h: h}
"""
INNER = """\
cell: inner
dims: [hidden]
inputs: {l: hidden, r: hidden}
params: {U: [hidden, hidden], V: [hidden, hidden], b: hidden}
equations: h = tanh(U @ l + V @ r + b)
outputs: {h: h}
"""


@pytest.fixture
def trees(folder: Folder) -> Folder:
    folder.write("leaf.yaml", LEAF)
    folder.write("inner.yaml", INNER)
    return folder


def type_of(model: Model, name: str) -> NodeType:
    return next(t for t in model.types if t.name == name)


def sources(model: Model, type_name: str, input_name: str) -> tuple[object, ...]:
    return next(i.sources for i in type_of(model, type_name).inputs if i.name == input_name)


def test_a_lattice(folder: Folder) -> None:
    model = folder.model()
    assert [t.name for t in model.types] == ["char", "word", "state", "tag"]
    char, _, state, tag = model.types
    assert (char.per, char.kinds, char.reduction) == ("char-arc", frozenset({"char-arc"}), None)
    assert [i.sources for i in char.inputs] == [
        (TableSource(0, (), "id"),),
        (NodeSource((Hop("from"),), ((2, 0),)),),
        (NodeSource((Hop("from"),), ((2, 1),)),),
    ]
    assert [(i.name, i.shape) for i in char.inputs] == [("x", (4,)), ("h", (8,)), ("c", (8,))]
    assert (state.cell, state.reduction, state.outputs) == (None, "sum", (Port("h", (8,)), Port("c", (8,))))
    assert [i.sources for i in state.inputs] == [
        (NodeSource((Hop("arcs"),), ((0, 0), (1, 0))), ParamSource(0)),
        (NodeSource((Hop("arcs"),), ((0, 1), (1, 1))),),
    ]
    assert tag.inputs[0].sources == (NodeSource((), ((2, 0),)),)
    assert tag.outputs == (Port("y", (3,)),)
    assert model.params[0] == Param("h0", (8,))
    assert [p.name for p in model.params] == [
        "h0", "char.W", "char.U", "char.b", "word.W", "word.U", "word.b", "tag.W", "tag.b",
    ]  # fmt: skip
    assert [t.params for t in model.types] == [(1, 2, 3), (4, 5, 6), (), (7, 8)]
    assert model.outputs == (("tags", ((3, 0),)),)
    assert [(t.name, t.rows, t.shape, t.vocab) for t in model.tables] == [
        ("chars", 256, (4,), None),
        ("words", 100, (4,), None),
    ]
    assert (model.data.format, model.data.path) == ("lattice", folder.path / "d.txt")
    assert (model.data.batch, model.data.limit, model.data.seed, model.data.frequency) == (64, None, 0, 0)
    assert model.dims == {"hidden": 8, "embed": 4, "tags": 3}
    assert model.files == tuple(folder.path / name for name in ("model.yaml", "lstm.yaml", "linear.yaml"))
    assert char.inputs[1].where.text.strip().startswith("char: {per: char-arc")


def test_an_output_without_its_type_comes_from_all_that_may_be_there(trees: Folder) -> None:
    model = trees.model(TREE)
    assert sources(model, "inner", "l") == (NodeSource((Hop("left"),), ((0, 0), (1, 0))),)
    assert sources(model, "out", "x") == (NodeSource((), ((0, 0), (1, 0))),)


def test_paths(trees: Folder) -> None:
    text = edited(TREE, "l: left.h, r: right.h", 'l: "children[-1].inner.h or words[left.word]", r: SOURCE')
    text = edited(text, "embed: 4", "embed: hidden")
    for written, wanted in {
        "children[1].h or zeros": (NodeSource((Hop("children", 1),), ((0, 0), (1, 0))), ZeroSource()),
        "instance.root.left.h": (NodeSource((Hop("instance"), Hop("root"), Hop("left")), ((0, 0), (1, 0))),),
        "left[0].h": (NodeSource((Hop("left"),), ((0, 0), (1, 0))),),
        "children.leaf.h": (NodeSource((Hop("children"),), ((0, 0),)),),
        "instance.leaf[-1].h": (NodeSource((Hop("instance"), Hop("leaf", -1)), ((0, 0),)),),
    }.items():
        model = trees.model(edited(text, "SOURCE", f"'{written}'"))
        assert sources(model, "inner", "r") == wanted
        assert sources(model, "inner", "l") == (
            NodeSource((Hop("children", -1),), ((1, 0),)),
            TableSource(0, (Hop("left"),), "word"),
        )


def test_where_separates_types(trees: Folder) -> None:
    inner = "  inner: {per: internal, cell: inner.yaml, inputs: {l: left.h, r: right.h}}\n"
    for first, second in (
        ("coin == 0", "coin == 1"),
        ("coin == 0", "coin != 0"),
        ("index < 3", "index >= 3"),
        ("coin == 0 and index > 1", "index <= 1 and coin == 0"),
        ("coin < 1", "coin > 0"),
    ):
        text = edited(
            TREE,
            inner,
            inner.replace("cell:", f"where: {first}, cell:")
            + inner.replace("inner:", "other:").replace("cell:", f"where: {second}, cell:"),
        )
        model = trees.model(text)
        assert sources(model, "out", "x") == (NodeSource((), ((0, 0), (1, 0), (2, 0))),)
    assert type_of(model, "inner").where == (Where("coin", "<", 1),)
    text = edited(
        TREE, inner, inner.replace("cell:", "where: coin == 0, cell:") + inner.replace("inner:", "other:")
    )
    problems = trees.model_problems(text)
    assert {p.message for p in problems} == {"ambiguous: types 'inner' and 'other' both give 'h' here"}
    assert {p.hint for p in problems} == {"name the type: inner.h"}
    assert len(problems) == 5


def test_a_link_before_a_type_of_its_name(trees: Folder) -> None:
    text = edited(
        TREE,
        "outputs: {",
        "  all: {per: instance, sum: {y: leaf.out.y}}\n"
        "  top: {per: instance, mean: {h: leaf.h}}\noutputs: {s: all.y, m: top.h, ",
    )
    model = trees.model(text)
    assert sources(model, "all", "y") == (NodeSource((Hop("leaf"),), ((2, 0),)),)
    assert sources(model, "top", "h") == (NodeSource((Hop("leaf"),), ((0, 0),)),)
    # on a node, 'left' would be a link and a type
    text = edited(TREE, "r: right.h", "r: left.h")
    text = edited(
        text,
        "types:\n",
        "types:\n  left: {per: internal, cell: inner.yaml, inputs: {l: right.leaf.h, r: right.leaf.h}}\n",
    )
    messages = {p.message for p in trees.model_problems(text)}
    assert "'left' is a link and a type here: ambiguous" in messages


def test_reductions_of_reductions_have_shapes(trees: Folder) -> None:
    text = edited(
        TREE,
        "outputs: {",
        "  up: {per: internal, max: {u: children.up.u or h0}}\n"
        "  low: {per: instance, mean: {h: internal.up.u}}\noutputs: {s: low.h, ",
    )
    model = trees.model(edited(text, "types:", "params: {h0: hidden}\ntypes:"))
    assert type_of(model, "low").outputs == (Port("h", (8,)),)
    (problem,) = trees.model_problems(edited(text, " or h0", ""))[:1]
    assert problem.message == "'up.u' has no shape: it reduces only itself"


def test_overrides(folder: Folder) -> None:
    data = folder.write("other.txt", "x")
    given = Overrides({"hidden": 16, "tags": 2}, data, limit=5, batch=7, seed=3)
    model = folder.model(edited(LATTICE, "embed: 4", "embed: hidden / 2 + 1"), given)
    assert model.dims == {"hidden": 16, "embed": 9, "tags": 2}
    assert (model.data.path, model.data.limit, model.data.batch, model.data.seed) == (data, 5, 7, 3)
    for overrides, message in (
        (Overrides({"hiden": 16}), r"no dim 'hiden' to set\n  hint: did you mean 'hidden'\?"),
        (Overrides({"hidden": -1}), "dim 'hidden' cannot be -1"),
        (Overrides(batch=0), "batch cannot be 0"),
        (Overrides(limit=0), "limit cannot be 0"),
        (Overrides(seed=-1), "seed cannot be -1"),
    ):
        with pytest.raises(AbwError, match=message) as error:
            folder.model(overrides=overrides)
        assert error.value.exit_code == 2
    (problem,) = folder.model_problems(LATTICE, Overrides(data=folder.path / "othre.txt"))
    assert (problem.message, problem.where) == (f"missing data file {folder.path / 'othre.txt'}", None)
    assert problem.hint == "did you mean 'other.txt'?"
    # dims that are expressions are checked with the sizes in force
    problems = folder.model_problems(
        edited(LATTICE, "embed: 4", "embed: hidden / 2"), Overrides({"hidden": 7})
    )
    assert problems[0].message == "7 / 2 is not a whole number"


def test_a_data_path_may_be_left_to_the_command_line(folder: Folder) -> None:
    text = edited(LATTICE, ", path: d.txt", "")
    assert folder.model(text, Overrides(data=folder.path / "d.txt")).data.path == folder.path / "d.txt"
    (problem,) = folder.model_problems(text)
    assert problem.message == "data has no 'path'"
    assert "--data FILE" in problem.hint


def test_shared_parameters(folder: Folder) -> None:
    text = edited(
        LATTICE,
        "h: from.state.h, c: from.state.c}}\n  state",
        "h: from.state.h, c: from.state.c}, params: SHARED}\n  state",
    )
    model = folder.model(edited(text, "SHARED", "char"))
    assert [t.params for t in model.types[:2]] == [(1, 2, 3), (1, 2, 3)]
    assert [p.name for p in model.params] == ["h0", "char.W", "char.U", "char.b", "tag.W", "tag.b"]
    model = folder.model(edited(text, "SHARED", "{U: char.U, b: h0}"))
    assert [model.params[n].name for n in model.types[1].params] == ["word.W", "char.U", "h0"]
    # through another type, which comes first
    text = edited(text, "c: from.state.c}}\n  word", "c: from.state.c}, params: {W: word.W}}\n  word")
    model = folder.model(edited(text, "SHARED", "{U: char.U}"))
    assert [[model.params[n].name for n in t.params] for t in model.types[:2]] == [
        ["word.W", "char.U", "char.b"],
        ["word.W", "char.U", "word.b"],
    ]
    problems = folder.model_problems(edited(text, "SHARED", "{W: char.W}"))
    assert {p.message for p in problems} == {
        "no type owns this parameter: char.W -> word.W -> char.W",
        "no type owns this parameter: word.W -> char.W -> word.W",
    }


def test_matrices_in_tables(folder: Folder) -> None:
    folder.write(
        "mat.yaml", "cell: m\ndims: [n]\ninputs: {A: [n, n], v: n}\nequations: y = A @ v\noutputs: {y: y}\n"
    )
    text = (
        "model: m\ndims: {n: 3}\ndata: {format: trees, path: d.txt}\n"
        "tables: {m: {dim: [n, n]}, v: {dim: n, rows: 2 * n}}\n"
        "types:\n  t: {per: leaf, cell: mat.yaml, inputs: {A: 'm[word]', v: 'v[label]'}}\noutputs: {y: t.y}\n"
    )
    assert [(t.shape, t.rows) for t in folder.model(text).tables] == [((3, 3), 256), ((3,), 6)]


def mistakes() -> Iterator[dict[str, str]]:
    """The blocks of mistakes.txt."""
    for block in (Path(__file__).parent / "mistakes.txt").read_text(encoding="utf-8").split("\n\n")[1:]:
        yield {line[0]: line[2:].replace("\\n", "\n") for line in block.strip().split("\n")}


@pytest.mark.parametrize("case", list(mistakes()), ids=lambda case: case["!"])
def test_mistakes(folder: Folder, case: dict[str, str]) -> None:
    text, marks = unmark(edited(LATTICE, case["-"], case["+"]))
    problems = folder.model_problems(text)
    message = case["!"].replace("FOLDER", str(folder.path))
    found = [p for p in problems if p.message == message]
    assert len(found) == 1, [p.message for p in problems]
    assert case.get("?", "") in found[0].hint
    if marks:
        assert marks_of(tuple(found)) == marks


def test_one_mistake_is_one_problem(folder: Folder) -> None:
    """A wrong name does not draw further complaints about what hangs on it."""
    for old, new in (
        ("cell: linear.yaml", "cell: liner.yaml"),
        ("tags: 3}", "tags: nine}"),
        ("{dim: embed}", "{dim: embeds}"),
        ("per: position, sum", "per: postion, sum"),
        ("arcs.h or h0", "arks.h or h0"),
        ("path: d.txt", "path: e.txt"),
    ):
        assert len(folder.model_problems(edited(LATTICE, old, new))) == 1, (old, new)
    lstm = (folder.path / "lstm.yaml").read_text()
    folder.write("lstm.yaml", edited(lstm, "tanh(c1)", "tanh(c2)"))
    (problem,) = folder.model_problems(LATTICE)
    assert problem.message == "unknown name 'c2'"
    assert problem.where and problem.where.file == str(folder.path / "lstm.yaml")


def test_all_mistakes_at_once_file_by_file(folder: Folder) -> None:
    lstm = (folder.path / "lstm.yaml").read_text()
    folder.write("lstm.yaml", edited(lstm, "outputs:", "  d = 1 + x\noutputs:"))
    text = LATTICE
    for old, new in (
        ("outputs: {tags: tag.y}", "outputs: {tags: tag.z}\nnote: 1"),
        ("x: state.h", "x: state.k"),
        ("arcs.h or h0", "arcs.h or h1"),
        ("path: d.txt", "path: x.txt"),
        ("rows: 100", "row: 100"),
    ):
        text = edited(text, old, new)
    found = [(p.where.line, p.message) for p in folder.model_problems(text) if p.where]
    assert found == [
        (3, f"missing data file {folder.path / 'x.txt'}"),
        (4, "unknown key 'row' in table 'words'"),
        (9, "no other type on position has an output 'h1'"),
        (10, "type 'state' has no output 'k'"),
        (11, "type 'tag' has no output 'z'"),
        (12, "unknown key 'note' in a model"),
        (10, "'d' is never used"),
    ]


def with_two(per_a: str, x_a: str, per_b: str, x_b: str) -> str:
    """The tree model with types a and b beside its own."""
    lines = (
        f"  {name}: {{per: {per}, cell: linear.yaml, dims: {{in: hidden, out: 8}}, inputs: {{x: {x}}}}}\n"
        for name, per, x in (("a", per_a, x_a), ("b", per_b, x_b))
    )
    return edited(TREE, "outputs:", f"{''.join(lines)}outputs:")


def test_types_that_feed_each_other_on_one_vertex(trees: Folder) -> None:
    (problem,) = trees.model_problems(with_two("leaf", "b.y or zeros", "node", "a.y or zeros"))
    assert problem.message == "types feed each other on the same vertex: a -> b -> a"
    assert problem.where and (problem.where.line, problem.where.column) == (9, 3)
    # behind links the data decides
    trees.model(with_two("leaf", "parent.b.y or zeros", "node", "left.a.y or zeros"))
    trees.model(with_two("leaf", "b.y or zeros", "node", "left.a.y or zeros"))


def test_a_type_that_feeds_itself(folder: Folder) -> None:
    text = edited(LATTICE, "sum: {h: arcs.h or h0, c: arcs.c}", "sum: {h: arcs.h or state.h, c: arcs.c}")
    (problem,) = folder.model_problems(edited(text, "params: {h0: hidden}\n", ""))
    assert problem.message == "types feed each other on the same vertex: state -> state"


def test_a_type_on_no_common_vertex(trees: Folder) -> None:
    problems = trees.model_problems(
        with_two("node, where: coin == 0", "b.y", "node, where: coin == 1", "a.y")
    )
    assert [p.message for p in problems] == [f"no vertex has both this type and '{name}'" for name in "ba"]


@pytest.mark.parametrize(
    ("right", "wrong", "of"),
    [
        ("tags}, inputs:", "tags}, input:", "tag"),
        ("position, cell:", "position, cel:", "tag"),
        ("tag: {per:", "tag: {pre:", "tag"),
        ("position, sum:", "position, sums:", "state"),
    ],
)
def test_a_misspelt_key_is_one_mistake(right: str, wrong: str, of: str, folder: Folder) -> None:
    meant, key = (text.rstrip(":").split()[-1].lstrip("{") for text in (right, wrong))
    first, *others = folder.model_problems(edited(LATTICE, right, wrong))
    assert first.message == f"unknown key '{key}' in type '{of}'"
    assert first.hint.startswith(f"did you mean '{meant}'?")
    assert not others


@pytest.mark.parametrize("section", ["dims", "tables", "params", "grow", "types", "cells", "vocab", "most"])
def test_a_misspelt_section_is_one_mistake_and_is_read(section: str, folder: Folder) -> None:
    (folder.path / "w.txt").write_text("<s>\na\n</s>\n")
    wrong = section[:-2] + section[-1] + section[-2]
    first, *others = folder.model_problems(GROWS.replace(f"{section}:", f"{wrong}:", 1))
    assert first.message.startswith(f"unknown key '{wrong}' in ")
    assert first.hint.startswith(f"did you mean '{section}'?")
    assert not others


GROWS = """\
model: grows
dims: {n: 3}
data: {format: words, path: d.txt}
tables: {words: {dim: n, vocab: w.txt}}
params: {h0: n}
cells:
  own: {dims: [n], inputs: {x: n, h: n}, params: {W: [n, n]}, equations: "y = W @ x + h", outputs: {y: y}}
grow:
  step:
    links: {prev: step or none}
    fields: {said: words}
    most: 9
    start: {said: <s>}
    choose: {next: argmax out.y}
    then: [{add: step, when: next != </s>, said: next, prev: this}]
types:
  out: {per: step, cell: own, inputs: {x: "words[said]", h: prev.y or h0}}
outputs: {said: step.next}
"""


def test_files_that_are_no_model(folder: Folder) -> None:
    (problem,) = folder.model_problems("cell: c\nequations: a = 1\noutputs: {a: a}\n")
    assert problem.message.endswith("model.yaml is a cell, not a model")
    (problem,) = folder.model_problems("layout: fig3\nvariables: [a]\nbatches: []\n")
    assert problem.message.endswith("model.yaml is a layout of batches, not a model")
    assert "`abw layout " in problem.hint
    (problem,) = folder.model_problems("just text")
    assert problem.message == "a model must be a mapping (name: value)"
    with pytest.raises(AbwError, match=r"there is no file .*lattice.yml"):
        load_model(folder.path / "lattice.yml")


JSON = """\
model: molecule
dims: {n: 4}
data: {format: json, path: d.txt}
tables: {elements: {dim: n}}
types:
  atom: {per: atom, cell: linear.yaml, dims: {in: n, out: n}, inputs: {x: "elements[element]"}}
  sum: {per: instance, sum: {y: atom.y}}
outputs: {y: sum.y}
"""


def test_json_has_the_schema_of_its_data(folder: Folder) -> None:
    path = folder.write("model.yaml", JSON)
    atoms = frozenset({"atom"})
    schema = with_common(
        Schema(
            "json", ("atom",), {}, {"bond": LinkSchema(atoms, atoms, True)}, {"element": FieldSchema(atoms)}
        )
    )
    asked: list[Path] = []

    def schema_of(data: Path, beside: str) -> Schema:
        assert beside == ""
        asked.append(data)
        return schema

    model = load_model(path, schema_of=schema_of)
    assert asked == [folder.path / "d.txt"]
    assert sources(model, "sum", "y") == (NodeSource((Hop("atom"),), ((0, 0),)),)

    def broken(data: Path, beside: str) -> Schema:
        raise DataError([Problem("no JSON here", Span(str(data), 1))])

    with pytest.raises(AbwError, match=r"d.txt:1:1: no JSON here"):
        load_model(path, schema_of=broken)
    assert folder.model_problems(JSON)[0].message == "the schema of json data is not known here"


def test_names_that_are_no_table_are_no_missing_file(folder: Folder) -> None:
    for names, hint in (("wrds", "did you mean 'words'?"), ("zzz", "or a table with a vocabulary")):
        text = edited(LATTICE, "tags: tag.y", f"tags: {{of: tag.y, as: label, names: {names}}}")
        (problem,) = folder.model_problems(text)
        assert problem.message == f"'{names}' is neither a table nor a file"
        assert hint in problem.hint


def test_names_that_every_format_has_are_taken() -> None:
    atoms = frozenset({"atom"})
    for schema in (
        Schema("json", ("atom",), {}, {"atom": LinkSchema(atoms, atoms)}),
        Schema("json", ("atom",), {}, {"instance": LinkSchema(atoms, atoms)}),
        Schema("json", ("atom",), {}, {}, {"coin": FieldSchema(atoms)}),
    ):
        with pytest.raises(AbwError, match="a name that every format gives already"):
            with_common(schema)


def test_a_mistake_in_a_cell_that_types_use_with_different_dims_is_told_once(folder: Folder) -> None:
    folder.write("linear.yaml", edited(LINEAR, "W: [out, in]", "W: [outt, in]"))
    other = "more: {per: position, cell: linear.yaml, dims: {in: hidden, out: embed}, inputs: {x: state.h}}"
    text = edited(LATTICE, "outputs:", f"  {other}\noutputs:")
    (problem,) = folder.model_problems(edited(text, "tag.y}", "tag.y, more: more.y}"))
    assert problem.message == "unknown dim 'outt'"


def test_what_is_too_large_is_one_mistake_of_the_dim(folder: Folder) -> None:
    text = edited(LATTICE, "embed: 4", "embed: hidden")
    (problem,) = folder.model_problems(text, Overrides({"hidden": 20_000}))
    assert problem.message.startswith(
        "dim 'hidden' is too large (20,000): parameter 'W' would hold 400,000,000"
    )
    assert problem.where is None and problem.hint.endswith("16,384")
    text, marks = unmark(edited(text, "hidden: 8", "hidden: «20000»"))
    problems = folder.model_problems(text)
    assert [p.message for p in problems] == [problem.message] and marks_of(problems) == marks
    assert folder.model(text, Overrides({"hidden": 16_384}))


def test_a_dim_that_no_size_may_be_is_refused_where_it_is_set(folder: Folder) -> None:
    with pytest.raises(AbwError, match="dim 'hidden' cannot be 2000000") as error:
        folder.model(LATTICE, Overrides({"hidden": 2_000_000}))
    assert error.value.hint == "a size is from 1 to 1,048,576"


def test_a_link_that_the_instance_does_not_have_says_how_data_give_one(folder: Folder) -> None:
    atoms = frozenset({"atom"})
    schema = with_common(Schema("json", ("atom",), {}, {}, {"element": FieldSchema(atoms)}))
    path = folder.write("model.yaml", edited(JSON, "sum: {y: atom.y}", "sum: {y: root.y}"))
    with pytest.raises(SpecError) as error:
        load_model(path, schema_of=lambda *_: schema)
    (problem,) = error.value.problems
    assert problem.message == "instance has no link or type 'root'" and '"links": {"root": 0}' in problem.hint
