"""Gradients of programs beside finite differences, and beside those of the same model as a spec."""

# ruff: noqa: ANN401 (values of nets)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import abw
from abw.core.base.errors import AbwError, CheckError
from abw.core.plan.check import check_plan
from abw.core.program.net import Net
from abw.core.train.backward import Passes
from abw.core.train.programs.trainer import ProgramTrainer
from tests.core.program.cells import small
from tests.core.train.models import spec_of

# An operation on a list of values: its name, and which values (modulo how many there are).
Step = tuple[str, list[int]]
STEPS = (
    "sum",
    "mean",
    "var",
    "attend",
    "softmax",
    "step",
    "two",
    "decide",
    "judged",
    "class",
    "squared",
    "binary",
)
Losses = list[tuple[Any, str, Any, float]]


def program(net: Any, steps: Sequence[Step], losses: Losses | None = None) -> Losses:
    """Run steps on a growing list of values; with `losses` they are noted there, too."""
    values = [net.start, net.words[3], net.words[5], net.input([0.5, -1, 2, 0.25, 0, 1])]
    said: Losses = []

    def loss(value: Any, target: Any, kind: str = "cross-entropy", weight: float = 1.0) -> None:
        net.loss(value, target, kind, weight)
        said.append((value, kind, target, weight))

    for number, (kind, which) in enumerate(steps):
        some = [values[i % len(values)] for i in which]
        if kind in ("sum", "mean", "var"):
            values.append(getattr(net, kind)(some))
        elif kind == "attend":
            values.append(net.attend(some[0], some[::-1], some, heads=2))
        elif kind == "softmax":
            values += net.softmax(some)
        elif kind == "step":
            values.append(net.step(some[0], some[-1]))
        elif kind == "two":
            values += net.two(some[0])
        elif kind == "decide":
            values.append(values[net.score(some[0], values[-1]).argmax()])
        elif kind == "judged":
            scores = net.score(some[0], values[-1])
            values.append(values[scores.argmax()])
            loss(scores, number % 3)
        elif kind == "class":
            loss(net.score(some[0], some[-1]), number % 3, weight=0.5 + number)
        elif kind == "squared":
            loss(net.step(some[0], some[-1]), [0.1 * i for i in range(6)], "squared")
        else:
            loss(net.gate(some[0]), [number % 2], "binary")
    loss(net.score(values[-1], values[-1]), 1)
    return said


def loss_by_numpy(said: Losses) -> float:
    """The sum of losses of arrays, by their definitions."""
    total = 0.0
    for values, kind, target, weight in said:
        y = np.asarray(values, np.float64)
        if kind == "cross-entropy":
            total += weight * (np.log(np.exp(y).sum()) - y[target])
        elif kind == "squared":
            total += weight * 0.5 * ((y - np.asarray(target)) ** 2).sum()
        else:
            chance = 1 / (1 + np.exp(-y))
            t = np.asarray(target)
            total -= weight * (t * np.log(chance) + (1 - t) * np.log(1 - chance)).sum()
    return total


def finite_differences(trainer: ProgramTrainer, drawn: Sequence[Sequence[Step]], at: Sequence[int]) -> Any:
    """Slopes of the mean loss, of eager runs in double precision, along some numbers of `flat`."""
    net, flat, found = trainer.net, trainer.flat, []
    for i in at:
        before, ends = flat[i], []
        for sign in (1, -1):
            flat[i] = before + np.float32(sign * 2e-3)
            said = net.run(lambda steps: program(net, steps), drawn, eager=True)
            ends.append((float(flat[i]), sum(map(loss_by_numpy, said)) / len(drawn)))
        flat[i] = before
        found.append((ends[0][1] - ends[1][1]) / (ends[0][0] - ends[1][0]))
    return np.array(found)


