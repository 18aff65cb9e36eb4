"""Libraries of C: the answers of `abw run` bit for bit, errors as codes, workspaces on threads, examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import abw
from abw.core.api import LoadedModel
from abw.core.base.errors import AbwError
from tests.core.build.library import (
    COMPILER,
    EXAMPLES,
    ROOT,
    Library,
    lines_of,
    loaded,
    needs_compiler,
    require_equal,
)

pytestmark = needs_compiler
TEXT = "the text is not so many instances"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded("treelstm")


@pytest.fixture(scope="module")
def built(model: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("library") / "libtree.so"
    report = model.build(file)
    assert report["bytes"] == file.stat().st_size
    return file


def test_answers_are_the_models_bit_for_bit(built: Path, model: LoadedModel) -> None:
    library, lines = Library(str(built)), lines_of(model, 60)
    for first, count in ((0, 1), (1, 1), (0, 60), (7, 13), (5, 1)):
        require_equal(library, model, lines[first : first + count])
    # more memory than any call before: the block and the arenas grow
    require_equal(library, model, lines * 20)


@pytest.mark.parametrize("spec", ["lattice", "bilstm"])
def test_other_formats(spec: str, tmp_path: Path) -> None:
    model = loaded(spec)
    model.build(tmp_path / "lib.so")
    library = Library(str(tmp_path / "lib.so"))
    for line in lines_of(model, 5):
        require_equal(library, model, [line])


def test_several_targets_and_weights_beside(model: LoadedModel, tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    report = model.build(file, target=["plain", "native"], beside=True)
    weights = file.with_suffix(".weights")
    assert report["weights"] == str(weights)
    assert len(report["targets"]) == len({"plain", report["targets"][0]})
    require_equal(Library(str(file), str(weights)), model, lines_of(model, 3))
    content = weights.read_bytes()
    for wrong in (
        content[:100],
        content[: len(content) // 4],
        content.replace(content[5000:5008], b"\1" * 8),
        b"",
        b"text" * 99,
    ):
        (tmp_path / "wrong").write_bytes(wrong)
        with pytest.raises(ValueError, match="not the file of weights that was built with the library"):
            Library(str(file), str(tmp_path / "wrong"))
    for missing in (None, str(tmp_path / "none")):
        with pytest.raises(ValueError, match="not the file of weights"):
            Library(str(file), missing)


@pytest.mark.parametrize(
    "lines", [["((("], ["(2 good)", ""], [""], ["(2 good)\n(2 bad)"], ["\udcff"], [], ["(2 good) x"]]
)
def test_what_is_no_instance_ends_in_a_code(built: Path, model: LoadedModel, lines: list[str]) -> None:
    library = Library(str(built))
    encoded = [line.encode("utf-8", "surrogateescape").decode("latin-1") for line in lines]
    with pytest.raises(ValueError, match=TEXT):
        library(encoded)
    require_equal(library, model, ["(2 good)"])


def test_each_thread_has_a_workspace(built: Path, model: LoadedModel) -> None:
    lines = lines_of(model, 40)

    def answer(number: int) -> list[Any]:
        library, own = Library(str(built)), lines[number::4]
        return [library([line]) for _ in range(20) for line in own]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(answer, range(4)))
    expected = Library(str(built))
    for number, answers in enumerate(found):
        assert answers == [expected([line]) for line in lines[number::4]] * 20


def test_nothing_but_libc_is_needed_or_seen(built: Path) -> None:
    needed = subprocess.run(["readelf", "-d", built], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", needed)) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    names = subprocess.run(["nm", "-D", built], capture_output=True, text=True, check=True).stdout
    header = built.with_suffix(".h").read_text()
    seen = set(re.findall(r" T (\w+)", names)) - {"_init", "_fini"}
    assert seen == set(re.findall(r"(abw_\w+)\(", header))


def compiled(folder: Path, built: Path, name: str, *more: str) -> Path:
    """An example, compiled as it says."""
    command: list[str | Path] = [
        COMPILER,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O2",
        *more,
        "-o",
        name,
        EXAMPLES / f"{name}.c",
    ]
    subprocess.run([*command, "-include", built.with_suffix(".h"), built], cwd=folder, check=True)
    return folder / name


def test_the_examples_in_c_and_python(built: Path, model: LoadedModel, tmp_path: Path) -> None:
    text = "\n".join([*lines_of(model, 4), "((", ""])
    env = {**os.environ, "LD_LIBRARY_PATH": str(built.parent)}
    program = compiled(tmp_path, built, "answer")
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, env=env)
    assert f"line 5: {TEXT}" in done.stderr
    values = [
        output.name
        for line in text.splitlines()[:4]
        for output in model.outputs
        for _ in model([line])[output.name][0]
    ]
    assert [line.split()[0] for line in done.stdout.splitlines()] == values
    command: list[str | Path] = [sys.executable, EXAMPLES / "answer.py", built]
    told = subprocess.run(
        command, input="\n".join(text.splitlines()[:4]), capture_output=True, text=True, check=True
    )
    assert told.stdout == done.stdout


def test_the_example_of_a_server(built: Path, model: LoadedModel, tmp_path: Path) -> None:
    program = compiled(tmp_path, built, "server", "-pthread")
    env = {**os.environ, "LD_LIBRARY_PATH": str(built.parent)}
    lines = lines_of(model, 6)
    with subprocess.Popen([program, "0"], stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout
            port = int(server.stdout.readline().split(":")[1])

            def ask(own: Sequence[str]) -> list[Any]:
                with (
                    socket.create_connection(("127.0.0.1", port), timeout=20) as client,
                    client.makefile("rw") as file,
                ):
                    answers = []
                    for line in own:
                        file.write(line + "\n")
                        file.flush()
                        answers.append(json.loads(file.readline()))
                    return answers

            with ThreadPoolExecutor(3) as threads:
                found = list(threads.map(ask, (lines, lines[::-1], ["((", lines[0]])))
        finally:
            server.kill()
    library, name = Library(str(built)), model.outputs[0].name
    told = [
        json.loads(json.dumps([[float(f"{x:.9g}") for x in value] for value in library([line])[name][0]]))
        for line in lines
    ]
    assert found[:2] == [told, told[::-1]]
    assert TEXT in found[2][0]["error"]
    assert found[2][1] == told[0]


LABELS = """\
model: labelled
dims: {hidden: 6, embed: hidden, tags: 3}
data: {format: words, path: data.txt, tokens: '\\w+|[^\\w\\s]'}
tables: {words: {dim: embed, rows: 50}}
types:
  own: {per: token, cell: cells/gru.yaml, inputs: {x: "words[word]", h: prev.own.h or zeros}}
  tag: {per: token, cell: cells/linear.yaml, dims: {in: hidden, out: tags}, inputs: {x: own.h}}
