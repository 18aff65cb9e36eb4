"""Clauses done for each vertex of a list, and lists of what grew: what they mean, and every mistake."""

from __future__ import annotations

import pytest

from abw.core.ir.growth import MEMBER, Number, Place
from abw.core.ir.model import Model
from abw.core.ir.phases import phases_of
from abw.core.ir.schema import Hop
from tests.core.spec.test_growth import RNN
from tests.core.spec.writing import Folder, edited, marks_of, unmark

LAYERS = """\
model: layers
dims: {hidden: 4}
data: {format: tags, path: d.txt}
tables: {words: {dim: hidden}, depths: {dim: hidden, rows: 9}}
links: {parts: {reverse: within}, over: {reverse: at}}
grow:
  instance:
    then:
      - {add: layer, as: lowest, depth: 0}
      - {add: part, each: given in token, within: lowest, at: given}
  layer:
    links: {below: layer or none}
    fields: {depth: number}
    most: 5
    choose: {sure: mood.y > 0.5}
    then:
      - {add: layer, as: upper, unless: sure, below: this, depth: depth + 1}
      - {add: part, each: old in parts, when: old.kept or_not, within: upper, at: old.at, below: old}
  part:
    links: {within: layer, at: token, below: part or none}
    most: 60
    choose: {kept: worth.y > 0}
types:
  read: {per: token, cell: rnn.yaml, inputs: {x: "words[word]", h: zeros}}
  spell: {per: char, cell: linear.yaml, dims: {in: hidden, out: hidden}, inputs: {x: "words[byte]"}}
  run: {per: part, cell: rnn.yaml, inputs: {x: below.run.h or at.read.h, h: "depths[within.depth]"}}
  look: {per: part, attend: {query: run.h, keys: within.parts.run.h, values: within.parts.run.h}}
  worth: {per: part, cell: linear.yaml, dims: {in: hidden, out: 1}, inputs: {x: look.y}}
  all: {per: layer, mean: {h: parts.look.y}}
  mood: {per: layer, cell: linear.yaml, dims: {in: hidden, out: 1}, inputs: {x: all.h}}
  tag: {per: token, cell: linear.yaml, dims: {in: hidden, out: 3}, inputs: {x: "over[-1].look.y or read.h"}}
outputs: {tags: tag.y, sure: layer.sure}
""".replace(" or_not", "")


@pytest.fixture
def layers(folder: Folder) -> Folder:
    folder.write("rnn.yaml", RNN)
    return folder


def phases(model: Model) -> tuple[list[str], list[str], list[str]]:
    assert model.growth is not None
    found, problems = phases_of(model.types, model.schema, model.growth)
    assert not problems and found.ordered
    before, during, after = (
        [model.types[t].name for t in p] for p in (found.before, found.during, found.after)
    )
    return before, during, after


def test_what_it_means(layers: Folder) -> None:
    model = layers.model(LAYERS)
    assert model.growth is not None
    instance, layer, _ = model.growth.kinds
    assert instance.given and instance.clauses[1].each == (Hop("token"),)
    assert instance.clauses[1].links == (("within", Place((), 0)), ("at", Place((), MEMBER)))
    each = layer.clauses[1]
    assert (each.each, each.needs) == ((Hop("parts"),), (0,))
    assert each.when[0].value == Number(Place((), MEMBER), "kept")
    assert dict(each.links)["at"] == Place((Hop("at"),), MEMBER)
    assert model.growth.reversed == {"parts": "within", "over": "at"}
    assert model.growth.closed == {"parts"}
    parts = model.schema.links["parts"]
    assert parts.source == {"layer"} and parts.target == {"part"} and parts.many
    assert "parts" not in model.given.links
    before, during, after = phases(model)
    assert (before, after) == (["read", "spell"], ["tag"])
    assert during.index("run") < during.index("look") < during.index("all") < during.index("mood")


WRONG = {
    "each: given in token, within": (
        ("each: «token» in token, within", "'token' has a meaning here already", "another name"),
        (
            'each: "given in «token[0]»", within',
            "'token[0]' is one at most, and 'each' wants a list",
            "without",
        ),
        ("each: given in «tokens», within", "instance has no link or field 'tokens'", "token"),
        ("each: given in «3», within", "expected a name", ""),
    ),
    "each: old in parts": (
        ("each: old in «below», unless: not below", "'below' is one at most, and 'each' wants a list", ""),
        ("each: old in instance.«layer»", "'layer' is known only after growth", "one vertex"),
        ("each: «upper» in parts", "'upper' has a meaning here already", ""),
        (
            "as: «more», each: old in parts",
            "'as' names one vertex, and this clause adds one for each old",
            "",
        ),
        ("each: «sure»", "'each' goes with 'best', and layer picks none", "NAME in LINK"),
    ),
    "below: old}": (
        ("below: old.«belo»}", "part has no link or field 'belo'", "below"),
        ('below: "upper.«parts»[0]"}', "'parts' of a vertex just added is known only in the next round", ""),
        ('below: "old.at.«over»[0]"}', "'over' is known only after growth", ""),
        ("below: «old.at»}", "part.below is a part, and 'old.at' is a common or a rare", ""),
    ),
    "within: upper, at: old.at": (
        (
            "within: old.within, at: old.at",
            "'parts' is known only after",
            "set 'within' only to what 'as' names",
        ),
    ),
    'run: {per: part, cell: rnn.yaml, inputs: {x: below.run.h or at.read.h, h: "depths[within.depth]"}}': (
        (
            "«run»: {per: part, cell: rnn.yaml, inputs: {x: 'depths[within.depth]', h: within.all.h}}",
            "'run', 'all', 'look' wait for each other at vertices of one round, by lists of it (parts)",
            "earlier vertices",
        ),
    ),
    "mean: {h: parts.look.y}": (
        (
            "mean: {h: «instance.part.look.y»}",
            "type 'all' is needed to decide (decision 'sure'), and it reads 'part', known only after",
            "",
        ),
    ),
    "keys: within.parts.run.h, values: within.parts.run.h": (
        (
            "keys: within.parts.at.chars.spell.y, values: within.parts.at.chars.spell.y",
            "'parts' and 'chars' both lead to several vertices",
            "one list on the way",
        ),
    ),
    "over: {reverse: at}": (
        ("over: {reverse: «prev»}", "'prev' is a link of the data and one that grows", "another name"),
        ("«below»: {reverse: at}", "'below' has a meaning already", "another name"),
        ("over: {reverse: «part»}", "'part' grows, and links are made of what the data has", "reverse"),
        ("over: {all: «part»}", "'part' grows, and links are made of what the data has", "reverse"),
    ),
}


@pytest.mark.parametrize(
    ("place", "change", "message", "hint"),
    [(place, *case) for place, cases in WRONG.items() for case in cases],
    ids=lambda value: value[:40],
)
def test_mistakes(layers: Folder, place: str, change: str, message: str, hint: str) -> None:
    text = LAYERS.replace("below", "prev").replace("«below»", "«prev»") if "«prev»" in change else LAYERS
    text, marks = unmark(edited(text, place, change))
    problems = layers.model_problems(text)
    found = [p for p in problems if message in p.message]
    assert found, [(p.message, p.hint) for p in problems]
    assert hint in found[0].hint
    if marks:
        assert marks_of((found[0],)) == marks