def drawn_steps() -> st.SearchStrategy[list[Step]]:
    which = st.lists(st.integers(0, 30), min_size=1, max_size=4)
    return st.lists(st.tuples(st.sampled_from(STEPS), which), max_size=8)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ProgramTrainer:
    made: ProgramTrainer = abw.trainer(small(tmp_path_factory.mktemp("net")))
    # all types and losses at once: each new one compiles kernels
    made.gradient(lambda steps: program(made.net, steps), [[(kind, [0, 1]) for kind in STEPS]])
    return made


@settings(max_examples=10)
@given(st.lists(drawn_steps(), min_size=1, max_size=3), st.integers(0, 2**32))
def test_gradients_are_those_of_finite_differences(
    trained: ProgramTrainer, drawn: list[list[Step]], seed: int
) -> None:
    loss, gradient = trained.gradient(lambda steps: program(trained.net, steps), drawn)
    said = trained.net.run(lambda steps: program(trained.net, steps), drawn, eager=True)
    np.testing.assert_allclose(loss, sum(map(loss_by_numpy, said)) / len(drawn), rtol=1e-5)
    random = np.random.default_rng(seed)
    largest = np.argsort(-np.abs(gradient))[:3].tolist()
    at = [*largest, *random.integers(0, len(gradient), 3).tolist()]
    slopes = finite_differences(trained, drawn, at)
    np.testing.assert_allclose(gradient[at], slopes, atol=3e-3 * max(1.0, np.abs(gradient).max()))


def trees_of(random: np.random.Generator, count: int) -> list[Any]:
    def grown(depth: int) -> Any:
        label = str(random.integers(0, 5))
        if depth == 0 or random.random() < 0.3:
            return label, f"w{random.integers(0, 30)}"
        return label, grown(depth - 1), grown(depth - 1)

    return [grown(4) for _ in range(count)]


def tree_net(folder: Path) -> Net:
    """The cells of the spec `sst`."""
    path = folder / "cells.yaml"
    path.write_text(
        "library: sst\ndims: {hidden: 6, embed: hidden, classes: 5}\ntables: {words: {dim: embed}}\n"
        "types:\n  leaf: cells/treelstm-leaf.yaml\n  internal: cells/treelstm.yaml\n"
        "  output: {cell: cells/linear.yaml, dims: {in: hidden, out: classes}}\n"
    )
    made: Net = abw.cells(path, threads=1)
    return made


def tree_program(net: Any) -> Any:
    def state(node: Any) -> Any:
        h, c = (
            net.leaf(net.words[node[1]]) if len(node) == 2 else net.internal(*state(node[1]), *state(node[2]))
        )
        net.loss(net.output(h), int(node[0]))
        return h, c

    return lambda tree: state(tree)[0]


def test_gradients_are_those_of_the_same_model_as_a_spec(tmp_path: Path) -> None:
    spec = spec_of("sst", "train: {loss: {of: classes, target: label}}", tmp_path)
    trees = trees_of(np.random.default_rng(3), 20)
    model = abw.load(spec, dims={"hidden": 6}, threads=1)
    wanted_loss, wanted = model.gradients(trees)
    net = tree_net(tmp_path)
    trainer = abw.trainer(net)
    assert {n: v.tobytes() for n, v in trainer.params.items()} == {
        n: np.asarray(v).tobytes() for n, v in model.params.items()
    }
    loss, vector = trainer.gradient(tree_program(net), trees)
    assert loss == pytest.approx(wanted_loss, rel=1e-6)
    at = 0
    for name, value in trainer.params.items():
        own = vector[at : at + value.size].reshape(value.shape)
        at += value.size
        largest = np.abs(wanted[name]).max()
        np.testing.assert_allclose(own, wanted[name], atol=1e-5 * largest, err_msg=name)
    assert at == len(vector)


