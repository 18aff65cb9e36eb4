"""Compiled rounds do what the rounds do that Python drives: the same vertices, decisions and bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import abw
from abw.core.base.errors import AbwError, InstanceError
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.rounds import rounds
from abw.core.exec.params import Params, init_params
from abw.core.graph.growing.bytecode import Bytecode, program_of
from abw.core.graph.growing.history.picks import Picks
from abw.core.policy.check import check_schedule
from abw.core.run.growing.grown import Grown
from abw.core.run.workload import Workload
from tests.core.run.growing.drafts import DATA, Draft
from tests.core.run.growing.runs import (
    GROWING,
    SPECS,
    broken,
    grown,
    opened,
    ready,
    same_instances,
    same_nodes,
    values_by_instance,
)


def driven(
    workload: Workload, params: Params, patch: pytest.MonkeyPatch, first: int = 0, last: int | None = None
) -> Grown:
    """Grown by rounds that Python drives, on the same kernels."""
    with patch.context() as patched:
        patched.setattr(CpuExecutor, "rounds", lambda *_: "a test drives them")
        made = grown(workload, ready(workload, "cpu", params, 1), first, last)
    assert made.driven == "a test drives them"
    return made


def check_same_picks(made: Picks | None, expected: Picks | None) -> None:
    """The same hypotheses, as likely to the bit."""
    if made is None or expected is None:
        assert made is expected
        return

    def told(picks: Picks) -> tuple[object, ...]:
        """All of them, each told by itself, for threads number their own."""
        arrays = (picks.vertex, picks.number, picks.total, picks.ended)
        each = [*zip(*(array.tolist() for array in arrays), strict=True), None]
        rounds = [(sorted(at.tolist()), [each[p] for p in kept]) for at, kept in picks.rounds]
        return {*each}, [each[p] for p in picks.by], [each[p] for p in picks.best], rounds

    assert told(made) == told(expected)


def check_same(made: Grown, expected: Grown, *, lanes: bool = True, batches: bool = True) -> None:
    """The same, bit for bit, also the `batches`; `lanes`: and the order in each."""
    assert made.driven is None
    assert (made.rounds, made.cut) == (expected.rounds, expected.cut)
    same_nodes(made)
    same_instances(made.instances, expected.instances)
    assert values_by_instance(made) == values_by_instance(expected)
    check_same_picks(made.picks, expected.picks)
    for t, node_type in enumerate(made.graph.network.types):
        for o in range(len(node_type.outputs)):
            np.testing.assert_array_equal(made.result.value(t, o), expected.result.value(t, o))
    check_schedule(made.graph.dag, made.schedule)
    if batches:
        np.testing.assert_array_equal(made.schedule.type, expected.schedule.type)
        np.testing.assert_array_equal(made.schedule.ptr, expected.schedule.ptr)
    if lanes and batches:
        np.testing.assert_array_equal(made.schedule.nodes, expected.schedule.nodes)


def test_calls_of_a_model_write_its_program_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def counted(*given: Any) -> Bytecode:  # noqa: ANN401
        written.append(1)
        return program_of(*given)

    monkeypatch.setattr("abw.core.graph.growing.model.program_of", counted)
    model = abw.load(SPECS / "greedy.yaml", dims={"hidden": 6}, policy="depth", threads=1)
    texts = (SPECS / "data/pairs.txt").read_text().splitlines()[:4]
    first, again, alone = model(texts), model(texts), model(texts[2:3])
    assert written == [1]
    np.testing.assert_array_equal(first["words"].values, again["words"].values)
    np.testing.assert_array_equal(first["words"][2], alone["words"][0])


@pytest.mark.parametrize("name", GROWING)
def test_shipped_specs_run_compiled_and_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = opened(SPECS / f"{name}.yaml", hidden=6, limit=16)
    params = init_params(workload.network, 1)
    executor = ready(workload, "cpu", params, 1)
    expected = driven(workload, params, monkeypatch)
    check_same(grown(workload, executor), expected)
    for first, last in ((0, 8), (8, 16), (3, 4)):
        check_same(grown(workload, executor, first, last), driven(workload, params, monkeypatch, first, last))


@pytest.fixture(scope="module")
def random_folder(random_folder: Path) -> Path:
    """With more sentences than a vector has lanes."""
    (random_folder / "d.txt").write_text(DATA * 13)
    return random_folder


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 100))
def test_random_sections_grow_the_same_alone_together_and_on_threads(
    random_folder: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject, seed: int
) -> None:
    spec = random_folder / "model.yaml"
    spec.write_text(Draft(data).text())
    try:
        workload = opened(spec)
    except AbwError:
        return
    assert workload.growing is not None
    params = init_params(workload.network, seed)
    batches = workload.growing.growth_model.phases.ordered
    with monkeypatch.context() as patched:
        patched.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
        alone, two = ready(workload, "cpu", params, 1), ready(workload, "cpu", params, 2)
        expected = driven(workload, params, monkeypatch, 0, 64)
        check_same(grown(workload, alone, 0, 64), expected, batches=batches)
        check_same(grown(workload, two, 0, 64), expected, lanes=False, batches=batches)
        few = driven(workload, params, monkeypatch, 1, 9)
        check_same(grown(workload, alone, 1, 9), few, batches=batches)
        one = values_by_instance(expected)
        for i in (0, 1, 3):
            assert values_by_instance(grown(workload, alone, i, i + 1)) == one[i : i + 1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["stackrnn", "drnn", "experts", "greedy-attention", "beam", "berxit"])
def test_there_is_more_room_where_more_comes_to_be(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vertices, rows and rounds that were not reckoned with; and Python looks in after each round."""
    workload = opened(SPECS / f"{name}.yaml", hidden=6, limit=12)
    params = init_params(workload.network, 2)
    expected = driven(workload, params, monkeypatch)
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
    for constant, value in (("FIRST_GUESS", 0), ("SECONDS", 0.0)):
        monkeypatch.setattr(rounds, constant, value)
    monkeypatch.setattr("abw.core.graph.growing.share.LEAST_ROOM", 1)
    executor = ready(workload, "cpu", params, threads)
    check_same(grown(workload, executor), expected, lanes=threads == 1)


