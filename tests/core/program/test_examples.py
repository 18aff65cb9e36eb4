"""The programs of `specs/programs`: each beside something that computes the same otherwise."""

from __future__ import annotations

import doctest
import importlib.util
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


def test_the_page_says_what_happens(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    told = doctest.testfile(str(root / "docs" / "programs.md"), module_relative=False)
    assert told.attempted > 8 and told.failed == 0
