"""Teacher forcing: what the data tell grows as the model would have grown it, and is learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import abw
from abw.core.base.errors import AbwError
from abw.core.data.instances import Ints
from abw.core.data.vertices import INDEX, INSTANCE, KIND
from abw.core.exec.params import init_params
from abw.core.ir.growth import Decision
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances, whole
from abw.core.spec.load import Overrides
from abw.core.train import teacher
from abw.core.train.check import check_gradients
from abw.core.train.checkpoint import named
from abw.core.train.session import TrainOptions, begin
from abw.core.train.targets import targets_of
from abw.core.train.teacher import Teacher
from tests.core.train.models import ROOT

SPECS = ROOT / "specs"


@pytest.mark.parametrize("name", ["greedy", "stackrnn", "drnn", "nested", "early-exit", "experts", "berxit"])
def test_by_a_models_own_decisions_the_same_grows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_model(SPECS / f"{name}.yaml", Overrides(dims={"hidden": 6}, limit=9))
    training = begin(SPECS / "sst.yaml", Overrides(limit=1), TrainOptions(executor="reference"))
    given, networks = read_instances(model.data, 9), open_networks(model, "cell")
    own = whole(open_workload(model, given, networks)).instances
    kinds = own.kind.astype(np.int64)
    index = np.concatenate([_ranks(kinds[a:b]) for a, b in zip(own.start, own.start[1:], strict=False)])
    owner = np.repeat(np.arange(len(own)), np.diff(own.start))
    place = {key: v for v, key in enumerate(zip(owner.tolist(), kinds.tolist(), index.tolist(), strict=True))}

    def told(lesson: teacher._Lesson, decision: Decision, at: Ints) -> Ints:
        columns = lesson.columns
        keys = zip(*(columns[name][at].tolist() for name in (INSTANCE, KIND, INDEX)), strict=True)
        return own.fields[decision.name][[place[key] for key in keys]]

    monkeypatch.setattr(teacher._Lesson, "_told", told)
    monkeypatch.setattr(teacher._Lesson, "_refuse_cut", lambda *_: None)
    object.__setattr__(model, "training", training.learner.training)
    found = Teacher(model)(given)
    assert np.array_equal(found.kind, own.kind) and np.array_equal(found.start, own.start)
    for link in own.links:
        assert np.array_equal(found.links[link].target, own.links[link].target), link
    for field in own.fields:
        assert np.array_equal(found.fields[field], own.fields[field]), field


def _ranks(kinds: np.ndarray) -> np.ndarray:
    return np.array([(kinds[:i] == kind).sum() for i, kind in enumerate(kinds)])


PARSER = """\
model: parser
dims: {hidden: 4, moves: 3}
data: {format: json, path: parses.jsonl}
tables: {words: {dim: hidden, rows: 16}}
cells:
  see:
    dims: [hidden]
    inputs: {a: hidden, b: hidden, h: hidden}
    params: {W: [hidden, hidden], U: [hidden, hidden], V: [hidden, hidden]}
    equations: y = tanh(W @ a + U @ b + V @ h)
    outputs: {y: y}
  say:
    dims: [hidden, moves]
    inputs: {x: hidden}
    params: {W: [moves, hidden]}
    equations: "y = W @ x\\nstop = sum(x)"
    outputs: {y: y, stop: stop}
grow:
  state:
    links: {prev: state or none, front: word or none, gold: move or none}
    fields: {depth: number}
    most: MOST
    start: {front: "word[0]", gold: "move[0]", depth: 0}
    choose:
      act: {HOW, allow: {shift: front, pop: depth > 0, stay: front}}
      done: say.stop > 0
    then:
      - {add: state, when: act == shift, unless: done, prev: this, front: front.after, depth: depth + 1,
         gold: gold.then}
      - {add: state, when: act == pop, unless: done, prev: this, front: front, depth: depth, gold: gold.then}
types:
  see:
    {per: state, cell: see, inputs:
      {a: "words[front.word] or zeros", b: "words[prev.front.word] or zeros", h: prev.see.y or zeros}}
  say: {per: state, cell: say, inputs: {x: see.y}}
outputs: {act: state.act, done: state.done}
train:
  loss: LOSSES
