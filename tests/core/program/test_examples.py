"""The programs of `specs/programs`: each beside something that computes the same otherwise."""

from __future__ import annotations

import doctest
import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import abw


def example(root: Path, name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"example_{name}", root / f"specs/programs/{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_tree_lstm_by_recursion_gives_the_spec_s_outputs_to_the_bit(root: Path) -> None:
    module = example(root, "treelstm")
    model = abw.load(root / "specs/treelstm.yaml", policy="critical")
    instances = model.read(root / "specs/data/trees.txt")
    words, names = instances.vocabulary["word"], instances.schema.kinds

    def tree(vertex: int) -> tuple[Any, ...]:
        if names[instances.kind[vertex]] == "leaf":
            return (0, words[instances.fields["word"][vertex]])
        left, right = (int(instances.links[side].target[vertex]) for side in ("left", "right"))
        return (0, tree(left), tree(right))

    roots = [int(vertex) for vertex in instances.links["root"].target[instances.start[:-1]]]
    found = module.net.run(module.classify, [tree(vertex) for vertex in roots])
    wanted = model(instances)["classes"]
    assert len(found) == len(wanted) > 40
    for scores, right in zip(found, wanted, strict=True):
        assert sorted(map(bytes, scores)) == sorted(map(bytes, right))


def test_the_parser_decides_as_in_double_precision(root: Path) -> None:
    module = example(root, "parser")
    sentences = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7], [9, 3]]
    assert module.net.verify(module.parse, sentences).ok
    for (actions, value), sentence in zip(module.net.run(module.parse, sentences), sentences, strict=True):
        assert len(actions) == 2 * len(sentence) - 1 and actions.count(module.SHIFT) == len(sentence)
        assert value.shape == (64,) and np.isfinite(value).all()


def test_generated_trees_are_those_of_the_spec(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example(root, "drnn")
    told: Any = {"dims": {"hidden": 8}, "seed": 3}  # with these trees differ in size
    net = abw.cells(root / "specs/programs/drnn.yaml", allow_outside=True, **told)
    monkeypatch.setattr(module, "net", net)
    model = abw.load(root / "specs/drnn.yaml", policy="critical", **told)
    instances = model.read(root / "specs/data/tags.txt")
    words = instances.vocabulary["word"]
    firsts = instances.links["first"].target[instances.start[:-1]]
    grown = model(instances)["labels"]
    whole = [i for i in range(len(grown)) if len(grown[i]) < 60]  # more is cut there
    monkeypatch.setattr(module, "DEEPEST", 5)
    monkeypatch.setattr(module, "WIDEST", 60)
    found = net.run(module.generate, [words[instances.fields["word"][firsts[i]]] for i in whole])

    def labels(tree: Any) -> list[int]:  # noqa: ANN401
        return [tree[0], *(label for child in tree[1] for label in labels(child))]

    for i, tree in zip(whole, found, strict=True):
        assert sorted(labels(tree)) == sorted(grown[i].tolist())
    assert len(whole) > 40 and len({len(grown[i]) for i in whole}) > 4
    monkeypatch.undo()
    assert module.net.verify(module.generate, ["a", "small", "tree"]).ok


def test_beam_search_finds_what_it_scores(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example(root, "beam")
    net = module.net
    sources = [["a", "b"], ["c"], ["d", "e", "f", "a"], ["b", "b"]]
    found = net.run(module.translate, sources)
    assert net.verify(module.translate, sources).ok

    def scored(pair: tuple[list[str], list[int]]) -> float:
        h = c = net.zeros("hidden")
        for word in pair[0]:
            h, c = net.encode(net.words[word], h, c)
        total = 0.0
        for before, said in itertools.pairwise(pair[1]):
            h, c = net.decode(net.said[before], h, c)
            scores = net.out(h).value()
            total += float(scores[said] - np.log(np.exp(scores).sum()))
        return total

    pairs = [(source, said) for source, (said, _) in zip(sources, found, strict=True)]
    np.testing.assert_allclose([score for _, score in found], net.run(scored, pairs, eager=True), rtol=1e-4)
    monkeypatch.setattr(module, "WIDTH", 1)
    greedy = net.run(module.translate, sources)
    assert all(few <= many + 1e-9 for (_, many), (_, few) in zip(found, greedy, strict=True))


def test_early_exit_leaves_where_it_is_sure(root: Path) -> None:
    module = example(root, "early_exit")
    words = [f"word{i}" for i in range(40)]
    found = module.net.run(module.classify, words)
    assert {layers for _, layers in found} == {1, 2, 3}
    assert found == module.net.run(module.classify, words, eager=True)


def test_each_question_has_a_network_of_its_own(root: Path) -> None:
    module = example(root, "modules")
    red, box = ("find", "red"), ("find", "box")
    questions = [red, ("both", red, box), ("relate", "left", ("both", box, ("relate", "above", red)))]
    asked = [(image, question) for image in range(16) for question in questions]
    assert module.net.verify(module.answer, asked).ok
    answers = module.net.run(module.answer, asked)
    assert module.net._session.last.rounds == 1 and len(set(answers)) > 1
    with pytest.raises(ValueError, match="no module is called 'count'"):
        module.net.run(module.answer, [(0, ("count", "red"))])


def test_the_page_says_what_happens(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    told = doctest.testfile(str(root / "docs" / "programs.md"), module_relative=False)
    assert told.attempted > 8 and told.failed == 0