def test_steps_are_those_of_the_same_model_as_a_spec(tmp_path: Path) -> None:
    train = "train: {loss: {of: classes, target: label}, optimizer: {name: adam, rate: 0.01}, clip: 5}"
    spec = spec_of("sst", train, tmp_path)
    trees = trees_of(np.random.default_rng(4), 24)
    teacher = abw.load(spec, dims={"hidden": 6}, threads=1).trainer()
    net = tree_net(tmp_path)
    trainer, function = abw.trainer(net, rate=0.01, clip=5), tree_program(net)
    before = net.run(function, trees[:2])
    for first in range(0, 24, 8):
        some = trees[first : first + 8]
        assert trainer.step(function, some) == pytest.approx(teacher.step(some), rel=1e-4)
    after = net.run(function, trees[:2])
    assert all((a != b).any() for a, b in zip(before, after, strict=True))
    for name, value in trainer.params.items():
        np.testing.assert_allclose(value, teacher.params[name], atol=2e-4, err_msg=name)
    trainer.save(tmp_path / "weights.safetensors")
    other = abw.cells(tmp_path / "cells.yaml", weights=tmp_path / "weights.safetensors", threads=1)
    assert {n: v.tobytes() for n, v in other.params.items()} == {
        n: v.tobytes() for n, v in trainer.params.items()
    }


def test_losses_fall_through_decisions(tmp_path: Path) -> None:
    """A parser that follows its decisions learns what it should have decided."""
    net = small(tmp_path)
    trainer = abw.trainer(net, optimizer="adagrad", rate=0.1, per_value=True)

    def read(words: list[int]) -> int:
        h, right = net.start, 0
        for word in words:
            h = net.step(net.words[word], h)
            scores = net.score(h, net.did[0])
            net.loss(scores, word % 3)
            chosen = scores.argmax()
            right += chosen == word % 3
            h = net.join(net.did[chosen], h)
        return right

    sentences = np.random.default_rng(0).integers(0, 20, (16, 5)).tolist()
    losses = [trainer.step(read, sentences) for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]
    assert sum(net.run(read, sentences)) > 70  # of 80


def test_a_vector_s_step_is_a_step(tmp_path: Path) -> None:
    sentences = [[("step", [0, 1])], [("sum", [0, 1, 2])]]
    ends: list[NDArray[np.float32]] = []
    for apart in (False, True):
        trainer = abw.trainer(small(tmp_path), optimizer="sgd", rate=0.5)
        run = partial(program, trainer.net)
        for _ in range(2):
            if apart:
                trainer.apply(trainer.gradient(run, sentences)[1])
            else:
                trainer.step(run, sentences)
        ends.append(trainer.flat.copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)
    with pytest.raises(ValueError, match="a gradient has the shape"):
        trainer.apply(np.zeros(3, np.float32))


@settings(max_examples=10)
@given(st.lists(drawn_steps(), min_size=1, max_size=3))
def test_what_was_computed_for_decisions_is_not_computed_again(
    trained: ProgramTrainer, drawn: list[list[Step]]
) -> None:
    def found() -> tuple[float, bytes, int]:
        loss, gradient = trained.gradient(lambda steps: program(trained.net, steps), drawn)
        assert last.passes is not None
        plan, made = last.passes.plan, last.passes.made
        check_plan(made.graph, plan)
        computed = int((plan.schedule.nodes < made.forward).sum())
        if computed < made.forward:
            assert plan.earlier is not None
            assert plan.earlier.own is not None
            wrong = replace(plan.earlier, own=plan.earlier.own + 1)
            with pytest.raises((CheckError, IndexError)):
                check_plan(made.graph, replace(plan, earlier=wrong))
        return loss, gradient.tobytes(), computed

    with pytest.MonkeyPatch.context() as patch:
        last = Last(patch, trained)
        patch.setattr(trained.passes, "engine", lambda usual: usual)
        wanted = found()
    with pytest.MonkeyPatch.context() as patch:
        last = Last(patch, trained)
        got = found()
    assert got[:2] == wanted[:2]
    judged = any(kind == "judged" for steps in drawn for kind, _ in steps)
    assert got[2] < wanted[2] if judged else got[2] <= wanted[2]


