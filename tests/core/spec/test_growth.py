"""The section `grow`: what it means, and every mistake with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from abw.core.ir.growth import Clause, Decision, Number, Place
from abw.core.ir.growth import Test as Condition
from abw.core.ir.phases import phases_of
from abw.core.ir.schema import Hop
from abw.core.spec.models.growing.clauses import parse_tests, parse_value
from abw.core.spec.text.sizes import ExpressionError
from tests.core.spec.writing import Folder, edited, marks_of, unmark

PARSER = """\
model: parser
dims: {hidden: 4, actions: 2}
data: {format: pairs, path: d.txt}
tables: {words: {dim: hidden}, said: {dim: hidden, vocab: v.txt}, moves: {dim: hidden, rows: 2}}
grow:
  entry:
    links: {below: entry or none, leaf: source or none}
    fields: {made: number}
    most: 9
  state:
    links: {before: state or none, top: entry or none, front: source or none}
    fields: {said: said}
    most: 20
    start: {front: "source[0]", said: <s>}
    choose:
      action: {argmax: score.y, allow: {push: front, pop: top.below}}
      heard: argmax speak.y
      sure: mood.y > 0.5
    then:
      - {add: entry, as: pushed, when: action == push, below: top, leaf: front, made: 1}
      - {add: state, unless: heard == </s> and made, before: this, top: pushed, front: front.next,
         said: heard}
      - {add: state, when: action == pop and not sure, before: this, top: top.below, front: front,
         said: heard}
types:
  read: {per: source, cell: rnn.yaml, inputs: {x: "words[word]", h: prev.read.h or zeros}}
  stack: {per: entry, cell: rnn.yaml, inputs: {x: "words[leaf.word] or zeros", h: below.stack.h or zeros}}
  past: {per: state, cell: rnn.yaml, inputs: {x: "moves[before.action] or zeros", h: before.past.h or zeros}}
  join: {per: state, cell: rnn.yaml, inputs: {x: top.stack.h or front.read.h or zeros, h: past.h}}
  score: {per: state, cell: linear.yaml, dims: {in: hidden, out: actions}, inputs: {x: join.h}}
  speak: {per: state, cell: linear.yaml, dims: {in: hidden, out: 3}, inputs: {x: "said[said]"}}
  mood: {per: state, cell: linear.yaml, dims: {in: hidden, out: 1}, inputs: {x: join.h}}
  last: {per: instance, cell: linear.yaml, dims: {in: hidden, out: 3}, inputs: {x: "state[-1].join.h"}}
