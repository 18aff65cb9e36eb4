"""Training by several members, here in this process: shares add up, and who dies is replaced."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.data.tensors import read_tensors
from abw.core.exec.gradient import Gradient, summed
from abw.core.scale import member, team
from abw.core.scale.member import added_up, cut
from abw.core.train import session
from abw.core.train.learner import Found
from tests.core.scale.trainings import Gone, Lesson, here, kept, lesson
from tests.core.train.models import TRAINS, opened, spec_of

__all__ = ["lesson"]


@given(st.data(), st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 6))
def test_shares_are_all_of_a_mini_batch_and_about_as_large(
    data: st.DataObject, sizes: list[int], count: int
) -> None:
    start = np.append(0, np.cumsum(sizes))
    first = data.draw(st.integers(0, len(sizes) - 1))
    last = data.draw(st.integers(first + 1, len(sizes)))
    bounds = cut(start, first, last, count)
    assert len(bounds) == count + 1 and bounds[0] == first and bounds[-1] == last
    vertices = np.diff(start[bounds])
    assert (vertices >= 0).all()
    assert vertices.max() <= (start[last] - start[first]) / count + max(sizes[first:last])


@given(st.data(), st.integers(1, 4))
def test_gradients_are_summed_row_by_row(data: st.DataObject, count: int) -> None:
    whole = st.integers(-8, 8)  # such numbers have no rounding
    parts, dense = [], np.zeros((7, 2))
    for _ in range(count):
        rows = np.array(sorted(data.draw(st.sets(st.integers(0, 6)))), np.int32)
        own = np.array(data.draw(st.lists(whole, min_size=2 * len(rows), max_size=2 * len(rows))), float)
        np.add.at(dense, rows, own.reshape(-1, 2))
        tables = {3: own.reshape(-1, 2)} if len(rows) else {}
        parts.append(Gradient(np.full(2, float(len(rows))), {3: rows} if len(rows) else {}, tables))
    found = summed(parts)
    read = sorted({row for part in parts for row in part.rows.get(3, [])})
    assert found.rows.get(3, np.zeros(0)).tolist() == read
    if read:
        assert (found.tables[3] == dense[read]).all()
    assert found.values.tolist() == [sum(part.values[0] for part in parts)] * 2


def copied(found: Found) -> Found:
    """What the next step does not write over."""
    return replace(found, gradient=found.gradient.copy())


@pytest.mark.parametrize("name", TRAINS)
@pytest.mark.parametrize("count", [2, 3])
def test_shares_add_up_to_the_gradient(name: str, count: int, tmp_path: Path) -> None:
    made = opened(spec_of(name, TRAINS[name], tmp_path))
    learner, given = made.learner, (made.workload, made.targets)
    one = copied(learner.found(learner.lesson(given[0], 1, 10, given[1], 0)))
    bounds = cut(made.instances.start, 1, 10, count).tolist()
    lessons = [learner.lesson(given[0], a, b, given[1], 0) for a, b in pairwise(bounds)]
    shares = [copied(learner.share(lesson)) for lesson in lessons]
    gradient = summed([share.gradient for share in shares])
    values = sum(share.values for share in shares)
    gradient.scale(1 / learner.divisor(values, 9))
    assert values == one.values
    assert sum(share.loss for share in shares) == pytest.approx(one.loss, rel=1e-6)
    ours, theirs = (g.vector(learner.params) for g in (gradient, one.gradient))
    np.testing.assert_allclose(ours, theirs, atol=2e-6 * np.abs(theirs).max(), rtol=0)
    read, wanted = ({t: sorted(rows) for t, rows in g.rows.items()} for g in (gradient, one.gradient))
    assert read == wanted


def test_members_train_as_one_process_does_and_always_alike(lesson: Lesson) -> None:
    alone, twice = lesson(), [lesson(3, here()) for _ in range(2)]
    assert kept(twice[0]["path"]) == kept(twice[1]["path"]) != kept(alone["path"])
    for ours, theirs in zip(twice[0]["curve"], alone["curve"], strict=True):
        assert ours["steps"] == theirs["steps"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    mine, others = (read_tensors(Path(r["weights"])).tensors for r in (twice[0], alone))
    for name, tensor in others.items():
        if tensor.read().dtype == np.float32:
            np.testing.assert_allclose(mine[name].read(), tensor.read(), atol=1e-4)


def test_more_members_than_instances(lesson: Lesson) -> None:
    lesson.overrides = replace(lesson.overrides, limit=3)
    lesson(5, here())


class Deaths:
    """Members that die when their share is asked for, by the number of the question."""

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.asked = numbers, 0

    def __call__(self, rank: int) -> None:
        self.asked += 1
        if self.asked in self.numbers:
            raise Gone


@pytest.mark.parametrize("count", [3, 5])
def test_members_add_up_large_shares_to_the_same_bits(
    lesson: Lesson, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    lesson.overrides = replace(lesson.overrides, limit=23)
    wanted = kept(lesson(count, here())["path"])
    monkeypatch.setattr(team, "LARGE", 0)
    adds = count - 1
    asked: list[int] = []
    assert kept(lesson(count, here(asked.append))["path"]) == wanted
    assert len(asked) == 6 * (count + adds)  # steps
    # one who dies when it shares, and one when it adds
    assert kept(lesson(count, here(Deaths(2, 3 * count)))["path"]) == wanted


@given(st.lists(st.none() | st.floats(0.125, 1000, width=32), min_size=1, max_size=9))
def test_shares_are_added_in_pairs(losses: list[float | None]) -> None:
    shares = [
        None if loss is None else Found(loss, 1, Gradient(np.full(1, loss, np.float32), {}, {}))
        for loss in losses
    ]
    whole = added_up(shares)
    there = [loss for loss in losses if loss is not None]
    if not there:
        assert whole is None
        return
    assert isinstance(whole, Found) and whole.values == len(there)
    assert whole.loss == pytest.approx(sum(there)) == pytest.approx(float(whole.gradient.values[0]), rel=1e-5)
    wrong = {"error": ("no", "", 1)}
    assert added_up([*shares, wrong]) == wrong


def test_who_dies_is_replaced_and_the_bits_are_the_same(lesson: Lesson) -> None:
    wanted = kept(lesson(2, here())["path"])
    assert kept(lesson(2, here(Deaths(1, 2, 7, 8, 9, 14)))["path"]) == wanted


def test_who_dies_again_and_again_ends_it_and_it_goes_on(lesson: Lesson) -> None:
    wanted = kept(lesson(2, here())["path"])
    with pytest.raises(AbwError, match="worker 1 of 2 ends each time that it is asked for step 4") as told:
        lesson(2, here(Deaths(7, 9, 10, 11)))
    assert "too little memory" in told.value.hint
    assert kept(session.resume(None, engine=here())["path"]) == wanted
    with pytest.raises(AbwError, match="training 2 has 2 workers, and nothing that starts them"):
        session.resume(None)


def test_what_a_member_finds_wrong_is_told(lesson: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = session.begin_again

    def elsewhere(about: Any, folder: Path) -> Any:  # noqa: ANN401
        files = dict.fromkeys(about["files"], "another")
        return begin({**about, "files": files}, folder)

    monkeypatch.setattr(member, "begin_again", elsewhere)
    with pytest.raises(AbwError, match=r"is not as it was when training 1 began"):
        lesson(2, here())


def test_a_loss_without_end_is_told_with_its_step(lesson: Lesson) -> None:
    text = lesson.spec.read_text()
    lesson.spec.write_text(text.replace("name: adagrad, rate: 0.05", "name: sgd, rate: 1.0e+30"))
    with pytest.raises(AbwError, match="the loss is not finite at step 3 of epoch 1"):
        lesson(2, here())