"""
LOSSES = "[{of: act, target: gold.name}, {of: done, target: gold.last}]"


def parser(
    folder: Path,
    moves: str = "shift shift pop",
    *,
    most: int = 9,
    how: str = "argmax: say.y",
    losses: str = LOSSES,
    end: int | None = None,
) -> Path:
    """A small parser; `moves` are what its sentences' parses say, of which number `end` is the last."""
    lines = []
    for sentence in ("a b c", "d e f", "b d a c"):
        words, names = sentence.split(), moves.split()
        last = len(names) - 1 if end is None else end
        vertices: list[dict[str, object]] = [{"kind": "word", "word": word} for word in words]
        vertices += [{"kind": "move", "name": n, "last": int(i == last)} for i, n in enumerate(names)]
        links = {
            "after": [[i, i + 1] for i in range(len(words) - 1)],
            "then": [[len(words) + i, len(words) + i + 1] for i in range(len(names) - 1)],
        }
        lines.append(json.dumps({"vertices": vertices, "links": links}))
    (folder / "parses.jsonl").write_text("\n".join(lines) + "\n")
    spec = folder / "parser.yaml"
    spec.write_text(PARSER.replace("MOST", str(most)).replace("HOW", how).replace("LOSSES", losses))
    return spec


def test_what_is_told_grows_and_is_the_target(tmp_path: Path) -> None:
    begun = begin(parser(tmp_path), Overrides(), TrainOptions(executor="reference"))
    instances, model = begun.instances, begun.learner.model
    states = instances.kind == instances.schema.kinds.index("state")
    assert instances.fields["act"][states].tolist() == [0, 0, 1] * 3
    assert instances.fields["done"][states].tolist() == [0, 0, 1] * 3
    assert instances.fields["depth"][states].tolist() == [0, 1, 2] * 3
    act, done = (targets_of(model, loss, instances) for loss in begun.learner.training.losses)
    assert act.has.tolist() == done.has.tolist() == states.tolist()
    assert act.allowed is not None
    assert act.allowed[states].tolist() == [[True, False, True], [True, True, True], [True, True, True]] * 3


@pytest.mark.parametrize("how", ["argmax: say.y", "sample: say.y", "best: 3 of say.y"])
def test_gradients_along_what_is_told_are_right(how: str, tmp_path: Path) -> None:
    spec = parser(tmp_path, how=how)
    if how.startswith("best"):
        text = spec.read_text().replace("unless: done, ", "").replace("      done: say.stop > 0\n", "")
        text = text.replace(", done: state.done", "")
        text = text.replace("{add: state, when", "{add: state, each: act, when").replace(
            LOSSES, LOSSES.split(", {")[0][1:]
        )
        spec.write_text(text)
    assert check_gradients(spec, Overrides(), TrainOptions())["error"] < 5e-4


def test_the_softmax_is_of_what_is_allowed(tmp_path: Path) -> None:
    spec = parser(tmp_path, "shift shift", end=0)
    model = abw.load(spec, executor="reference")
    loss, gradients = model.gradients(Path(tmp_path / "parses.jsonl"))
    assert np.isfinite(loss)
    # at the only state nothing lies on the stack: `pop` is not allowed, and its scores learn nothing
    assert not gradients["say.W"][1].any() and gradients["say.W"][0].any()


@pytest.mark.parametrize(
    ("moves", "most", "message"),
    [
        ("pop pop", 9, "the target 'pop' of 'act' is not allowed at state 0 of instance 0"),
        ("shift shift pop pop", 3, "by its targets more than 3 of kind 'state' grow in instance 0"),
    ],
)
def test_wrong_data_are_told(moves: str, most: int, message: str, tmp_path: Path) -> None:
    spec = parser(tmp_path, moves, most=most)
    with pytest.raises(AbwError) as caught:
        abw.load(spec, executor="reference").gradients(Path(tmp_path / "parses.jsonl"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ("{of: act, target: gold.name}", "decision 'done' has no loss"),
        ("[{of: act, target: prev.act}, {of: done, target: gold.last}]", "'act' is decided by the model"),
        (
            "[{of: act, target: 'instance.state[0].depth'}, {of: done, target: gold.last}]",
            "link 'state' leads to",
        ),
        (
            "[{of: act, target: gold.name, kind: squared}, {of: done, target: gold.last}]",
            "kind cross-entropy",
        ),
        ("[{of: act, target: gold.name}, {of: done, target: gold.last, kind: squared}]", "kind binary"),
    ],
)
def test_wrong_losses_are_told_with_their_line(losses: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AbwError) as caught:
        open_model(parser(tmp_path, losses=losses), Overrides())
    assert message in str(caught.value)
    assert "parser.yaml:" in str(caught.value)


