"""Beams: what is picked, what has ended, and a single hypothesis as greedy decoding has it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, Span
from abw.core.data.vertices import Columns
from abw.core.exec.params import Params, init_params
from abw.core.graph.growing.beam import continuations, ranked
from abw.core.ir.growth import Decision
from abw.core.run.growing.grown import Grown
from abw.core.run.growing.recheck import Rechecked, recheck
from abw.core.run.workload import Workload
from tests.core.run.growing.runs import (
    SPECS,
    check_as_the_oracle,
    grown,
    opened,
    ready,
    same_instances,
    values_by_instance,
)
from tests.core.run.growing.test_rounds import TWICE


def decision(width: int) -> Decision:
    return Decision("next", "best", 0, 0, 0.0, None, None, Span("test", 1), width)


def picked(width: int, scores: list[list[float]], before: list[float]) -> list[tuple[int, int, float]]:
    """Rows, numbers and log-probabilities of the best of all, as beam search has them."""
    at = np.arange(len(scores), dtype=np.int32)
    values = np.array(scores, np.float32)
    found = continuations(decision(width), Columns(len(at)), at, lambda *_: values, np.array(before))
    order, rank = ranked(np.zeros(len(found.row), np.int32), found.total, width)
    assert rank.tolist() == list(range(len(order)))
    chosen = (array[order].tolist() for array in (found.row, found.number, found.total))
    return list(zip(*chosen, strict=True))


@given(
    width=st.integers(1, 5),
    scores=st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=n, max_size=n), min_size=1
        )
    ),
    data=st.data(),
)
def test_the_best_of_all_continuations(width: int, scores: list[list[float]], data: st.DataObject) -> None:
    """Of equals the first: by vertex, then by number."""
    before = data.draw(st.lists(st.sampled_from([0.0, -1.0]), min_size=len(scores), max_size=len(scores)))
    alone = [
        [b + float(s - np.log(np.sum(np.exp(row)))) for s in row]
        for b, row in zip(before, scores, strict=True)
    ]
    every = [(r, n, total) for r, row in enumerate(alone) for n, total in enumerate(row)]
    best = sorted(every, key=lambda found: -round(found[2], 9))[:width]
    made = picked(width, scores, before)
    np.testing.assert_allclose([m[2] for m in made], [b[2] for b in best], atol=1e-12)
    clear = [b for b in best if sum(abs(b[2] - other[2]) < 1e-6 for other in every) == 1]
    assert {b[:2] for b in clear} <= {m[:2] for m in made}


def test_ties_and_scores_without_end() -> None:
    none = -np.inf
    assert [m[:2] for m in picked(3, [[1.0, 2.0, 2.0], [2.0, 1.0, 2.0]], [0.0, 0.0])] == [
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    # what has no share is not picked, unless there is nothing else
    assert [m[:2] for m in picked(3, [[none, 1.0, none]], [0.0])] == [(0, 1)]
    assert [m[:2] for m in picked(3, [[none, none]], [0.0])] == [(0, 0)]
    assert picked(2, [[np.inf, 1.0], [0.0, none]], [-1.0, 0.0]) == [(1, 0, 0.0), (0, 0, -1.0)]
    # scores that differ by less than their share can say
    assert [m[:2] for m in picked(1, [[0.0, 1e-30]], [0.0])] == [(0, 1)]


def ending(hidden: int, limit: int) -> float:
    """By how much </s> must score better for half of the sentences to end before they are cut."""
    workload = opened(SPECS / "greedy.yaml", hidden=hidden, limit=limit)
    made = grown(workload, ready(workload, "reference", init_params(workload.network, 3)))
    scores = made.result.value(2, 0).reshape(limit, 20, -1)
    return float(np.median((scores.max(axis=2) - scores[:, :, 1]).min(axis=1)))


def params_of(workload: Workload, more: float, sharp: float = 1.0) -> Params:
    """Parameters with which </s> scores better, and scores lie further apart."""
    vocab = workload.model.tables[1].vocab
    assert vocab is not None and vocab.rows["</s>"] == 1
    params = init_params(workload.network, 3)
    values = {p.name: v for p, v in zip(workload.network.params, params.values, strict=True)}
    values["score.b"][1] += more
    values["score.W"][:] *= sharp
    return params


def test_a_beam_of_one_is_greedy(tmp_path: Path) -> None:
    """The same vertices, fields and bits, whatever ends where."""
    for name in ("cells", "data"):
        shutil.copytree(SPECS / name, tmp_path / name)
    one = tmp_path / "one.yaml"
    text = (SPECS / "greedy.yaml").read_text()
    one.write_text(text.replace("argmax", "best 1 of").replace("{add: step", "{add: step, each: next"))
    more, found = ending(8, 12), []
    for spec in (SPECS / "greedy.yaml", one):
        workload = opened(spec, hidden=8, limit=12)
        made = grown(workload, ready(workload, "cpu", params_of(workload, more)))
        found.append((made, values_by_instance(made)))
    (greedy, expected), (beam, values) = found
    same_instances(beam.instances, greedy.instances)
    assert values == expected and beam.rounds == greedy.rounds and beam.cut == greedy.cut
    assert len({len(value) for value in expected}) > 1


def rechecked(workload: Workload, made: Grown, tolerance: float = 1e-5) -> Rechecked:
    assert workload.growing is not None
    return recheck(workload.growing.growth_model, made.instances, made.result, tolerance, "x", made.picks)


def test_what_has_ended_stays_among_the_best() -> None:
    workload = opened(SPECS / "beam.yaml", hidden=8, limit=12)
    params = params_of(workload, 4, sharp=50)
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    picks = made.picks
    assert picks is not None
    last = made.instances.fields["length"][picks.vertex[picks.best]]
    assert len(set(last.tolist())) > 2
    # longer hypotheses were compared with shorter ones that had ended, and some came behind those
    whose = np.searchsorted(made.instances.start, picks.vertex[picks.best], side="right")
    longest = [made.instances.fields["length"][a:b].max() for a, b in pairwise(made.instances.start.tolist())]
    assert (np.array(longest)[whose - 1] > last).any()
    assert rechecked(workload, made).close == 0


def test_a_wrong_pick_is_found() -> None:
    workload = opened(SPECS / "beam.yaml", hidden=5, limit=3)
    made = grown(workload, ready(workload, "reference", init_params(workload.network, 0)))
    picks = made.picks
    assert picks is not None
    found = rechecked(workload, made)
    assert found.decisions == len(picks.vertex) > 200 and found.close == 0
    *others, (at, kept) = picks.rounds
    fields = dict(made.instances.fields)
    fields["next"] = np.where(fields["next"] >= 0, fields["next"] ^ 1, -1)
    other_way = kept.reshape(3, 4)[:, ::-1].ravel()
    other_field = replace(made.instances, fields=fields)
    order = replace(made, picks=replace(picks, rounds=(*others, (at, other_way))))
    wrong = {
        "a number": replace(made, picks=replace(picks, number=picks.number ^ 1)),
        "the order": order,
        "the end": replace(made, picks=replace(picks, best=picks.best + 1)),
        "the field": replace(made, finished=lambda: other_field),
        "one too few": replace(made, picks=replace(picks, rounds=(*others, (at, kept[:-1])))),
    }
    for what, one in wrong.items():
        with pytest.raises(AbwError, match="decision 'next' of instance"):
            rechecked(workload, one)
            pytest.fail(what)
    assert rechecked(workload, order, 1e9).close > 2


EQUAL = """\
model: equal
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 3}
tables: {scores: {dim: hidden, rows: 1}}
grow:
  a:
    links: {up: a or none}
    fields: {length: number}
    most: 60
    start: {length: 0}
    choose: {pick: best 6 of score.y}
    then: [{add: a, each: pick, when: length < 5, up: this, length: length + 1}]