outputs: {tags: {of: tag.y, as: label, names: [one, 'zwölf "', three]}, plain: tag.y, numbers: NUMBERS}
"""


def test_labels_and_tokens(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs/cells", tmp_path / "cells")
    lines = ["A bee, or not a bee?", "Ten wörter.", "x"]
    (tmp_path / "data.txt").write_text("\n".join(lines))
    (tmp_path / "spec.yaml").write_text(LABELS.replace("NUMBERS", "{of: tag.y, as: label}"))
    model: LoadedModel = abw.load(tmp_path / "spec.yaml", threads=1)
    model.build(tmp_path / "lib.so")
    library = Library(str(tmp_path / "lib.so"))
    for some in (lines, lines[1:], lines[:1] * 50):
        found, expected = library(some), model(some)
        names = ("one", 'zwölf "', "three")
        for i, labels in enumerate(expected["tags"]):
            assert found["tags"][i] == [[names[n]] for n in labels.tolist()]
            assert found["numbers"][i] == [[n] for n in labels.tolist()]
    assert len({label for instance in found["tags"] for (label,) in instance}) > 1
    for wrong in (["a", " "], ["\x1f"], ["a\xff"], ["\u20ac"[:1] + "\u00e2"]):
        try:
            library([line.encode("latin-1", "replace").decode("latin-1") for line in wrong])
        except ValueError as error:
            assert TEXT in str(error)
    (tmp_path / "spec.yaml").write_text(LABELS.replace("NUMBERS", "{of: tag.y, as: probabilities}"))
    with pytest.raises(AbwError, match="output 'numbers' has probabilities"):
        abw.load(tmp_path / "spec.yaml").build(tmp_path / "other.so")


def test_what_has_no_pass_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(AbwError, match="greedy cannot be a library: the model grows"):
        loaded("greedy").build(tmp_path / "lib.so")
    assert not [*tmp_path.iterdir()]


def test_without_a_compiler(model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(AbwError, match=r"a library needs a C compiler\n  hint: install gcc or clang"):
        model.build(tmp_path / "lib.so")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(AbwError, match="false failed"):
        model.build(tmp_path / "lib.so")
    with pytest.raises(AbwError, match="no target is called 'avx'"):
        model.build(tmp_path / "lib.so", target="avx")  # type: ignore[arg-type]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "abw",
        "build",
        ROOT / "specs/treelstm.yaml",
        "--set",
        "hidden=6",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert (report["library"], report["random_weights"], report["model"]) == (
        "libtreelstm.so",
        True,
        "treelstm",
    )
    assert {path.name for path in tmp_path.glob("lib*")} == {"libtreelstm.so", "libtreelstm.h"}
    require_equal(Library(str(tmp_path / "libtreelstm.so")), loaded("treelstm"), ["(2 (3 good) (2 film))"])