ROWS = """\
model: rows
dims: {hidden: WIDTH}
data: {format: tags, path: d.txt, batch: 3}
tables: {scores: {dim: hidden, rows: 40}}
grow:
  a:
    fields: {row: number}
    most: 40
    start: {row: 0}
    choose: {pick: HOW score.y}
    then: [{add: a, row: "index + 1"}]
types:
  score: {per: a, cell: twice.yaml, inputs: {x: "scores[row]"}}
outputs: {pick: a.pick}
"""
TWICE = "cell: twice\ndims: [hidden]\ninputs: {x: hidden}\nequations: y = x + x\noutputs: {y: y}\n"


def rows(how: str, width: int) -> str:
    text = ROWS.replace("HOW", how).replace("WIDTH", str(width))
    return text.replace("{add: a,", "{add: a, each: pick,") if "best" in how else text


@pytest.mark.parametrize("how", ["argmax", "sample", "best 3 of"])
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(width=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
def test_choices_among_equal_and_infinite_scores(
    how: str, random_folder: Path, monkeypatch: pytest.MonkeyPatch, width: int, seed: int
) -> None:
    (random_folder / "twice.yaml").write_text(TWICE)
    spec = random_folder / "rows.yaml"
    spec.write_text(rows(how, width))
    workload = opened(spec, limit=2)
    params = init_params(workload.network, 0)
    draw = np.random.default_rng(seed)
    params.tables[0][:] = draw.integers(-2, 3, (40, width))
    params.tables[0][draw.random((40, width)) < draw.random((40, 1)) * 1.2] = -np.inf
    params.tables[0][::7, draw.integers(0, width)] = 2
    if how != "sample":
        params.tables[0][draw.random((40, width)) < 0.02] = np.inf
    expected = driven(workload, params, monkeypatch)
    check_same(grown(workload, ready(workload, "cpu", params, 1)), expected)
    if how == "argmax":
        inside = expected.instances.kind == expected.instances.schema.kinds.index("a")
        np.testing.assert_array_equal(
            expected.instances.fields["pick"][inside], np.tile(params.tables[0].argmax(axis=1), 2)
        )


@pytest.mark.parametrize("how", ["argmax", "sample"])
def test_nothing_follows_where_nothing_is_allowed(
    how: str, random_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (random_folder / "twice.yaml").write_text(TWICE)
    spec = random_folder / "allowed.yaml"
    some = f"{{{how}: score.y, allow: {{x: index < 3, y: index < 5, z: index < 5}}}}"
    spec.write_text(ROWS.replace("WIDTH", "3").replace("HOW score.y", some))
    workload = opened(spec, limit=8)
    params = init_params(workload.network, 0)
    params.tables[0][:3] = [1, -np.inf, -np.inf]
    params.tables[0][3] = [1, 0, -np.inf]
    params.tables[0][4] = [1, -np.inf, -np.inf]  # the first of what is allowed, however unlikely
    made = grown(workload, ready(workload, "cpu", params, 1))
    check_same(made, driven(workload, params, monkeypatch))
    inside = made.instances.kind == made.instances.schema.kinds.index("a")
    assert made.instances.fields["pick"][inside].tolist() == [0, 0, 0, 1, 1, -1] * 8


@pytest.mark.parametrize("threads", [1, 2])
def test_a_score_that_is_no_number_is_told_as_ever(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=8)
    params = broken(workload, "station")
    with pytest.raises(InstanceError, match=r"score.y is not a number at step 0 of instance 1 ") as error:
        grown(workload, ready(workload, "cpu", params, threads))
    assert error.value.instance == 1


def test_an_input_that_nothing_feeds_is_told_as_ever(random_folder: Path) -> None:
    spec = random_folder / "unfed.yaml"
    spec.write_text(
        ROWS.replace("WIDTH", "3")
        .replace("HOW", "argmax")
        .replace('row: "index + 1"', "row: pick")
        .replace("start: {row: 0}", 'start: {row: "token[1].index"}')
    )
    (random_folder / "twice.yaml").write_text(TWICE)
    workload = opened(spec)
    executor = ready(workload, "cpu", init_params(workload.network, 0), 1)
    with pytest.raises(InstanceError, match=r"nothing feeds input 'x' of type 'score' at a 0 of instance 1"):
        grown(workload, executor)


def test_rounds_are_compiled_once_for_a_model() -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=2)
    executor = ready(workload, "cpu", init_params(workload.network, 0))
    assert workload.growing is not None
    assert executor.rounds(workload.growing.growth_model) is executor.rounds(workload.growing.growth_model)


def test_values_are_refused_once_they_are_overwritten() -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=4)
    executor = ready(workload, "cpu", init_params(workload.network, 0), 1)
    made = grown(workload, executor, 0, 2)
    grown(workload, executor, 2, 4)
    with pytest.raises(RuntimeError, match="has run again"):
        made.result.value(1, 0)