class Last:
    """The passes that a trainer has planned last."""

    def __init__(self, patch: pytest.MonkeyPatch, trainer: ProgramTrainer) -> None:
        self.passes: Passes | None = None
        plans = trainer.passes.planned

        def planned(*args: Any) -> Passes:
            self.passes = plans(*args)
            return self.passes

        patch.setattr(trainer.passes, "planned", planned)


def test_types_may_be_added_after_a_decision(tmp_path: Path) -> None:
    def read(net: Any, late: bool) -> None:
        h = net.step(net.start, net.start)
        for _ in range(2):
            h = net.step(net.words[net.score(h, h).argmax()], h)
        h = net.softmax([h, net.start])[0] if late else h
        h = net.step(net.words[net.score(h, h).argmax()], h)
        net.loss(net.score(h, h), 1)

    ends = []
    for steps in ((False, False, True, True), (True,)):
        trainer = abw.trainer(small(tmp_path))
        for late in steps:
            loss, gradient = trainer.gradient(partial(read, trainer.net), [late] * 3)
        ends.append((loss, gradient.tobytes()))
    assert ends[0] == ends[1]


def test_mistakes(tmp_path: Path) -> None:
    net = small(tmp_path)
    trainer = abw.trainer(net)

    def refused(message: str, program: Any) -> None:
        with pytest.raises((AbwError, TypeError), match=message):
            trainer.step(program, [0])

    refused("no loss was stated", lambda _: net.step(net.start, net.start))
    refused("target 3 is not one of 3 classes", lambda _: net.loss(net.score(net.start, net.start), 3))
    refused("the number of a class, not 0.5", lambda _: net.loss(net.score(net.start, net.start), 0.5))
    refused("6 finite numbers", lambda _: net.loss(net.start, [1, 2], "squared"))
    refused("loss cannot be 'hinge'", lambda _: net.loss(net.start, 1, "hinge"))
    refused("have no gradient", lambda _: net.loss(net.input([1.0] * 6), 1))
    refused("loss needs a value of this net", lambda _: net.loss(3.0, 1))
    with pytest.raises(ZeroDivisionError):
        trainer.step(lambda _: 1 // 0, [0])
    flat = trainer.flat.copy()
    trainer.flat[...] = np.nan
    trainer.changed()
    with pytest.raises(AbwError, match="the loss is not finite"):
        trainer.step(lambda _: net.loss(net.start, 1), [0])
    trainer.flat[...] = flat
    trainer.changed()
    with pytest.raises(AbwError, match="adam has no 'momentum'"):
        abw.trainer(net, momentum=0.5)
    with pytest.raises(AbwError, match="no optimizer is called 'lamb'"):
        abw.trainer(net, optimizer="lamb")
    assert net.run(lambda _: (net.learns, net.loss(net.start, 99)), [0]) == [(False, None)]


def test_parameters_may_be_added_while_a_net_is_trained(tmp_path: Path) -> None:
    def more(x: Any = "hidden", *, V: Any = ("hidden", "hidden")) -> Any:
        return abw.tanh(V @ x)

    net, all_there = small(tmp_path), small(tmp_path)
    all_there.cell(more)
    trainer, wanted = abw.trainer(net, rate=0.05), abw.trainer(all_there, rate=0.05)

    def first(net: Any, number: int) -> None:
        net.loss(net.score(net.words[number], net.start), number % 3)

    def second(net: Any, number: int) -> None:
        net.loss(net.score(net.more(net.words[number]), net.start), number % 3)

    for _ in range(3):
        assert trainer.step(partial(first, net), [1, 2]) == wanted.step(partial(first, all_there), [1, 2])
    net.cell(more)
    for _ in range(3):
        assert trainer.step(partial(second, net), [1, 2]) == wanted.step(partial(second, all_there), [1, 2])
    assert {n: v.tobytes() for n, v in trainer.params.items()} == {
        n: v.tobytes() for n, v in wanted.params.items()
    }
