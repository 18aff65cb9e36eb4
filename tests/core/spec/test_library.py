"""Libraries: what is wrong with one is told as of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw import SpecError
from abw.core.base.errors import AbwError
from abw.core.spec.library import load_library
from abw.core.spec.load import Overrides, load_model
from tests.core.program.cells import LIBRARY


def load(folder: Path, text: str) -> None:
    path = folder / "lib.yaml"
    path.write_text(text)
    load_library(path, Overrides(), ("run",))


def test_a_library_has_a_type_for_each_name_and_each_own_cell(tmp_path: Path) -> None:
    (tmp_path / "lib.yaml").write_text(LIBRARY)
    found = load_library(tmp_path / "lib.yaml", Overrides(dims={"hidden": 8}))
    assert [t.name for t in found.types] == ["step", "join", "two", "score", "gate"]
    assert [p.name for p in found.params][:4] == ["start", "step.W", "step.U", "step.b"]
    assert found.dims == {"hidden": 8, "actions": 3} and found.given == (0,)
    assert found.types[3].outputs[0].shape == (3,)


def test_types_share_parameters_as_in_a_model(tmp_path: Path) -> None:
    shared = LIBRARY.replace("join: rnn}", "join: {cell: rnn, params: {W: step.W, b: start}}}")
    (tmp_path / "lib.yaml").write_text(shared)
    found = load_library(tmp_path / "lib.yaml", Overrides())
    step, join = found.types[:2]
    assert join.params[0] == step.params[0] and join.params[2] == 0
    assert found.given == ()  # what a type has taken is no value


MISTAKES = {
    "library: small\n": ("", "has no 'library'"),
    "join: rnn}": ("join: rmn}", "unknown cell 'rmn'"),
    "step: rnn": ("run: rnn", "'run' is a name that abw has taken"),
    "step: rnn,": ("st-ep: rnn,", "'st-ep' cannot be written in Python"),
    "start: hidden": ("words: hidden", "'words' is already defined under tables"),
    "{x: hidden, h: hidden}": ("{x: hidden, h: hidden, z: hidden}", "input 'z' is never used"),
    "s = A @ x + B @ y": ("s = A @ x + B @ A", r"A: \[3, 6\] and \[3, 6\]|B @ A"),
    "types: {": ("outputs: {s: score.s}\ntypes: {", "unknown key 'outputs' in a library"),
    "join: rnn": ("join: {cell: rnn, inputs: {x: y}}", "unknown key 'inputs' in type 'join'"),
    "{step: rnn, join": ("{two: rnn, step: rnn, join", "cell 'two' is called as the type 'two'"),
}


@pytest.mark.parametrize("old", MISTAKES)
def test_mistakes_have_their_place(tmp_path: Path, old: str) -> None:
    new, message = MISTAKES[old]
    assert old in LIBRARY
    with pytest.raises(SpecError, match=message) as caught:
        load(tmp_path, LIBRARY.replace(old, new, 1))
    assert all(problem.where and problem.where.file.endswith("lib.yaml") for problem in caught.value.problems)


def test_models_and_libraries_are_told_apart(tmp_path: Path, root: Path) -> None:
    (tmp_path / "lib.yaml").write_text(LIBRARY)
    with pytest.raises(SpecError, match="is a library, not a model"):
        load_model(tmp_path / "lib.yaml")
    with pytest.raises(SpecError, match="is a model, not a library"):
        load_library(root / "specs/treelstm.yaml", Overrides())
    with pytest.raises(AbwError, match="there is no dim 'depth'"):
        load_library(tmp_path / "lib.yaml", Overrides(dims={"depth": 3}))


def test_a_library_without_cells_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="needs a cell"):
        load(tmp_path, "library: small\n")