# Hypotheses that fork, wait a round, and end where nothing is allowed.
BEAM = """\
model: rows
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 8}
tables: {scores: {dim: hidden, rows: 40}}
grow:
  a:
    links: {up: a or none}
    fields: {row: number}
    most: 60
    start: {row: index}
    choose: {pick: {best: 4 of score.y, allow: {x: row != 3, y: row < 9, z: up and row != 5}}}
    then:
      - {add: a, each: pick, as: next, unless: pick == 2, up: this, row: row + 1}
      - {add: b, each: pick, when: pick == 1, of: next, row: row}
      - {add: a, each: pick, when: pick == 0 and index < 9, up: up, row: row + 2}
  b:
    links: {of: a}
    fields: {row: number}
    most: 9
    then: [{add: a, when: row < 4, up: of, row: of.row}]
types:
  score: {per: a, cell: twice.yaml, inputs: {x: "scores[row]"}}
outputs: {pick: a.pick}
"""


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), width=st.sampled_from([1, 2, 4, 30]))
def test_beams_among_equal_hypotheses_alone_together_and_on_threads(
    random_folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, width: int
) -> None:
    (random_folder / "twice.yaml").write_text(TWICE)
    spec = random_folder / "beam.yaml"
    spec.write_text(BEAM.replace("4 of", f"{width} of"))
    workload = opened(spec, limit=64)
    params = init_params(workload.network, 0)
    draw = np.random.default_rng(seed)
    params.tables[0][:] = draw.integers(-1, 3, (40, 3))
    params.tables[0][draw.random((40, 3)) < 0.1] = -np.inf
    with monkeypatch.context() as patched:
        patched.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
        alone, two = ready(workload, "cpu", params, 1), ready(workload, "cpu", params, 2)
        expected = driven(workload, params, monkeypatch)
        check_same(grown(workload, alone), expected)
        check_same(grown(workload, two), expected, lanes=False)
        check_same(grown(workload, two, 5, 13), driven(workload, params, monkeypatch, 5, 13), lanes=False)
        one = values_by_instance(expected)
        for i in (0, 1, 3):
            assert values_by_instance(grown(workload, alone, i, i + 1)) == one[i : i + 1]