def test_chance_is_not_learned(tmp_path: Path) -> None:
    text = parser(tmp_path).read_text().replace("done: say.stop > 0", "done: chance 0.5")
    (tmp_path / "parser.yaml").write_text(text)
    with pytest.raises(AbwError, match="decided by chance"):
        open_model(tmp_path / "parser.yaml", Overrides())


def test_a_translator_learns_to_copy_and_does_it_alone(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(6)]
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(words, random.integers(1, 4))) for _ in range(48)]
    (tmp_path / "copy.txt").write_text("".join(f"<s> {t} </s> ||| <s> {t} </s>\n" for t in texts))
    (tmp_path / "words.txt").write_text("\n".join(["<s>", "</s>", "<unk>", *words]) + "\n")
    spec = tmp_path / "seq2seq.yaml"
    text = (SPECS / "seq2seq.yaml").read_text().replace("data/target-words.txt", "words.txt")
    text = text.replace("cells/", f"{SPECS}/cells/").replace("data/pairs.txt", "copy.txt")
    spec.write_text(text.replace("sources: {dim: embed}", "sources: {dim: embed, vocab: words.txt}"))
    sizes = {"hidden": 24, "vocabulary": 9}
    model = abw.load(spec, dims=sizes, allow_outside=True, threads=1)
    trainer = model.trainer()
    pairs = model.read(tmp_path / "copy.txt")
    losses = [trainer.step(pairs) for _ in range(120)]
    assert losses[-1] < 0.1 * losses[0]
    said = model(tmp_path / "copy.txt")["words"]
    rows = {word: row for row, word in enumerate((tmp_path / "words.txt").read_text().split())}
    assert len(said) == len(texts)
    right = [list(one) == [*(rows[w] for w in t.split()), 1] for one, t in zip(said, texts, strict=True)]
    assert np.mean(right) > 0.9


def test_metrics_of_several_losses_have_names_of_their_own(tmp_path: Path) -> None:
    metrics = "  metric: [accuracy, {name: accuracy, of: done}, {name: loss, of: done}]\n  epochs: 1\n"
    spec = parser(tmp_path)
    spec.write_text(spec.read_text() + metrics)
    data = tmp_path / "parses.jsonl"
    (row,) = abw.load(spec, executor="reference").trainer().fit(data, data)
    assert list(row)[-3:] == ["accuracy", "accuracy of done", "loss of done"]


@pytest.mark.parametrize(("executor", "tolerance"), [("reference", 1e-6), ("cpu", 1e-5)])
def test_losses_and_gradients_are_those_of_pytorch(executor: str, tolerance: float) -> None:
    """Of sentences whose words are told (tests/golden/torch/make_teacher.py)."""
    overrides = Overrides(dims={"hidden": 4}, limit=6)
    begun = begin(SPECS / "seq2seq.yaml", overrides, TrainOptions(executor=executor, threads=1))
    learner, instances = begun.learner, begun.instances
    drawn = init_params(learner.network, 0)
    for own, value in zip(
        (*learner.params.values, *learner.params.tables), (*drawn.values, *drawn.tables), strict=True
    ):
        own[...] = value
    learner.passes.changed()
    (loss,) = learner.training.losses
    workload = open_workload(learner.model, instances, learner.passes.networks)
    found = learner.found(
        learner.lesson(workload, 0, len(instances), (targets_of(learner.model, loss, instances),))
    )
    ours = found.gradient.vector(learner.params)
    with np.load(ROOT / "tests/golden/torch/seq2seq-gradients.npz") as golden:
        assert found.loss / found.values == pytest.approx(float(golden["loss"]), rel=1e-6)
        wanted = np.concatenate([golden[name].ravel() for name in named(learner.network, learner.params)])
    assert np.abs(ours - wanted).max() < tolerance * np.abs(wanted).max()
