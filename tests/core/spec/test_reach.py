"""What a spec may name: files of its own folder, and names that can be parts of paths and of archives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import Problem
from abw.core.spec.load import Overrides
from abw.core.spec.text.fields import LONGEST
from tests.core.spec.writing import LATTICE, Folder, edited

TREE = """\
model: tree
dims: {hidden: 4}
data: {format: trees, path: d.txt}
tables: {words: {dim: hidden, rows: 9}}
types:
  leaf: {per: leaf, cell: linear.yaml, dims: {in: hidden, out: hidden}, inputs: {x: "words[word]"}}
outputs: {y: leaf.y}
"""
OUTSIDE = Overrides(allow_outside=True)
# Where a spec names a file: what stands there, what is written instead, and a file that fits.
PLACES = {
    "cell": ("cell: linear.yaml", "cell: {}", "linear.yaml"),
    "data": ("path: d.txt", "path: {}", "d.txt"),
    "vocab": ("words: {dim: hidden, rows: 9}", "words: {{dim: hidden, vocab: {}}}", "words.txt"),
    "weights": ("outputs: {y: leaf.y}", "outputs: {{y: leaf.y}}\nweights: {}", "w.npz"),
}


@pytest.fixture
def nested(tmp_path: Path) -> Folder:
    """A folder within another that has the same files, and that the first links to."""
    for path in (tmp_path, tmp_path / "specs"):
        path.mkdir(exist_ok=True)
        folder = Folder(path)
        folder.write("words.txt", "a\nb\n")
        folder.write("w.npz", "")
    (tmp_path / "specs/sub").mkdir()
    (tmp_path / "specs/out").symlink_to(tmp_path)
    (tmp_path / "specs/down").symlink_to("sub")
    for _, _, file in PLACES.values():
        (tmp_path / "specs/sub" / file).write_bytes((tmp_path / file).read_bytes())
        (tmp_path / "specs" / f"link-{file}").symlink_to(tmp_path / file)
        (tmp_path / "specs" / f"loop-{file}").symlink_to(f"loop-{file}")
        os.mkfifo(tmp_path / "specs" / f"pipe-{file}")
        (tmp_path / "specs" / f"zero-{file}").symlink_to("/dev/zero")
    return folder


def named(place: str, path: str) -> str:
    old, new, _ = PLACES[place]
    return edited(TREE, old, new.format(path))


def told(folder: Folder, place: str, path: str, overrides: Overrides | None = None) -> Problem:
    (problem,) = folder.model_problems(named(place, path), overrides)
    return problem


@pytest.mark.parametrize("place", PLACES)
def test_files_of_the_folder_and_below_are_read(nested: Folder, place: str) -> None:
    file = PLACES[place][2]
    whole = str(nested.path.resolve() / file)
    for path in (file, f"sub/{file}", f"sub/../{file}", f"down/{file}", f"../specs/{file}", whole):
        nested.model(named(place, path))


@pytest.mark.parametrize("place", PLACES)
def test_files_outside_are_not_unless_that_is_allowed(nested: Folder, place: str) -> None:
    file = PLACES[place][2]
    whole = str(nested.path.parent.resolve() / file)
    for path in (
        f"../{file}",
        whole,
        f"link-{file}",
        f"out/{file}",
        f"sub/../../{file}",
        f"out/specs/../{file}",
    ):
        problem = told(nested, place, path)
        assert "is outside the spec's folder" in problem.message
        assert "--allow-outside" in problem.hint
        assert problem.where
        nested.model(named(place, path), OUTSIDE)


@pytest.mark.parametrize("place", PLACES)
def test_a_pipe_or_a_device_is_never_read(nested: Folder, place: str) -> None:
    file = PLACES[place][2]
    assert "is a pipe, not a file" in told(nested, place, f"pipe-{file}").message
    assert "outside" in told(nested, place, f"zero-{file}").message
    for overrides in (None, OUTSIDE):
        assert "is a folder, not a file" in told(nested, place, "sub", overrides).message
        assert "cannot read" in told(nested, place, f"loop-{file}", overrides).message
        assert "cannot read" in told(nested, place, "x" * 300, overrides).message
    assert "is a device or socket, not a file" in told(nested, place, f"zero-{file}", OUTSIDE).message


def test_a_spec_that_is_a_link_names_files_beside_the_link(nested: Folder) -> None:
    nested.write("model.yaml", "")
    (nested.path / "model.yaml").unlink()
    (nested.path.parent / "other").mkdir()
    (nested.path.parent / "other/real.yaml").write_text("")
    (nested.path / "model.yaml").symlink_to("../other/real.yaml")
    assert nested.model(LATTICE).data.path == nested.path / "d.txt"


def test_what_the_command_line_names_may_lie_anywhere(nested: Folder) -> None:
    above = nested.path.parent
    model = nested.model(overrides=Overrides(data=above / "d.txt", weights=above / "w.npz"))
    assert (model.data.path, model.weights.file) == (above / "d.txt", above / "w.npz")
    (problem,) = nested.model_problems(LATTICE, Overrides(data=nested.path / "pipe-d.txt"))
    assert "is a pipe, not a file" in problem.message
    assert "abw run --data" in problem.hint


BAD = [
    "../../x",
    "/x",
    "a/b",
    "a.offsets",
    "instance.line",
    "..",
    "a b",
    "[/nope]",
    "a\\tb",
    "-a",
    "2a",
    "a-",
]


@pytest.mark.parametrize("name", [*BAD, "x" * (LONGEST + 1), "é" * (LONGEST // 2 + 1)])
def test_names_that_become_paths_or_members_of_archives_are_refused(folder: Folder, name: str) -> None:
    quoted = f'"{name}"'
    for old, new, what in (
        ("model: lattice", f"model: {quoted}", "a model"),
        ("outputs: {tags:", f"outputs: {{{quoted}:", "an output"),
        ("  word: {per", f"  {quoted}: {{per", "a type"),
        ("params: {h0: hidden}", f"params: {{h0: hidden, {quoted}: hidden}}", "a parameter"),
        ("tables: {", f"tables: {{{quoted}: {{dim: embed}}, ", "a table"),
    ):
        messages = [p.message for p in folder.model_problems(edited(LATTICE, old, new))]
        assert any(what in message and "name" in message for message in messages), messages


def test_a_name_that_safetensors_keeps_for_itself(folder: Folder) -> None:
    (problem,) = folder.model_problems(edited(LATTICE, "{tags: tag.y}", "{__metadata__: tag.y}"))
    assert "word of safetensors" in problem.message


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.from_regex(r"[^\W\d]([\w-]{0,20}\w)?", fullmatch=True).filter(lambda n: len(n.encode()) <= LONGEST))
def test_a_name_that_is_taken_is_one_part_of_a_path(folder: Folder, name: str) -> None:
    text = edited(edited(LATTICE, "model: lattice", f'model: "{name}"'), "{tags:", f'{{"{name}":')
    model = folder.model(text)
    assert model.name == model.outputs[0][0] == name
    assert Path(f"x/{name}-cell").name == f"{name}-cell"
    assert not {"/", "\0", "."} & set(name)
