"""Programs and options of `abw run program.py:function` that are refused, and how that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Abw
from tests.cli.test_programs import RUN, rows_of
from tests.cli.test_programs import folder as folder

WRONG = {
    "program.py": "names no function",
    "program.py:rea": "did you mean 'read'?",
    "program.py:model.forwad": "did you mean 'forward'?",
    "nothing.py:read": "there is no file nothing.py",
    "program.py:two": "program.py:two(a, b) takes 2 arguments",
    "program.py:none": "takes 0 arguments",
    "program.py:Model": "is a class",
    "program.py:net": "is not a function but Net",
    "program.py:join_all": "is a cell",
    "program.py:waits": "asynchronous",
    "program.py:leaves": "wants to end Python: SystemExit: 3\n  program.py:",
    "program.py:wrong": "words.txt:1 (instance 0): input 'h' of step wants [6], this is [2]\n  program.py:",
    "program.py:thing": "words.txt:1: the returned value cannot be written as JSON: object",
    "raises.py:f": "raises.py could not be run: ZeroDivisionError: division by zero\n  raises.py:2, in",
    "syntax.py:f": "SyntaxError",
    "twice.py:none": "names none of its file's nets: a, b",
    "twice.py:both": "names a, b: a program runs on one net",
    "netless.py:f": "has no net to run on",
    "nolibrary.py:f": "there is no file absent.yaml",
}


@pytest.mark.parametrize("target", WRONG)
def test_wrong_programs_are_told(abw: Abw, folder: Path, target: str) -> None:
    (folder / "raises.py").write_text("import abw\nx = 1 / 0\n")
    (folder / "syntax.py").write_text("def f(:\n")
    (folder / "twice.py").write_text(
        "import abw\na, b = abw.cells('small.yaml'), abw.cells('small.yaml')\ndef none(x): return x\n"
        "def one(x): return a.start\ndef both(x): return one(x), b.start\n"
    )
    (folder / "netless.py").write_text("def f(x): return x\n")
    (folder / "nolibrary.py").write_text("import abw\nnet = abw.cells('absent.yaml')\ndef f(x): return x\n")
    done = abw("run", target, "--data", "words.txt", "--format", "words", "-q")
    assert done.code in (1, 2) and WRONG[target] in done.err and "Traceback" not in done.err
    if target == "twice.py:both":
        assert abw("run", "twice.py:one", "--data", "words.txt", "--format", "words", "--no-keep").code == 0


REFUSED = {
    "--grown=x.jsonl": "--output has it",
    "--memory=1G": "--batch auto",
    "--encoding=sort": "learned from graphs",
    "--train-limit=3": "nothing is learned",
    "--layout=paper": "as planned",
    "--hoist": "in a cell of their own",
    "--fuse": "no reductions",
    "--group": "wholes",
    "--preset=ed-batch": "presets are of specs",
    "--profile": "go on from each other",
    "--trace=x.json": "made ahead",
    "--policy=auto": "a program has none",
    "--policy=x.json": "a program has none",
    "--policy=crit": "critical",
    "--batch=auto": "give a number",
    "--batch=0": "no number from 1 on",
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_do_not_go_with_programs_are_refused(abw: Abw, folder: Path, option: str) -> None:
    done = abw(*RUN, option)
    said = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and option.split("=")[0] in said
    assert REFUSED[option] in said


def test_programs_and_specs_are_told_apart(abw: Abw, folder: Path) -> None:
    assert "a program needs instances" in abw("run", "program.py:read").err
    assert "--format trees" not in abw("run", "program.py:read", "--data", "words.txt").out
    assert (
        "nothing says what the lines of words.txt are"
        in abw("run", "program.py:read", "--data", "words.txt").err
    )
    assert "is a program, and this command takes only specs" in abw("check", "program.py:read").err
    assert "a spec says what its data are" in abw("run", "treelstm", "--format", "trees").err
    assert "--model" in abw("viz", "program.py:read", *RUN[2:6], "--model").err
    odd = abw("run", "program.py:odd", *RUN[2:], "--output", "out.npz", "--no-keep")
    assert odd.code == 1 and "words.txt:3: result is returned, before it was a" in odd.err
    forward = rows_of(abw, "run", "program.py:model.forward", *RUN[2:])
    assert [row["outputs"]["at"] for row in forward] == [[0, 1]] * 5