STAGED = """\
model: staged
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 8}
tables: {words: {dim: hidden, rows: 8}}
params: {idle: hidden}
grow:
  a:
    links: {by: b or none, up: a or none}
    fields: {row: number}
    most: 9
    start: {row: 1}
    choose: {pick: argmax score.y}
    then:
      - {add: b, as: first, of: this, row: row + 1}
      - {add: a, as: second, when: pick != 0, by: first, up: this, row: row + 1}
      - {add: b, of: second, row: row + 2}
      - {add: a, when: pick == 2, by: first, up: second, row: row + 3}
  b: {links: {of: a or none}, fields: {row: number}, most: 20}
types:
  run: {per: a, cell: rnn.yaml, inputs: {x: "words[row]", h: by.pass.h or zeros, g: up.run.h or idle}}
  pass: {per: b, where: row < 7, cell: rnn.yaml, inputs: {x: "words[row]", h: of.run.h or zeros, g: idle}}
  near: {per: a, mean: {h: instance.token.word.h or by.pass.h or idle}}
  score: {per: a, cell: scores.yaml, inputs: {x: run.h}}
  word: {per: token, cell: rnn.yaml, inputs: {x: "words[word]", h: prev.word.h or zeros, g: idle}}
outputs: {pick: a.pick}
"""


# `gather` waits for `each`, that for `run`, that for `gather`: each time of what an earlier clause adds.
LISTED = """\
model: listed
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 8}
tables: {words: {dim: hidden, rows: 8}}
params: {idle: hidden}
links: {members: {reverse: home}}
grow:
  a:
    links: {up: a or none}
    fields: {row: number}
    most: 9
    start: {row: 1}
    choose: {pick: argmax score.y}
    then:
      - {add: a, as: first, up: this, row: row + 1}
      - {add: c, each: x in instance.token, unless: x.index > 1, home: first, at: x}
      - {add: a, as: second, when: pick != 0, up: first, row: row + 2}
      - {add: c, each: x in members, home: second, at: x.at.next}
      - {add: c, each: x in up.members, when: x.at, home: second, at: x.at}
  c: {links: {home: a, at: token or none}, most: 20}
types:
  run: {per: a, cell: rnn.yaml, inputs: {x: "words[row]", h: up.gather.h or zeros, g: up.run.h or idle}}
  each: {per: c, cell: rnn.yaml, inputs: {x: "words[at.index] or idle", h: home.up.run.h or zeros, g: idle}}
  gather: {per: a, mean: {h: members.each.h or idle}}
  last: {per: a, cell: rnn.yaml, inputs: {x: "members[-1].each.h or idle", h: gather.h, g: run.h}}
  score: {per: a, cell: scores.yaml, inputs: {x: last.h}}
outputs: {pick: a.pick}
"""


@pytest.mark.parametrize("text", [STAGED, LISTED], ids=["links", "lists"])
def test_types_that_wait_for_each_other_are_computed_in_stages(
    random_folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    spec = random_folder / "staged.yaml"
    spec.write_text(text)
    workload = opened(spec, limit=64)
    assert workload.growing is not None
    phases = workload.growing.growth_model.phases
    assert not phases.ordered
    params = init_params(workload.network, 3)
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
    alone, two = ready(workload, "cpu", params, 1), ready(workload, "cpu", params, 2)
    expected = driven(workload, params, monkeypatch)
    for executor in (alone, two):
        check_same(grown(workload, executor), expected, batches=False)
    one = values_by_instance(expected)
    assert [values_by_instance(grown(workload, alone, i, i + 1)) for i in range(4)] == [
        [value] for value in one[:4]
    ]


GIVEN = """\
model: given
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 3}
tables: {words: {dim: hidden, rows: 8}}
grow:
  a: {links: {at: token or none}, fields: {row: number}, most: 9, choose: {go: score.z > 0}}
  token: {choose: {best: best 3 of read.y}, then: [{add: a, each: best, at: this, row: best}]}
types:
  read: {per: token, cell: scores.yaml, inputs: {x: "words[word]"}}
  score: {per: a, cell: scores.yaml, inputs: {x: "words[row]"}}
outputs: {best: token.best}
"""


def test_a_beam_over_given_vertices(random_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = random_folder / "given.yaml"
    spec.write_text(GIVEN)
    workload = opened(spec)
    params = init_params(workload.network, 0)
    made = grown(workload, ready(workload, "cpu", params, 1))
    check_same(made, driven(workload, params, monkeypatch))
    assert made.picks is not None and len(made.picks.vertex) == 3 * len(workload.instances)
