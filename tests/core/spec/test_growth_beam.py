"""Beams in the section `grow`: what they mean, and every mistake with its place."""

from __future__ import annotations

import pytest

from abw.core.ir.growth import Number, Place
from abw.core.ir.growth import Test as Condition
from tests.core.spec.writing import Folder, edited, marks_of, unmark

BEAM = """\
model: beam
dims: {hidden: 4}
data: {format: pairs, path: d.txt}
tables: {said: {dim: hidden, vocab: v.txt}}
grow:
  step:
    links: {prev: step or none}
    fields: {said: said, length: number}
    most: 20
    start: {said: <s>, length: 1}
    choose: {next: best 4 of score.y, sure: score.y > 0.5}
    then:
      - {add: step, as: more, each: next, when: length < 9, unless: next == </s>, prev: this, said: next,
         length: length + 1}
      - {add: mark, each: next, of: more, row: next}
  mark:
    links: {of: step}
    fields: {row: number}
    most: 20
types:
  score: {per: step, cell: linear.yaml, dims: {in: hidden, out: 3}, inputs: {x: "said[said]"}}
  last:
    {per: step, where: next >= 0, cell: linear.yaml, dims: {in: hidden, out: 3}, inputs: {x: "said[next]"}}
outputs: {words: step.next, last: last.y}
"""


@pytest.fixture
def beam(folder: Folder) -> Folder:
    folder.write("v.txt", "<s>\n</s>\nja\n")
    return folder


def right(text: str = BEAM) -> str:
    """The model without its one mistake: a decision that needs one number."""
    return edited(text, ", sure: score.y > 0.5", "")


def test_what_it_means(beam: Folder) -> None:
    model = beam.model(right())
    assert model.growth is not None
    step, mark = model.growth.kinds
    (decision,) = step.decisions
    assert model.growth.beam == (step, decision) and step.best == decision and mark.best is None
    assert (decision.how, decision.width, decision.names) == ("best", 4, ("<s>", "</s>", "ja"))
    first, second = step.clauses
    assert first.unless == (Condition(Number(Place(()), "next"), "==", 1),)
    assert second.needs == (0,) and dict(second.fields) == {"row": Number(Place(()), "next")}


def test_with_what_is_allowed(beam: Folder) -> None:
    allow = "{best: 2 of score.y, allow: {s: prev, e: length > 2, ja: not prev}}"
    model = beam.model(edited(edited(right(), "best 4 of score.y", allow), "next == </s>", "next == e"))
    assert model.growth is not None
    decision = model.growth.kinds[0].decisions[0]
    assert (decision.how, decision.width, decision.names) == ("best", 2, ("s", "e", "ja"))
    assert decision.allow is not None and len(decision.allow) == 3


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("", "", "score.y is [3]: > needs one number", ""),
        ("best 4", "best «0»", "best picks 1 to 1,024", ""),
        ("best 4", "best «1025»", "best picks 1 to 1,024", ""),
        ("best 4", "best «4.5»", "'4.5' is no whole number", ""),
        ("best 4 of ", "best «score».y", "expected how many: best 4 of TYPE.OUTPUT, not 'score'", ""),
        ("best 4 of ", "best 4 «score».y", "expected 'of' behind 4, not 'score'", ""),
        (
            "each: next, of",
            "of",
            "'next' picks several, and this clause has no `each:`",
            "each: next",
        ),
        ("each: next, of", "each: «nxt», of", "step has no picks 'nxt'", "each: next"),
        (
            "most: 20\ntypes",
            "most: 20\n    then: [{add: mark, each: «next», of: of, row: 1}]\ntypes",
            "'each' goes with 'best', and mark picks none",
            "best 4 of TYPE.OUTPUT",
        ),
        (
            "row: next",
            "row: prev.«next»",
            "'next' is one number only when growth has ended: several are picked there",
            "read a field that a clause fills",
        ),
        (
            "most: 20\ntypes",
            "most: 20\n    then: [{add: mark, when: of.«next» == 3, of: of, row: 1}]\ntypes",
            "'next' is one number only when growth has ended: several are picked there",
            "read a field that a clause fills",
        ),
        (
            "best 4 of score.y",
            "{best: 4 of score.y, allow: {a: prev, b: prev.«next» == 1, c: prev}}",
            "'next' is a decision: `allow` is evaluated before decisions are made",
            "name links and fields",
        ),
        (
            "best 4 of score.y",
            "{argmax: score.y, «best»: 4 of score.y}",
            "decision 'next' has argmax and best",
            "leave out the other",
        ),
        (
            'inputs: {x: "said[said]"}',
            'inputs: {x: «"said[prev.next] or zeros"»}',
            "type 'score' is needed to decide (decision 'next'), and 'next' is one number only when "
            "growth has ended",
            "read a field that a clause fills",
        ),
        (
            "best 4 of score.y",
            "best 4 of score.y, «other»: best 2 of score.y",
            "'next' and 'other' both pick the best",
            "a model has one beam",
        ),
    ],
)
def test_mistakes(beam: Folder, old: str, new: str, message: str, hint: str) -> None:
    text, marks = unmark(edited(right(), old, new) if old else BEAM)
    problems = beam.model_problems(text)
    found = [p for p in problems if p.message == message]
    assert len(found) == 1, [(p.message, p.hint) for p in problems]
    assert hint in found[0].hint
    if marks:
        assert marks_of(tuple(found)) == marks


def test_what_a_wrong_beam_picks_is_not_told_twice(beam: Folder) -> None:
    (problem,) = beam.model_problems(edited(right(), "score.y}", "scor.y}"))
    assert problem.message == "unknown type 'scor'"