outputs: {actions: state.action, last: last.y}
"""
RNN = """\
cell: rnn
dims: [hidden]
inputs: {x: hidden, h: hidden}
params: {W: [hidden, hidden], U: [hidden, hidden]}
equations: h1 = tanh(W @ x + U @ h)
outputs: {h: h1}
"""
MADE = "unless: heard == </s> and made, "


@pytest.fixture
def parser(folder: Folder) -> Folder:
    folder.write("rnn.yaml", RNN)
    folder.write("v.txt", "<s>\n</s>\nja\n")
    return folder


def right(text: str = PARSER) -> str:
    """The model without its one mistake: `made` is a field of entries."""
    return edited(text, MADE, "unless: heard == </s>, ")


def test_what_it_means(parser: Folder) -> None:
    model = parser.model(right())
    assert model.growth is not None
    entry, state = model.growth.kinds
    assert (entry.most, state.most, entry.start) == (9, 20, None)
    assert entry.links["below"].optional and entry.links["below"].kinds == {"entry"}
    assert state.start is not None
    assert state.start.links == (("front", Place((Hop("source", 0),))),)
    assert state.start.fields == (("said", 0),)
    action, heard, sure = state.decisions
    assert (action.how, action.names) == ("argmax", ("push", "pop"))
    assert action.allow == (
        (Condition(Place((Hop("front"),))),),
        (Condition(Place((Hop("top"), Hop("below")))),),
    )
    assert (heard.how, heard.names, model.types[heard.type].name) == (
        "argmax",
        ("<s>", "</s>", "ja"),
        "speak",
    )
    assert (sure.how, sure.limit) == ("over", 0.5)
    first, second, third = state.clauses
    assert first.when == (Condition(Number(Place(()), "action"), "==", 0),)
    assert second.needs == (0,) and dict(second.links)["top"] == Place((), 0)
    assert second.unless == (Condition(Number(Place(()), "heard"), "==", 1),)
    assert third.when[1] == Condition(Number(Place(()), "sure"), None, 0, True)
    assert dict(third.fields) == {"said": Number(Place(()), "heard")}
    assert [(o.name, o.decision.name) for o in model.growth.outputs] == [("actions", "action")]
    assert [name for name, _ in model.outputs] == ["last"]
    assert model.schema.kinds == ("instance", "source", "target", "entry", "state")
    assert model.given.kinds == ("instance", "source", "target")


def test_phases(parser: Folder) -> None:
    model = parser.model(right())
    assert model.growth is not None
    phases, problems = phases_of(model.types, model.schema, model.growth)
    names = [t.name for t in model.types]
    assert not problems and phases.ordered
    assert [names[t] for t in phases.before] == ["read"]
    assert [names[t] for t in phases.after] == ["last"]
    order = [names[t] for t in phases.during]
    assert sorted(order) == ["join", "mood", "past", "score", "speak", "stack"]
    assert order.index("stack") < order.index("join") < min(order.index("score"), order.index("mood"))


def test_types_of_one_round_that_wait_for_each_other(parser: Folder) -> None:
    two = "      - {add: entry, as: more, when: sure, below: pushed, made: 0}\n      - {add: state, unless"
    model = parser.model(edited(right(), "      - {add: state, unless", two))
    assert model.growth is not None
    phases, problems = phases_of(model.types, model.schema, model.growth)
    assert not problems and not phases.ordered


def mistakes() -> Iterator[dict[str, str]]:
    """The blocks of growth_mistakes.txt."""
    file = Path(__file__).parent / "growth_mistakes.txt"
    for block in file.read_text(encoding="utf-8").split("\n\n")[1:]:
        yield {line[0]: line[2:].replace("\\n", "\n") for line in block.strip().split("\n")}


@pytest.mark.parametrize("case", list(mistakes()), ids=lambda case: case["!"])
def test_mistakes(parser: Folder, case: dict[str, str]) -> None:
    source = PARSER if case["-"] == MADE.strip() else right()
    text, marks = unmark(edited(source, case["-"], case["+"]))
    problems = parser.model_problems(text)
    found = [p for p in problems if p.message == case["!"]]
    assert len(found) == 1, [(p.message, p.hint) for p in problems]
    assert case.get("?", "") in found[0].hint
    if marks:
        assert marks_of(tuple(found)) == marks
    if "*" not in case:
        assert len(problems) == 1, [p.message for p in problems]


@pytest.mark.parametrize(
    ("name", "refused", "message"),
    [
        ("heard", "number", "'number' is a word of the language"),
        ("leaf", "source", "'source' is a kind of vertices"),
        ("made", "word", "'word' is a field of words in the data"),
        ("action", "coin", "'coin' is a word of the language"),
        ("entry", "word", "'word' is a name of the data already"),
    ],
)
def test_nothing_is_told_that_follows_from_a_refused_name(
    parser: Folder, name: str, refused: str, message: str
) -> None:
    """The name is refused where it is introduced; the places that use it are right."""
    text = re.sub(rf"(?<![\w]){name}\b(?!s)", refused, right())
    assert [p.message for p in parser.model_problems(text)] == [message]


def test_a_kind_that_is_called_as_one_of_the_data_is_one_mistake(parser: Folder) -> None:
    """What it would have as a kind of its own is right."""
    text = re.sub(r"(?<![\w])state\b", "target", right())
    (problem,) = parser.model_problems(text)
    assert problem.message == "'target' is a kind of the data already" and "another name" in problem.hint


def test_other_mistakes_are_told_beside_a_refused_name(parser: Folder) -> None:
    text = right().replace("heard", "number").replace("dims: {in: hidden, out: 1}", "dims: {in: hidden}")
    found = [p.message for p in parser.model_problems(text)]
    assert found == ["'number' is a word of the language", "dim 'out' of linear.yaml has no size"]


def test_words_stand_for_rows(parser: Folder) -> None:
    for text, number in (("said: </s>", 1), ("said: 2", 2), ("said: ja", 2)):
        model = parser.model(edited(right(), "said: <s>", text))
        assert model.growth and model.growth.kinds[1].start
        assert model.growth.kinds[1].start.fields == (("said", number),)


def test_numbers_that_are_words(parser: Folder) -> None:
    """A number is a row; in quotes it is the word; one that is both, and not the same, is refused."""
    parser.write("v.txt", "<s>\n</s>\n1\n")
    for text, row in (("said: <s>}", 0), ("said: \"'1'\"}", 2), ("said: 2}", 2)):
        model = parser.model(edited(right(), "said: <s>}", text))
        assert model.growth and model.growth.kinds[1].start
        assert model.growth.kinds[1].start.fields == (("said", row),)
    for place, text in (("said: <s>}", "said: «1»}"), ("heard == </s>", "heard == «1»")):
        changed, marks = unmark(edited(right(), place, text))
        problems = parser.model_problems(changed)
        assert [p.message for p in problems] == [
            "1 is a row of said, and '1' is a word of it, in row 2"
        ] and marks_of(problems) == marks
        assert "in quotes it is the word" in problems[0].hint
    model = parser.model(edited(right(), "heard == </s>", "heard == '1'"))
    assert model.growth and model.growth.kinds[1].clauses[1].unless[0].against == 2


def test_what_can_hold_is_not_refused(parser: Folder) -> None:
    for when in (
        "action >= 1 and action <= 1 and action != 0",
        "not action == pop and not sure",
        "top and top.below and not front",
        "not top.made < 1 and not top.made",
        "sure == 0 and not sure",
    ):
        parser.model(edited(right(), "action == pop and not sure", when))


@pytest.mark.parametrize(
    ("link", "what"), [("{all: entry}", "entry"), ("{next: state}", "state"), ("{reverse: entry}", "entry")]
)
def test_links_are_not_made_of_what_grows(parser: Folder, link: str, what: str) -> None:
    problems = parser.model_problems(edited(right(), "grow:\n", f"links: {{more: {link}}}\ngrow:\n"))
    assert problems[0].message == f"'{what}' grows, and links are made of what the data has"
    assert "which a clause fills" in problems[0].hint


def test_choices_without_a_word(parser: Folder) -> None:
    """A row that a decision can choose has a word, or is that of unknown ones."""
    text = edited(right(), 'out: 3}, inputs: {x: "said[said]"}', 'out: 4}, inputs: {x: "said[said]"}')
    (problem,) = parser.model_problems(edited(text, "vocab: v.txt}", "vocab: v.txt, rows: 4}"))
    assert problem.message == (
        "speak.y has 4 numbers, and row 3 of table said has no word in v.txt: 'said: heard' could name it"
    )
    assert "as many scores as words" in problem.hint
    model = parser.model(edited(text, "vocab: v.txt}", "vocab: v.txt, rows: 4, unknown: 3}"))
    assert model.growth and model.growth.kinds[1].decisions[1].names == ("<s>", "</s>", "ja", "3")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a ==",
        "a == b c",
        "a < b",
        "== 3",
        "a and",
        "a.b[1.5]",
        "not",
        "a[0",
        "a == 1.5",
        "a == 12345678901",
    ],
)
def test_tests_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_tests(text)


def test_values() -> None:
    names = frozenset({"depth", "this"})
    assert parse_value("depth + 3", names).plus == 3
    assert parse_value("depth - 3", names).plus == -3
    assert parse_value("depth -3", names).plus == -3
    assert parse_value("</s>", names).alone.text == "</s>"
    assert parse_value("17", names).path is None
    for text in ("depth + this", "depth +", "depth + 1.5", "depth this"):
        with pytest.raises(ExpressionError):
            parse_value(text, names)


def test_nothing_given_decides_alone(folder: Folder) -> None:
    """A decision on what the data has, without growth: what it decides is known afterwards."""
    text = """\
model: gate
dims: {hidden: 4}
data: {format: pairs, path: d.txt}
tables: {words: {dim: hidden}}
grow: {source: {choose: {best: argmax gate.y}}}
types:
  gate: {per: source, cell: linear.yaml, dims: {in: hidden, out: 4}, inputs: {x: "words[word]"}}
  one: {per: source, where: best == 1, cell: linear.yaml, dims: {in: hidden, out: 3}, inputs: {x: gate.y}}
outputs: {y: one.y}
"""
    model = folder.model(text)
    assert model.growth is not None
    (kind,) = model.growth.kinds
    assert kind.given and kind.kinds == {"source"} and isinstance(kind.decisions[0], Decision)
    assert phases_of(model.types, model.schema, model.growth)[0].after == (1,)
    assert Clause not in map(type, kind.clauses)