types: {score: {per: a, cell: twice.yaml, inputs: {x: "scores[length]"}}}
outputs: {pick: a.pick}
"""
LATER = """\
model: later
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 3}
tables: {scores: {dim: hidden, rows: 9}}
grow:
  a:
    links: {up: a or none}
    fields: {row: number}
    most: 9
    start: {row: 0}
    choose: {pick: best 2 of score.y}
    then: [{add: b, each: pick, of: this, row: row}]
  b:
    links: {of: a}
    fields: {row: number}
    most: 9
    then: [{add: a, up: of, row: row + 1}]
types: {score: {per: a, cell: twice.yaml, inputs: {x: "scores[row]"}}}
outputs: {pick: a.pick}
"""


def small(folder: Path, text: str, table: list[list[float]]) -> tuple[Workload, Params]:
    """A model over one sentence, whose scores are twice what is in its table."""
    (folder / "d.txt").write_text("a|N b|V\n")
    (folder / "twice.yaml").write_text(TWICE)
    (folder / "spec.yaml").write_text(text)
    workload = opened(folder / "spec.yaml")
    params = init_params(workload.network, 0)
    params.tables[0][:] = table
    return workload, params


@pytest.mark.parametrize("executor", ["reference", "blas", "cpu"])
def test_hypotheses_are_equals_in_whatever_order_they_chose_the_same(tmp_path: Path, executor: str) -> None:
    """In floating point a + b + c is not c + b + a; shares in whole units are."""
    workload, params = small(tmp_path, EQUAL, [[0.1, 0.3, -0.7]])
    made = grown(workload, ready(workload, executor, params))
    check_as_the_oracle(workload, made, params)
    picks = made.picks
    assert picks is not None

    def way(pick: int) -> tuple[int, ...]:
        before = int(picks.by[picks.vertex[pick]])
        return (*(way(before) if before >= 0 else ()), int(picks.number[pick]))

    totals: dict[tuple[int, ...], set[float]] = {}
    for pick, total in enumerate(picks.total.tolist()):
        totals.setdefault(tuple(sorted(way(pick))), set()).add(total)
    assert len(totals) < len(picks.total) and all(len(found) == 1 for found in totals.values())


def test_others_may_go_on_where_a_hypothesis_has_ended(tmp_path: Path) -> None:
    """Each pick adds no vertex of its own kind; what it adds does, a round later."""
    table = np.random.default_rng(0).normal(size=(9, 3)).tolist()
    workload, params = small(tmp_path, LATER, table)
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    assert made.picks is not None and made.picks.ended.all()
    own = made.instances.kind == made.instances.schema.kinds.index("a")
    assert made.picks.by[own].tolist() == [-1, 0, 1]
